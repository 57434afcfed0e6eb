"""MLPs: dense, and mixtures of experts with shared ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.hybrid.arrays import FloatArray, index_like, namespace, to_host
from planner.hybrid.numerics import sigmoid, silu
from planner.hybrid.products import Products


@dataclass(frozen=True, eq=False)
class DenseMlp:
    """silu(x G) (x U) D; the gate and up matrices side by side."""

    gate_up: FloatArray
    """[hidden, 2 width]."""
    down: FloatArray
    """[width, hidden]."""
    name: str = ""
    """What its products are counted as: gate_up_proj and down_proj, behind a prefix."""

    def __call__(self, products: Products, x: FloatArray) -> FloatArray:
        """Rows through the MLP [tokens, hidden]; Shazeer 2020, equation 6."""
        fused = products.product(f"{self.name}gate_up_proj", x, self.gate_up)
        width = fused.shape[-1] // 2
        return products.product(f"{self.name}down_proj", silu(fused[:, :width]) * fused[:, width:], self.down)


@dataclass(frozen=True, eq=False)
class SparseMlp:
    """Routed experts, each token visiting the k that score best, and experts that every token visits."""

    router: FloatArray
    """[hidden, experts]."""
    bias: FloatArray | None
    """Added to the scores to choose, not to weigh [experts]."""
    gate_up: FloatArray
    """[experts, hidden, 2 width]."""
    down: FloatArray
    """[experts, width, hidden]."""
    shared: DenseMlp | None
    n_experts_per_token: int

    def __call__(self, products: Products, x: FloatArray) -> FloatArray:
        """Rows through the experts they choose.

        Equation:
            y = shared(x) + sum over the k experts e with the best s_e + b_e of s_e / sum s  MLP_e(x), s = sigmoid(x R)

        Args:
            products: what counts.
            x: [tokens, hidden].

        Returns:
            [tokens, hidden].

        Valid:
            Rows of one expert are multiplied together; each row meets its experts in the order of their numbers,
            whatever else is in the batch.

        Source:
            DeepSeekMoE 2024 (shared experts); DeepSeek-V3 2024, equations 12 to 16 (selection bias).
        """
        chosen, weights = self.choice(products, x)
        out = namespace(x).zeros_like(x) if self.shared is None else self.shared(products, x)
        # Which rows go to which expert is for the host to know: it calls the experts.
        flat = to_host(chosen).ravel()
        by_expert = np.argsort(flat, kind="stable")
        rows = index_like(by_expert // self.n_experts_per_token, x)
        scale = weights.ravel()[index_like(by_expert, x)]
        experts, starts = np.unique(flat[by_expert], return_index=True)
        for expert, start, stop in zip(experts, starts, [*starts[1:], len(flat)], strict=True):
            mine = rows[start:stop]
            out[mine] += self._expert(products, expert, x[mine]) * scale[start:stop, None]
        return out

    def choice(self, products: Products, x: FloatArray) -> tuple[Any, FloatArray]:
        """Experts of each token, best first, and their weights, which sum to 1 [tokens, k]."""
        xp = namespace(x)
        scores = sigmoid(products.product("router", x, self.router))
        biased = scores if self.bias is None else scores + self.bias
        # A stable sort: of equal scores the first expert wins, on every machine.
        chosen = xp.argsort(-biased, axis=-1, stable=True)[:, : self.n_experts_per_token]
        weights = xp.take_along_axis(scores, chosen, axis=-1)
        return chosen, weights / xp.sum(weights, axis=-1, keepdims=True)

    def _expert(self, products: Products, expert: np.integer[Any], x: FloatArray) -> FloatArray:
        fused = products.product("experts_gate_up", x, self.gate_up[expert])
        width = fused.shape[-1] // 2
        return products.product("experts_down", silu(fused[:, :width]) * fused[:, width:], self.down[expert])


Mlp = DenseMlp | SparseMlp
