"""Groups of layers of one kind and shape: how a layer mixes tokens, and what it keeps of them."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.ranges import Heads, Layers, Whole, Width
from planner.schema import FieldError, StrictModel, raise_faults

Bias = Literal["qkv", "qkvo"]
QkNorm = Literal["head", "layer"]
Symbol = Annotated[str, Field(pattern=r"^[A-Za-z*]$")]


class Indexer(StrictModel):
    """The lightning indexer of DeepSeek sparse attention: a small attention that picks the keys to attend to."""

    n_heads: Heads
    """Index heads."""
    head_dim: Width
    """Values per index head, and per token of the one index key that is cached."""
    top_k: Whole
    """Keys each query attends to."""
    borrowed: bool = False
    """Whether the keys attended to are those that a layer below picked: without index projections, scores and index
    keys of its own."""


class LayerGroup(StrictModel):
    """Layers of one kind and shape."""

    kind: str
    """How the layers mix tokens."""
    n_layers: Layers
    """Layers of this group."""
    symbol: Symbol | None = None
    """Letter that stands for a layer of this group in the architecture's pattern."""
    beside: bool = False
    """Whether every layer of the model has this beside what another group says of it: both read the same, and what they
    put out is added (Falcon-H1)."""


class HeadLayers(LayerGroup):
    """Common base of full and sliding-window attention by heads."""

    n_heads: Heads
    """Query heads."""
    n_kv_heads: Heads
    """Key and value heads."""
    head_dim: Width
    """Values per head of queries and keys, and of values unless v_head_dim says otherwise."""
    v_head_dim: Width | None = None
    """Values per value head, where it is not head_dim."""
    qk_norm: QkNorm | None = None
    """Norm of queries and keys: one weight per value of a head, or of the whole layer; absent when there is none."""
    attention_bias: Bias | None = None
    """Biases of the query, key and value projections, or of the output as well; absent when there are none."""
    output_gate: bool = False
    """Whether a gate as wide as the heads' output multiplies it."""
    sink: bool = False
    """Whether each query head has a learned logit beside its keys."""
    v_from_k: bool = False
    """Whether checkpoints have one projection for keys and values (Gemma 4); both are cached, and serving software
    multiplies by a copy of it."""
    borrows_kv: bool = False
    """Whether keys and values are those of a layer below (cross-layer attention): without projections of its own, but
    with a copy in the cache, as serving software keeps it."""

    @property
    def value_dim(self) -> int:
        """Values per value head."""
        return self.v_head_dim or self.head_dim

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        raise_faults(_indivisible("n_kv_heads", self.n_kv_heads, "n_heads", self.n_heads))
        if self.v_from_k and (self.borrows_kv or self.attention_bias or self.value_dim != self.head_dim):
            raise_faults([FieldError(("v_from_k",), "is true (not with borrows_kv, attention_bias or a v_head_dim)")])
        return self


class GqaLayers(HeadLayers):
    """Layers of grouped-query attention (multi-head when every head has its own KV head)."""

    kind: Literal["gqa"]
    """Grouped-query attention."""


class SwaLayers(HeadLayers):
    """Layers of sliding-window attention: each query attends to the last `window` keys, itself included.

    Chunked ones (Llama 4) attend from the last multiple of `window` on.
    """

    kind: Literal["swa"]
    """Grouped-query attention over a sliding window."""
    window: Whole
    """Most keys that a query attends to, and tokens that are cached."""
    chunked: bool = False
    """Whether windows lie side by side, so that a query sees its own one from its start, rather than slide along."""


class MlaLayers(LayerGroup):
    """Layers of multi-head latent attention, which cache one compressed vector per token."""

    kind: Literal["mla"]
    """Multi-head latent attention, sparse where there is an indexer."""
    n_heads: Heads | None = None
    """Heads; absent when unpublished."""
    q_lora_rank: Width | None = None
    """Width of compressed queries; absent when they are not compressed, or unpublished."""
    kv_lora_rank: Width
    """Width of the cached compressed keys and values."""
    qk_nope_head_dim: Width | None = None
    """Values per head that carry no position; absent when unpublished."""
    qk_rope_head_dim: Width
    """Values per token cached beside the compressed ones, shared by all heads."""
    v_head_dim: Width | None = None
    """Values per value head; absent when unpublished."""
    output_gate: bool = False
    """Whether a gate as wide as the heads' output multiplies it."""
    indexer: Indexer | None = None
    """DeepSeek sparse attention; absent when every query attends to every key."""

    @model_validator(mode="after")
    def _indexer_has_queries(self) -> Self:
        if self.indexer and self.q_lora_rank is None:
            raise_faults(
                [FieldError(("q_lora_rank",), "is required (the indexer's queries are made from compressed ones)")]
            )
        return self


