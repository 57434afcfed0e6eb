"""Memory that an engine keeps beside weights and caches, by the engine's own accounting.

Read in the released packages vllm 0.10.1.1, 0.19.0 and 0.33.0 and sglang 0.5.9 and 0.5.23; TensorRT-LLM's is told by
its documents. Bytes of activations are counted from shapes; nothing is fitted to logs of engines.
"""

from dataclasses import dataclass

from planner.profiles import AttentionLayers, GqaLayers, MlaLayers, ModelProfile, SwaLayers
from planner.profiles.layers import GdnLayers, KdaLayers, LightningLayers, Mamba1Layers, Mamba2Layers
from planner.profiles.model import Architecture
from planner.profiles.stack import Accounting, StackSettings
from planner.roofline.layout import Layout
from planner.roofline.operator import ACTIVATION_BYTES
from planner.units import GB, GIB, MIB

USUAL_FRACTION = 0.9
"""vLLM's gpu_memory_utilization and TensorRT-LLM's free_gpu_memory_fraction where nobody states one."""
RUNTIME_BYTES = 2e9
"""Context, graphs and communication buffers of a serving process without an accounting of its own."""
ACTIVATION_COPIES = 8.0
"""Tensors as wide as the residual stream that are alive at once without such an accounting."""
MOST_RUNNING = 1024
"""Sequences of a replica that vLLM's profile run samples for: max_num_seqs on accelerators of 70 GiB or more."""
DRIVER_BYTES = 0.5 * GIB
"""What nvidia-smi counts as an accelerator's and CUDA does not give, its "Reserved": an H100 of 81,559 MiB has a
total capacity of 79.1 GiB in PyTorch's messages."""
CONTEXT_BYTES = 0.5 * GIB
"""A process's CUDA context, assumed: stacks of 1 KiB for each of the 2,048 threads of 132 multiprocessors are 0.26 GiB
of an H100, and code and the driver's own tables are taken for as much again."""
PROFILED_BYTES = 0.5 * GIB
"""What a profile run adds outside PyTorch, kernels that are loaded and their buffers: as much as in the quantitative
example of vLLM's memory_profiling (utils/mem_utils.py; 0.10.1.1: utils/__init__.py)."""
COMMUNICATOR_BYTES = 0.5 * GIB
"""Buffers of one NCCL communicator: the same example before its profile run, when only PyNccl's exists."""
VLLM_COMMUNICATORS = 2
"""Of a rank that communicates: PyNcclCommunicator of the tensor parallel group from the start, and torch.distributed's
of the same ranks from when logits are first gathered (distributed/device_communicators/base_device_communicator.py)."""
SGLANG_COMMUNICATORS = 1
"""That exist before weights are loaded: PyNcclCommunicator; torch.distributed's follow with the first batch."""
TRTLLM_COMMUNICATORS = 1
"""Assumed."""
SGLANG_UNKNOWN_FRACTION = 0.88
"""SGLang's static fraction where it does not know the memory."""
GRAPH_BATCHES = ((20, 8, 8), (35, 24, 80), (60, 32, 160), (160, 256, 512))
"""SGLang's largest batch of a CUDA graph: below so many GiB, with fewer than four tensor parallel ranks, with more."""
LARGEST_GRAPH_BATCH = 512
"""The same of larger accelerators."""


@dataclass(frozen=True)
class MemorySettings:
    """Settings of a stack that decide its memory."""

    accounting: Accounting | None = None
    """Engine whose accounting it is; None: 2 GB and eight rows of activations."""
    fraction: float | None = None
    """Part of the memory that is used, in that engine's sense; None: as the engine chooses."""
    runtime_bytes: float | None = None
    """Stated in place of an accounting: what the process takes beside eight rows of activations [B]."""
    most_running: int | None = None
    """Most sequences of an attention replica; None: the stack does not say."""
    sampler_bytes_per_logit: float = 0.0
    """Bytes that the sampler of a profile run holds per sequence and word of the vocabulary [B]."""
    expert_multiples: tuple[int, int] | None = None
    """Multiples that hidden size and a rank's expert width are padded to where 4-bit weights alone are quantised."""
    divides_pass: bool = False
    """Whether attention replicas share the tokens of a pass that the engine is told."""


