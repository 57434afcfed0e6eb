"""Parameter counts from shapes, in closed form per group of layers; the gate for profiles and the roofline use them."""

from planner.profiles.experts import MixtureOfExperts
from planner.profiles.layers import (
    AttentionLayers,
    GdnLayers,
    GqaLayers,
    KdaLayers,
    LightningLayers,
    Mamba1Layers,
    Mamba2Layers,
    MlaLayers,
    SwaLayers,
)
from planner.profiles.model import Architecture, ModelProfile, WeightPart
from planner.profiles.projections import projections, required


def missing_shapes(architecture: Architecture) -> tuple[str, ...]:
    """Keys of shapes that are unknown, without which neither parameters nor FLOPs can be counted.

    >>> from planner.profiles import model_profile
    >>> missing_shapes(model_profile("prfaas-1t").architecture)[:3]
    ('hidden_size', 'vocab_size', 'tie_word_embeddings')
    >>> missing_shapes(model_profile("deepseek-v3").architecture)
    ()
    """
    names = ["hidden_size", "vocab_size", "tie_word_embeddings"]
    missing = [name for name in names if getattr(architecture, name) is None]
    if architecture.moe is None and architecture.intermediate_size is None:
        missing.append("intermediate_size")
    for index, group in enumerate(architecture.attention):
        if isinstance(group, MlaLayers):
            needed = ("n_heads", "qk_nope_head_dim", "v_head_dim")
            missing += [f"attention[{index}].{name}" for name in needed if getattr(group, name) is None]
    return tuple(missing)


def total_parameters(model: ModelProfile) -> int | None:
    """All parameters of a model, MTP layers excluded.

    Equation:
        sum over groups of n_layers x parameters of a layer, MLPs, norms, and one or two embeddings

    Args:
        model: any profile.

    Returns:
        Parameters; None where a shape is unknown.

    Valid:
        Text models; a vision tower is not counted.

    Source:
        Shapes as the models' public implementations allocate them; see `attention_parameters` and `parameters_by_part`.

    >>> from planner.profiles import model_profile
    >>> total_parameters(model_profile("kimi-linear-48b"))
    49122681728
    """
    return None if missing_shapes(model.architecture) else sum(parameters_by_part(model.architecture).values())


def active_parameters(model: ModelProfile) -> int | None:
    """Parameters that a token is multiplied by.

    Equation:
        total - idle routed experts - input embedding (a look-up, unless the output shares it) - selection biases

    Args:
        model: any profile.

    Returns:
        Parameters per token; None where a shape is unknown.

    Valid:
        Publishers differ: some count both embeddings, some neither.

    Source:
        The convention of DeepSeek-V3 (arXiv 2412.19437), whose 37B are 36.6B without the input embedding.

    >>> from planner.profiles import model_profile
    >>> active_parameters(model_profile("deepseek-v3"))
    36625603584
    """
    architecture = model.architecture
    total = total_parameters(model)
    if total is None:
        return None
    looked_up = 0 if architecture.tie_word_embeddings else embedding_parameters(architecture)
    return total - looked_up - architecture.n_sparse_layers * _idle_parameters(architecture)


def _idle_parameters(architecture: Architecture) -> int:
    """Parameters of a sparse layer that a token does not meet."""
    moe = architecture.moe
    if moe is None:
        return 0
    bias = moe.n_experts if moe.router_bias and not moe.expert_bias else 0
    return (moe.n_experts - moe.n_experts_per_token) * expert_parameters(architecture, moe) + bias


def parameters_by_part(architecture: Architecture) -> dict[WeightPart, int]:
    """Parameters of a model by the part of it that they belong to.

    Args:
        architecture: shapes, all known.

    Returns:
        Parameters by part; a tied output embedding counts as the embedding.

    Raises:
        InputError: a shape is unknown.

    >>> from planner.profiles import model_profile
    >>> parameters_by_part(model_profile("llama-3.1-8b").architecture)["attention"] // 32
    41943040
    """
    hidden = required(architecture.hidden_size, "hidden_size")
    n_sparse, moe = architecture.n_sparse_layers, architecture.moe
    embedding = embedding_parameters(architecture)
    parts: dict[WeightPart, int] = {
        "attention": sum(g.n_layers * attention_parameters(g, hidden) for g in architecture.attention),
        "embedding": embedding,
        "lm_head": 0 if architecture.tie_word_embeddings else embedding,
        "norms": architecture.n_norms * hidden,
    }
    if architecture.n_dense_layers:
        parts["dense_mlp"] = architecture.n_dense_layers * dense_mlp_parameters(architecture)
    if moe and n_sparse:
        sparse = _moe_parts(architecture, moe)
        parts |= {part: n_sparse * n_parameters for part, n_parameters in sparse.items()}
    if architecture.joins_hidden_state:
        parts["latent"] = parts.get("latent", 0) + 2 * hidden**2
    return parts


