"""Differences between two plans: figures, decisions, what binds, inputs that caused them; and conditions on them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from planner.errors import UndecidedError, UsageError, did_you_mean, printable
from planner.results.fleet_merit import PERCENTILES
from planner.results.plan import ClassPlan, Plan
from planner.results.plan_diff import BindChange, FigureChange, PlanDiff, PlanSide, ValueChange
from planner.results.plan_parts import PlanInputs
from planner.units import HOURS_PER_MONTH, MILLI, exact_number

SOLVER_NOISE = 1e-6
"""Relative difference that is rounding of solvers."""
MOST_NOISE = 0.01
"""Relative difference beyond which a figure is another one, however wide the plans' gaps are."""
POOL_FIELDS = (
    "n_instances",
    "accelerators_per_instance",
    "hardware",
    "site",
    "role",
    "prompts",
    "layout",
    "stack",
    "precision",
    "kv_precision",
    "batch_limit",
    "basis",
)
LINK_FIELDS = ("n_ports", "port_gbps", "capacity_gbps")


class _Figure(NamedTuple):
    """A figure of one plan."""

    title: str
    unit: str
    value: float | None
    promised: float | None = None


def plan_diff(before: tuple[str, Plan], after: tuple[str, Plan]) -> PlanDiff:
    """Two plans side by side.

    Args:
        before: name and plan to compare with.
        after: name and plan to compare.

    Returns:
        All figures, and of everything else what differs.
    """
    mine, theirs = dict(_decisions(before[1], after[1])), dict(_decisions(after[1], before[1]))
    noise = _Noise(SOLVER_NOISE if mine == theirs else _noise_of_search(before[1], after[1]))
    figures = tuple(_figures(before[1], after[1], noise))
    answers = tuple(_values(mine, theirs, noise))
    inputs = tuple(_inputs(before[1].inputs, after[1].inputs))
    binds = tuple(_binds(before[1], after[1], noise))
    told = [figure.is_changed for figure in figures] + [bind.is_changed for bind in binds]
    return PlanDiff(
        before=_side(*before),
        after=_side(*after),
        is_changed=any(told) or bool(answers or inputs),
        noise_fraction=noise.fraction,
        figures=figures,
        answers=answers,
        inputs=inputs,
        inputs_unknown=tuple(name for name, plan in (before, after) if plan.inputs is None),
        binds=binds,
        n_unchanged=told.count(False) + len(mine.keys() | theirs.keys()) - len(answers),
        n_within_gaps=noise.n_hidden,
    )


def _side(name: str, plan: Plan) -> PlanSide:
    version = None if plan.inputs is None else plan.inputs.planner
    return PlanSide(name=name, scenario=plan.scenario, status=plan.status, gap=plan.gap, planner=version)


def _noise_of_search(before: Plan, after: Plan) -> float:
    """Relative difference between figures of two fleets that searches of some time may leave, and nobody would act on.

    A fleet that stays as it is has no such noise: what its figures differ by comes from the inputs.
    """
    return min(max(before.gap + after.gap, SOLVER_NOISE), MOST_NOISE)


class _Noise:
    """Tolerance within which figures may differ before that is told; counts those that do."""

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction
        self.n_hidden = 0

    def differ(self, before: Any, after: Any) -> bool:
        """True if two values differ; figures by more than the noise."""
        if before == after:
            return False
        if not (_is_measure(before) and _is_measure(after)):
            return True
        is_hidden = abs(after - before) <= self.fraction * max(abs(before), abs(after))
        self.n_hidden += is_hidden
        return not is_hidden


def _is_measure(value: Any) -> bool:
    """True if a value is measured rather than counted or chosen."""
    return isinstance(value, float)


def _figures(before: Plan, after: Plan, noise: _Noise) -> Iterator[FigureChange]:
    mine, theirs = dict(_figures_of(before)), dict(_figures_of(after))
    for name in dict.fromkeys([*mine, *theirs]):
        either = mine.get(name) or theirs[name]
        a, b = (side.get(name, either._replace(value=None, promised=None)) for side in (mine, theirs))
        if a.value is None and b.value is None and a.promised is None and b.promised is None:
            continue
        yield FigureChange(
            name=name,
            title=either.title,
            unit=either.unit,
            before=a.value,
            after=b.value,
            promised_before=a.promised,
            promised_after=b.promised,
            is_changed=noise.differ(a.value, b.value) or a.promised != b.promised,
        )