def memory_settings(settings: StackSettings) -> MemorySettings:
    """Settings of a stack that concern its memory."""
    runtime = settings.runtime_gb
    return MemorySettings(
        settings.memory_accounting,
        settings.memory_fraction,
        None if runtime is None else runtime * GB,
        settings.most_running,
        settings.sampler_bytes_per_logit or 0.0,
        settings.expert_multiples,
        settings.divides_pass or False,
    )


@dataclass(frozen=True)
class RankMemory:
    """Memory of one accelerator before its caches."""

    usable_bytes: float
    """What weights, workspace and caches share [B]."""
    workspace_bytes: float
    """What of it is neither weights nor caches [B]."""


@dataclass(frozen=True)
class Rank:
    """One accelerator of an instance with what lies on it."""

    model: ModelProfile
    memory_bytes: float
    """As the device reports it [B]."""
    layout: Layout
    weights_bytes: float
    """Of everything that it loads [B]."""
    chunk_tokens: float
    """Most tokens of a pass on an attention replica [tokens]."""
    settings: MemorySettings
    has_drafter: bool = False
    """Whether what drafts has weights of its own on it."""

    @property
    def fraction(self) -> float:
        """Part of the memory that is used: stated, or the engine's choice on an accelerator."""
        settings, has_experts = self.settings, self.model.architecture.moe is not None
        if settings.fraction is not None:
            return settings.fraction
        if settings.accounting != "sglang":
            return USUAL_FRACTION
        if settings.runtime_bytes is not None:
            return SGLANG_UNKNOWN_FRACTION
        tokens = self.chunk_tokens * (self.layout.dp_size if settings.divides_pass else 1)
        drafts = self.has_drafter
        return static_fraction(self.memory_bytes, self.layout, tokens, has_experts=has_experts, has_drafter=drafts)


def rank_memory(rank: Rank) -> RankMemory:
    """Memory of one accelerator that caches share with weights, and what else takes of it.

    Args:
        rank: the accelerator with its model, layout and settings.

    Returns:
        By the accounting of the engine; where memory is stated, or no engine's accounting is known, as stated.
    """
    if rank.settings.runtime_bytes is not None:
        return plain_memory(rank, rank.settings.runtime_bytes)
    accountings = {"vllm": vllm_memory, "sglang": sglang_memory, "trtllm": trtllm_memory}
    if rank.settings.accounting is None:
        return plain_memory(rank, RUNTIME_BYTES)
    return accountings[rank.settings.accounting](rank)


def plain_memory(rank: Rank, runtime_bytes: float) -> RankMemory:
    """Memory of an accelerator whose engine is not known, or whose process is stated.

    Equation:
        usable f M; workspace: the process and eight rows as wide as the residual stream per token of a pass
    """
    rows = ACTIVATION_COPIES * (rank.model.architecture.hidden_size or 0) * rank.chunk_tokens
    return RankMemory(rank.fraction * rank.memory_bytes, runtime_bytes + ACTIVATION_BYTES * rows)


def vllm_memory(rank: Rank) -> RankMemory:
    """Memory of an accelerator under vLLM.

    Equation:
        usable u (M - driver), u gpu_memory_utilization; workspace: the peak of a profile run of max_num_batched_tokens
        and max_num_seqs, max(pass, hidden states + min(tokens, sequences) V b), b bytes of the sampler per logit, and
        what is not PyTorch's: what the run loads, and NCCL's where ranks communicate

    Valid:
        Of versions up to 0.10, which take the most. The CUDA context lies outside: the first snapshot is taken after
        it is made. Later versions take their first snapshot after NCCL's first communicator and sample in place, and
        from 0.21 on count CUDA graphs, which lie outside before: they leave more for caches than is counted here.

    Source:
        vllm 0.10.1.1, 0.19.0, 0.33.0: v1/worker/gpu_worker.py (init_device, determine_available_memory),
        v1/worker/gpu_model_runner.py (profile_run, _dummy_sampler_run), utils/mem_utils.py (memory_profiling).
    """
    architecture, tokens = rank.model.architecture, rank.chunk_tokens
    rows = min(tokens, rank.settings.most_running or MOST_RUNNING)
    logits = rows * (architecture.vocab_size or 0) * rank.settings.sampler_bytes_per_logit
    states = ACTIVATION_BYTES * tokens * (architecture.hidden_size or 0)
    peak = max(pass_bytes(architecture, rank.layout, tokens), states + logits)
    usable = rank.fraction * (rank.memory_bytes - DRIVER_BYTES)
    return RankMemory(usable, peak + PROFILED_BYTES + _communication_bytes(rank.layout, VLLM_COMMUNICATORS))