class KdaLayers(LayerGroup):
    """Layers of Kimi delta attention: a recurrent state of fixed size in place of a growing cache."""

    kind: Literal["kda"]
    """Kimi delta attention."""
    n_heads: Heads
    """Heads, each with a state of head_dim x head_dim."""
    head_dim: Width
    """Values per head of keys and of values."""
    conv_kernel: Heads
    """Length of the short convolution on queries, keys and values; one less is kept per request."""
    full_rank_gate: bool = False
    """Whether the output gate is one full matrix; else it passes through head_dim values, as the decay does."""


class GdnLayers(LayerGroup):
    """Layers of gated DeltaNet: one state per value head, keys shared among them."""

    kind: Literal["gdn"]
    """Gated DeltaNet."""
    n_key_heads: Heads
    """Heads of queries and of keys."""
    n_value_heads: Heads
    """Heads of values, each with a state of key_head_dim x value_head_dim."""
    key_head_dim: Width
    """Values per key head."""
    value_head_dim: Width
    """Values per value head."""
    conv_kernel: Heads
    """Length of the short convolution on queries, keys and values; one less is kept per request."""

    @property
    def conv_channels(self) -> int:
        """Channels of the short convolution: queries, keys and values."""
        return 2 * self.n_key_heads * self.key_head_dim + self.n_value_heads * self.value_head_dim

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        raise_faults(_indivisible("n_key_heads", self.n_key_heads, "n_value_heads", self.n_value_heads))
        return self


class LightningLayers(LayerGroup):
    """Layers of Lightning attention (simple gated linear attention): a state with a fixed decay per head."""

    kind: Literal["lightning"]
    """Lightning attention."""
    n_heads: Heads
    """Heads, each with a state of head_dim x head_dim."""
    head_dim: Width
    """Values per head of keys and of values."""
    qk_norm: bool = False
    """Whether queries and keys are normed per head."""


class Mamba1Layers(LayerGroup):
    """Layers of Mamba: a selective scan with a state per channel."""

    kind: Literal["mamba1"]
    """Mamba."""
    inner_size: Width
    """Channels inside the layer."""
    state_size: Width
    """State values per channel."""
    dt_rank: Width
    """Width through which the step sizes are made."""
    conv_kernel: Heads
    """Length of the short convolution on the channels; one less is kept per request."""
    inner_norms: bool = False
    """Whether step sizes, inputs and outputs of the state are normed (Jamba)."""


class Mamba2Layers(LayerGroup):
    """Layers of Mamba-2: one state per head with a scalar decay."""

    kind: Literal["mamba2"]
    """Mamba-2."""
    n_heads: Heads
    """Heads, each with a state of head_dim x state_size."""
    head_dim: Width
    """Channels per head."""
    state_size: Width
    """State values per channel."""
    n_groups: Heads
    """Groups of heads that share the inputs and outputs of the state."""
    conv_kernel: Heads
    """Length of the short convolution on channels and groups; one less is kept per request."""
    gated_norm: bool = True
    """Whether what the gate multiplies is normed (not in Falcon-H1)."""

    @property
    def inner_size(self) -> int:
        """Channels inside the layer."""
        return self.n_heads * self.head_dim

    @property
    def conv_channels(self) -> int:
        """Channels of the short convolution."""
        return self.inner_size + 2 * self.n_groups * self.state_size

    @model_validator(mode="after")
    def _groups_divide(self) -> Self:
        raise_faults(_indivisible("n_groups", self.n_groups, "n_heads", self.n_heads))
        return self


AttentionLayers = Annotated[
    GqaLayers | MlaLayers | KdaLayers | SwaLayers | GdnLayers | LightningLayers | Mamba1Layers | Mamba2Layers,
    Field(discriminator="kind"),
]


def _indivisible(key: str, part: int, of: str, whole: int) -> Iterator[FieldError]:
    if whole % part:
        yield FieldError((key,), f"is {part} (a divisor of {of} = {whole})")
