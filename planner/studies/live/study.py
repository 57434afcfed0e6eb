"""`planner live`: measure this machine, predict, serve, and hold one against the other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import numpy as np

from planner.errors import UndecidedError
from planner.hybrid.live import Fleet, LiveRecord, LiveRun, LiveSystem, WorkerSpec, cores, serve_with
from planner.hybrid.machine import CoreRates, KernelRates, core_rates, kernel_rates, machine_description
from planner.hybrid.timing import DecodePoint, Timed, time_own, time_profile
from planner.profiles import HardwareProfile, ModelProfile, StackProfile, hardware_profile
from planner.profiles.importer import write_text
from planner.profiles.stack_writer import stack_toml
from planner.results import Live, LiveCheck, LiveMachine
from planner.roofline import Chip, Layout, ServedModel, kv_bytes, stack
from planner.studies.live.forecast import Forecast, forecast, point_seconds
from planner.studies.live.machine_files import hardware_toml, model_toml, write_profile
from planner.studies.live.question import (
    CHUNK_TOKENS,
    LINK_BYTES_PER_S,
    MOST_CORES,
    OWN_POINTS,
    Drawn,
    LiveQuestion,
    drawn_requests,
    live_model,
    model_setup,
    worker_specs,
)
from planner.studies.live.stack_fit import FRAMEWORK, PROBE_POINTS, Probe, fitted_stack, points_csv, probe_models

MACHINE = "this-machine"
PROFILES = "profiles"
"""Folder of the profiles that are written."""
TASK_LIMIT_S = 300.0
LEAST_SERVED_S = 15.0
"""Served at least, however long the measuring took."""
GRACE_S = 20.0
"""For what is still in the system when the last request has arrived."""
N_ROUNDS = 4
"""Times that each point is tried by each worker."""
TOLERANCE = {
    "prefill": 0.15,
    "decode": 0.15,
    "kv_bytes": 0.0,
    "ttft_mean_s": 0.20,
    "ttft_p90_s": 0.30,
    "tpot_mean_s": 0.20,
    "throughput_req_per_s": 0.10,
    "link_fraction": 0.10,
}


@dataclass(frozen=True, eq=False)
class LivePlan:
    """What is about to be served, and all that another judge needs to execute it."""

    forecast: Forecast
    drawn: Drawn
    """Lengths and gaps; gaps are in units of 1 / forecast.offered_req_per_s."""
    served: ServedModel
    """Prefill and decode seconds of one core that belongs to the worker alone."""
    stretch: float
    """Seconds on the wall over those, as other programs leave it."""
    workers: tuple[WorkerSpec, ...]
    link_bytes_per_s: float


Executor = Callable[[LivePlan], Mapping[str, float]]
"""Gives what the request-level executor makes of the same requests, by metric."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What the machine showed before anything was served, and the profiles made of it."""

    rates: Mapping[str, CoreRates]
    kernels: Mapping[str, KernelRates]
    probes: tuple[Probe, ...]
    hardware: HardwareProfile
    stack: StackProfile
    served: ServedModel

    @property
    def stretch(self) -> float:
        """Seconds on the wall over busy ones while the probes were timed: above 1 where other programs ran too."""
        timed = [item for probe in self.probes for item in probe.timed]
        return sum(sum(item.wall_s) for item in timed) / sum(sum(item.busy_s) for item in timed)


@dataclass(frozen=True, eq=False)
class LiveStudy:
    """The answer with the run that it comes from."""

    live: Live
    run: LiveRun
    own: tuple[Timed, ...]
    """Passes of the served model."""


