"""Model profiles: published shapes and parameter counts of one model, and what was measured of it."""

from collections import Counter
from collections.abc import Iterator
from math import floor, log10
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from planner.profiles.base import Precision, Profile, Text
from planner.profiles.experts import MixtureOfExperts
from planner.profiles.layers import AttentionLayers, HeadLayers, MlaLayers
from planner.profiles.measured import MeasuredInstance
from planner.ranges import Layers, LayersOrNone, Parameters, ProfileName, Whole, Width
from planner.schema import FieldError, StrictModel, raise_faults

WeightPart = Literal[
    "attention", "dense_mlp", "experts", "shared_experts", "latent", "router", "embedding", "lm_head", "norms"
]
UNQUANTIZED: tuple[WeightPart, ...] = ("router", "embedding", "lm_head", "norms")
"""Parts that stay bf16 unless a profile says otherwise."""
UNQUANTIZED_FORMATS: dict[WeightPart, dict[Precision, float]] = {part: {"bf16": 1.0} for part in UNQUANTIZED}
Share = Annotated[float, Field(gt=0, le=1)]
NormsPerLayer = Annotated[int, Field(ge=1, le=16)]
SHARES_TOLERANCE = 1e-4


class ParameterCount(StrictModel):
    """A published number of parameters."""

    value: Parameters
    """The count as published."""
    digits: Annotated[int, Field(ge=1, le=18)] | Literal["exact"]
    """Significant digits the source gives, or "exact"."""
    source: Text
    """Id of one of the profile's [sources]."""
    note: Text | None = None
    """What a reader must know to use it."""

    @property
    def half_unit(self) -> float:
        """Largest distance of the true count from `value` by rounding alone: half a unit of its last digit."""
        if self.digits == "exact":
            return 0.0
        return 0.5 * 10.0 ** (floor(log10(self.value)) + 1 - self.digits)

    @property
    def tolerance(self) -> float:
        """Largest distance that a count from shapes may have from `value` [parameters].

        0.1 % of an exact count; else 1.5 % or half a unit of the last digit, whichever is wider, but 5 % at most:
        "1T" is not said of half a trillion.

        >>> ParameterCount(value=10**12, digits=1, source="s").tolerance
        50000000000.0
        """
        if self.digits == "exact":
            return 0.001 * self.value
        return max(0.015 * self.value, min(self.half_unit, 0.05 * self.value))


class Published(StrictModel):
    """Parameter counts as the model's makers state them."""

    total_parameters: ParameterCount | None = None
    """All parameters; absent when unpublished."""
    active_parameters: ParameterCount | None = None
    """Parameters used per token; absent when unpublished."""


class MlpOnlyLayers(StrictModel):
    """Layers that are an MLP alone, in models where each layer is either attention or an MLP (Nemotron)."""

    n_sparse_layers: LayersOrNone
    """Layers that are a mixture of experts."""
    n_dense_layers: LayersOrNone
    """Layers that are a dense MLP."""

    @model_validator(mode="after")
    def _holds_layers(self) -> Self:
        if not self.n_sparse_layers + self.n_dense_layers:
            raise_faults(
                [FieldError((), "holds no layers (leave the table out where attention layers have their own MLP)")]
            )
        return self


