"""The fleet that stands, as tables for a terminal of a hundred columns."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.report import bottleneck_text, formats
from planner.report.schedule_tables import replicas_table
from planner.report.table import Table
from planner.report.terminal import printed, remarks
from planner.results.current import BrokenStep, Current, Order, Step, StepRun, TargetFleet
from planner.units import DASH, number, percent, usd

if TYPE_CHECKING:
    from rich.console import RenderableType

STAY, CHANGE, OPTIMUM = "stay", "cheapest change", "optimum"


def current_tables(current: Current) -> list["RenderableType"]:
    """Tables and remarks on what to do with the fleet that stands, for people.

    Args:
        current: the fleet that stands beside the plan.
    """
    parts = [
        printed(ways_table(current)),
        remarks("the fleet that stands", map(formats.sentence, _standing(current))),
        remarks("what binds it", [formats.sentence(bottleneck_text.bottleneck(item)) for item in current.binds]),
    ]
    parts += [printed(hours_table(name, way)) for name, way in ((STAY, current.stay), *_others(current))]
    for name, way in _others(current):
        if way.order is not None:
            parts += [printed(steps_table(name, way.order)), remarks(f"on the way to the {name}", _order(way.order))]
    parts.append(remarks("notes on the fleet that stands", map(formats.sentence, current.notes)))
    return [part for part in parts if part is not None]


def hours_table(name: str, way: TargetFleet) -> Table:
    """Instances by period of what follows the periods; no rows where nothing does."""
    title = "as it is rented" if name == STAY else f"as the {name} is rented"
    return replicas_table(f"instances by period, {title}", way.schedule)


def _others(current: Current) -> list[tuple[str, TargetFleet]]:
    """Fleets to change to, each once."""
    change, optimum = current.change, current.optimum
    if change is None or change == optimum:
        return [(OPTIMUM, optimum)]
    return [(CHANGE, change), (OPTIMUM, optimum)]


def ways_table(current: Current) -> Table:
    """Table of the ways on, with what they cost and how long they last."""
    headings = ("what to do", "instances", "change", ">USD/h", ">more", ">serves", "does", ">breaks in")
    ways = [(STAY, current.stay)]
    if current.change is not None and current.change != current.optimum:
        ways.append((CHANGE, current.change))
    ways.append((OPTIMUM, current.optimum))
    rows = ((name, *_way_cells(way, current)) for name, way in ways)
    demand = "" if current.demand_req_per_s is None else f"; {formats.figure(current.demand_req_per_s)} are asked for"
    most = ", the most in any period" if any(way.schedule for _, way in ways) else ""
    text = f"instances: {' / '.join(current.stay.n_instances)}{most}; serves: req/s at most, as promised{demand}"
    return Table.of("what to run now", headings, rows, text)


def _way_cells(way: TargetFleet, current: Current) -> tuple[str, ...]:
    names = list(current.stay.n_instances)
    sizes = " / ".join(str(way.n_instances.get(name, 0)) for name in [*names, *(set(way.n_instances) - set(names))])
    return (
        sizes,
        change(way),
        usd(way.usd_per_hour),
        usd(way.difference_usd_per_hour),
        formats.figure(way.serves_req_per_s),
        "yes" if way.holds else "no",
        lasts(way, None if current.demand_req_per_s is None else current.growth_fraction_per_month),
    )


def change(way: TargetFleet) -> str:
    """Instances that are added and removed.

    >>> change(TargetFleet.model_construct(added={"pd-p": 2}, removed={"pd-d": 1}))
    '+2 pd-p, -1 pd-d'
    """
    added = [f"+{n} {name}" for name, n in way.added.items()]
    return ", ".join([*added, *(f"-{n} {name}" for name, n in way.removed.items())]) or DASH


def lasts(way: TargetFleet, growth_fraction_per_month: float | None) -> str:
    """Time for which a fleet does, and the day to which."""
    if way.breaks_in_months is None:
        return DASH if growth_fraction_per_month is None else "never"
    if way.breaks_in_months == 0:
        return "now"
    months = f"{way.breaks_in_months:.1f} months"
    return months if way.breaks_on is None else f"{months}, {way.breaks_on}"


def _standing(current: Current) -> Iterator[str]:
    stay = current.stay
    if current.demand_req_per_s is not None:
        serves = f"{formats.figure(stay.serves_req_per_s)} of {formats.figure(current.demand_req_per_s)} req/s"
        yield f"it does: it serves up to {serves}" if stay.holds else f"it does not do: it serves {serves} as promised"
    if current.stays_at_threshold is False and stay.holds:
        yield f"its threshold does not do: {number(stay.threshold_tokens)} tokens would"
    busy = max(stay.utilization, key=lambda name: stay.utilization[name], default=None)
    if busy is not None:
        yield f"its busiest part is {busy}, {percent(stay.utilization[busy])}"
    if current.growth_fraction_per_month is not None:
        growth = f"the demand grows by {percent(current.growth_fraction_per_month)} a month, compound"
        yield growth if current.demand_req_per_s is not None else f"{growth}; none is stated, so nothing breaks"


def steps_table(name: str, order: Order) -> Table:
    """The steps of an order, with what the fleet serves after each."""
    was_run = any(step.run is not None for step in order.steps)
    headings = ["", "step", ">threshold", ">serves req/s", "does", ">USD/h", *([">TTFT in the run"] if was_run else [])]
    rows = (
        (str(i), _step(step), *_step_cells(step), *([_run(step.run)] if was_run else []))
        for i, step in enumerate(order.steps, 1)
    )
    text = "set a step's threshold after what it adds, and before what it takes out"
    return Table.of(
        f"steps to the {name}", headings, rows, text if any(s.threshold_tokens for s in order.steps) else ""
    )


def _step(step: Step) -> str:
    table, _, rest = step.changes.partition(".")
    name, is_link = rest.rpartition(".")[0], table == "links"
    unit = " Gbps" if is_link else ""
    verb = "add to" if step.after > step.before else "take out of"
    if is_link:
        verb = "widen" if step.after > step.before else "narrow"
    return f"{verb} {name}: {number(step.before)} to {number(step.after)}{unit}"


def _step_cells(step: Step) -> tuple[str, ...]:
    return (
        number(step.threshold_tokens),
        formats.figure(step.serves_req_per_s),
        "yes" if step.holds else "no",
        usd(step.usd_per_hour),
    )


def _run(run: StepRun | None) -> str:
    """Outcome of a promise in a run."""
    if run is None:
        return DASH
    kept = {True: "kept", False: "broken", None: "too close to tell"}[run.holds]
    return f"P{run.percentile:g} {formats.seconds(run.executed_s)} of {formats.seconds(run.promised_s)}, {kept}"


def _order(order: Order) -> list[str]:
    """Lines that say if there is an order of steps, and what breaks every one."""
    least = f"{formats.figure(order.least_req_per_s)} req/s"
    if order.exists is None:
        return ["Whether there is an order in which nothing is lost was not found out in the time."]
    if order.exists:
        return [f"After every step at least {least} are served, and while a step is done too."]
    broken = [] if order.broken is None else [formats.sentence(_broken(order.broken, least))]
    spare = formats.listed([f"{n} of {name}" for name, n in order.spare_instances.items()])
    return [
        "No order of steps within the stock serves what is asked for throughout.",
        *broken,
        f"The steps above do, with spare instances for a while: {spare}.",
    ]


def _broken(broken: BrokenStep, least: str) -> str:
    pool = broken.changes.split(".", 1)[1].removesuffix(".n_instances")
    lacks = f"{pool} has to grow, and {broken.lacks_accelerators} {broken.hardware} are missing at {broken.site}"
    if broken.removal is None:
        return lacks
    return f"{lacks}; one {broken.removal} less leaves {formats.figure(broken.serves_req_per_s)} of {least}"