def _figures_of(plan: Plan) -> Iterator[tuple[str, _Figure]]:
    cost, latency = plan.cost, plan.latency
    usd = cost.usd_per_hour
    yield "usd_per_hour", _Figure("cost per hour", "USD/h", usd)
    yield "usd_per_month", _Figure("cost per month of 730 h", "USD", None if usd is None else usd * HOURS_PER_MONTH)
    for kind in ("input", "output"):
        name = f"usd_per_million_{kind}_tokens"
        yield name, _Figure(f"cost per million {kind} tokens", "USD", getattr(cost, name))
    yield "throughput_req_per_s", _Figure("rate", "req/s", plan.throughput_req_per_s)
    yield "max_throughput_req_per_s", _Figure("highest rate", "req/s", plan.max_throughput_req_per_s)
    yield "goodput_req_per_s", _Figure("highest rate as promised", "req/s", plan.goodput_req_per_s)
    yield "offload_fraction", _Figure("prompts prefilled elsewhere", "fraction", plan.offload_fraction)
    yield "n_accelerators", _Figure("accelerators", "", plan.n_accelerators)
    for part in plan.classes:
        yield from _promises_of(part)
    for name, title in (("ttft_mean_s", "mean TTFT"), ("ttft_p90_s", "TTFT P90"), ("ttft_p99_s", "TTFT P99")):
        yield name, _Figure(title, "s", getattr(latency, name))
    for name, title in (("ttft_unloaded_mean_s", "mean"), ("ttft_unloaded_p90_s", "P90")):
        yield name, _Figure(f"TTFT {title} without waiting", "s", getattr(latency, name))
    yield "tpot_mean_s", _Figure("mean TPOT", "s", latency.tpot_mean_s)


def _promises_of(part: ClassPlan) -> Iterator[tuple[str, _Figure]]:
    """Promises to a class beside what is predicted of them, where the plan states that."""
    slo = part.slo or {}
    if "ttft_s" in slo:
        percentile = f"p{slo.get('ttft_percentile', 90.0):g}"
        known = f"ttft_{percentile}_s" if float(percentile[1:]) in PERCENTILES else ""
        name = f"classes.{part.name}.ttft_{percentile}_s"
        title = f"predicted TTFT {percentile.upper()} of {part.name}"
        yield name, _Figure(title, "s", getattr(part.latency, known, None), slo["ttft_s"])
    if "tpot_ms" in slo:
        name, title = f"classes.{part.name}.tpot_s", f"predicted TPOT of {part.name}"
        yield name, _Figure(title, "s", part.latency.tpot_mean_s, slo["tpot_ms"] * MILLI)


