"""Which models this room can run, which layer is what, and smaller models of the same build."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.errors import InputError, InputProblem
from planner.profiles import Architecture, KdaLayers, MixtureOfExperts, MlaLayers, ModelProfile, missing_shapes

FP32_BYTES = 4.0
CAN_RUN = "kimi-linear-48b and models of its build: KDA and dense MLA layers, gated MLPs"


@dataclass(frozen=True)
class LayerShape:
    """One layer: how it mixes tokens, and whether its MLP has experts."""

    mixer: KdaLayers | MlaLayers
    """The group it belongs to."""
    is_sparse: bool
    """Whether its MLP is a mixture of experts; else it is dense."""


def layer_shapes(model: ModelProfile) -> tuple[LayerShape, ...]:
    """Layers of a model in order.

    Args:
        model: a model whose shapes are known.

    Returns:
        One entry per layer; groups follow the pattern, or one another where there is none.

    Raises:
        InputError: with everything about the model that this room cannot run.

    >>> from planner.profiles import model_profile
    >>> [layer.mixer.kind for layer in layer_shapes(model_profile("kimi-linear-48b"))][:5]
    ['kda', 'kda', 'kda', 'mla', 'kda']
    """
    architecture = model.architecture
    if problems := [InputProblem(model.name, key, message, CAN_RUN) for key, message in _unsupported(architecture)]:
        raise InputError(problems)
    groups = [group for group in architecture.attention for _ in range(group.n_layers)]
    if architecture.pattern:
        by_symbol = {group.symbol: group for group in architecture.attention}
        groups = [by_symbol[letter] for letter in architecture.pattern]
    return tuple(
        LayerShape(group, bool(architecture.moe and index in architecture.moe.sparse_layers(len(groups))))
        for index, group in enumerate(groups)
        if isinstance(group, KdaLayers | MlaLayers)
    )


def _unsupported(architecture: Architecture) -> Iterator[tuple[str, str]]:
    """Keys and what is wrong with them."""
    if missing := missing_shapes(architecture):
        yield "architecture", "lacks " + ", ".join(missing)
    if architecture.mlp_only:
        yield "architecture.mlp_only", "has layers without attention"
    if not architecture.gated_mlp:
        yield "architecture.gated_mlp", "is false"
    for index, group in enumerate(architecture.attention):
        key = f"architecture.attention[{index}]"
        if not isinstance(group, KdaLayers | MlaLayers):
            yield key, f"is {group.kind!r}"
        if isinstance(group, MlaLayers) and group.indexer:
            yield f"{key}.indexer", "asks for sparse attention"
        if isinstance(group, MlaLayers) and group.qk_rope_head_dim % 2:
            yield f"{key}.qk_rope_head_dim", f"is {group.qk_rope_head_dim}, and rotations turn pairs"
    for name in ("latent_size", "expert_bias", "shared_expert_gate"):
        if architecture.moe and getattr(architecture.moe, name):
            yield f"architecture.moe.{name}", "is given"


def shrunk(
    model: ModelProfile,
    name: str,
    *,
    n_layers: int,
    hidden_size: int,
    n_heads: int,
    head_dim: int,
    n_experts: int,
    vocab_size: int,
) -> ModelProfile:
    """A smaller model of the same build: kinds of layers, their order, ratios of widths and top-k stay.

    Widths that the arguments do not state shrink as hidden_size does; widths of a head as head_dim does. The weights
    are fp32, as this room computes.

    Args:
        model: a model that this room can run.
        name: name of the smaller one.
        n_layers: its layers, the first ones of the pattern.
        hidden_size: width of its residual stream.
        n_heads: its heads, in both kinds of layers.
        head_dim: its values per head, in both kinds of layers.
        n_experts: its routed experts; it visits at most a quarter of them, and no more than the model does.
        vocab_size: its vocabulary.

    Returns:
        A profile without published counts or measurements.

    Raises:
        InputError: the model cannot be run, or the pattern has fewer layers.

    >>> from planner.profiles import model_profile
    >>> small = shrunk(model_profile("kimi-linear-48b"), "small", n_layers=4, hidden_size=256, n_heads=4, head_dim=32,
    ...     n_experts=16, vocab_size=1024)
    >>> small.architecture.intermediate_size, small.architecture.attention[1].kv_lora_rank
    (1024, 128)
    """
    layers = layer_shapes(model)
    if n_layers > len(layers):
        allowed = f"at most {len(layers)}, as {model.name} has"
        raise InputError(InputProblem(name, "n_layers", f"is {n_layers}", allowed))
    full = model.architecture
    heads = n_heads, head_dim
    kept = layers[:n_layers]
    groups = [
        _shrunk_group(group, sum(layer.mixer == group for layer in kept), *heads)
        for group in full.attention
        if isinstance(group, KdaLayers | MlaLayers) and any(layer.mixer == group for layer in kept)
    ]
    width = hidden_size / (full.hidden_size or hidden_size)
    content = full.model_dump() | {
        "basis": "inferred",
        "how": f"The build of {model.name}, shrunk.",
        "n_layers": n_layers,
        "hidden_size": hidden_size,
        "vocab_size": vocab_size,
        "intermediate_size": _scaled(full.intermediate_size, width),
        "pattern": "".join(layer.mixer.symbol or "" for layer in kept) or None,
        "moe": _shrunk_experts(full.moe, width, n_experts) if full.moe else None,
        "attention": tuple(group.model_dump() for group in groups),
    }
    source = content["source"]
    return ModelProfile.model_validate(
        {
            "schema": "planner.model/1",
            "name": name,
            "title": f"{model.title}, shrunk",
            "precision": "bf16",
            "sources": {source: model.sources[source]},
            # The format's own width would be 2 bytes: these weights are computed with as they are stored, in fp32.
            "checkpoint": {"source": source, "formats": {}, "bytes_per_weight": {"bf16": FP32_BYTES}},
            "architecture": content,
        }
    )


def _shrunk_group(group: KdaLayers | MlaLayers, n_layers: int, n_heads: int, head_dim: int) -> KdaLayers | MlaLayers:
    if isinstance(group, KdaLayers):
        return group.model_copy(update={"n_layers": n_layers, "n_heads": n_heads, "head_dim": head_dim})
    ratio = head_dim / (group.v_head_dim or head_dim)
    update = {
        "n_layers": n_layers,
        "n_heads": n_heads,
        "kv_lora_rank": _scaled(group.kv_lora_rank, ratio),
        "q_lora_rank": _scaled(group.q_lora_rank, ratio),
        "qk_nope_head_dim": _scaled(group.qk_nope_head_dim, ratio),
        # Rotations turn pairs.
        "qk_rope_head_dim": 2 * max(round(group.qk_rope_head_dim * ratio / 2), 1),
        "v_head_dim": head_dim,
    }
    return group.model_copy(update=update)


def _shrunk_experts(moe: MixtureOfExperts, width: float, n_experts: int) -> dict[str, object]:
    return moe.model_dump() | {
        "n_experts": n_experts,
        "n_experts_per_token": min(moe.n_experts_per_token, max(n_experts // 4, 1)),
        "expert_intermediate_size": _scaled(moe.expert_intermediate_size, width),
        "shared_expert_intermediate_size": _scaled(moe.shared_expert_intermediate_size, width),
    }


def _scaled(value: int | None, ratio: float) -> int | None:
    return None if value is None else max(round(value * ratio), 1)
