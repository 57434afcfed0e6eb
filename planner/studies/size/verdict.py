"""Whether prefill and decode pools are worth it against a colocated one, by what both cost and by their runs."""

from planner.results import SizedFleet, SizedSloRun, SizeVerdict
from planner.ties import exceeds
from planner.units import number

NOT_COMPARED = SizeVerdict(
    worth_it=False,
    decided=False,
    because="colocated pools with drafted tokens are not modelled, so there is nothing to compare with",
)


def verdict(together: SizedFleet | None, apart: SizedFleet | None) -> SizeVerdict:
    """The verdict on two fleets.

    Args:
        together: the colocated one; None: none keeps the promises.
        apart: the one of prefill and decode pools.

    Returns:
        Worth it where it costs less by more than rounding; decided where the runs bear out every promise.
    """
    saved = _saved_fraction(together, apart)
    because = _because(together, apart, saved)
    runs = [run for fleet in (together, apart) if fleet is not None for run in (fleet.slo_run, fleet.tpot_run)]
    if (open_ := next((run for run in runs if run is not None and not run.holds), None)) is not None:
        said = "is broken in its run" if open_.decided else undecided_text(open_)
        what = "to the first token" if open_.metric == "ttft" else "per output token"
        because = f"{because}; but the promise on the time {what} {said}"
    is_worth_it = together is None if saved is None else saved > 0
    return SizeVerdict(
        worth_it=is_worth_it and open_ is None, decided=open_ is None, because=because, margin_fraction=saved
    )


def undecided_text(run: SizedSloRun) -> str:
    """Why a promise is not decided."""
    if run.basis == "predicted":
        return "was not run"
    return f"is undecided: its run was too short to tell ({number(run.ci_low_s, 4)} to {number(run.ci_high_s, 4)} s)"


def _saved_fraction(together: SizedFleet | None, apart: SizedFleet | None) -> float | None:
    """What prefill and decode pools save of the bill of a colocated one; 0 but for rounding is 0."""
    if together is None or apart is None:
        return None
    a, b = (fleet.cost.usd_per_hour or 0.0 for fleet in (together, apart))
    return 1 - b / a if exceeds(a, b) or exceeds(b, a) else 0.0


def _because(together: SizedFleet | None, apart: SizedFleet | None, saved: float | None) -> str:
    if together is None or apart is None:
        return f"only {'prefill and decode pools' if together is None else 'a colocated pool'} can keep the promises"
    a, b = (number(fleet.cost.usd_per_hour, 4) for fleet in (together, apart))
    if saved == 0:
        return f"both cost {a} USD/h, prefill and decode pools and a colocated pool"
    return f"{b} USD/h for prefill and decode pools, {a} for a colocated pool"