def _decisions(plan: Plan, other: Plan) -> Iterator[tuple[str, Any]]:
    """Decisions of a plan, by key; a pool or link that the other plan lacks is one decision."""
    yield "verdict.recommendation", plan.verdict.recommendation or "undecided"
    yield "verdict.worth_it", plan.verdict.worth_it if plan.verdict.decided else "undecided"
    if (apart := plan.verdict.disaggregation) is not None:
        yield "verdict.disaggregation.worth_it", apart.worth_it if apart.decided else "undecided"
    yield "prefill_to_decode", plan.prefill_to_decode
    pools, links = ({item.name for item in items} for items in (other.pools, other.links))
    for pool in plan.pools:
        if pool.name in pools:
            yield from ((f"pools.{pool.name}.{name}", getattr(pool, name)) for name in POOL_FIELDS)
        else:
            n = pool.accelerators_per_instance or (pool.n_instances and pool.n_accelerators // pool.n_instances)
            yield f"pools.{pool.name}", f"{pool.n_instances} x {n} {pool.hardware} at {pool.site}: {pool.role}"
    for link in plan.links:
        if link.name in links:
            yield from ((f"links.{link.name}.{name}", getattr(link, name)) for name in LINK_FIELDS)
        else:
            yield f"links.{link.name}", f"{link.capacity_gbps:g} Gbps from {link.from_site} to {link.to_site}"
    yield from _thresholds(plan)
    yield "survives", list(plan.survives)


def _thresholds(plan: Plan) -> Iterator[tuple[str, float | None]]:
    """Uncached tokens beyond which prompts may leave, by class, or by period, class and site; None: none do."""
    if not plan.periods:
        for part in plan.classes:
            yield f"classes.{part.name}.threshold_tokens", part.threshold_tokens
    for period in plan.periods:
        for class_name, sites in period.thresholds.items():
            for site, tokens in sites.items():
                yield f"periods.{period.name}.thresholds.{class_name}.{site}", tokens


def _values(before: Mapping[str, Any], after: Mapping[str, Any], noise: _Noise) -> Iterator[ValueChange]:
    for key in _joined(before, after):
        mine, theirs = before.get(key), after.get(key)
        if noise.differ(mine, theirs):
            yield ValueChange(key=key, before=mine, after=theirs)


def _joined(before: Iterable[str], after: Iterable[str]) -> Iterator[str]:
    """Keys of both, those of one side only after the others."""
    return iter(dict.fromkeys([*before, *after]))


def _inputs(before: PlanInputs | None, after: PlanInputs | None) -> Iterator[ValueChange]:
    """Inputs that differ; a profile or trace that one side does not use follows from the scenario."""
    if before is None or after is None:
        return
    yield from _differing("", {"planner": before.planner}, {"planner": after.planner})
    yield from _differing("", before.scenario, after.scenario)
    for name in sorted(before.profiles.keys() & after.profiles.keys()):
        yield from _differing(f"{name}: ", before.profiles[name], after.profiles[name])
    both = before.data.keys() & after.data.keys()
    yield from _differing("trace ", *({k: side.data[k] for k in sorted(both)} for side in (before, after)))


def _differing(prefix: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ValueChange]:
    for key in _joined(before, after):
        mine, theirs = before.get(key), after.get(key)
        if (key in before) != (key in after) and any(one.startswith(f"{key}.") for one in (*before, *after)):
            continue  # an empty table of one side, which the other fills
        if _plain(mine) != _plain(theirs):
            yield ValueChange(key=f"{prefix}{key}", before=mine, after=theirs)


def _plain(value: Any) -> Any:
    """A value as it compares after a round through JSON."""
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _binds(before: Plan, after: Plan, noise: _Noise) -> Iterator[BindChange]:
    mine, theirs = ({b.constraint: b for b in plan.bottlenecks} for plan in (before, after))
    for name in _joined(mine, theirs):
        known = theirs.get(name) or mine[name]
        a, b = (side[name].shadow_price if name in side else None for side in (mine, theirs))
        yield BindChange(constraint=name, unit=known.unit, before=a, after=b, is_changed=noise.differ(a, b))


FIGURES = {
    "cost": "usd_per_hour",
    "cost-per-month": "usd_per_month",
    "cost-per-million-input-tokens": "usd_per_million_input_tokens",
    "cost-per-million-output-tokens": "usd_per_million_output_tokens",
    "rate": "throughput_req_per_s",
    "highest-rate": "max_throughput_req_per_s",
    "goodput": "goodput_req_per_s",
    "accelerators": "n_accelerators",
    "ttft": "ttft_mean_s",
    "ttft-p90": "ttft_p90_s",
    "ttft-p99": "ttft_p99_s",
    "tpot": "tpot_mean_s",
}
"""Names of figures in a condition, and the fields they are."""
CONDITION = re.compile(r"\s*([\w-]+)\s*([<>])\s*([+-]?)\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)\s*", re.ASCII)
ALLOWED = "NAME>NUMBER or NAME<NUMBER, such as cost>+5%, rate<-2%, cost>+100 (more by 100), cost>900 (900 in all)"
CHARACTERS = 100


@dataclass(frozen=True)
class Condition:
    """A limit on a figure of the second plan, or on its change."""

    text: str
    name: str
    is_above: bool
    limit: float
    is_change: bool
    """Whether it is about the change rather than about the figure of the second plan."""
    is_fraction: bool

    @classmethod
    def parsed(cls, text: str) -> Self:
        """The condition of a text. With a sign or `%` it is about the change, else about the figure itself.

        Raises:
            UsageError: it is none; the message says what is allowed.

        >>> Condition.parsed("cost>+5%").limit, Condition.parsed("rate < -0.5").is_fraction
        (0.05, False)
        """
        found, shown = CONDITION.fullmatch(text), printable(text, CHARACTERS)
        if not found:
            raise UsageError(f"--fail-on {shown!r}: is no condition ({ALLOWED})")
        name, relation, sign, number, unit = found.groups()
        if name not in FIGURES:
            raise UsageError(f"--fail-on {shown!r}: {name!r} is no figure ({did_you_mean(name, FIGURES)})")
        limit = float(f"{sign}{number}") / (100 if unit else 1)
        return cls(text.strip(), name, relation == ">", limit, bool(sign or unit), bool(unit))

    def broken_by(self, found: PlanDiff) -> str | None:
        """The figure that makes it true of a difference, in words; None where it is not true.

        Raises:
            UndecidedError: a plan does not state the figure.
        """
        figure = found.figure(FIGURES[self.name])
        value = None if figure is None else self._value(figure)
        if figure is None or value is None:
            both = "a plan does" if self.is_change else f"{found.after.name} does"
            raise UndecidedError(f"--fail-on {self.text}: not known, for {both} not state {FIGURES[self.name]}")
        if (value > self.limit) if self.is_above else (value < self.limit):
            return f"{self.text}: {_words(figure)}"
        return None

    def _value(self, figure: FigureChange) -> float | None:
        if not self.is_change:
            return figure.after
        return figure.change_fraction if self.is_fraction else figure.change


def breaches(found: PlanDiff, conditions: Iterable[Condition]) -> tuple[list[str], list[str]]:
    """Breaches of conditions, in words, and the conditions that are not known."""
    broken: list[str] = []
    unknown: list[str] = []
    for condition in conditions:
        try:
            broken += filter(None, [condition.broken_by(found)])
        except UndecidedError as error:
            unknown.append(str(error))
    return broken, unknown


def _words(figure: FigureChange) -> str:
    """Both figures, and the change where there were two."""
    fraction = figure.change_fraction
    texts = ["unknown" if value is None else exact_number(round(value, 6)) for value in (figure.before, figure.after)]
    by = "" if fraction is None else f" ({100 * fraction:+.2f} %)"
    return f"{figure.title} {texts[0]} -> {texts[1]} {figure.unit}".rstrip() + by
