"""The cheapest prefill and decode pools at one site: the scenario that stands for them, its plan, and its run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from planner.comparison import Planned, best_fleet
from planner.errors import InfeasibleError, UndecidedError
from planner.profiles import HardwareProfile
from planner.profiles.toml_text import toml_table
from planner.results import PoolPlan, Promise
from planner.scenario import Scenario, is_path, load_scenario, seen_from
from planner.schema import dotted
from planner.studies.size.question import SizeQuestion
from planner.studies.size.ways import Way
from planner.units import MILLI, rounded
from planner.workload.trace_arrivals import dispersion, squared_cv

if TYPE_CHECKING:
    from planner.executor import RunQuestion

N_PLANNED, N_TRIED = 3, 12
"""Pairs of ways whose plans are compared, the cheapest by estimate first; and those of which no plan may come."""
FULL = 1e-6
"""Rounding of a utilisation, times the instances that it is of."""
MOST_REQUESTS = 2_000_000
"""Up to which a run that does not decide goes on: busy queues take long to settle."""
SITE, NAME = "here", "size"
HEAD = """\
# What `planner size` compares with a colocated pool: prefill and decode on instances of their own, at one site.
# Layouts are the cheapest that it found; answer it with `planner optimize`.
"""

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Apart:
    """Prefill and decode pools."""

    scenario: Scenario
    toml: str
    """The scenario as a file."""
    prefill: Way
    decode: Way
    found: Planned
    promises: tuple[Promise, ...] = ()
    """Beside its run; none where it was not run."""
    n_counted: int = 0
    seed: int | None = None

    @property
    def text(self) -> str:
        """Its instances in words."""
        sizes = {"prefill": self.prefill.layout.n_accelerators, "decode": self.decode.layout.n_accelerators}
        pools = (f"{p.n_instances} of {sizes[p.role]} x {p.hardware} for {p.role}" for p in self.pools)
        return " and ".join(pools)

    @property
    def usd_per_hour(self) -> float:
        """The bill."""
        return self.found.fleet.cost.usd_per_hour or 0.0

    @property
    def least_usd_per_hour(self) -> float:
        """Rent of the fewest instances whose capacity is the rate: waits are what a run may judge otherwise."""
        usd = {"prefill": self.prefill.usd_per_hour, "decode": self.decode.usd_per_hour}
        return sum(max(ceil(pool.utilization * pool.n_instances - FULL), 1) * usd[pool.role] for pool in self.pools)

    @property
    def pools(self) -> tuple[PoolPlan, ...]:
        """Prefill and decode."""
        return self.found.fleet.pools


def cheapest(
    question: SizeQuestion, prefill_ways: Sequence[Way], decode_ways: Sequence[Way], time_limit_s: float
) -> Apart | None:
    """The cheapest plan of the likeliest pairs of ways; None where none of them can be planned."""
    best: Apart | None = None
    n_planned = 0
    for prefill, decode in _pairs(question, prefill_ways, decode_ways):
        rate = question.rate_req_per_s
        if best and prefill.least_usd_per_hour(rate) + decode.least_usd_per_hour(rate) >= best.usd_per_hour:
            break
        text = scenario_text(question, prefill, decode)
        scenario = load_scenario(text, f"{NAME}.toml", question.directory.resolve())
        try:
            found = best_fleet(scenario, question.data_dirs, time_limit_s)
        except (InfeasibleError, UndecidedError):
            continue
        apart, n_planned = Apart(scenario, text, prefill, decode, found), n_planned + 1
        if best is None or apart.usd_per_hour < best.usd_per_hour:
            best = apart
        if n_planned == N_PLANNED:
            break
    return best


def _pairs(
    question: SizeQuestion, prefill_ways: Sequence[Way], decode_ways: Sequence[Way]
) -> Iterator[tuple[Way, Way]]:
    rate = question.rate_req_per_s
    both = [(p, d) for p in prefill_ways[:N_TRIED] for d in decode_ways[:N_PLANNED]]
    both.sort(key=lambda pair: sum(way.least_usd_per_hour(rate) for way in pair))
    yield from both[:N_TRIED]


def scenario_text(question: SizeQuestion, prefill: Way, decode: Way) -> str:
    """The scenario of a pair of ways, as TOML."""
    chips = {way.chip.name: way.chip for way in (prefill, decode)}
    tables: list[tuple[str, Mapping[str, Any]]] = [
        ("model", _model(question, prefill.kind.software.name)),
        ("slo", _slo(question)),
        ("workload", _workload(question)),
        (f"sites.{SITE}", {}),
        ("pools.prefill", _pool(question, prefill)),
        ("pools.decode", _pool(question, decode)),
        ("execution", {} if question.recorded is None else {"arrivals": {"kind": "recorded"}}),
        *((dotted(("prices", _seen(question, chip))), _price(question, chip)) for chip in chips.values()),
    ]
    head = {
        "schema": "planner.scenario/1",
        "name": NAME,
        "objective": "min-cost",
        "demand_req_per_s": question.rate_req_per_s,
        "capacity_rule": "expected-work",
    }
    stated = "".join("\n" + toml_table(name, table) for name, table in tables if table or name.startswith("sites"))
    return HEAD + toml_table("", head).partition("\n")[2] + stated


def _workload(question: SizeQuestion) -> dict[str, Any]:
    """Requests, and as gaps state it how bursty a trace's are, which a plan counts on; runs take its own times."""
    stated = question.workload.model_dump(mode="json", exclude_none=True, exclude={"arrivals"})
    found = None if question.recorded is None else dispersion(question.recorded.arrival_s)
    if found is None:
        return stated
    return {**stated, "arrivals": {"kind": "gamma", "squared_cv": rounded(squared_cv(found), 3)}}