def sglang_memory(rank: Rank) -> RankMemory:
    """Memory of an accelerator under SGLang.

    Equation:
        cache f P - weights, f mem_fraction_static, P free memory before the model is loaded, M less the driver's, the
        CUDA context and communication; activations, graphs and attention buffers live in the (1 - f) P that are not
        static

    Source:
        sglang 0.5.9: srt/model_executor/model_runner.py (init_torch_distributed, initialize),
        model_runner_kv_cache_mixin.py (profile_max_num_token); 0.5.23: srt/mem_cache/kv_cache_configurator.py
        (_profile_available_bytes).
    """
    before = CONTEXT_BYTES + _communication_bytes(rank.layout, SGLANG_COMMUNICATORS)
    return RankMemory(rank.fraction * (rank.memory_bytes - DRIVER_BYTES), rank.fraction * before)


def trtllm_memory(rank: Rank) -> RankMemory:
    """Memory of an accelerator under TensorRT-LLM.

    Equation:
        cache f (M - peak), f free_gpu_memory_fraction of what is free beside the peak of a profile run of
        max_num_tokens: driver, context, communication, weights and the activations of a pass

    Source:
        TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/_util.py (KvCacheCreator), not checked against code.
    """
    passes = pass_bytes(rank.model.architecture, rank.layout, rank.chunk_tokens)
    outside = CONTEXT_BYTES + PROFILED_BYTES + _communication_bytes(rank.layout, TRTLLM_COMMUNICATORS)
    workspace = outside + passes
    usable = rank.memory_bytes - DRIVER_BYTES
    free = max(usable - workspace - rank.weights_bytes, 0.0)
    return RankMemory(usable, workspace + (1 - rank.fraction) * free)


def static_fraction(
    memory_bytes: float, layout: Layout, told_tokens: float, *, has_experts: bool, has_drafter: bool = False
) -> float:
    """SGLang's mem_fraction_static where nobody states one.

    Equation:
        round((M - R) / M, 3); R in MiB: 512 + 1.5 max(tokens, 2048) + 2 G + 128 tp pp, and with attention replicas
        3 G dp, or 4.5 G dp where G > 300; at least 10 GiB on more than 60 GiB; G the largest batch of a CUDA graph;
        2,048 more where a model or MTP layer drafts

    Args:
        memory_bytes: as nvidia-smi reports it [B].
        layout: parallel sizes.
        told_tokens: chunked_prefill_size, of all attention replicas together [tokens].
        has_experts: whether replicas share experts, and so are counted inside tensor parallelism.
        has_drafter: whether what drafts has weights, as MTP layers have and n-grams have not.

    Returns:
        Fraction of the memory; 0 where the reserve is more than that.

    Source:
        sglang 0.5.9, srt/server_args.py (_handle_gpu_memory_settings).

    >>> [static_fraction(mib * 2.0**20, Layout(tp_size=8), 8192, has_experts=True) for mib in (81559, 143771)]
    [0.818, 0.897]
    """
    memory, replicas = memory_bytes / MIB, layout.dp_size if has_experts else 1
    ranks = layout.tp_size * replicas
    small, large = next(((a, b) for gib, a, b in GRAPH_BATCHES if memory < gib * 1024), (LARGEST_GRAPH_BATCH,) * 2)
    graph = small if ranks < 4 else large
    reserve = 512 + 1.5 * max(told_tokens, 2048) + 2 * graph + 128 * ranks * layout.pp_size
    if replicas > 1:
        reserve += graph * replicas * (4.5 if graph > 300 else 3)
    if memory > 60 * 1024:
        reserve = max(reserve, 10 * 1024)
    if has_drafter:
        reserve += 2 * 1024
    return max(round((memory - reserve) / memory, 3), 0.0)


