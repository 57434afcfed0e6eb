"""Laws of plans: what may change in a question, and how its answer has to change with it.

A law makes two questions of one, and says by what factor rates, money and times of the answers differ. Answers are
held against each other through what a plan says alone, so that no law depends on how it is found.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from math import inf, isclose
from pathlib import Path
from typing import Any

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.results.plan import Plan
from planner.scenario import Scenario
from tests.builders import sketch
from tests.campaigns.random_scenarios import Data, scenario_of

PROVEN = 1e-6
"""Relative gap up to which an answer counts as proven optimal, and to which proven ones agree."""
SAME_PLAN = 1e-9
"""To which figures of one plan agree, however the question is written."""
SAME_ROUTING = 1e-3
"""Share of the requests by which two thresholds may differ."""
PERCENTILES = {50.0: "ttft_p50_s", 90.0: "ttft_p90_s", 99.0: "ttft_p99_s"}


@dataclass(frozen=True)
class Answer:
    """What `optimize` said to a question."""

    data: Data
    kind: str
    """plan, infeasible, undecided or refused."""
    plan: Plan | None = None
    words: str = ""

    @property
    def objective(self) -> float:
        """Rate [req/s], bill [USD/h] or TTFT [s], whatever is asked for."""
        plan = self.planned
        if plan.objective == "max-throughput":
            return plan.most_req_per_s
        if plan.objective == "min-cost":
            assert plan.cost.usd_per_hour is not None
            return plan.cost.usd_per_hour
        percentile = self.data.get("slo", {}).get("ttft_percentile", 90.0)
        return float(getattr(plan.latency, PERCENTILES[percentile]))

    @property
    def planned(self) -> Plan:
        """The plan, which there must be."""
        assert self.plan is not None, self.words
        return self.plan

    @property
    def is_proven(self) -> bool:
        """Whether nothing better can exist, but for rounding."""
        return self.planned.status == "optimal" and abs(self.planned.gap) <= PROVEN

    @property
    def sizes(self) -> dict[str, int]:
        """Instances by pool, of those that are there."""
        return {pool.name: pool.n_instances for pool in self.planned.pools if pool.n_instances}


Planner = Callable[[Scenario, Sequence[Path], float], Plan]


def answer_to(data: Data, time_limit_s: float = 20.0, planner: Planner = sketch) -> Answer:
    """What the planner says to a question; other errors than documented ones are raised."""
    try:
        return Answer(data, "plan", planner(scenario_of(data), (), time_limit_s))
    except InfeasibleError as error:
        return Answer(data, "infeasible", words=str(error))
    except UndecidedError as error:
        return Answer(data, "undecided", words=str(error))
    except InputError as error:
        return Answer(data, "refused", words=str(error))


@dataclass(frozen=True)
class Law:
    """A change of a question, and what it makes of the answer."""

    name: str
    questions: Callable[[Data], tuple[Data, Data] | None]
    """The question as it is asked first and as changed; None where the law says nothing about it."""
    rate: float = 1.0
    usd: float = 1.0
    seconds: float = 1.0
    keeps_plan: bool = True
    """Whether sizes and routing stay as well, where the objective and the bill do."""
    never_worse: bool = False
    """Whether the changed question may have a better answer."""
    names: Callable[[str], str] = field(default=lambda name: name)
    """What a pool of the first question is called in the second."""

    def factor(self, objective: str) -> float:
        """By what an objective changes."""
        return {"max-throughput": self.rate, "min-cost": self.usd, "min-ttft": self.seconds}[objective]


def breaks(law: Law, before: Answer, after: Answer) -> Iterator[str]:
    """What is wrong with a pair of answers; each text begins with what it is about."""
    yield from beyond_limits(before)
    yield from beyond_limits(after)
    if "undecided" in (before.kind, after.kind):
        return
    if before.kind != after.kind:
        if not (law.never_worse and after.kind == "plan"):
            words = (before.words + after.words).replace("\n", " ")[:150]
            yield f"kind: {before.kind}, then {after.kind}: {words}"
        return
    if before.kind != "plan":
        return
    factor, is_rate = law.factor(before.planned.objective), before.planned.objective == "max-throughput"
    first, second, bound = before.objective * factor, after.objective, before.planned.bound * factor
    if law.never_worse:
        if _is_better(first, after.planned.bound, is_rate):
            yield f"objective: {first:.9g} beats the bound {after.planned.bound:.9g} of the freer question"
        return
    yield from _objective_breaks(before, after, (first, second, bound), is_rate)
    if before.is_proven and after.is_proven and isclose(first, second, rel_tol=PROVEN):
        yield from _plan_breaks(law, before, after)


def beyond_limits(answer: Answer) -> Iterator[str]:
    """What a plan uses, or lets wait, beyond what its question allows."""
    if answer.plan is None:
        return
    data, plan = answer.data, answer.plan
    used: Counter[tuple[str, str]] = Counter()
    for pool in plan.pools:
        used[pool.site, pool.hardware] += pool.n_accelerators
        stated = data["pools"][pool.key]
        least, most = (stated.get(key) for key in ("min_instances", "max_instances"))
        if not (least or 0) <= pool.n_instances <= (inf if most is None else most):
            yield f"size: {pool.n_instances} of {pool.name}, from {least} to {most} allowed"
    for (site, hardware), n in used.items():
        stock = data["sites"][site].get("accelerators", {}).get(hardware, inf)
        if n > stock and "periods" not in data:  # pools may have their most in turn
            yield f"stock: {n} of {hardware} at {site}, {stock} are there"
    bill, budget = plan.cost.usd_per_hour, data.get("budget_usd_per_hour", inf)
    if bill is not None and bill > budget * (1 + PROVEN):
        yield f"budget: {bill} of {budget} USD/h"
    slo = data.get("slo", {})
    late_s = getattr(plan.latency, PERCENTILES.get(slo.get("ttft_percentile", 90.0), ""), None)
    if "ttft_s" in slo and late_s is not None and late_s > slo["ttft_s"] * (1 + PROVEN):
        yield f"promise: {late_s:.9g} of {slo['ttft_s']} s"


def _is_better(value: float, than: float, is_rate: bool) -> bool:
    """Whether a value is better by more than rounding."""
    return value > than * (1 + PROVEN) if is_rate else value < than * (1 - PROVEN)


def _objective_breaks(
    before: Answer, after: Answer, numbers: tuple[float, float, float], is_rate: bool
) -> Iterator[str]:
    first, second, bound = numbers
    if before.is_proven and after.is_proven and not isclose(first, second, rel_tol=PROVEN):
        yield f"objective: proven {first:.9g}, then proven {second:.9g}"
    elif _is_better(second, bound, is_rate):
        yield f"bound: {second:.9g} beats the bound {bound:.9g} of the first"
    elif _is_better(first, after.planned.bound, is_rate):
        yield f"bound: {first:.9g} beats the bound {after.planned.bound:.9g} of the second"


def _plan_breaks(law: Law, before: Answer, after: Answer) -> Iterator[str]:
    """Of two proven answers of one objective: the bill, the sizes, the routing, and the figures of the same plan."""
    first, second = before.planned, after.planned
    bills = first.cost.usd_per_hour, second.cost.usd_per_hour
    if None not in bills and not isclose((bills[0] or 0) * law.usd, bills[1] or 0, rel_tol=PROVEN):
        yield f"cost: {(bills[0] or 0) * law.usd:.9g}, then {bills[1]:.9g} USD/h"
        return
    if not law.keeps_plan:
        return
    sizes = {law.names(name): n for name, n in before.sizes.items()}
    if sizes != after.sizes:
        yield f"sizes: {sizes}, then {after.sizes} for as much"
    elif abs(first.offload_fraction - second.offload_fraction) > SAME_ROUTING:
        yield f"threshold: {first.offload_fraction:.6g} leave, then {second.offload_fraction:.6g} for as much"
    elif words := next(_other_shares(law, first, second), ""):
        yield f"shares: {words} for as much"
    elif abs(first.offload_fraction - second.offload_fraction) <= SAME_PLAN:
        yield from _figure_breaks(law, first, second)


def _other_shares(law: Law, first: Plan, second: Plan) -> Iterator[str]:
    """Pools that are sent something else."""
    rates = {pool.name: pool.offered_req_per_s for pool in second.pools}
    for pool in first.pools:
        a, b = pool.offered_req_per_s * law.rate, rates.get(law.names(pool.name), 0.0)
        if pool.n_instances and not isclose(a, b, rel_tol=SAME_ROUTING, abs_tol=1e-9):
            yield f"{pool.name} is sent {a:.6g}, then {b:.6g} req/s"


def _figure_breaks(law: Law, first: Plan, second: Plan) -> Iterator[str]:
    """Figures of one plan that differ."""
    pairs: dict[str, tuple[float | None, float | None, float]] = {
        "max_throughput_req_per_s": (first.max_throughput_req_per_s, second.max_throughput_req_per_s, law.rate),
        "goodput_req_per_s": (first.goodput_req_per_s, second.goodput_req_per_s, law.rate),
    }
    for name in type(first.latency).model_fields:
        pairs[name] = getattr(first.latency, name), getattr(second.latency, name), law.seconds
    for name, (a, b, factor) in pairs.items():
        if (a is None) != (b is None):
            yield f"figure {name}: {a}, then {b}"
        elif a is not None and b is not None and not isclose(a * factor, b, rel_tol=1e-6, abs_tol=1e-9):
            yield f"figure {name}: {a * factor:.9g}, then {b:.9g} of the same plan"


# The changes.


def changed(data: Data, change: Callable[[Data], object]) -> Data:
    """A copy of a question with a change made to it."""
    copy = deepcopy(data)
    change(copy)
    return copy


def as_network(data: Data) -> tuple[Data, Data] | None:
    """One constant period says nothing new."""
    if "periods" in data:
        return None
    return data, {**data, "periods": {"all": {"hours": 1.0}}}


def in_halves(data: Data) -> tuple[Data, Data]:
    """The first class in two halves that share its threshold."""
    before = {**data, "routing": {**data.get("routing", {}), "thresholds": "per-model"}}
    return before, _split(before)


def in_free_halves(data: Data) -> tuple[Data, Data]:
    """The first class in two halves, each with a threshold of its own: one more freedom."""
    return data, _split(data)


def _split(data: Data) -> Data:
    classes = data.get("classes") or {"all": {"share": 1.0, "workload": data["workload"]}}
    first = next(iter(classes))
    half = {**classes[first], "share": classes[first]["share"] / 2}
    parts = {"half-a": half, "half-b": deepcopy(half)}
    after: Data = {k: v for k, v in data.items() if k != "workload"}
    after["classes"] = {**parts, **{name: c for name, c in classes.items() if name != first}}

    def same_factor(copy: Data) -> None:
        for period in copy.get("periods", {}).values():
            if first in period.get("by_class", {}):
                factor = period["by_class"].pop(first)
                period["by_class"] |= {"half-a": factor, "half-b": factor}

    return changed(after, same_factor)


def with_unused_site(data: Data) -> tuple[Data, Data]:
    """A site with stock and nothing else."""
    return data, {**data, "sites": {**data["sites"], "attic": {"accelerators": {"h100-sxm": 64}}}}


def with_unused_pool(data: Data) -> tuple[Data, Data]:
    """A pool like the first one, of no instances."""
    like = next(iter(data["pools"].values()))
    empty = {k: v for k, v in like.items() if k not in ("min_instances", "max_instances")} | {"n_instances": 0}
    return data, {**data, "pools": {**data["pools"], "empty": empty}}


def with_unused_link(data: Data) -> tuple[Data, Data]:
    """A link to where requests are decoded, from a site that has nothing."""
    home = next(p["site"] for p in data["pools"].values() if p["role"] == "decode")
    link = {"from": "attic", "to": home, "tiers": [{"capacity_gbps": 10, "usd_per_hour": 1.0}]}
    sites = {**data["sites"], "attic": {}}
    return data, {**data, "sites": sites, "links": {**data.get("links", {}), "stairs": link}}


def with_link_back(data: Data) -> tuple[Data, Data] | None:
    """A link from where requests are decoded to a site that decodes nothing."""
    decoding = [p["site"] for p in data["pools"].values() if p["role"] == "decode"]
    elsewhere = [p["site"] for p in data["pools"].values() if p["site"] not in decoding]
    if not elsewhere:
        return None
    link = {"from": decoding[0], "to": elsewhere[0], "tiers": [{"capacity_gbps": 10, "usd_per_hour": 1.0}]}
    return data, {**data, "links": {**data["links"], "back": link}}


def at_double_prices(data: Data) -> tuple[Data, Data]:
    """Everything at twice the money."""

    def dearer(copy: Data) -> None:
        for price in copy["prices"].values():
            price["usd_per_accelerator_hour"] *= 2
        for site in copy["sites"].values():
            _times(site, "usd_per_kwh", 2)
        for link in copy.get("links", {}).values():
            for item in (link, *link.get("tiers", ())):
                _times(item, "usd_per_hour", 2)
            _times(link, "usd_per_gb", 2)
        _times(copy, "budget_usd_per_hour", 2)

    return data, changed(data, dearer)


def at_half_the_times(data: Data) -> tuple[Data, Data]:
    """Everything happens twice as fast: services, answers, links, promises, and arrivals; bills stay."""

    def faster(copy: Data) -> None:
        for instance in copy["measured"].values():
            instance["prefill"]["seconds"] = [s / 2 for s in instance["prefill"]["seconds"]]
            _times(instance["prefill"], "overhead_s", 0.5)
            _times(instance["decode"], "step_s", 0.5)
        for link in copy.get("links", {}).values():
            for item in (link, *link.get("tiers", ())):
                _times(item, "capacity_gbps", 2)
            _times(link, "usd_per_gb", 0.5)
            _times(link, "round_trip_ms", 0.5)
        promises = [copy.get("slo", {}), *(c.get("slo", {}) for c in copy.get("classes", {}).values())]
        for item in (*promises, *copy["pools"].values()):
            _times(item, "ttft_s", 0.5)
            _times(item, "tpot_ms", 0.5)
        _times(copy, "demand_req_per_s", 2)

    return data, changed(data, faster)


def _times(table: dict[str, Any], key: str, factor: float) -> None:
    if isinstance(table.get(key), int | float):
        table[key] *= factor


def renamed(name: str) -> str:
    """A name that sorts the other way round."""
    return "x" + name.translate(str.maketrans("abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba"))


def under_other_names(data: Data) -> tuple[Data, Data]:
    """Sites, pools, links and classes renamed, and stated in the opposite order."""

    def fields(table: Mapping[str, Any], *keys: str) -> Data:
        return {k: renamed(v) if k in keys else v for k, v in table.items()}

    def turned(tables: Mapping[str, Any], *keys: str) -> Data:
        return {renamed(name): fields(table, *keys) for name, table in reversed(list(tables.items()))}

    after = {**data, "sites": turned(data["sites"]), "pools": turned(data["pools"], "site")}
    if "links" in data:
        after["links"] = turned(data["links"], "from", "to")
    if "classes" in data:
        after["classes"] = turned(data["classes"])
        for one in after["classes"].values():
            if "sites" in one:
                one["sites"] = {renamed(site): share for site, share in one["sites"].items()}
    if "periods" in data:
        after["periods"] = deepcopy(data["periods"])
        for period in after["periods"].values():
            if "by_class" in period:
                period["by_class"] = {renamed(name): factor for name, factor in period["by_class"].items()}
    return data, after


LAWS = {
    law.name: law
    for law in (
        Law("one constant period changes nothing", as_network),
        Law("a class in two halves with one threshold changes nothing", in_halves),
        Law("a class in two halves is never worse", in_free_halves, never_worse=True, keeps_plan=False),
        Law("an unused site changes nothing", with_unused_site),
        Law("an unused pool changes nothing", with_unused_pool),
        Law("an unused link changes nothing", with_unused_link),
        Law("a link back to a site that decodes nothing changes nothing", with_link_back),
        Law("doubling all prices doubles the bill and keeps the plan", at_double_prices, usd=2.0),
        Law("halving all times keeps the plan", at_half_the_times, rate=2.0, seconds=0.5),
        Law("other names in another order change nothing", under_other_names, names=renamed),
    )
}


def first_break(law: Law, data: Data, time_limit_s: float = 20.0) -> str | None:
    """What first breaks a law for a question; None where it holds or says nothing."""
    pair = law.questions(data)
    if pair is None:
        return None
    return next(islice(breaks(law, *(answer_to(one, time_limit_s) for one in pair)), 1), None)
