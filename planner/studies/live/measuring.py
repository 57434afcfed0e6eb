"""Before anything is served: the machine measured with all its workers busy, and the profiles that follow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from planner.files import write_text
from planner.hybrid.core_time import core_times
from planner.hybrid.live import Fleet
from planner.hybrid.machine import CoreRates, KernelRates, core_rates, kernel_rates, machine_description
from planner.hybrid.timing import PrefillPoint, Timed, Trial, time_paced, time_trials
from planner.profiles import HardwareProfile, ModelProfile, StackProfile, hardware_profile
from planner.profiles.stack_writer import stack_toml
from planner.roofline import Chip, Layout, ServedModel, stack
from planner.studies.live.machine_files import hardware_toml, model_toml, write_profile
from planner.studies.live.question import CHUNK_TOKENS, OWN_POINTS
from planner.studies.live.stack_fit import PROBE_POINTS, Probe, fitted_stack, points_csv, probe_models

MACHINE = "this-machine"
PROFILES = "profiles"
"""Folder of the profiles that are written."""
TASK_LIMIT_S = 300.0
PACED = PrefillPoint(256)
"""Prompt of the prefills with pauses, near the mean of those that are served."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Measurements of the machine before anything was served, and the profiles made of them."""

    rates: Mapping[str, CoreRates]
    kernels: Mapping[str, KernelRates]
    probes: tuple[Probe, ...]
    own: tuple[Timed, ...]
    """Passes of the served model, timed in the same rounds as the probes'; no profile rests on them."""
    hardware: HardwareProfile
    stack: StackProfile
    stack_path: Path
    served: ServedModel
    steal_fraction: float | None
    """Share of the time that the hypervisor gave to others meanwhile; None where it is not told."""

    @property
    def loopback_bytes_per_s(self) -> float:
        """TCP over 127.0.0.1 [B/s]."""
        return float(np.median([rates.loopback_bytes_per_s for rates in self.rates.values()]))


def measure(
    fleet: Fleet, model: ModelProfile, folder: Path, say: Callable[[str], None], *, n_rounds: int = 4
) -> Measured:
    """Rates of cores and kernels, times of probe models, and the profiles that follow from them, in an existing folder.

    Args:
        fleet: workers that are ready.
        model: model that will be served; no probe is.
        folder: where profiles and timed points go.
        say: told what is going on.
        n_rounds: times that each worker tries each point, all points of all models in turn.

    Raises:
        InputError: the folder cannot be written, or a profile made of the measurements does not hold.
        UndecidedError: a worker died or took too long.
    """
    backend = fleet.model.backend
    profiles, before = folder / PROFILES, core_times(_cores(fleet))
    say("measuring cores")
    rates = fleet.answers(each_core(fleet, core_rates, ()), TASK_LIMIT_S)
    kernels = fleet.answers(each_core(fleet, kernel_rates, ()), TASK_LIMIT_S)
    address = (folder / "probes.csv").resolve().as_uri()
    text = hardware_toml(MACHINE, machine_description(backend), [*rates.values()], [*kernels.values()], address)
    hardware = hardware_profile(str(write_profile(profiles, MACHINE, text)))
    say("timing probe models and the served one")
    probes, own = _timed(fleet, probe_models(model), n_rounds)
    after = core_times(_cores(fleet))
    for profile in (model, *(probe.model for probe in probes)):
        write_profile(profiles, profile.name, model_toml(profile))
    write_text(folder / "probes.csv", points_csv(probes))
    source = f"Passes of probe models timed by planner live; {address}"
    fitted = fitted_stack(hardware, probes, chunk_tokens=CHUNK_TOKENS, day=date.today(), source=source, backend=backend)
    path = write_profile(profiles, fitted.name, stack_toml(fitted))
    ready = stack(str(path))
    served = ServedModel(model, Chip(hardware), Layout(), ready.factors, chunk_tokens=ready.settings.chunk_tokens)
    steal = after.steal_fraction_since(before) if after else None
    return Measured(rates, kernels, probes, own, hardware, fitted, path, served, steal)


def busy_fraction(timed: Sequence[Timed]) -> float:
    """Share of the time on the wall in which workers ran: below 1 where other programs ran too."""
    return sum(sum(item.busy_s) for item in timed) / sum(sum(item.wall_s) for item in timed)


def paced_stretch(fleet: Fleet, own: Sequence[Timed], load_fraction: float, duration_s: float) -> float:
    """Seconds on the wall that prefills take at a load, over busy seconds of the same with all cores busy.

    Above 1 where other programs take the cores, below it where cores that rest leave more to the others.

    Args:
        fleet: workers that are ready.
        own: passes of the served model, all workers busy.
        load_fraction: share of the time in which workers will compute.
        duration_s: how long to go on [s].
    """
    arguments = (PACED.new_tokens, load_fraction, duration_s, CHUNK_TOKENS)
    by_worker = fleet.answers(each_core(fleet, time_paced, arguments), TASK_LIMIT_S)
    walls = [wall_s for tries in by_worker.values() for _, wall_s in tries]
    all_busy_s = next(timed.median_s for timed in own if timed.point == PACED)
    return float(np.mean(walls)) / all_busy_s


def _timed(fleet: Fleet, models: Sequence[ModelProfile], n_rounds: int) -> tuple[tuple[Probe, ...], tuple[Timed, ...]]:
    """Probes, and the served model at OWN_POINTS."""
    trials = [Trial(model, PROBE_POINTS) for model in models]
    arguments = (trials, OWN_POINTS, n_rounds, CHUNK_TOKENS)
    by_worker = fleet.answers(each_core(fleet, time_trials, arguments), TASK_LIMIT_S)
    *others, own = (merged(timed) for timed in zip(*by_worker.values(), strict=True))
    return tuple(Probe(model, timed) for model, timed in zip(models, others, strict=True)), own


def each_core(
    fleet: Fleet, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The same task for one worker of each core, so that all cores are busy and none twice."""
    by_core = {spec.core: spec.name for spec in reversed(fleet.specs)}
    return dict.fromkeys(sorted(by_core.values()), (function, arguments))


def _cores(fleet: Fleet) -> list[int]:
    return [spec.core for spec in fleet.specs if spec.core is not None]


def merged(by_worker: Sequence[Sequence[Timed]]) -> tuple[Timed, ...]:
    """Tries of all workers together, point by point: round by round, worker by worker within a round."""
    return tuple(
        Timed(
            same[0].point,
            tuple(s for each in zip(*(timed.busy_s for timed in same), strict=True) for s in each),
            tuple(s for each in zip(*(timed.wall_s for timed in same), strict=True) for s in each),
        )
        for same in zip(*by_worker, strict=True)
    )
