"""A demand without a scenario file: the scenario that it states, its plan, and the best fleet of either kind beside."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from planner.errors import InfeasibleError, InputError, InputProblem, UndecidedError, did_you_mean
from planner.executor.run_question import RunQuestion
from planner.notes import Note, note
from planner.optimizer.problem import Problem as Question
from planner.optimizer.problem_parts import PoolSpec
from planner.optimizer.resolution import whole_work_s
from planner.profiles import HardwareProfile, hardware_profile, model_profile
from planner.profiles.toml_text import toml_table
from planner.progress import Progress
from planner.promises.verified import Verified, verified_fleet
from planner.results.plan import Plan
from planner.results.size import ConsideredLayout, Size
from planner.roofline import best_stack
from planner.roofline.chip import FORMATS
from planner.scenario import Price, Scenario, is_path, load_scenario, question_notes, seen_from
from planner.schema import dotted
from planner.studies.drafts import NO_DRAFTS, AskedDrafts
from planner.studies.size_verdict import size_verdict
from planner.ties import exceeds, largest_first
from planner.units import MILLI, number, rounded
from planner.workload.requests import recorded_trace
from planner.workload.spec import Workload
from planner.workload.trace_arrivals import dispersion, limit_notes, rate_req_per_s, squared_cv
from planner.workload.traces import Trace

COMMAND, NAME, SITE = "planner size", "size", "here"
MOST_RATE, MOST_USERS, MOST_THINK_S = 1e6, 1e7, 1e7
N_CONSIDERED = 5
"""Layouts of each role that an answer lists."""
OUTCOMES = ("kept", "not run", "undecided", "not kept")
"""Of runs, the best first."""
KINDS = {"colocated": ("colocated",), "disaggregated": ("prefill", "decode")}
"""Roles of the pools of each kind of fleet."""
OPTION = re.compile(": --set .*$", re.MULTILINE)
HEAD = """\
# What `planner size` was asked: pools that prefill and decode in one batch, and pools for each alone, at one site.
# Answer it with `planner optimize`.
"""


@dataclass(frozen=True)
class SizeQuestion:
    """A model, accelerators to choose from, a demand and promises."""

    model: str
    hardware: tuple[str, ...]
    rate_req_per_s: float | None
    """To serve; None where users are stated."""
    workload: Workload
    prices: Mapping[str, Price]
    """By the name of the accelerator's profile."""
    unpriced: tuple[str, ...] = ()
    """Accelerators whose price stands for one that nobody knows."""
    directory: Path = Path()
    """Folder that a trace's path starts from."""
    ttft_s: float | None = None
    tpot_s: float | None = None
    percentile: float = 90.0
    """Of the requests that promises are kept for."""
    precision: str | None = None
    kv_precision: str = "bf16"
    stack: str | None = None
    drafts: AskedDrafts = NO_DRAFTS
    """Tokens that are drafted in every decode step."""
    data_dirs: Sequence[Path] = ()
    users: int | None = None
    """Of a closed population in place of a rate."""
    think_s: float | None = None
    """Mean time that a user thinks between an answer and the next request."""

    def problems(self) -> Iterator[InputProblem]:
        """Everything that cannot be asked, by its option."""
        positive = (
            ("--rate", self.rate_req_per_s, MOST_RATE, "requests per second"),
            ("--ttft-ms", self.ttft_s, 1e6, "milliseconds"),
            ("--tpot-ms", self.tpot_s, 1e6, "milliseconds"),
            ("--users", self.users, MOST_USERS, "users"),
        )
        for option, value, most, unit in positive:
            if value is not None and not (isfinite(value) and 0 < value <= most):
                yield InputProblem(COMMAND, option, f"is {value:g}", f"{unit} above 0, and not beyond any use")
        if self.think_s is not None and not 0 <= self.think_s <= MOST_THINK_S:
            yield InputProblem(COMMAND, "--think-s", f"is {self.think_s:g}", f"seconds from 0 to {MOST_THINK_S:g}")
        if not 0 < self.percentile < 100:
            yield InputProblem(COMMAND, "--percentile", f"is {self.percentile:g}", "between 0 and 100")
        for option, name in (("--precision", self.precision), ("--kv-precision", self.kv_precision)):
            if name is not None and name not in FORMATS:
                yield InputProblem(COMMAND, option, f"{name!r} is no number format", did_you_mean(name, FORMATS))
        yield from self.drafts.problems(COMMAND)
        if not self.hardware:
            yield InputProblem(COMMAND, "HARDWARE", "is empty", "names of hardware profiles with commas")

    @cached_property
    def chips(self) -> dict[str, HardwareProfile]:
        """The accelerators by the name or path that they are asked for by, each once. Raises InputError."""
        found: dict[str, HardwareProfile] = {}
        for stated in self.hardware:
            chip = hardware_profile(stated)
            known = next((name for name, other in found.items() if other.name == chip.name), None)
            if known is None:
                found[stated] = chip
            elif found[known] != chip:
                what = f"{stated} and {known} are two profiles of the name {chip.name}"
                raise InputError(InputProblem(COMMAND, "HARDWARE", what, "names of their own"))
        return found

    @cached_property
    def trace(self) -> Trace | None:
        """The trace whose times runs follow; None where there is none, it is of one moment, or users are stated.

        Raises InputError.
        """
        if self.workload.trace is None or self.users is not None:
            return None
        found = recorded_trace(self.workload.trace, self.directory, self.data_dirs)
        return None if rate_req_per_s(found.arrival_s) is None else found

    @property
    def software(self) -> str:
        """The stack of all pools: the one asked for, else the one calibrated best for all accelerators."""
        if self.stack is None:
            chips = (chip.name for chip in self.chips.values())
            return best_stack(model_profile(self.model).name, *chips).name
        return seen_from(self.directory, self.stack) if is_path(self.stack) else self.stack

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """Kinds of fleets that are modelled, with the roles of their pools."""
        return {kind: roles for kind, roles in KINDS.items() if kind != "colocated" or not self.drafts.draft_tokens}

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of all pools."""
        return tuple(role for roles in self.kinds.values() for role in roles)

    def scenario(self, roles: Sequence[str]) -> Scenario:
        """The scenario of the pools of some roles. Raises InputError."""
        return load_scenario(self.text(roles), f"{NAME}.toml", self.directory.resolve())

    def text(self, roles: Sequence[str]) -> str:
        """The scenario of the pools of some roles, as TOML. Raises InputError."""
        pools = (
            (self._pool_name(role, chip), self._pool(role, name)) for role in roles for name, chip in self.chips.items()
        )
        prices = ((dotted(("prices", self._name_from(name))), self._price(chip)) for name, chip in self.chips.items())
        tables: list[tuple[str, Mapping[str, Any]]] = [
            ("model", self._model()),
            ("slo", self._slo()),
            ("workload", self._requests()),
            (f"sites.{SITE}", {}),
            *((f"pools.{name}", table) for name, table in pools),
            ("execution", {} if self.trace is None else {"arrivals": {"kind": "recorded"}}),
            *prices,
        ]
        head = {
            "schema": "planner.scenario/1",
            "name": NAME,
            "objective": "min-cost",
            **({"demand_req_per_s": self.rate_req_per_s} if self.users is None else {}),
            **({} if self.users is None else {"users": self.users, "think_s": self.think_s}),
            "capacity_rule": "expected-work",
        }
        stated = "".join("\n" + toml_table(name, table) for name, table in tables if table or name.startswith("sites"))
        return HEAD + toml_table("", head).partition("\n")[2] + stated

    def _pool_name(self, role: str, chip: HardwareProfile) -> str:
        return role if len(self.chips) == 1 else f"{role}-{chip.name}"

    def _pool(self, role: str, name: str) -> dict[str, Any]:
        stated = {"site": SITE, "hardware": self._name_from(name), "role": role}
        return {**stated, "layouts": "auto", "service_times": "roofline", "n_instances": "free"}

    def _name_from(self, name: str) -> str:
        return seen_from(self.directory, name)

    def _model(self) -> dict[str, Any]:
        used, by = self.drafts.speculation, self.drafts.draft_model
        found: dict[str, Any] = {"profile": self._name_from(self.model)}
        if self.precision is not None:
            found["precision"] = self.precision
        found["kv_precision"] = self.kv_precision
        if used is not None:
            found |= {"draft_tokens": used.n_draft_tokens, "acceptance": list(used.acceptance)}
            found |= {} if by is None else {"draft_model": self._name_from(by)}
        return {**found, "stack": self.software}

    def _slo(self) -> dict[str, Any]:
        times = {"ttft_s": self.ttft_s, "tpot_ms": self.tpot_s and self.tpot_s / MILLI}
        stated = {key: value for key, value in times.items() if value is not None}
        return {**stated, "ttft_percentile": self.percentile} if stated else {}

    def _requests(self) -> dict[str, Any]:
        """Requests, and as gaps state it how bursty a trace's are, which a plan counts on; runs take its own times."""
        stated = self.workload.model_dump(mode="json", exclude_none=True, exclude={"arrivals"})
        found = None if self.trace is None else dispersion(self.trace.arrival_s)
        if found is None:
            return stated
        return {**stated, "arrivals": {"kind": "gamma", "squared_cv": rounded(squared_cv(found), 3)}}

    def _price(self, chip: HardwareProfile) -> dict[str, Any]:
        stated = self.prices[chip.name].model_dump(mode="json", exclude_none=True)
        return {key: value for key, value in stated.items() if value != ""}

    def notes(self) -> Iterator[Note]:
        """Notes on the question itself. Raises InputError."""
        yield from question_notes(self.scenario(self.roles))
        if self.unpriced:
            known = [chip.name for chip in self.chips.values() if chip.name not in self.unpriced]
            text = f"no price of {', '.join(self.unpriced)} is known: 1 USD an hour stands for it"
            mixed = f"; beside the price of {', '.join(known)} it does not tell which accelerator is cheaper"
            yield note(
                "price-unknown", text + (f"{mixed}: state --price" if known else ", so that cost counts accelerators")
            )
        if self.trace is not None:
            found = dispersion(self.trace.arrival_s)
            seen = "" if found is None else f" (variance over mean in windows of {number(found.window_s)} s: "
            seen += "" if found is None else f"{number(found.value)}; of independent users: 1)"
            what = f"runs take the trace's own arrivals{seen}"
            yield note("bursts-in-runs-alone", f"{what}; what is predicted of a colocated pool is of independent users")
            yield from limit_notes(found)
        if self.drafts.draft_tokens:
            yield note(
                "colocated-without-drafts", "colocated pools are left out: with drafted tokens they are not modelled"
            )


