"""`planner live`: measure this machine, predict, serve, and hold one against the other."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import numpy as np

from planner.errors import UndecidedError
from planner.files import scratch_prefix, write_text
from planner.hybrid.core_time import CoreTimes, core_times
from planner.hybrid.live import Fleet, LiveRun, LiveSystem, WorkerSpec, cores, serve_with
from planner.hybrid.machine import machine_description
from planner.hybrid.timing import Timed
from planner.profiles import ModelProfile
from planner.progress import Progress
from planner.results.live import Live, LiveMachine
from planner.studies.live.checks import ServedRuns, lines, pass_checks, passes, repeat, run_checks, ttft_of
from planner.studies.live.execution import LiveExecution, LivePlan, execute_live
from planner.studies.live.forecast import Forecast, forecast, point_seconds
from planner.studies.live.measuring import (
    MACHINE,
    PROFILES,
    MeasuredMachine,
    busy_fraction,
    measure_machine,
    paced_stretch,
)
from planner.studies.live.question import (
    LINK_BYTES_PER_S,
    MOST_CORES,
    OWN_POINTS,
    Drawn,
    LiveQuestion,
    live_model,
    model_setup,
    stratified_requests,
    worker_specs,
)
from planner.studies.live.stack_fit import Probe, probes_csv

LEAST_SERVED_S = 8.0
"""Served at least in every repeat, however long the measuring took."""
GRACE_S = 20.0
"""For what is still in the system when the last request has arrived."""
PACED_FRACTION = 0.05
"""Of the whole time, for prefills with pauses."""
N_REPEATS = 2
"""Times that the same requests are served: what differs between them is the machine, not the draw."""
N_FORECAST = 2000
"""Requests whose lengths stand for their distribution."""
ROUNDS_PER_MINUTE, LEAST_ROUNDS, MOST_ROUNDS = 2, 3, 8

Executor = Callable[[LivePlan], LiveExecution]
"""Runs the same requests through the request-level executor."""


@dataclass(frozen=True, eq=False)
class LiveStudy:
    """The answer with the runs that it comes from."""

    live: Live
    runs: tuple[LiveRun, ...]
    """Of the same requests, one after another."""
    own: tuple[Timed, ...]
    """Passes of the served model."""


@dataclass(frozen=True, eq=False)
class _Ready:
    """Everything known before the first request is served."""

    measured: MeasuredMachine
    own: tuple[Timed, ...]
    n_rounds: int
    stretch: float
    plan: Forecast
    drawn: Drawn

    @property
    def busy_fraction(self) -> float:
        """Share of the time that workers had their cores, of all that was timed without pauses."""
        return busy_fraction([*(timed for probe in self.measured.probes for timed in probe.timed), *self.own])


def live(
    question: LiveQuestion,
    *,
    out: Path | None = None,
    progress: Progress = lambda _: None,
    executed: Executor | None = execute_live,
) -> LiveStudy:
    """Measure, predict, serve, execute, compare.

    Args:
        question: how long, from which seed.
        out: folder for profiles, the scenario, timed points and records; None keeps none of them.
        progress: told what is going on.
        executed: runs the request-level executor; None leaves its column empty.

    Returns:
        The answer and the runs.

    Raises:
        InputError: the folder cannot be written.
        InputError: the question's backend cannot be used here.
        UndecidedError: workers died while they were measured, or no request was finished.
        KeyboardInterrupt: Ctrl-C; all workers have ended.
    """
    question.backend.check()
    began, load = monotonic(), os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    model, specs = question.model or live_model(), worker_specs(cores()[:MOST_CORES])
    with TemporaryDirectory(prefix=scratch_prefix()) as temporary:
        folder = out or Path(temporary)
        (folder / PROFILES).mkdir(parents=True, exist_ok=True)
        with Fleet(model_setup(model, question.seed, question.backend), specs) as fleet:
            progress("building models")
            fleet.wait_until_ready()
            ready = _ready(fleet, question, model, folder, progress, began)
            before = core_times(cores())
            runs = tuple(_served(fleet, question, ready, progress, turn) for turn in range(N_REPEATS))
            after, n_foreign = core_times(cores()), fleet.n_foreign.total()
        progress("executing")
        by_executor = executed(_live_plan(ready, model, specs, folder)) if executed else None
        served = ServedRuns(model, ready.plan, ready.drawn, runs, by_executor)
        answer = _answer(question, ready, served, specs, load, _steal(before, after))
        found = LiveStudy(answer.model_copy(update={"n_foreign": n_foreign}), runs, ready.own)
        if out:
            _write(out, found, model)
    return found


def _ready(
    fleet: Fleet,
    question: LiveQuestion,
    model: ModelProfile,
    folder: Path,
    progress: Progress,
    began: float,
) -> _Ready:
    """Measure, choose threshold and rate, draw the requests that fit into the time that is left.

    What is promised of passes rests on the probes alone; the served model is timed in the same rounds, so that a
    machine that slows down does so for both.
    """
    n_rounds = min(max(round(ROUNDS_PER_MINUTE * question.minutes), LEAST_ROUNDS), MOST_ROUNDS)
    measured = measure_machine(fleet, model, folder, progress, n_rounds=n_rounds)
    own = measured.own
    progress("timing the served model with pauses")
    stretch = paced_stretch(fleet, own, question.load_fraction, PACED_FRACTION * 60 * question.minutes)
    left_s = 60 * question.minutes - (monotonic() - began) - GRACE_S
    served_s = max(left_s / N_REPEATS, LEAST_SERVED_S)
    plan = forecast(
        measured.served,
        fleet.specs,
        stratified_requests(N_FORECAST, question.seed),
        link_bytes_per_s=LINK_BYTES_PER_S,
        loopback_bytes_per_s=measured.loopback_bytes_per_s,
        load_fraction=question.load_fraction,
        stretch=stretch,
    )
    n = min(max(int(plan.offered_req_per_s * served_s), 1), question.most_requests)
    return _Ready(measured, own, n_rounds, stretch, plan, stratified_requests(n, question.seed))


def _served(fleet: Fleet, question: LiveQuestion, ready: _Ready, progress: Progress, turn: int) -> LiveRun:
    model, plan, drawn = fleet.model.profile, ready.plan, ready.drawn
    progress(f"serving {len(drawn.gaps)} requests, {turn + 1} of {N_REPEATS}")
    system = LiveSystem(fleet.model, fleet.specs, LINK_BYTES_PER_S, plan.threshold_tokens)
    requests = drawn.requests(plan.offered_req_per_s, model.architecture.vocab_size or 1, question.seed)
    run = serve_with(fleet, system, requests, time_limit_s=requests[-1].arrival_s + GRACE_S)
    if run.interrupted:
        raise KeyboardInterrupt
    if not run.finished:
        raise UndecidedError(f"no request was finished: {run.dropped[0].reason if run.dropped else 'none was sent'}")
    return run


def _live_plan(ready: _Ready, model: ModelProfile, specs: Sequence[WorkerSpec], folder: Path) -> LivePlan:
    return LivePlan(
        forecast=ready.plan,
        drawn=ready.drawn,
        model=model.name,
        hardware=MACHINE,
        stack=ready.measured.stack_path,
        stretch=ready.stretch,
        workers=tuple(specs),
        loopback_bytes_per_s=ready.measured.loopback_bytes_per_s,
        folder=folder,
        points=OWN_POINTS,
    )


def _steal(before: CoreTimes | None, after: CoreTimes | None) -> float | None:
    return after.steal_fraction_since(before) if after else None


def _answer(
    question: LiveQuestion,
    ready: _Ready,
    served: ServedRuns,
    specs: Sequence[WorkerSpec],
    load_average: float | None,
    steal_fraction: float | None,
) -> Live:
    promised = {point: point_seconds(ready.measured.served, point) for point in OWN_POINTS}
    timed = passes(promised, ready.own, served.executed, ready.n_rounds)
    return Live(
        scenario=served.model.name,
        machine=_machine(question, ready, served, specs, load_average, steal_fraction),
        measured_on=date.today().isoformat(),
        seed=question.seed,
        threshold_tokens=served.plan.threshold_tokens,
        link_bytes_per_s=LINK_BYTES_PER_S,
        offered_req_per_s=served.plan.offered_req_per_s,
        n_requests=sum(len(run.records) for run in served.runs),
        n_finished=sum(len(run.finished) for run in served.runs),
        n_dropped=sum(len(run.dropped) for run in served.runs),
        served_s=sum(run.duration_s for run in served.runs),
        checks=(*pass_checks(timed, ready.own), *run_checks(served)),
        passes=tuple(timed),
        lines=tuple(lines(ready.measured.served)),
        ttft=ttft_of(served),
        repeats=tuple(map(repeat, served.runs)),
    )


def _machine(
    question: LiveQuestion,
    ready: _Ready,
    served: ServedRuns,
    specs: Sequence[WorkerSpec],
    load_average: float | None,
    steal_fraction: float | None,
) -> LiveMachine:
    rates = [*ready.measured.rates.values()]
    prefilled = [r for run in served.runs for r in run.finished if r.prefill_busy_s is not None]
    busy = sum(record.prefill_busy_s or 0.0 for record in prefilled)
    wall = sum((record.prefill_end_s or 0.0) - (record.prefill_start_s or 0.0) for record in prefilled)
    return LiveMachine(
        **vars(machine_description(question.backend)),
        workers={spec.name: spec.core for spec in specs},
        gemm_flop_per_s={
            str(rows): float(np.median([r.gemm_flop_per_s[rows] for r in rates])) for rows in rates[0].gemm_flop_per_s
        },
        memory_bytes_per_s=float(np.median([r.memory_bytes_per_s for r in rates])),
        call_s=float(np.median([r.call_s for r in rates])),
        loopback_bytes_per_s=float(np.median([r.loopback_bytes_per_s for r in rates])),
        busy_before_fraction=ready.busy_fraction,
        stretch=ready.stretch,
        busy_fraction=busy / wall if wall else None,
        steal_before_fraction=ready.measured.steal_fraction,
        steal_fraction=steal_fraction,
        load_average=load_average,
    )


def _write(out: Path, found: LiveStudy, model: ModelProfile) -> None:
    """The records, the timed passes and the answer beside the profiles."""
    own = probes_csv([Probe(model, found.own)])
    write_text(out / "passes.csv", own)
    write_text(out / "live.json", json.dumps(found.live.answer(), indent=1) + "\n")
    fields = [name for name in vars(found.runs[0].records[0]) if name != "tokens"]
    rows = [",".join(["repeat", *fields])]
    for turn, run in enumerate(found.runs):
        rows += [",".join([str(turn), *(_cell(getattr(record, name)) for name in fields)]) for record in run.records]
    write_text(out / "records.csv", "\n".join(rows) + "\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6f}" if isinstance(value, float) else str(value).replace(",", ";")