def embedding_parameters(architecture: Architecture) -> int:
    """Parameters of one embedding: vocab_size x hidden_size."""
    return required(architecture.vocab_size, "vocab_size") * required(architecture.hidden_size, "hidden_size")


def dense_mlp_parameters(architecture: Architecture) -> int:
    """Parameters of one dense MLP: two matrices, or three with a gate."""
    width = required(architecture.intermediate_size, "intermediate_size")
    return _n_matrices(architecture) * required(architecture.hidden_size, "hidden_size") * width


def expert_parameters(architecture: Architecture, moe: MixtureOfExperts) -> int:
    """Parameters of one routed expert, which reads and writes the latent width where there is one."""
    n_matrices, width = _n_matrices(architecture), moe.expert_intermediate_size
    outer = moe.latent_size or required(architecture.hidden_size, "hidden_size")
    biases = (n_matrices - 1) * width + outer if moe.expert_bias else 0
    return n_matrices * outer * width + biases


def _moe_parts(architecture: Architecture, moe: MixtureOfExperts) -> dict[WeightPart, int]:
    """Parameters of one sparse layer's MLP by part.

    Equation:
        n_experts experts of n_matrices x width_in x width, shared experts, router, latent projections

    Source:
        DeepSeek-V3 (selection bias), gpt-oss (expert biases), Qwen3-Next (shared gate), Nemotron 3 (latent experts).
    """
    hidden = required(architecture.hidden_size, "hidden_size")
    shared = moe.n_shared_experts * _n_matrices(architecture) * hidden * moe.shared_width
    return {
        "experts": moe.n_experts * expert_parameters(architecture, moe),
        "shared_experts": shared + (hidden if moe.shared_expert_gate else 0),
        "latent": 2 * hidden * (moe.latent_size or 0),
        "router": moe.n_experts * (hidden + moe.router_bias),
    }


def _n_matrices(architecture: Architecture) -> int:
    return 3 if architecture.gated_mlp else 2


def attention_parameters(group: AttentionLayers, hidden: int) -> int:
    """Parameters of one attention or recurrent layer, its own norms and biases included.

    Args:
        group: layers of one kind.
        hidden: width of the residual stream.

    Returns:
        Parameters of one layer.

    Raises:
        InputError: a shape is unknown.

    Source:
        Ainslie et al. 2023 (GQA); DeepSeek-V2 and V3.2 (MLA, indexer); Kimi Linear 2025 (KDA); Yang et al. 2025
        (gated DeltaNet); Lightning Attention-2 2024; Gu and Dao 2023, 2024 (Mamba, Mamba-2); Jamba 2024.

    >>> from planner.profiles import model_profile
    >>> [attention_parameters(g, 2304) for g in model_profile("kimi-linear-48b").architecture.attention]
    [39514272, 29114880]
    """
    return sum(projections(group, hidden).values()) + _vectors(group, hidden)


def _vectors(group: AttentionLayers, hidden: int) -> int:
    """Norms, biases, sinks, convolutions and decays of one layer."""
    match group:
        case GqaLayers() | SwaLayers():
            return _head_vectors(group, hidden)
        case MlaLayers():
            rank, indexer = group.q_lora_rank or 0, group.indexer
            return rank + group.kv_lora_rank + (2 * indexer.head_dim if indexer and not indexer.borrowed else 0)
        case KdaLayers():  # convolutions; dt bias, A per head, output norm
            width = group.n_heads * group.head_dim
            return 3 * width * group.conv_kernel + width + group.n_heads + group.head_dim
        case GdnLayers():  # convolution; A and dt bias per head, output norm
            return group.conv_channels * group.conv_kernel + 2 * group.n_value_heads + group.value_head_dim
        case LightningLayers():  # output norm; norms of queries and keys
            return group.n_heads * group.head_dim + (2 * group.head_dim if group.qk_norm else 0)
        case Mamba1Layers():  # bias of the step sizes; convolution with bias; A, D; norms
            inner, state = group.inner_size, group.state_size
            norms = group.dt_rank + 2 * state if group.inner_norms else 0
            return inner * (group.conv_kernel + 1) + inner * state + 2 * inner + norms
        case Mamba2Layers():  # convolution with bias; A, D, dt bias per head; gated norm
            norm = group.inner_size if group.gated_norm else 0
            return group.conv_channels * (group.conv_kernel + 1) + 3 * group.n_heads + norm


def _head_vectors(group: GqaLayers | SwaLayers, hidden: int) -> int:
    """Norms, biases and sinks where there are any."""
    queries, keys = group.n_heads * group.head_dim, group.n_kv_heads * group.head_dim
    own_kv = 0 if group.borrows_kv else keys + group.n_kv_heads * group.value_dim
    norms = {None: 0, "head": 2 * group.head_dim, "layer": queries + keys}[group.qk_norm]
    bias = {None: 0, "qkv": queries + own_kv, "qkvo": queries + own_kv + hidden}[group.attention_bias]
    return norms + bias + (group.n_heads if group.sink else 0)
