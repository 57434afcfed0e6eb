"""Verdict on prefill and decode apart against one batch, by what both cost and by their runs."""

from typing import Literal

from planner.results.plan import Plan
from planner.results.size import SizeVerdict
from planner.ties import exceeds
from planner.units import number


def size_verdict(together: Plan | None, apart: Plan | None, mixed: Plan | None = None) -> SizeVerdict:
    """The verdict on the best fleets of each kind.

    Args:
        together: the colocated one; None: none is known to serve the demand as promised.
        mixed: one with pools of both kinds, that is better than either; None: there is none.

    Returns:
        Worth it where fleets with prefill apart cost less by more than rounding; decided where runs bear out every
        promise of the fleets that are compared.
    """
    best_apart = mixed or apart
    saved = _saved_fraction(together, best_apart)
    because = _because(together, best_apart, saved, is_mixed=mixed is not None)
    compared = [plan for plan in (together, best_apart) if plan is not None]
    open_ = next((plan for plan in compared if plan.slo_run is not None and not plan.slo_run.holds), None)
    if open_ is not None and open_.slo_run is not None:
        whose = "the colocated fleet" if open_ is together else "the fleet with prefill apart"
        because = f"{because}; but whether {whose} keeps its promise is {_open_text(open_.slo_run.outcome)}"
    is_apart = together is None if saved is None else saved > 0
    better: Literal["separate", "colocated"] = "separate" if is_apart else "colocated"
    kind = None if open_ is not None or saved == 0 else better
    return SizeVerdict(
        recommendation=kind,
        worth_it=kind == "separate",
        decided=open_ is None,
        because=because,
        margin_fraction=saved,
    )


def _open_text(outcome: str) -> str:
    words = {"not run": "not run", "undecided": "undecided: its run was too short to tell"}
    return words.get(outcome, "denied by its run")


def _saved_fraction(together: Plan | None, apart: Plan | None) -> float | None:
    """Share of the bill of a colocated fleet that prefill and decode apart save; 0 but for rounding is 0."""
    if together is None or apart is None:
        return None
    a, b = (plan.cost.usd_per_hour or 0.0 for plan in (together, apart))
    return 1 - b / a if exceeds(a, b) or exceeds(b, a) else 0.0


def _because(together: Plan | None, apart: Plan | None, saved: float | None, *, is_mixed: bool) -> str:
    name = "pools of both kinds" if is_mixed else "prefill and decode pools"
    if together is None or apart is None:
        return f"only {name if together is None else 'a colocated fleet'} can keep the promises"
    a, b = (number(plan.cost.usd_per_hour, 4) for plan in (together, apart))
    if saved == 0:
        return f"both cost {a} USD/h, {name} and a colocated fleet"
    return f"{b} USD/h for {name}, {a} for a colocated fleet"
