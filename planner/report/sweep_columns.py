"""Columns that describe every plan of a sweep: over all pools, links, classes and periods of its plans."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from planner.report import formats, phrases
from planner.report.table import MARK
from planner.results.plan import ClassPlan, Plan
from planner.results.plan_parts import Latency
from planner.results.plan_sweep import PlanSweep
from planner.units import DASH, number, usd

Value = float | str | None
RATES = ("throughput_req_per_s", "max_throughput_req_per_s", "goodput_req_per_s", "threshold_tokens")
COSTS = ("usd_per_hour", "usd_per_million_input_tokens", "usd_per_million_output_tokens")
LOADED = ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s")

TAILS = {"P50": "ttft_p50_s", "P90": "ttft_p90_s", "P99": "ttft_p99_s"}
ALONE = {"mean": "ttft_unloaded_mean_s", "P90": "ttft_unloaded_p90_s"}


@dataclass(frozen=True)
class Column:
    """A heading and the cell that every plan has under it."""

    heading: str
    cell: Callable[[Plan], Value]
    """None where the plan does not say."""


def csv_columns(found: PlanSweep) -> list[Column]:
    """Every figure of the plans, named by its key and unit; numbers as they are."""
    plans = found.plans
    return [
        Column("recommendation", lambda plan: plan.verdict.recommendation or ""),
        Column("worth_it", lambda plan: str(plan.verdict.worth_it).lower()),
        Column("verdict_decided", lambda plan: str(plan.verdict.decided).lower()),
        *(_field("", name, lambda plan: plan) for name in (*RATES, "offload_fraction")),
        *_thresholds(plans),
        *(Column(f"n_{name}", _instances(name)) for name in swept_pools(plans)),
        *(
            _field(f"{name}_", field, _link(name))
            for name in _links(plans)
            for field in ("capacity_gbps", "mean_gbps", "utilization")
        ),
        *(_field("", name, lambda plan: plan.cost) for name in COSTS),
        *(_field("", name, lambda plan: plan.latency) for name in Latency.model_fields),
        *(_class_latency(name, field) for name in _classes(plans) for field in LOADED),
    ]


def table_columns(found: PlanSweep) -> list[Column]:
    """Columns to compare, as texts; lines of a heading are apart, and a MARK aligns a column to the right."""
    plans = found.plans
    return [
        Column(f"{MARK}req/s\nat most", lambda plan: number(plan.most_req_per_s)),
        Column(f"{MARK}USD/h", lambda plan: usd(plan.cost.usd_per_hour)),
        *([Column("worth\nit", phrases.worth_it)] if _links(plans) else []),
        *(Column(MARK + _in_lines(name), _shown(_instances(name))) for name in swept_pools(plans)),
        *(Column(f"{MARK}{_in_lines(name)}\nGbps", _rented(name)) for name in _links(plans)),
        *_shown_thresholds(plans),
        *_shown_latencies(plans),
    ]


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def swept_pools(plans: list[Plan]) -> list[str]:
    """Pools of any of the plans."""
    return _union([pool.name for pool in plan.pools] for plan in plans)


def _links(plans: list[Plan]) -> list[str]:
    return _unique(link.name for plan in plans for link in plan.links)


def _classes(plans: list[Plan]) -> list[str]:
    """Names of the classes where there are several: one alone is the whole plan."""
    names = _unique(c.name for plan in plans for c in plan.classes)
    return names if len(names) > 1 else []


def _union(lists: Iterable[list[str]]) -> list[str]:
    """Every name once, in an order that is that of each list.

    >>> _union([["decode", "far"], ["near", "decode"]])
    ['near', 'decode', 'far']
    """
    found: list[str] = []
    for names in lists:
        place = len(found)
        for name in reversed(names):
            if name in found:
                place = found.index(name)
            else:
                found.insert(place, name)
    return found


def _named(items: Iterable[Any], name: str) -> Any:
    return next((item for item in items if item.name == name), None)


def _instances(name: str) -> Callable[[Plan], Value]:
    """Instances of a pool; nothing where a plan is without it."""
    return lambda plan: None if (pool := _named(plan.pools, name)) is None else pool.n_instances


def _link(name: str) -> Callable[[Plan], Any]:
    return lambda plan: _named(plan.links, name)


def _rented(name: str) -> Callable[[Plan], Value]:
    def cell(plan: Plan) -> Value:
        link = _named(plan.links, name)
        return DASH if link is None else number(link.capacity_gbps)

    return cell


def _field(prefix: str, name: str, part: Callable[[Plan], Any]) -> Column:
    """A field of a part of the plan; nothing where the plan is without that part."""
    return Column(f"{prefix}{name}", lambda plan: getattr(part(plan), name, None))


def _shown(cell: Callable[[Plan], Value]) -> Callable[[Plan], Value]:
    return lambda plan: DASH if (value := cell(plan)) is None else str(value)


def _in_lines(name: str) -> str:
    """A long name with a line for each of its parts, as far as they fill one.

    >>> _in_lines("virginia-prefill-long"), _in_lines("pd-p")
    ('virginia-\\nprefill-\\nlong', 'pd-p')
    """
    return name if len(name) <= 10 else name.replace("-", "-\n")


# Thresholds: of the only class, of every class, or of every class at every site in every period.


def _thresholds(plans: list[Plan]) -> Iterator[Column]:
    for name in _classes(plans):
        yield Column(f"{name}_threshold_tokens", _of_class(name, lambda c: c.threshold_tokens))
    places = _unique_places(plans)
    for place in places:
        yield Column("_".join((*place, "threshold_tokens")), _of_place(place))


def _unique_places(plans: list[Plan]) -> list[tuple[str, str, str]]:
    """Periods, classes and sites that have a threshold."""
    return list(dict.fromkeys(place for plan in plans for place in _by_place(plan)))


def _by_place(plan: Plan) -> dict[tuple[str, str, str], float | None]:
    return {
        (period.name, name, site): tokens
        for period in plan.periods
        for name, sites in period.thresholds.items()
        for site, tokens in sites.items()
    }


def _of_place(place: tuple[str, str, str]) -> Callable[[Plan], Value]:
    return lambda plan: _by_place(plan).get(place)


def _of_class(name: str, value: Callable[[ClassPlan], Value]) -> Callable[[Plan], Value]:
    return lambda plan: None if (found := _named(plan.classes, name)) is None else value(found)


def _shown_thresholds(plans: list[Plan]) -> Iterator[Column]:
    """Thresholds of the classes that have one in any plan: at one site nothing is divided."""
    names = _unique(c.name for plan in plans for c in plan.classes)
    for name in names:
        label, cell = f"\n{_in_lines(name)}" if len(names) > 1 else "", _threshold_text(name)
        if any(cell(plan) != DASH for plan in plans):
            yield Column(f"{MARK}threshold{label}", cell)


def _threshold_text(name: str) -> Callable[[Plan], Value]:
    """The threshold of a class, or the least and the greatest that it has in any period at any site."""

    def cell(plan: Plan) -> Value:
        found = _named(plan.classes, name)
        if found is not None and (told := _divides_nothing(plan, found)):
            return told
        known = [t for place, t in _by_place(plan).items() if place[1] == name and t is not None]
        if known:
            low, high = number(min(known)), number(max(known))
            return low if low == high else f"{low} to {high}"
        alone = plan.threshold_tokens if len(plan.classes) == 1 else None
        return DASH if found is None else number(alone if found.threshold_tokens is None else found.threshold_tokens)

    return cell


def _divides_nothing(plan: Plan, one: ClassPlan) -> str:
    """In words where no prompt, or every one, is longer than the threshold: the length itself says nothing then."""
    has_threshold = one.threshold_tokens is not None or plan.threshold_tokens is not None
    if not has_threshold and not any(t is not None for (_, name, _), t in _by_place(plan).items() if name == one.name):
        return ""
    if plan.offload_fraction < phrases.EPSILON:
        return "none leaves" if plan.links else "none is long"
    if plan.offload_fraction > 1 - phrases.EPSILON:
        return "all leave" if plan.links else "all are long"
    return ""


# Latency: under load where any plan knows it, else without waiting; of every class where there are several.


def _shown_latencies(plans: list[Plan]) -> Iterator[Column]:
    """TTFT of all requests; of each class at the percentile that it is promised for, where there are several."""
    is_loaded = any(plan.latency.ttft_mean_s is not None for plan in plans)
    names = _classes(plans) if is_loaded else []
    fields = {"mean": LOADED[0], **(TAILS if not names else {"P90": TAILS["P90"]})} if is_loaded else ALONE
    for label, field in fields.items():
        heading = f"{MARK}TTFT\n{label}" if is_loaded else f"{MARK}no wait:\nTTFT {label}"
        yield Column(heading, _seconds(field, lambda plan: plan.latency))
    for name in names:
        label = _promised_tail(plans, name)
        yield Column(f"{MARK}TTFT {label}\n{_in_lines(name)}", _seconds(TAILS[label], _latency_of(name)))


def _promised_tail(plans: list[Plan], name: str) -> str:
    """The percentile that a class is promised something for; P90 where that is none of those known."""
    promises = (c.slo for plan in plans for c in plan.classes if c.name == name and c.slo)
    label = f"P{next(promises, {}).get('ttft_percentile', 90.0):g}"
    return label if label in TAILS else "P90"


def _latency_of(name: str) -> Callable[[Plan], Latency | None]:
    return lambda plan: None if (found := _named(plan.classes, name)) is None else found.latency


def _seconds(field: str, part: Callable[[Plan], Latency | None]) -> Callable[[Plan], Value]:
    return lambda plan: formats.seconds(getattr(part(plan), field, None))


def _class_latency(name: str, field: str) -> Column:
    return _field(f"{name}_", field, _latency_of(name))
