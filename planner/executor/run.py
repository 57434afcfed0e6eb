"""Running a plan: replications of the event loop, with drafts, and prompts that no instance holds."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, inf
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, InputProblem
from planner.executor.colocated_pools import Colocated
from planner.executor.draws import Draws, drawn_requests, to_streams
from planner.executor.fault_schedule import fault_schedule
from planner.executor.full_house import n_users, paced_s
from planner.executor.full_instance import N_TO_FILL, full_instance
from planner.executor.initial_state import run_to_end, simulation_state
from planner.executor.kernel.records import Records
from planner.executor.measure import Outcome, Window, outcome
from planner.executor.memory import RunMemory
from planner.executor.prompt_blocks import PromptBlocks, trace_blocks
from planner.executor.run_answer import run_of_replications
from planner.executor.run_question import Enough, RunQuestion, default_load, run_on
from planner.executor.sessions import session_requests
from planner.executor.systems import System, system
from planner.jobs import HERE, Workers, answers
from planner.progress import FractionDone
from planner.results.plan import Fleet
from planner.results.run import Run, RunRecords
from planner.scenario import Scenario
from planner.units import percent

FEW = 20
"""Requests of a run that is made so that all which a run needs is compiled."""
HORIZON = 1.5
"""Of the time in which requests arrive: so long crashes happen."""


def simulate(
    scenario: Scenario,
    fleet: Fleet,
    question: RunQuestion | None = None,
    data_dirs: Sequence[Path] = (),
    *,
    period: str | None = None,
    keep: bool = False,
    progress: FractionDone = lambda _: None,
    workers: Workers = HERE,
    enough: Enough = lambda _: True,
) -> tuple[Run, RunRecords | None]:
    """Run a plan request by request, of several periods one.

    Args:
        scenario: the question that the plan answers.
        fleet: the plan, or one of its baselines.
        question: how long, how often and at what load.
        data_dirs: folders in which traces are looked for.
        period: the period; None: the plan's only one, or its one demand.
        keep: whether the records of the first replication are wanted as well.
        progress: is told the fraction done now and then.
        workers: who shares the replications; the answer does not depend on it.
        enough: whether a run will do; else replications are added, up to the limit of the question.

    Returns:
        The run, and the records where they are wanted.

    Raises:
        InputError: the plan is not the scenario's or has no such period, a trace is missing, no pool of the plan holds
            some prompt, or there is not the memory for the run.
        CheckFailedError: no request that counts has finished.
    """
    question = question or RunQuestion()
    memory = RunMemory(scenario, data_dirs, workers, keep)
    memory.check(replace(question, most_requests=None))
    plan = system(scenario, fleet, data_dirs, period)
    load = default_load(plan.fleet) if question.load is None else question.load
    is_open = not question.is_closed and scenario.users is None
    rate = load * plan.fleet.throughput_req_per_s
    plan = with_full_rates(plan, question, rate, data_dirs)
    outcomes: list[Outcome] = []

    def run(asked: RunQuestion, some: range) -> Run:
        outcomes[some.start :] = replications(plan, asked, some, rate, data_dirs, progress, workers, keep=keep)
        return run_of_replications(plan, asked, load if is_open else None, rate, outcomes)

    return run_on(question, run, enough, memory.fits), outcomes[0].records


def replications(
    plan: System,
    question: RunQuestion,
    some: range,
    req_per_s: float,
    data_dirs: Sequence[Path],
    progress: FractionDone,
    workers: Workers,
    *,
    keep: bool = False,
) -> list[Outcome]:
    """The outcomes of some replications, in order.

    Args:
        req_per_s: rate of all requests [1/s].
        keep: whether the records of the first are wanted as well.
    """
    if workers.dask is None and min(workers.n_processes, len(some)) == 1:
        found = []
        for r in some:
            done = partial(_report_progress, progress, r - some.start, len(some))
            found.append(replicate(plan, question, r, req_per_s, data_dirs, keep=keep and r == 0, progress=done))
        return found
    if workers.dask is None:  # what is to be compiled is compiled here and once, not by all processes at the same time
        replicate(plan, RunQuestion(FEW, question.seed, None, 1), 0, req_per_s, data_dirs)
    # What is kept of the first replication comes back with it.
    jobs = [(plan, question, r, req_per_s, data_dirs, keep and r == 0) for r in some]
    return answers(_replicated, jobs, workers, progress)


def with_full_rates(plan: System, question: RunQuestion, req_per_s: float, data_dirs: Sequence[Path]) -> System:
    """The system with what its colocated instances do at the most, for the requests that reach them in a short run.

    Args:
        req_per_s: rate of all requests [1/s].
    """
    if not plan.colocated:
        return plan
    n = min(N_TO_FILL, ceil(question.n_requests / question.n_replications))
    requests, blocks = _asked(plan, n, req_per_s, Draws(question.seed, 0, question.n_replications == 1), data_dirs)
    check_room(plan, requests)
    w = simulation_state(plan, requests, blocks=blocks)
    run_to_end(w)
    entering = ((one, *one.entering(w)) for one in plan.colocated)
    full = {
        one.pool.name: full_instance(one, w.requests[rows], is_standing).req_per_s
        for one, rows, is_standing in entering
        if len(rows)
    }
    return replace(plan, full_req_per_s=full)


def _replicated(
    plan: System, question: RunQuestion, replication: int, req_per_s: float, data_dirs: Sequence[Path], keep: bool
) -> Outcome:
    return replicate(plan, question, replication, req_per_s, data_dirs, keep=keep)


def _report_progress(progress: FractionDone, replication: int, n: int, part: float) -> None:
    progress((replication + part) / n)


def replicate(
    plan: System,
    question: RunQuestion,
    replication: int,
    req_per_s: float,
    data_dirs: Sequence[Path] = (),
    *,
    keep: bool = False,
    progress: FractionDone = lambda _: None,
) -> Outcome:
    """One replication: the same for the same seed and index, whatever else runs."""
    share, more = divmod(question.n_requests, question.n_replications)
    n = share + (replication < more)
    users = n_users(plan, question)
    window = counted_window(plan, n, users)
    n += users
    draws = Draws(question.seed, replication, is_only=question.n_replications == 1)
    requests, blocks = _asked(plan, n, req_per_s, draws, data_dirs)
    check_room(plan, requests)
    horizon_s = HORIZON * float(requests["arrival_s"][-1])
    faults = fault_schedule(plan, horizon_s, draws)
    is_paced = question.is_full and bool(plan.colocated)
    if is_paced:
        requests["arrival_s"], users = paced_s(plan, requests, faults, blocks), 0
    elif question.is_closed:  # all at once, and then each as another leaves
        requests["arrival_s"] = np.where(np.arange(n) < users, requests["arrival_s"][0], 0.0)
    elif users:
        thoughts = draws.generator("thinking").standard_exponential(n)
        requests["arrival_s"] = (plan.scenario.think_s or 0.0) * thoughts
    w = simulation_state(plan, requests, window.first, window.last, users, faults, blocks)
    run_to_end(w, progress)
    return outcome(plan, w, window, keep=keep, is_paced=is_paced)


def counted_window(plan: System, n: int, n_filling: int) -> Window:
    """Arrivals that count of n, after those that only fill the system."""
    execution = plan.scenario.execution
    first = min(int(n * execution.warm_up_fraction), n - 1)
    return Window(n_filling + first, n_filling + max(n - int(n * execution.cool_down_fraction), first + 1))


def _asked(
    plan: System, n: int, req_per_s: float, draws: Draws, data_dirs: Sequence[Path]
) -> tuple[Records, PromptBlocks | None]:
    """Requests by stream, and the blocks of their prompts where caches look at them."""
    scenario, has_cache = plan.scenario, plan.scenario.execution.cache is not None
    blocks: PromptBlocks | None
    if scenario.execution.sessions is not None:
        requests, blocks = session_requests(scenario, n, req_per_s, draws)
    else:
        requests = drawn_requests(scenario, n, req_per_s, draws, data_dirs, plan.class_rates)
        blocks = trace_blocks(scenario, requests, data_dirs) if has_cache else None
    draw_extra_steps(requests, scenario, draws)
    to_streams(requests, plan.streams, tuple(scenario.workloads), draws)
    return requests, blocks if has_cache else None


Integers = NDArray[np.int64]


def draw_extra_steps(requests: Records, scenario: Scenario, draws: Draws) -> None:
    """Draw the steps of every answer whose model has drafts, and write down what that is in tokens.

    Decode instances pass through tokens at the pace of a step over the tokens that it yields on average. An answer
    whose drafts are accepted less often than that passes through more tokens than it has.

    Args:
        requests: as drawn, their classes those of the scenario, in its order; changed.
    """
    for index, name in enumerate(scenario.workloads):
        used = scenario.speculation_of(scenario.model_of(name))
        if used is None:
            continue
        mine = np.flatnonzero(requests["request_class"] == index)
        if not len(mine):
            continue
        tokens = requests["output_tokens"][mine].astype(np.int64) - 1
        chances = yield_chances(used.acceptance)
        mean = float(chances @ np.arange(1, len(chances) + 1))
        steps = drawn_steps(tokens, chances, draws.generator(f"class {name}: drafts"))
        requests["extra_steps"][mine] = np.rint(steps * mean).astype(np.int64) - tokens


def yield_chances(acceptance: Sequence[float]) -> NDArray[np.float64]:
    """Probability that a step yields 1, 2 and so on tokens: drafts are accepted up to the first that is not.

    >>> yield_chances([0.5, 0.5]).tolist()
    [0.5, 0.25, 0.25]
    """
    before = np.cumprod([1.0, *acceptance])
    return np.asarray(before * (1 - np.array([*acceptance, 0.0])))


def drawn_steps(tokens: Integers, chances: NDArray[np.float64], generator: np.random.Generator) -> Integers:
    """Steps until so many tokens are there, each step yielding 1, 2 and so on with the chances given.

    As many steps are drawn at once as cannot yield more than what is missing, so that none is drawn in vain.

    Args:
        tokens: tokens to make, shape (n,); 0 needs no step.
    """
    left, steps, yields = tokens.astype(np.int64), np.zeros(len(tokens), dtype=np.int64), np.arange(1, len(chances) + 1)
    while (unfinished := np.flatnonzero(left > 0)).size:
        n = np.maximum(left[unfinished] // len(chances), 1)
        left[unfinished] -= generator.multinomial(n, chances) @ yields
        steps[unfinished] += n
    return steps


def check_room(plan: System, requests: Records) -> None:
    """Nothing, where every request has a way whose instances hold it.

    Raises:
        InputError: a prompt fits no pool that its class may take, or with its answer no batch: it would wait forever.
    """
    rooms = [inf if times.room is None else times.room.longest_tokens for times in plan.prefill_times]
    batches = {one.way_out: one for one in plan.colocated}
    limits = {d: one.longest_request(requests[plan.may_come(one, requests)]) for d, one in batches.items()}
    if not len(requests):
        return
    total = requests["total_tokens"] + requests["output_tokens"]
    if max(requests["total_tokens"].max() - min(rooms), total.max() - min(limits.values(), default=inf)) <= 0:
        return
    for q, stream in enumerate(plan.streams):
        ways = {(way.prefill, way.decode) for of_part in plan.ways[q].values() for way in of_part}
        mine = requests["request_class"] == q
        prompts, whole = requests["total_tokens"][mine], total[mine]
        held = [(prompts <= rooms[p]) & (whole <= limits.get(d, inf)) for p, d in sorted(ways)]
        if np.logical_or.reduce(held).all():
            continue
        p = max((p for p, _ in ways), key=lambda p: (rooms[p], -p))
        if (prompts > rooms[p]).any():
            raise InputError(_of_prefill(plan, stream.request_class, p, rooms[p], prompts))
        d = max((d for _, d in ways if d in limits), key=lambda d: (limits[d], -d))
        raise InputError(_of_batch(plan, batches[d], limits[d], whole))


def _of_prefill(plan: System, request_class: str, p: int, room: float, tokens: Records) -> InputProblem:
    """Prompts that a prefill pool does not hold, and no other."""
    what = (
        f"holds prompts of up to {room:,.0f} tokens beside the weights, but "
        f"{percent(float((tokens > room).mean()))} of those of '{request_class}' are longer, up to {tokens.max():,}, "
        "and no other pool of the plan holds them"
    )
    allowed = "more accelerators per instance, or a narrower cache"
    return plan.scenario.problem(("pools", plan.prefill[p].key), what, allowed)


def _of_batch(plan: System, one: Colocated, room: float, tokens: Records) -> InputProblem:
    """Requests that a colocated pool does not hold with their answers, and no other."""
    what = (
        f"holds requests of up to {room:,.0f} tokens with their answers beside the weights, but "
        f"{percent(float((tokens > room).mean()))} are longer, up to {tokens.max():,}"
    )
    return plan.scenario.problem(("pools", one.pool.key), what, "more accelerators per instance, or a narrower cache")