@dataclass(frozen=True)
class Sized:
    """The answer, and the scenario that it is of."""

    size: Size
    plan: Plan
    """The cheapest of all that keep their promises, if any does."""
    scenario_text: str


def sized(
    question: SizeQuestion,
    run: RunQuestion | None = None,
    time_limit_s: float = 60.0,
    progress: Progress = lambda _: None,
) -> Sized:
    """The plan of a demand, and beside it the best fleet of each kind of serving, run where times are promised.

    Args:
        question: what is asked.
        run: how long and how often a fleet is run; None: nothing is.
        time_limit_s: seconds that the search and the runs of one fleet may take.
        progress: is told what is going on.

    Raises:
        InputError: something in the question cannot be, or is not known.
        InfeasibleError: nothing serves the demand as promised.
        UndecidedError: time was up without a fleet.
    """
    if problems := tuple(question.problems()):
        raise InputError(problems)
    try:
        whole = best_fleet_of(question, question.roles, run, time_limit_s, progress)
    except InfeasibleError:
        # Ways out are those of prefill and decode pools, which are found soonest.
        whole = best_fleet_of(question, KINDS["disaggregated"], run, time_limit_s, progress, has_ways_out=True)
    used = {pool.role for pool in whole.plan.pools if pool.offered_req_per_s > 0}
    fleets: dict[str, Plan | None] = {}
    unknown: list[Note] = []
    for kind, roles in question.kinds.items():
        if used <= set(roles):
            fleets[kind] = whole.plan
            continue
        try:
            fleets[kind] = best_fleet_of(question, roles, run, time_limit_s, progress).plan
        except (InfeasibleError, UndecidedError) as error:
            fleets[kind] = None
            unknown.append(_missing(kind, str(error).partition("\n")[0]))
    others = [plan for plan in fleets.values() if plan is not None]
    mixed = None if any(_is_as_good(plan, whole.plan) for plan in others) else whole.plan
    best = min((*others, whole.plan), key=lambda plan: (_rank(plan), _usd(plan)))
    return Sized(_answer(question, whole, fleets, mixed, unknown), best, question.text(question.roles))