def live(
    question: LiveQuestion,
    *,
    out: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    executed: Executor | None = None,
) -> LiveStudy:
    """Measure, predict, serve, compare.

    Args:
        question: how long, from which seed.
        out: folder for profiles, timed points and records; None keeps none of them.
        say: told what is going on.
        executed: runs the request-level executor; None leaves its column empty.

    Returns:
        The answer and the run.

    Raises:
        UndecidedError: workers died while they were measured, or no request was finished.
        KeyboardInterrupt: Ctrl-C; all workers have ended.
    """
    began = monotonic()
    model, specs = question.model or live_model(), worker_specs(cores()[:MOST_CORES])
    with TemporaryDirectory(prefix="planner-live-") as temporary:
        folder = out or Path(temporary)
        (folder / PROFILES).mkdir(parents=True, exist_ok=True)
        with Fleet(model_setup(model, question.seed), specs) as fleet:
            say("building models")
            fleet.wait_until_ready()
            measured = measure(fleet, model, folder, say)
            promised = {point: point_seconds(measured.served, point) for point in OWN_POINTS}
            say("timing the served model")
            own = _merged(fleet.answers(_each(fleet, time_own, (OWN_POINTS, N_ROUNDS, CHUNK_TOKENS)), TASK_LIMIT_S))
            served_s = max(60 * question.minutes - (monotonic() - began) - GRACE_S, LEAST_SERVED_S)
            plan, drawn = _planned(question, measured, specs, served_s)
            say(f"serving {len(drawn.gaps)} requests")
            run = _served(fleet, question, plan, drawn, served_s)
        asked = LivePlan(plan, drawn, measured.served, measured.stretch, specs, LINK_BYTES_PER_S)
        by_executor = executed(asked) if executed else {}
        checks = [*_pass_checks(promised, own), *_run_checks(model, plan, run, drawn, by_executor)]
        found = LiveStudy(_answer(question, model, plan, measured, run, own, specs, checks), run, own)
        if out:
            _write(out, found, model)
    return found


def measure(fleet: Fleet, model: ModelProfile, folder: Path, say: Callable[[str], None]) -> Measured:
    """Rates of cores and kernels, times of probe models, and the profiles that follow from them, in an existing folder.

    Raises:
        InputError: the folder cannot be written, or a profile made of the measurements does not hold.
        UndecidedError: a worker died or took too long.
    """
    profiles = folder / PROFILES
    say("measuring cores")
    rates = fleet.answers(_each(fleet, core_rates, ()), TASK_LIMIT_S)
    kernels = fleet.answers(_each(fleet, kernel_rates, ()), TASK_LIMIT_S)
    address = (folder / "probes.csv").resolve().as_uri()
    text = hardware_toml(MACHINE, machine_description(), [*rates.values()], [*kernels.values()], address)
    hardware = hardware_profile(str(write_profile(profiles, MACHINE, text)))
    probes = []
    for probe in probe_models(model):
        say(f"timing {probe.name}")
        arguments = (probe, PROBE_POINTS, N_ROUNDS, CHUNK_TOKENS)
        probes.append(Probe(probe, _merged(fleet.answers(_each(fleet, time_profile, arguments), TASK_LIMIT_S))))
        write_profile(profiles, probe.name, model_toml(probe))
    write_profile(profiles, model.name, model_toml(model))
    write_text(folder / "probes.csv", points_csv(probes))
    source = f"Passes of probe models timed by planner live; {address}"
    fitted = fitted_stack(hardware, probes, chunk_tokens=CHUNK_TOKENS, day=date.today(), source=source)
    path = write_profile(profiles, FRAMEWORK, stack_toml(fitted))
    ready = stack(str(path))
    served = ServedModel(model, Chip(hardware), Layout(), ready.factors, chunk_tokens=ready.settings.chunk_tokens)
    return Measured(rates, kernels, tuple(probes), hardware, fitted, served)