def _model(question: SizeQuestion, software: str) -> dict[str, Any]:
    stated = {"precision": question.precision}
    return {
        "profile": seen_from(question.directory, question.model),
        **{key: value for key, value in stated.items() if value is not None},
        "kv_precision": question.kv_precision,
        **_drafts(question),
        "stack": _stack(question, software),
    }


def _stack(question: SizeQuestion, software: str) -> str:
    """The software as the scenario names it: a file of one's own by its path, else the version that was chosen."""
    stated = question.stack
    return software if stated is None or not is_path(stated) else seen_from(question.directory, stated)


def _seen(question: SizeQuestion, chip: HardwareProfile) -> str:
    """An accelerator as the scenario names it."""
    return seen_from(question.directory, question.reference_of(chip))


def _drafts(question: SizeQuestion) -> dict[str, Any]:
    used, by = question.speculation, question.drafts.draft_model
    if used is None:
        return {}
    stated = {"draft_tokens": used.n_draft_tokens, "acceptance": list(used.acceptance)}
    return stated if by is None else {**stated, "draft_model": seen_from(question.directory, by)}


def _slo(question: SizeQuestion) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if question.ttft_s is not None:
        found |= {"ttft_s": question.ttft_s, "ttft_percentile": question.percentile}
    if question.tpot_s is not None:
        found["tpot_ms"] = question.tpot_s / MILLI
    return found


def _pool(question: SizeQuestion, way: Way) -> dict[str, Any]:
    return {
        "site": SITE,
        "hardware": _seen(question, way.chip),
        "role": way.role,
        "accelerators_per_instance": way.layout.n_accelerators,
        "layout": str(way.layout),
        "service_times": "roofline",
        "n_instances": "free",
    }


def _price(question: SizeQuestion, chip: HardwareProfile) -> dict[str, Any]:
    stated = question.prices[chip.name].model_dump(mode="json", exclude_none=True)
    return {key: value for key, value in stated.items() if value != ""}


def executed(question: SizeQuestion, apart: Apart, run: "RunQuestion", time_limit_s: float, say: Say) -> Apart:
    """The cheapest plan whose run keeps the promises, as for a scenario; as predicted where it cannot be run.

    Args:
        question: what is asked.
        apart: pools as predicted.
        run: how long and how often a plan is run.
        time_limit_s: seconds that each search for another plan may take.
        say: is told what is run.
    """
    from planner.studies.handed import as_asked  # compiles, or loads what was compiled
    from planner.studies.kept import chosen_by_runs
    from planner.studies.period_runs import Judge
    from planner.studies.rounds import Search, Tried, as_stated

    say("running prefill and decode pools")
    judge = Judge(run, question.data_dirs, say, sees_rate=False)
    search = Search(apart.scenario, judge, time_limit_s)
    asked = as_stated(search, as_asked(apart.scenario), apart.found.problem, apart.found.solution)
    chosen = chosen_by_runs(search, asked)
    one = chosen.plan
    if not isinstance(one, Tried) or not one.seen:
        return apart
    (seen,) = one.seen
    found = Planned(one.stated, one.served)
    return replace(apart, found=found, promises=seen.promises, n_counted=seen.n_requests, seed=chosen.seed)


def predicted_ttft_s(apart: Apart, percentile: float) -> float:
    """Time to first token that a percentage does not exceed, by the model of queues [s]."""
    ttft = apart.found.ttft(apart.scenario.demand_req_per_s or 0.0)
    return inf if ttft is None else ttft.quantile_s(percentile / 100)