def _missing(kind: str, why: str) -> Note:
    """Why there is no fleet of a kind."""
    if kind == "colocated":
        return note("no-colocated-fleet", f"no colocated fleet is known: {why}")
    return note("no-disaggregated-fleet", f"no fleet of prefill and decode pools is known: {why}")


def _is_as_good(plan: Plan, other: Plan) -> bool:
    """True if a fleet costs no more than another one, and its promise is borne out as well."""
    return _rank(plan) <= _rank(other) and not exceeds(_usd(plan), _usd(other))


def _rank(plan: Plan) -> int:
    """Place among `OUTCOMES` of a fleet's promise; of one without a promise the first."""
    return 0 if plan.slo_run is None else OUTCOMES.index(plan.slo_run.outcome)


def _usd(plan: Plan) -> float:
    return plan.cost.usd_per_hour or 0.0


def best_fleet_of(
    question: SizeQuestion,
    roles: Sequence[str],
    run: RunQuestion | None,
    time_limit_s: float,
    progress: Progress = lambda _: None,
    *,
    has_ways_out: bool = False,
) -> Verified:
    """The best fleet with pools of some roles, run where it promises times.

    Args:
        run: how long and how often a fleet is run; None: nothing is.
        has_ways_out: whether ways out are looked for where there is no such fleet.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does.
    """
    asked = question.scenario(roles)
    of_run = run if asked.promises_latency else None
    try:
        return verified_fleet(asked, of_run, question.data_dirs, time_limit_s, progress, has_ways_out=has_ways_out)
    except InfeasibleError as error:  # whose ways out end in options of `optimize`
        ways = [OPTION.sub("", way) for way in error.relaxations]
        raise InfeasibleError(OPTION.sub("", str(error)), ways) from None