def _each(
    fleet: Fleet, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The same task for one worker of each core, so that all cores are busy and none twice."""
    by_core = {spec.core: spec.name for spec in reversed(fleet.specs)}
    return dict.fromkeys(sorted(by_core.values()), (function, arguments))


def _merged(by_worker: Mapping[str, tuple[Timed, ...]]) -> tuple[Timed, ...]:
    """Tries of all workers together, point by point."""
    return tuple(
        Timed(
            same[0].point,
            tuple(s for timed in same for s in timed.busy_s),
            tuple(s for timed in same for s in timed.wall_s),
        )
        for same in zip(*by_worker.values(), strict=True)
    )


def _planned(
    question: LiveQuestion, measured: Measured, specs: Sequence[WorkerSpec], served_s: float
) -> tuple[Forecast, Drawn]:
    """Threshold and rate for the lengths of a long draw, and the requests that fit into the time."""
    drawn = drawn_requests(question.most_requests, question.seed)
    loopback = float(np.median([rates.loopback_bytes_per_s for rates in measured.rates.values()]))
    known = {
        "link_bytes_per_s": LINK_BYTES_PER_S,
        "loopback_bytes_per_s": loopback,
        "load_fraction": question.load_fraction,
        "stretch": measured.stretch,
    }
    plan = forecast(measured.served, specs, drawn, **known)
    within = int((np.cumsum(drawn.gaps) / plan.offered_req_per_s <= served_s).sum())
    return plan, drawn.first(max(within, 1))


def _served(fleet: Fleet, question: LiveQuestion, plan: Forecast, drawn: Drawn, served_s: float) -> LiveRun:
    model = fleet.model.profile
    system = LiveSystem(fleet.model, fleet.specs, LINK_BYTES_PER_S, plan.threshold_tokens)
    requests = drawn.requests(plan.offered_req_per_s, model.architecture.vocab_size or 1, question.seed)
    run = serve_with(fleet, system, requests, time_limit_s=served_s + GRACE_S)
    if run.interrupted:
        raise KeyboardInterrupt
    if not run.finished:
        raise UndecidedError(f"no request was finished: {run.dropped[0].reason if run.dropped else 'none was sent'}")
    return run


def _pass_checks(promised: Mapping[Any, float], own: Sequence[Timed]) -> list[LiveCheck]:
    """Prefill seconds by length and decode step by batch, in busy seconds; the interval holds 90 % of the tries."""
    found = []
    for timed in own:
        point = timed.point
        kind = "decode" if isinstance(point, DecodePoint) else "prefill"
        asked = f"batch {point.batch}" if isinstance(point, DecodePoint) else f"{point.new_tokens} tokens"
        low, high = np.quantile(timed.busy_s, [0.05, 0.95]).tolist()
        name = f"{'decode step' if kind == 'decode' else 'prefill'}, {asked}"
        found.append(_check(name, "s", promised[point], None, timed.median_s, (low, high), TOLERANCE[kind]))
    return found


def _run_checks(
    model: ModelProfile, plan: Forecast, run: LiveRun, drawn: Drawn, by_executor: Mapping[str, float]
) -> list[LiveCheck]:
    """What the served requests showed."""
    finished = run.finished
    ttft = np.array([record.ttft_s for record in finished], float)
    tpot = np.array([record.tpot_s for record in finished if record.tpot_s is not None])
    sizes = float(kv_bytes(model, [record.input_tokens for record in finished]).sum())
    travelled = float(sum(record.kv_bytes for record in finished))
    span_s = max(record.finished_s or 0.0 for record in finished)
    # Until the last request that arrives has been served, on average.
    in_system_s = plan.ttft_mean_s + (float(drawn.output_tokens.mean()) - 1) * plan.tpot_mean_s
    promised_s = float(drawn.gaps.sum()) / plan.offered_req_per_s + in_system_s
    crosses = drawn.input_tokens[drawn.input_tokens > plan.threshold_tokens]
    crossing_bytes_per_s = float(kv_bytes(model, crosses).sum()) / promised_s
    rows = [
        ("kv_bytes", "B", sizes, travelled, None),
        ("ttft_mean_s", "s", plan.ttft_mean_s, float(ttft.mean()), _interval(ttft)),
        ("ttft_p90_s", "s", plan.ttft_p90_s, float(np.quantile(ttft, 0.9)), None),
        ("tpot_mean_s", "s", plan.tpot_mean_s, float(tpot.mean()), _interval(tpot)),
        ("throughput_req_per_s", "req/s", len(drawn.gaps) / promised_s, len(finished) / span_s, None),
        (
            "link_fraction",
            "1",
            crossing_bytes_per_s / LINK_BYTES_PER_S,
            run.link_bytes / span_s / LINK_BYTES_PER_S,
            None,
        ),
    ]
    return [
        _check(name, unit, predicted, by_executor.get(name), measured, interval, TOLERANCE[name])
        for name, unit, predicted, measured, interval in rows
    ]


def _interval(values: Any) -> tuple[float, float]:
    """95 % interval of a mean, requests taken as independent, which those of one busy period are not quite."""
    half = 1.96 * float(np.std(values)) / sqrt(len(values))
    return float(np.mean(values)) - half, float(np.mean(values)) + half


def _check(
    metric: str,
    unit: str,
    predicted: float,
    executed: float | None,
    measured: float,
    interval: tuple[float, float] | None,
    tolerance: float,
) -> LiveCheck:
    error = predicted / measured - 1 if measured else None
    low, high = interval or (None, None)
    return LiveCheck(
        metric=metric,
        unit=unit,
        predicted=predicted,
        executed=executed,
        measured=measured,
        ci_low=low,
        ci_high=high,
        relative_error=error,
        tolerance=tolerance,
        holds=error is not None and abs(error) <= tolerance,
    )


def _answer(
    question: LiveQuestion,
    model: ModelProfile,
    plan: Forecast,
    measured: Measured,
    run: LiveRun,
    own: Sequence[Timed],
    specs: Sequence[WorkerSpec],
    checks: Sequence[LiveCheck],
) -> Live:
    return Live(
        scenario=model.name,
        machine=_machine(measured, run, own, specs),
        seed=question.seed,
        threshold_tokens=plan.threshold_tokens,
        link_bytes_per_s=LINK_BYTES_PER_S,
        offered_req_per_s=plan.offered_req_per_s,
        n_requests=len(run.records),
        n_finished=len(run.finished),
        n_dropped=len(run.dropped),
        served_s=run.duration_s,
        checks=tuple(checks),
    )


def _machine(measured: Measured, run: LiveRun, own: Sequence[Timed], specs: Sequence[WorkerSpec]) -> LiveMachine:
    rates = [*measured.rates.values()]
    prefilled = [r for r in run.finished if r.prefill_busy_s is not None]
    busy = sum(sum(t.busy_s) for t in own) + sum(r.prefill_busy_s or 0.0 for r in prefilled)
    wall = sum(sum(t.wall_s) for t in own) + sum(_prefill_wall_s(r) for r in prefilled)
    return LiveMachine(
        **vars(machine_description()),
        workers={spec.name: spec.core for spec in specs},
        gemm_flop_per_s={
            str(rows): float(np.median([r.gemm_flop_per_s[rows] for r in rates])) for rows in rates[0].gemm_flop_per_s
        },
        memory_bytes_per_s=float(np.median([r.memory_bytes_per_s for r in rates])),
        call_s=float(np.median([r.call_s for r in rates])),
        loopback_bytes_per_s=float(np.median([r.loopback_bytes_per_s for r in rates])),
        busy_before_fraction=1 / measured.stretch,
        busy_fraction=busy / wall if wall else None,
    )


def _prefill_wall_s(record: LiveRecord) -> float:
    return (record.prefill_end_s or 0.0) - (record.prefill_start_s or 0.0)


def _write(out: Path, found: LiveStudy, model: ModelProfile) -> None:
    """The records, the timed passes and the answer beside the profiles."""
    import json

    own = points_csv([Probe(model, found.own)])
    write_text(out / "passes.csv", own)
    write_text(out / "live.json", json.dumps(found.live.answer(), indent=2) + "\n")
    fields = [name for name in vars(found.run.records[0]) if name != "tokens"]
    lines = [",".join(fields)]
    lines += [",".join(_cell(getattr(record, name)) for name in fields) for record in found.run.records]
    write_text(out / "records.csv", "\n".join(lines) + "\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6f}" if isinstance(value, float) else str(value).replace(",", ";")