def pass_bytes(architecture: Architecture, layout: Layout, tokens: float) -> float:
    """Most bytes of activations that a rank holds at once while a pass goes through the layers.

    Equation:
        2 B tokens (2 hidden + the widest of attention and MLP): queries, keys, values and outputs of a rank's heads;
        gate, up and product of a dense MLP; for k experts of width n: k (max(n, hidden) + max(2 n, hidden))

    Args:
        architecture: shapes; what is unknown counts nothing.
        layout: parallel sizes.
        tokens: tokens of the pass on a replica [tokens].

    Returns:
        Bytes [B].

    Source:
        vllm 0.19.0, model_executor/layers/fused_moe/fused_moe.py (workspace_shapes).

    >>> from planner.profiles import model_profile
    >>> pass_bytes(model_profile("qwen3-235b").architecture, Layout(tp_size=4), 8192) / 2**20
    1152.0
    """
    hidden = architecture.hidden_size or 0
    widths = [_attention_width(group, layout.tp_size) for group in architecture.attention]
    widths.append(3 * (architecture.intermediate_size or 0) / layout.dense_ranks(architecture.moe is not None))
    moe = architecture.moe
    if moe is not None:
        inner = moe.expert_intermediate_size / (layout.tp_size if layout.ep_size == 1 else 1)
        width = moe.latent_size or hidden
        gates = 1 + architecture.gated_mlp
        widths.append(moe.n_experts_per_token * (max(inner, width) + max(gates * inner, width)))
    return ACTIVATION_BYTES * tokens * (2 * hidden + max(widths))


def _attention_width(group: AttentionLayers, tp_size: int) -> float:
    """Values of queries, keys, values and outputs of a token on a rank."""
    match group:
        case GqaLayers() | SwaLayers():
            return 2 * (group.n_heads or 0) * group.head_dim / tp_size + 2 * group.head_dim * max(
                group.n_kv_heads / tp_size, 1
            )
        case MlaLayers():
            keys = (group.qk_nope_head_dim or 0) + group.qk_rope_head_dim
            return (group.n_heads or 0) * 2 * (keys + (group.v_head_dim or 0)) / tp_size
        case KdaLayers() | LightningLayers():
            return 4 * group.n_heads * group.head_dim / tp_size
        case GdnLayers():
            return 2 * (group.n_key_heads * group.key_head_dim + group.n_value_heads * group.value_head_dim) / tp_size
        case Mamba1Layers():
            return 3 * group.inner_size / tp_size
        case Mamba2Layers():
            return (3 * group.n_heads * group.head_dim + 2 * group.n_groups * group.state_size) / tp_size


def expert_padding(model: ModelProfile, layout: Layout, precision: str | None, settings: MemorySettings) -> float:
    """Bytes of experts as kernels want them over those of the checkpoint.

    Equation:
        round_up(hidden, a) round_up(width of a rank, b) / (hidden width of a rank) where 4-bit weights alone are
        quantised; else 1

    Source:
        vllm 0.33.0, model_executor/layers/fused_moe/oracle/mxfp4.py
        (mxfp4_round_up_hidden_size_and_intermediate_size): Marlin and TRT-LLM's kernels 256 and 128.

    >>> from planner.profiles import model_profile
    >>> vllm = MemorySettings(expert_multiples=(256, 128))
    >>> round(expert_padding(model_profile("gpt-oss-120b"), Layout(), None, vllm), 4)
    1.0904
    """
    moe, checkpoint, hidden = model.architecture.moe, model.checkpoint, model.architecture.hidden_size
    is_own = model.precision == "fp4" and precision in (None, "fp4")
    if not (settings.expert_multiples and moe and hidden and checkpoint and checkpoint.weight_only and is_own):
        return 1.0
    width = -(-moe.expert_intermediate_size // (layout.tp_size if layout.ep_size == 1 else 1))
    padded = [-(-size // by) * by for size, by in zip((hidden, width), settings.expert_multiples, strict=True)]
    return padded[0] * padded[1] / (hidden * width)


def _communication_bytes(layout: Layout, n_communicators: int) -> float:
    return n_communicators * COMMUNICATOR_BYTES if layout.n_accelerators > 1 else 0.0