def _answer(
    question: SizeQuestion,
    whole: Verified,
    fleets: Mapping[str, Plan | None],
    mixed: Plan | None,
    unknown: Sequence[Note],
) -> Size:
    together, apart = fleets.get("colocated"), fleets.get("disaggregated")
    (spec,) = whole.problem.classes
    said = (text for plan in (whole.plan, together, apart) if plan is not None for text in plan.notes)
    return Size(
        model=model_profile(question.model).name,
        hardware=tuple(chip.name for chip in question.chips.values()),
        precision=next((pool.precision for pool in whole.plan.pools if pool.precision), None),
        stack=next((pool.stack for pool in whole.plan.pools if pool.stack), None),
        rate_req_per_s=_rate(question, whole),
        users=question.users,
        think_s=question.think_s,
        input_tokens_mean=spec.mix.mean_total_tokens,
        output_tokens_mean=spec.mix.mean_output_tokens,
        ttft_s=question.ttft_s,
        tpot_s=question.tpot_s,
        percentile=question.percentile,
        colocated=together,
        disaggregated=apart,
        mixed=mixed,
        disaggregation=size_verdict(together, apart, mixed),
        considered=tuple(_considered(whole.problem, _rate(question, whole))),
        notes=tuple(dict.fromkeys((*question.notes(), *unknown, *said))),
    )


def _rate(question: SizeQuestion, whole: Verified) -> float:
    """Rate that is stated, or that of the users at the plan [1/s]."""
    return whole.plan.throughput_req_per_s if question.rate_req_per_s is None else question.rate_req_per_s


def _considered(problem: Question, rate: float) -> Iterator[ConsideredLayout]:
    """Layouts of each role of which plans were compared, the cheapest for the rate first."""
    (spec,) = problem.classes
    by_role: dict[str, list[ConsideredLayout]] = {}
    for pool in problem.pools:
        work_s = whole_work_s(pool, spec.mix)
        if pool.max_instances and work_s > 0:
            by_role.setdefault(pool.role, []).append(_layout(pool, 1 / work_s, rate))
    for found in by_role.values():
        yield from largest_first(found, lambda one: -one.usd_per_hour)[:N_CONSIDERED]


def _layout(pool: PoolSpec, req_per_s: float, rate: float) -> ConsideredLayout:
    return ConsideredLayout(
        role=pool.role,
        hardware=pool.hardware,
        layout=pool.layout or "",
        tokens_per_pass=None if pool.batching is None else pool.batching.tokens_per_pass,
        accelerators_per_instance=pool.n_accelerators,
        capacity_req_per_s=req_per_s,
        usd_per_hour=ceil(rate / req_per_s) * (pool.usd_per_hour or 0.0),
    )
