"""An independent count of a forward pass: layer by layer, sequence by sequence, query by query; shares no product code.

It reads shapes from a profile and nothing else. FLOPs are those of the matrices as an implementation multiplies them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from planner.profiles import AttentionLayers, ModelProfile

VALUE_BYTES = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5, "fp4": 0.5}
CHUNK = 64


@dataclass(frozen=True)
class Sequence:
    """New tokens after cached ones, in prefill or decode form."""

    new: int
    cached: int
    prefill: bool = True


@dataclass
class Tally:
    """What a pass computes and moves."""

    flop: float = 0.0
    weight_bytes: float = 0.0
    activation_bytes: float = 0.0
    kv_bytes: float = 0.0
    matrix_weights: float = 0.0
    names: list[str] = field(default_factory=list)

    def multiply(self, rows: float, n_out: int, n_in: int, width: float, copies: float = 1.0) -> None:
        """`copies` products of [rows, n_in] x [n_in, n_out], weights read once each."""
        self.flop += copies * rows * n_out * (n_in + n_in)
        self.weight_bytes += copies * n_out * n_in * width
        self.matrix_weights += copies * n_out * n_in
        self.activation_bytes += copies * 2 * (rows * n_in + rows * n_out)


def layers_in_order(model: ModelProfile) -> Iterator[tuple[AttentionLayers | None, str]]:
    """Attention group and MLP ("sparse", "dense" or "") of each layer."""
    shapes = model.architecture
    groups = [group for group in shapes.attention if not group.beside for _ in range(group.n_layers)]
    if shapes.pattern:
        by_symbol: dict[str, Any] = {group.symbol: group for group in shapes.attention if group.symbol}
        if shapes.mlp_only:
            mlps = {"E": "sparse", "-": "dense"}
            yield from ((by_symbol.get(letter), mlps.get(letter, "")) for letter in shapes.pattern)
            return
        groups = [by_symbol[letter] for letter in shapes.pattern]
    for index, group in enumerate(groups):
        moe = shapes.moe
        dense = moe is None or index < moe.n_dense_first_layers or index % moe.layer_period != moe.layer_offset
        yield group, "dense" if dense else "sparse"


class Walk:
    """A pass of a model over some sequences."""

    def __init__(self, model: ModelProfile, sequences: list[Sequence], kv: str = "bf16") -> None:
        self.model, self.shapes, self.sequences, self.kv_width = model, model.architecture, sequences, VALUE_BYTES[kv]
        self.rows = sum(sequence.new for sequence in sequences)
        self.hidden = self.shapes.hidden_size or 0
        self.tally = Tally()

    def width(self, part: str) -> float:
        """Bytes of one weight of a part."""
        checkpoint = self.model.checkpoint
        if checkpoint is None:
            return 2.0
        widths = VALUE_BYTES | dict(checkpoint.bytes_per_weight)
        shares = checkpoint.formats.get(part, {self.model.precision: 1.0})
        return sum(share * widths[name] for name, share in shares.items())

    def run(self) -> Tally:
        """Embedding, layers in order, final norm, output head for the last token of each sequence."""
        vocabulary = self.shapes.vocab_size or 0
        self.tally.weight_bytes += self.rows * self.hidden * self.width("embedding")
        self.tally.activation_bytes += self.rows * self.hidden * 2
        for group, mlp in layers_in_order(self.model):
            for _ in range(self.shapes.norms_per_layer or (group is not None) + bool(mlp)):
                self._norm()
            for mixer in (group, *(other for other in self.shapes.attention if other.beside)):
                if mixer is not None:
                    getattr(self, f"_{mixer.kind}")(mixer)
            if mlp:
                (self._sparse if mlp == "sparse" else self._dense)()
        self._norm()
        self.tally.multiply(len(self.sequences), vocabulary, self.hidden, self.width("lm_head"))
        return self.tally

    def _norm(self) -> None:
        self.tally.activation_bytes += 4 * 2 * self.rows * self.hidden

    # MLPs

    def _dense(self) -> None:
        self._mlp(self.rows, self.hidden, self.shapes.intermediate_size or 0, self.width("dense_mlp"))

    def _mlp(self, rows: float, outer: int, inner: int, width: float) -> None:
        ways = 2 if self.shapes.gated_mlp else 1
        self.tally.multiply(rows, ways * inner, outer, width)
        self.tally.activation_bytes += 2 * rows * (ways * inner + inner)
        self.tally.multiply(rows, outer, inner, width)

    def _sparse(self) -> None:
        moe = self.shapes.moe
        assert moe
        self.tally.multiply(self.rows, moe.n_experts, self.hidden, self.width("router"))
        outer = self.hidden
        if moe.latent_size:
            outer = moe.latent_size
            self.tally.multiply(self.rows, outer, self.hidden, self.width("latent"))
            self.tally.multiply(self.rows, self.hidden, outer, self.width("latent"))
        unvisited = 1.0
        for _ in range(self.rows):
            unvisited *= 1 - moe.n_experts_per_token / moe.n_experts
        visited = moe.n_experts * (1 - unvisited)
        inner, ways = moe.expert_intermediate_size, 2 if self.shapes.gated_mlp else 1
        rows = self.rows * moe.n_experts_per_token / visited
        self.tally.multiply(rows, ways * inner, outer, self.width("experts"), visited)
        self.tally.activation_bytes += 2 * visited * rows * (ways + 1) * inner
        self.tally.multiply(rows, outer, inner, self.width("experts"), visited)
        if moe.n_shared_experts:
            shared = moe.shared_expert_intermediate_size or moe.expert_intermediate_size
            self._mlp(self.rows, self.hidden, moe.n_shared_experts * shared, self.width("shared_experts"))

    # Attention

    def _gqa(self, group: Any) -> None:
        self._heads(group, None)

    def _swa(self, group: Any) -> None:
        self._heads(group, group.window)

    def _heads(self, group: Any, window: int | None) -> None:
        value = group.v_head_dim or group.head_dim
        queries, keys = group.n_heads * group.head_dim, group.n_kv_heads * group.head_dim
        values, out = group.n_kv_heads * value, group.n_heads * value
        width = self.width("attention")
        made = queries if group.borrows_kv else queries + keys + values
        self.tally.multiply(self.rows, made + (out if group.output_gate else 0), self.hidden, width)
        for sequence in self.sequences:
            seen: set[int] = set()
            for position in range(sequence.cached, sequence.cached + sequence.new):
                first = 0 if window is None else max(position - window + 1, 0)
                if window and group.chunked and sequence.prefill:
                    first = position - position % window
                n_keys = position + 1 - first
                seen |= set(range(first, position + 1))
                self.tally.flop += group.n_heads * n_keys * (2 * group.head_dim + 2 * value)
                self.tally.activation_bytes += 2 * (queries + out)
            self.tally.kv_bytes += (len(seen) + sequence.new) * (keys + values) * self.kv_width
        self.tally.multiply(self.rows, self.hidden, out, width)

    def _mla(self, group: Any) -> None:
        n, nope, rope, value = group.n_heads, group.qk_nope_head_dim, group.qk_rope_head_dim, group.v_head_dim
        latent, width = group.kv_lora_rank, self.width("attention")
        if group.q_lora_rank:
            self.tally.multiply(self.rows, group.q_lora_rank + latent + rope, self.hidden, width)
            self.tally.multiply(self.rows, n * (nope + rope), group.q_lora_rank, width)
        else:
            self.tally.multiply(self.rows, n * (nope + rope), self.hidden, width)
            self.tally.multiply(self.rows, latent + rope, self.hidden, width)
        if group.output_gate:
            self.tally.multiply(self.rows, n * value, self.hidden, width)
        if group.indexer and not group.indexer.borrowed:
            index = group.indexer
            self.tally.multiply(self.rows, index.n_heads * index.head_dim, group.q_lora_rank, width)
            self.tally.multiply(self.rows, index.head_dim + index.n_heads, self.hidden, width)
        absorbed = [s.new for s in self.sequences if group.indexer or not s.prefill]
        if absorbed:
            self.tally.multiply(sum(absorbed), latent, nope, width, n)
            self.tally.multiply(sum(absorbed), value, latent, width, n)
        for sequence in self.sequences:
            self._latent_sequence(group, sequence, width)
        self.tally.multiply(self.rows, self.hidden, n * value, width)

    def _latent_sequence(self, group: Any, sequence: Sequence, width: float) -> None:
        n, nope, rope, value = group.n_heads, group.qk_nope_head_dim, group.qk_rope_head_dim, group.v_head_dim
        latent, index = group.kv_lora_rank, group.indexer
        total = sequence.new + sequence.cached
        absorbed = index is not None or not sequence.prefill
        if not absorbed:
            self.tally.multiply(total, n * (nope + value), latent, width)
            self.tally.activation_bytes += 2 * n * (nope + rope + value) * (total + sequence.new)
        n_read = 0
        for position in range(sequence.cached, total):
            n_keys = min(position + 1, index.top_k) if index else position + 1
            n_read += n_keys
            per_key = 2 * (latent + rope) + 2 * latent if absorbed else 2 * (nope + rope) + 2 * value
            self.tally.flop += n * n_keys * per_key
            if index and not index.borrowed:
                self.tally.flop += index.n_heads * (position + 1) * (2 * index.head_dim + 2)
        if absorbed:
            self.tally.activation_bytes += 2 * n * (latent + rope + latent) * sequence.new
        # Expanded, only the cached latents are read; absorbed, every latent that some query attends to.
        read = min(n_read, total) if absorbed else sequence.cached
        self.tally.kv_bytes += (read + sequence.new) * (latent + rope) * self.kv_width
        if index and not index.borrowed:
            self.tally.activation_bytes += 2 * index.n_heads * index.head_dim * sequence.new
            self.tally.kv_bytes += (total + sequence.new) * (index.head_dim + 4 * index.head_dim / 128)

    # Recurrences

    def _kda(self, group: Any) -> None:
        n, d, width = group.n_heads, group.head_dim, self.width("attention")
        inner = n * d
        gate = inner if group.full_rank_gate else d
        self.tally.multiply(self.rows, 3 * inner + d + gate + n, self.hidden, width)
        self.tally.multiply(self.rows, inner, d, width)
        if not group.full_rank_gate:
            self.tally.multiply(self.rows, inner, d, width)
        self._conv(3 * inner, group.conv_kernel)
        chunk = n * (6 * d * d + CHUNK * 5 * d + CHUNK * CHUNK)
        self._state(n * d * d, chunk, 7 * n * d * d, 5 * inner)
        self.tally.multiply(self.rows, self.hidden, inner, width)

    def _gdn(self, group: Any) -> None:
        k, v = group.key_head_dim, group.value_head_dim
        keys, values = group.n_key_heads * k, group.n_value_heads * v
        width, n = self.width("attention"), group.n_value_heads
        self.tally.multiply(self.rows, 2 * keys + 2 * values + 2 * n, self.hidden, width)
        self._conv(2 * keys + values, group.conv_kernel)
        chunk = n * (6 * k * v + CHUNK * (3 * k + 2 * v) + CHUNK * CHUNK)
        self._state(n * k * v, chunk, 7 * n * k * v, 2 * keys + 2 * values + 2 * n)
        self.tally.multiply(self.rows, self.hidden, values, width)

    def _lightning(self, group: Any) -> None:
        n, d, width = group.n_heads, group.head_dim, self.width("attention")
        self.tally.multiply(self.rows, 4 * n * d, self.hidden, width)
        self._state(n * d * d, n * (4 * d * d + 2 * CHUNK * d), 5 * n * d * d, 4 * n * d)
        self.tally.multiply(self.rows, self.hidden, n * d, width)

    def _mamba1(self, group: Any) -> None:
        inner, state, width = group.inner_size, group.state_size, self.width("attention")
        self.tally.multiply(self.rows, 2 * inner, self.hidden, width)
        self._conv(inner, group.conv_kernel)
        self.tally.multiply(self.rows, group.dt_rank + 2 * state, inner, width)
        self.tally.multiply(self.rows, inner, group.dt_rank, width)
        self._state(inner * state, 9 * inner * state, 9 * inner * state, 3 * inner + 2 * state, chunked=False)
        self.tally.multiply(self.rows, self.hidden, inner, width)

    def _mamba2(self, group: Any) -> None:
        n, p, s, groups = group.n_heads, group.head_dim, group.state_size, group.n_groups
        width = self.width("attention")
        self.tally.multiply(self.rows, 2 * n * p + 2 * groups * s + n, self.hidden, width)
        self._conv(n * p + 2 * groups * s, group.conv_kernel)
        chunk = n * (4 * p * s + CHUNK * p) + groups * CHUNK * s
        self._state(n * p * s, chunk, 5 * n * p * s, 2 * n * p + 2 * groups * s + n)
        self.tally.multiply(self.rows, self.hidden, n * p, width)

    def _conv(self, channels: int, kernel: int) -> None:
        self.tally.weight_bytes += 2.0 * channels * kernel
        for sequence in self.sequences:
            self.tally.flop += sequence.new * channels * (kernel + kernel)
            self.tally.activation_bytes += sequence.new * 2 * (channels + channels)
            self.tally.kv_bytes += 2.0 * channels * (kernel - 1) * (2 if sequence.cached else 1)

    def _state(self, values: int, chunk_flop: int, step_flop: int, moved: int, chunked: bool = True) -> None:
        for sequence in self.sequences:
            for _ in range(sequence.new):
                self.tally.flop += chunk_flop if sequence.prefill else step_flop
                self.tally.activation_bytes += 2 * moved
                if sequence.prefill and chunked:
                    self.tally.activation_bytes += 2 * 2 * values / CHUNK
            self.tally.kv_bytes += 4.0 * values * (2 if sequence.cached else 1)