class Architecture(StrictModel):
    """Shapes of the model; what is unpublished is absent."""

    source: Text
    """Id of the source of the shapes."""
    basis: Literal["published", "inferred"]
    """Whether the shapes come from the model's makers or follow from other figures."""
    how: Text | None = None
    """How the shapes follow; required when inferred."""
    note: Text | None = None
    """What a reader must know to use the shapes."""
    n_layers: Layers
    """Layers, all kinds together."""
    hidden_size: Width | None = None
    """Width of the residual stream."""
    vocab_size: Width | None = None
    """Entries of the vocabulary."""
    context_limit_tokens: Whole | None = None
    """Longest context that the model is made for, its positions with the RoPE scaling of its config [tokens]; absent
    when unknown."""
    tie_word_embeddings: bool | None = None
    """Whether input and output embeddings are one matrix."""
    intermediate_size: Width | None = None
    """Width of the dense MLP; absent when no layer has one."""
    gated_mlp: bool = True
    """Whether MLPs and experts multiply by a gate: three matrices, else two."""
    norms_per_layer: NormsPerLayer | None = None
    """Norms of a layer as wide as the residual stream: 4 where what attention and MLP put out is normed, too (Gemma 2
    and 3), 1 where both read the same (Command A); absent: one per attention and one per MLP."""
    joins_hidden_state: bool = False
    """Whether its input is an embedding joined with a hidden state of the model that it drafts for, as in heads of
    EAGLE's kind: two norms, and one projection from twice the width to the width."""
    n_mtp_layers: LayersOrNone = 0
    """Layers that predict further tokens; in no total, cache or step unless asked for."""
    pattern: Annotated[str, Field(pattern=r"^[A-Za-z*.-]+$")] | None = None
    """Layers in order, one letter each: an attention group's symbol, or E and - for a sparse and a dense MLP alone."""
    mlp_only: MlpOnlyLayers | None = None
    """Layers without attention; where given, attention layers have no MLP."""
    moe: MixtureOfExperts | None = None
    """The sparse MLP; absent when there is none, or unpublished."""
    attention: tuple[AttentionLayers, ...]
    """Attention layers, recurrent ones included, in groups of one kind and shape."""

    @property
    def n_norms(self) -> int:
        """Norms as wide as the residual stream: those of the layers, at the end, and of what is joined at the
        beginning."""
        per_layer = self.norms_per_layer or (1 if self.mlp_only else 2)
        return self.n_layers * per_layer + 1 + 2 * self.joins_hidden_state

    @property
    def n_sparse_layers(self) -> int:
        """Layers whose MLP has experts."""
        if self.mlp_only:
            return self.mlp_only.n_sparse_layers
        return len(self.moe.sparse_layers(self.n_layers)) if self.moe else 0

    @property
    def n_dense_layers(self) -> int:
        """Layers with a dense MLP; none where nothing is known of the MLPs."""
        if self.mlp_only:
            return self.mlp_only.n_dense_layers
        return self.n_layers - self.n_sparse_layers if self.moe or self.intermediate_size else 0

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        raise_faults([*self._layer_faults(), *self._missing(), *self._pattern_faults(), *self._borrowing_faults()])
        return self

    @property
    def _n_grouped(self) -> int:
        """Layers of all groups, those beside another one once."""
        n_mlp = self.mlp_only.n_sparse_layers + self.mlp_only.n_dense_layers if self.mlp_only else 0
        return sum(group.n_layers for group in self.attention if not group.beside) + n_mlp

    def _layer_faults(self) -> Iterator[FieldError]:
        if self._n_grouped != self.n_layers and len(self.pattern or "") != self.n_layers:
            groups = "attention groups and mlp_only hold" if self.mlp_only else "attention groups hold"
            yield FieldError(("n_layers",), f"is {self.n_layers}, but {groups} {self._n_grouped} (their sum)")
        for index, group in enumerate(self.attention):
            if group.beside and (group.n_layers != self.n_layers or self.pattern):
                message = f"is true of {group.n_layers} layers (all {self.n_layers}, without a pattern)"
                yield FieldError(("attention", index, "beside"), message)
        if self.moe and self.moe.n_dense_first_layers > self.n_layers:
            message = f"is {self.moe.n_dense_first_layers} (at most n_layers = {self.n_layers})"
            yield FieldError(("moe", "n_dense_first_layers"), message)
        if self.moe and self.mlp_only and (self.moe.n_dense_first_layers or self.moe.layer_period > 1):
            yield FieldError(
                ("moe",), "places sparse layers, as mlp_only does (n_dense_first_layers = 0, no layer_period)"
            )

    def _borrowing_faults(self) -> Iterator[FieldError]:
        yield from self._borrowed_kv_faults()
        yield from self._borrowed_index_faults()

    def _borrowed_index_faults(self) -> Iterator[FieldError]:
        """Keys that are borrowed from an indexer are those of a layer below that has its own, and picks as many."""
        sparse = {i: g for i, g in enumerate(self.attention) if isinstance(g, MlaLayers) and g.indexer}
        own = {group.indexer.top_k for group in sparse.values() if group.indexer and not group.indexer.borrowed}
        for index, group in sparse.items():
            if group.indexer is None or not group.indexer.borrowed:
                continue
            if group.indexer.top_k not in own:
                message = "is true (layers with an indexer of their own, of the same top_k, to borrow from)"
                yield FieldError(("attention", index, "indexer", "borrowed"), message)
            elif self.pattern and self.pattern[0] == group.symbol:
                yield FieldError(("pattern",), f"begins with {group.symbol!r} (a layer with an indexer of its own)")

    def _borrowed_kv_faults(self) -> Iterator[FieldError]:
        """Borrowed keys and values are those of a layer below that has its own, of the same shape."""
        heads = [group for group in self.attention if isinstance(group, HeadLayers)]
        shapes = {(group.n_kv_heads, group.head_dim, group.value_dim) for group in heads if not group.borrows_kv}
        for index, group in enumerate(self.attention):
            if not isinstance(group, HeadLayers) or not group.borrows_kv:
                continue
            if (group.n_kv_heads, group.head_dim, group.value_dim) not in shapes:
                allowed = "layers with keys and values of their own, of as many heads as wide, to borrow from"
                yield FieldError(("attention", index, "borrows_kv"), f"is true ({allowed})")
            elif self.pattern and self.pattern[0] == group.symbol:
                yield FieldError(
                    ("pattern",), f"begins with {group.symbol!r} (a layer with keys and values of its own)"
                )

    def _missing(self) -> Iterator[FieldError]:
        if self.basis == "inferred" and self.how is None:
            yield FieldError(("how",), "is required when basis is 'inferred' (say how the shapes follow)")
        if self.basis == "published":
            for name in ("hidden_size", "vocab_size", "tie_word_embeddings"):
                if getattr(self, name) is None:
                    yield FieldError((name,), "is required when basis is 'published'")
        if self._lacks_dense_width():
            yield FieldError(("intermediate_size",), "is required for the dense layers (or moe without dense layers)")
        if self.mlp_only and self.mlp_only.n_sparse_layers and not self.moe:
            yield FieldError(("moe",), "is required for the sparse layers of mlp_only")

    def _lacks_dense_width(self) -> bool:
        if self.moe or self.mlp_only:
            return self.n_dense_layers > 0 and self.intermediate_size is None
        return self.basis == "published" and self.intermediate_size is None

    def _pattern_faults(self) -> Iterator[FieldError]:
        if self.pattern is None:
            return
        symbols = [group.symbol for group in self.attention] + (["E", "-"] if self.mlp_only else [])
        for index, group in enumerate(self.attention):
            if group.symbol is None or symbols.count(group.symbol) > 1:
                message = f"is {group.symbol!r} (a letter of its own where there is a pattern)"
                yield FieldError(("attention", index, "symbol"), message)
        if len(self.pattern) == self.n_layers:
            yield from self._pattern_count_faults(Counter(self.pattern))
        elif self._n_grouped == self.n_layers:
            yield FieldError(
                ("pattern",), f"has {len(self.pattern)} letters for {self.n_layers} layers (one per layer)"
            )

    def _pattern_count_faults(self, found: Counter[str]) -> Iterator[FieldError]:
        """Of three counts that should agree, the one that differs from the two others is at fault."""
        expected = self._letters
        if self._n_grouped == self.n_layers:
            if any(found[letter] != expected.get(letter, 0) for letter in {*found, *expected}):
                hold = ", ".join(f"{n} {letter}" for letter, n in sorted(expected.items()))
                yield FieldError(
                    ("pattern",), f"has {', '.join(f'{n} {x}' for x, n in sorted(found.items()))} ({hold})"
                )
            return
        for index, group in enumerate(self.attention):
            if group.symbol and found[group.symbol] != group.n_layers:
                message = f"is {group.n_layers} ({found[group.symbol]}, as the pattern has {group.symbol})"
                yield FieldError(("attention", index, "n_layers"), message)
        if self.mlp_only and (found["E"], found["-"]) != (self.n_sparse_layers, self.n_dense_layers):
            yield FieldError(
                ("mlp_only",), f"holds other layers than the pattern ({found['E']} sparse, {found['-']} dense)"
            )

    @property
    def _letters(self) -> dict[str, int]:
        """Letters that a pattern may have, and the layers of each."""
        letters = {group.symbol: group.n_layers for group in self.attention if group.symbol}
        if self.mlp_only:
            letters |= {"E": self.mlp_only.n_sparse_layers, "-": self.mlp_only.n_dense_layers}
        return letters


