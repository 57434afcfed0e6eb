"""Matrix products, counted where they are done."""

from collections import Counter
from dataclasses import dataclass, field
from math import prod

from planner.hybrid.arrays import FloatArray, n_values


@dataclass
class Products:
    """Multiplies matrices and counts the operations, a multiply and an add as two.

    `performed_flop` is what was multiplied, masked entries included; `kept_flop` what of it a mask or a triangle keeps,
    which is what closed forms count.
    """

    performed_flop: Counter[str] = field(default_factory=Counter)
    kept_flop: Counter[str] = field(default_factory=Counter)

    def product(self, name: str, a: FloatArray, b: FloatArray, kept_entries: int | None = None) -> FloatArray:
        """a @ b, counted under a name.

        Equation:
            FLOP = 2 m n k for each [m, k] x [k, n]; kept: 2 k per entry kept of a masked result

        Args:
            name: operator that it is part of.
            a: [..., m, k].
            b: [..., k, n].
            kept_entries: entries of the whole result that a mask keeps; None: all.

        Returns:
            [..., m, n].
        """
        out: FloatArray = a @ b
        depth = a.shape[-1]
        self.count(name, 2 * depth * n_values(out), None if kept_entries is None else 2 * depth * kept_entries)
        return out

    def count(self, name: str, performed_flop: int, kept_flop: int | None = None) -> None:
        """Operations done otherwise; kept_flop None: all of them."""
        self.performed_flop[name] += performed_flop
        self.kept_flop[name] += performed_flop if kept_flop is None else kept_flop

    @property
    def total_performed_flop(self) -> int:
        """All operations done [FLOP]."""
        return sum(self.performed_flop.values())

    @property
    def total_kept_flop(self) -> int:
        """Operations that masks and triangles keep [FLOP]."""
        return sum(self.kept_flop.values())


def leading(array: FloatArray) -> int:
    """Matrices of a stack [..., m, n]."""
    return prod(array.shape[:-2])
