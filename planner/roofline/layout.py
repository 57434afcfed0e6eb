"""Parallel layout of a model on an instance's accelerators: tensor, expert, attention-data and pipeline parallelism."""

import re
from dataclasses import dataclass
from typing import Self

from planner.errors import InputError, InputProblem, did_you_mean, printable

KEYS = ("tp", "ep", "dp", "pp")
DENSE = "dense_tp"
MOST_RANKS = 1_000_000
"""Of each kind: beyond any machine."""
MOST_SHOWN = 40
"""Characters of a size in a message."""


@dataclass(frozen=True)
class Layout:
    """Parallel sizes of one instance."""

    tp_size: int = 1
    """Ranks that share one sequence's attention."""
    ep_size: int = 1
    """Groups that the experts are dealt out to; ranks of a group share each expert by columns."""
    dp_size: int = 1
    """Attention replicas, each with sequences of its own; experts are shared by all of them."""
    pp_size: int = 1
    """Pipeline stages."""
    dense_tp_size: int | None = None
    """Ranks that share dense MLPs and shared experts; None: those of a replica where experts are dealt out over
    replicas, else all of a stage."""

    def __post_init__(self) -> None:
        """Raises InputError for sizes that no instance can have."""
        for key in KEYS:
            size = getattr(self, f"{key}_size")
            if not 1 <= size <= MOST_RANKS:
                shown = printable(str(size), MOST_SHOWN)
                raise InputError(InputProblem("layout", key, f"is {shown}", f"a whole number from 1 to {MOST_RANKS:,}"))
        if self.stage_size % self.ep_size:
            message = f"is {self.ep_size}, which does not divide the {self.stage_size} ranks of a stage"
            raise InputError(InputProblem("layout", "ep", message, "a divisor of tp x dp"))
        dense, tp = self.dense_tp_size, self.tp_size
        if dense is not None and (dense < 1 or self.stage_size % dense or (tp % dense and dense % tp)):
            allowed = "a divisor of tp, or a multiple of it that divides tp x dp"
            raise InputError(InputProblem("layout", DENSE, f"is {dense} with tp={tp} and dp={self.dp_size}", allowed))

    @classmethod
    def parse(cls, text: str) -> Self:
        """A layout from text such as tp=8,ep=1,dp=1,pp=1; what is not named is 1.

        Raises:
            InputError: not such a text.

        >>> Layout.parse("tp=4,dp=2,ep=8").n_accelerators
        8
        """
        sizes: dict[str, int] = {}
        for item in text.split(","):
            found = re.fullmatch(r"\s*([a-z_]+)\s*=\s*(\d{1,5})\s*", item)
            if not found:
                raise InputError(InputProblem("layout", "", f"{item!r} is no size", "such as tp=8,ep=1,dp=1,pp=1"))
            key = found[1]
            if key not in (*KEYS, DENSE):
                raise InputError(
                    InputProblem("layout", key, "is no kind of parallelism", did_you_mean(key, (*KEYS, DENSE)))
                )
            if key in sizes:
                raise InputError(InputProblem("layout", key, "is given twice", "each size once"))
            sizes[key] = int(found[2])
        return cls(**{f"{key}_size": size for key, size in sizes.items()})

    @property
    def stage_size(self) -> int:
        """Ranks of one pipeline stage, tp x dp."""
        return self.tp_size * self.dp_size

    @property
    def deals_out_experts(self) -> bool:
        """True if tokens of attention replicas travel to ranks that hold their experts."""
        return self.dp_size > 1 and self.ep_size > 1

    def dense_ranks(self, has_experts: bool) -> int:
        """Ranks that share dense MLPs and shared experts.

        >>> [Layout.parse(f"tp=2,dp=4,{rest}").dense_ranks(True) for rest in ("ep=1", "ep=8", "ep=8,dense_tp=1")]
        [8, 2, 1]
        """
        if self.dense_tp_size is not None:
            return self.dense_tp_size
        return self.tp_size if has_experts and self.deals_out_experts else self.stage_size

    @property
    def n_accelerators(self) -> int:
        """Accelerators of the instance, tp x dp x pp."""
        return self.stage_size * self.pp_size

    def __str__(self) -> str:
        """As `parse` reads it."""
        sizes = ",".join(f"{key}={getattr(self, f'{key}_size')}" for key in KEYS)
        return sizes if self.dense_tp_size is None else f"{sizes},{DENSE}={self.dense_tp_size}"
