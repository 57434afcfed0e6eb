"""Model profiles: published shapes and parameter counts of one model, and what was measured of it."""

from collections.abc import Iterator
from math import floor, log10
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from planner.profiles.base import Name, Precision, Profile, Text
from planner.profiles.measured import MeasuredInstance
from planner.schema import Fault, StrictModel, raise_faults


class ParameterCount(StrictModel):
    """A published number of parameters."""

    value: PositiveInt
    """The count as published."""
    digits: PositiveInt | Literal["exact"]
    """Significant digits the source gives, or "exact"."""
    source: Text
    """Id of one of the profile's [sources]."""
    note: Text | None = None
    """What a reader must know to use it."""

    @property
    def half_unit(self) -> float:
        """How far the true count may be from `value` by rounding alone: half a unit of its last digit."""
        if self.digits == "exact":
            return 0.0
        return 0.5 * 10.0 ** (floor(log10(self.value)) + 1 - self.digits)


class Published(StrictModel):
    """Parameter counts as the model's makers state them."""

    total_parameters: ParameterCount
    """All parameters."""
    active_parameters: ParameterCount | None = None
    """Parameters used per token; absent when unpublished."""


class GqaLayers(StrictModel):
    """Layers of grouped-query attention (multi-head when every head has its own KV head)."""

    kind: Literal["gqa"]
    """Grouped-query attention."""
    n_layers: PositiveInt
    """Layers of this group."""
    n_heads: PositiveInt
    """Query heads."""
    n_kv_heads: PositiveInt
    """Key and value heads."""
    head_dim: PositiveInt
    """Values per head."""

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.n_heads % self.n_kv_heads:
            message = f"is {self.n_kv_heads} (a divisor of n_heads = {self.n_heads})"
            raise_faults([Fault(("n_kv_heads",), message)])
        return self


class MlaLayers(StrictModel):
    """Layers of multi-head latent attention, which cache one compressed vector per token."""

    kind: Literal["mla"]
    """Multi-head latent attention."""
    n_layers: PositiveInt
    """Layers of this group."""
    n_heads: PositiveInt | None = None
    """Heads; absent when unpublished."""
    q_lora_rank: PositiveInt | None = None
    """Width of compressed queries; absent when they are not compressed, or unpublished."""
    kv_lora_rank: PositiveInt
    """Width of the cached compressed keys and values."""
    qk_nope_head_dim: PositiveInt | None = None
    """Values per head that carry no position; absent when unpublished."""
    qk_rope_head_dim: PositiveInt
    """Values per token cached beside the compressed ones, shared by all heads."""
    v_head_dim: PositiveInt | None = None
    """Values per value head; absent when unpublished."""


class KdaLayers(StrictModel):
    """Layers of Kimi delta attention: a recurrent state of fixed size in place of a growing cache."""

    kind: Literal["kda"]
    """Kimi delta attention."""
    n_layers: PositiveInt
    """Layers of this group."""
    n_heads: PositiveInt
    """Heads, each with a state of head_dim x head_dim."""
    head_dim: PositiveInt
    """Values per head of keys and of values."""
    conv_kernel: PositiveInt
    """Length of the short convolution on queries, keys and values; one less is kept per request."""


AttentionLayers = Annotated[GqaLayers | MlaLayers | KdaLayers, Field(discriminator="kind")]


class MixtureOfExperts(StrictModel):
    """The sparse MLP of all layers but the first few."""

    n_experts: PositiveInt
    """Routed experts of a layer."""
    n_experts_per_token: PositiveInt
    """Routed experts each token visits."""
    n_shared_experts: NonNegativeInt
    """Experts every token visits."""
    expert_intermediate_size: PositiveInt
    """Width of one expert."""
    n_dense_first_layers: NonNegativeInt
    """Leading layers with a dense MLP instead."""

    @model_validator(mode="after")
    def _has_enough_experts(self) -> Self:
        if self.n_experts_per_token > self.n_experts:
            message = f"is {self.n_experts_per_token} (at most n_experts = {self.n_experts})"
            raise_faults([Fault(("n_experts_per_token",), message)])
        return self


class Architecture(StrictModel):
    """Shapes of the model; what is unpublished is absent."""

    source: Text
    """Id of the source of the shapes."""
    basis: Literal["published", "inferred"]
    """Whether the shapes come from the model's makers or follow from other figures."""
    how: Text | None = None
    """How the shapes follow; required when inferred."""
    n_layers: PositiveInt
    """Layers, all kinds together."""
    hidden_size: PositiveInt | None = None
    """Width of the residual stream."""
    vocab_size: PositiveInt | None = None
    """Entries of the vocabulary."""
    tie_word_embeddings: bool | None = None
    """Whether input and output embeddings are one matrix."""
    intermediate_size: PositiveInt | None = None
    """Width of the dense MLP; absent when no layer has one."""
    moe: MixtureOfExperts | None = None
    """The sparse MLP; absent when there is none, or unpublished."""
    attention: tuple[AttentionLayers, ...]
    """Attention layers in groups of one kind and shape."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        raise_faults([*self._layer_faults(), *self._missing()])
        return self

    def _layer_faults(self) -> Iterator[Fault]:
        n_grouped = sum(group.n_layers for group in self.attention)
        if n_grouped != self.n_layers:
            yield Fault(("n_layers",), f"is {self.n_layers}, but attention groups hold {n_grouped} (their sum)")
        if self.moe and self.moe.n_dense_first_layers > self.n_layers:
            message = f"is {self.moe.n_dense_first_layers} (at most n_layers = {self.n_layers})"
            yield Fault(("moe", "n_dense_first_layers"), message)

    def _missing(self) -> Iterator[Fault]:
        if self.basis == "inferred" and self.how is None:
            yield Fault(("how",), "is required when basis is 'inferred' (say how the shapes follow)")
        if self.basis == "published":
            for name in ("hidden_size", "vocab_size", "tie_word_embeddings"):
                if getattr(self, name) is None:
                    yield Fault((name,), "is required when basis is 'published'")
        if self._lacks_dense_width():
            yield Fault(("intermediate_size",), "is required for the dense layers (or moe without dense layers)")

    def _lacks_dense_width(self) -> bool:
        has_dense = self.moe.n_dense_first_layers > 0 if self.moe else self.basis == "published"
        return has_dense and self.intermediate_size is None


class ModelProfile(Profile):
    """One model: its shapes, its parameter counts and its measured instances."""

    model_config = ConfigDict(populate_by_name=True)

    schema_id: Literal["planner.model/1"] = Field(alias="schema")
    """Format of the file."""
    precision: Precision
    """Precision of the weights as the checkpoint stores them."""
    published: Published
    """Parameter counts."""
    architecture: Architecture
    """Shapes."""
    measured: dict[Name, MeasuredInstance] = Field(default_factory=dict)
    """Instances somebody measured, or that were inferred, by a name."""