class Checkpoint(StrictModel):
    """Storage of the published weights."""

    source: Text
    """Id of one of the profile's [sources]."""
    formats: dict[WeightPart, dict[Precision, Share]] = Field(default_factory=lambda: {**UNQUANTIZED_FORMATS})
    """Number formats of the parts that are not all at the profile's precision, each with its share of the part's
    parameters; absent: router, embedding, lm_head and norms are bf16."""
    bytes_per_weight: dict[Precision, Annotated[float, Field(ge=0.01, le=16)]] = Field(default_factory=dict)
    """Bytes of a weight by its format, its share of the scales included; absent: the format's width."""
    weight_only: tuple[Precision, ...] = ()
    """Formats whose weights alone are quantised, so that products take wider inputs, as MXFP4, GPTQ and AWQ do."""
    kv_precision: Precision | None = None
    """Number format that the checkpoint asks for its attention cache; absent: none, which engines read as bf16."""
    note: Text | None = None
    """What a reader must know to use it."""

    @model_validator(mode="after")
    def _shares_are_whole(self) -> Self:
        for part, shares in self.formats.items():
            if abs(sum(shares.values()) - 1) > SHARES_TOLERANCE:
                message = f"has shares that sum to {sum(shares.values()):.6g} (1, the whole part)"
                raise_faults([FieldError(("formats", part), message)])
        return self


class ModelProfile(Profile):
    """One model: its shapes, its parameter counts and its measured instances."""

    model_config = ConfigDict(populate_by_name=True)

    schema_id: Literal["planner.model/1"] = Field(alias="schema")
    """Format of the file."""
    precision: Precision
    """Precision of the weights as the checkpoint stores them, but for the parts it leaves in bf16."""
    checkpoint: Checkpoint | None = None
    """How the checkpoint stores the weights; absent when unknown."""
    published: Published = Published()
    """Parameter counts."""
    architecture: Architecture
    """Shapes."""
    measured: dict[ProfileName, MeasuredInstance] = Field(default_factory=dict)
    """Instances somebody measured, or that were inferred, by a name."""
