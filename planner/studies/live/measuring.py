"""Before anything is served: the machine measured with all its workers busy, and the files of its profiles."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from planner.files import write_text
from planner.hybrid.core_time import core_times
from planner.hybrid.live import Fleet
from planner.hybrid.machine import (
    CoreRates,
    KernelRates,
    MachineDescription,
    core_rates,
    kernel_rates,
    machine_description,
)
from planner.hybrid.timing import PrefillPoint, Timed, Trial, time_paced, time_trials
from planner.profiles import HardwareProfile, ModelProfile, StackProfile, hardware_profile
from planner.profiles.efficiency_checks import BOUNDS, RANGES, SLACK
from planner.profiles.stack_writer import stack_toml
from planner.profiles.toml_text import toml_assignments, toml_table
from planner.progress import Progress
from planner.roofline import Chip, InstanceModel, Layout, stack
from planner.roofline.chip import KERNEL_START_S, MOE_ROWS
from planner.studies.live.question import CHUNK_TOKENS, OWN_POINTS
from planner.studies.live.stack_fit import PROBE_POINTS, Probe, fitted_stack, probe_models, probes_csv
from planner.units import GB, MICRO, TERA, gbps

MACHINE = "this-machine"
PROFILES = "profiles"
"""Folder of the profiles that are written."""
TASK_LIMIT_S = 300.0
PACED = PrefillPoint(256)
"""Prompt of the prefills with pauses, near the mean of those that are served."""


@dataclass(frozen=True, eq=False)
class MeasuredMachine:
    """Measurements of the machine before anything was served, and the profiles made of them."""

    rates: Mapping[str, CoreRates]
    kernels: Mapping[str, KernelRates]
    probes: tuple[Probe, ...]
    own: tuple[Timed, ...]
    """Passes of the served model, timed in the same rounds as the probes'; no profile rests on them."""
    hardware: HardwareProfile
    stack: StackProfile
    stack_path: Path
    served: InstanceModel
    steal_fraction: float | None
    """Share of the time that the hypervisor gave to others meanwhile; None where it is not told."""

    @property
    def loopback_bytes_per_s(self) -> float:
        """TCP over 127.0.0.1 [B/s]."""
        return float(np.median([rates.loopback_bytes_per_s for rates in self.rates.values()]))


def measure_machine(
    fleet: Fleet, model: ModelProfile, folder: Path, progress: Progress, *, n_rounds: int = 4
) -> MeasuredMachine:
    """Rates of cores and kernels, times of probe models, and the profiles that follow from them, in an existing folder.

    Args:
        model: model that will be served; no probe is.
        n_rounds: times that each worker tries each point, all points of all models in turn.

    Raises:
        InputError: the folder cannot be written, or a profile made of the measurements does not hold.
        UndecidedError: a worker died or took too long.
    """
    backend = fleet.model.backend
    profiles, before = folder / PROFILES, core_times(_cores(fleet))
    progress("measuring cores")
    rates = fleet.answers(each_core(fleet, core_rates, ()), TASK_LIMIT_S)
    kernels = fleet.answers(each_core(fleet, kernel_rates, ()), TASK_LIMIT_S)
    address = (folder / "probes.csv").resolve().as_uri()
    text = hardware_toml(MACHINE, machine_description(backend), [*rates.values()], [*kernels.values()], address)
    hardware = hardware_profile(str(write_profile(profiles, MACHINE, text)))
    progress("timing probe models and the served one")
    probes, own = _timed(fleet, probe_models(model), n_rounds)
    after = core_times(_cores(fleet))
    for profile in (model, *(probe.model for probe in probes)):
        write_profile(profiles, profile.name, model_toml(profile))
    write_text(folder / "probes.csv", probes_csv(probes))
    source = f"Passes of probe models timed by planner live; {address}"
    fitted = fitted_stack(hardware, probes, chunk_tokens=CHUNK_TOKENS, day=date.today(), source=source, backend=backend)
    path = write_profile(profiles, fitted.name, stack_toml(fitted))
    ready = stack(str(path))
    served = InstanceModel(model, Chip(hardware), Layout(), ready.factors, chunk_tokens=ready.settings.chunk_tokens)
    steal = after.steal_fraction_since(before) if after else None
    return MeasuredMachine(rates, kernels, probes, own, hardware, fitted, path, served, steal)


def busy_fraction(timed: Sequence[Timed]) -> float:
    """Share of the time on the wall in which workers ran: below 1 where other programs ran too."""
    return sum(sum(item.busy_s) for item in timed) / sum(sum(item.wall_s) for item in timed)


def paced_stretch(fleet: Fleet, own: Sequence[Timed], load_fraction: float, duration_s: float) -> float:
    """Seconds on the wall that prefills take at a load, over busy seconds of the same with all cores busy.

    Above 1 where other programs take the cores, below it where cores that rest leave more to the others.

    Args:
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
    *others, own = (merged_tries(timed) for timed in zip(*by_worker.values(), strict=True))
    return tuple(Probe(model, timed) for model, timed in zip(models, others, strict=True)), own


def each_core(
    fleet: Fleet, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The same task for one worker of each core, so that all cores are busy and none twice."""
    by_core = {spec.core: spec.name for spec in reversed(fleet.specs)}
    return dict.fromkeys(sorted(by_core.values()), (function, arguments))


def _cores(fleet: Fleet) -> list[int]:
    return [spec.core for spec in fleet.specs if spec.core is not None]


def merged_tries(by_worker: Sequence[Sequence[Timed]]) -> tuple[Timed, ...]:
    """Tries of all workers together, point by point: round by round, worker by worker within a round."""
    return tuple(
        Timed(
            same[0].point,
            tuple(s for each in zip(*(timed.busy_s for timed in same), strict=True) for s in each),
            tuple(s for each in zip(*(timed.wall_s for timed in same), strict=True) for s in each),
        )
        for same in zip(*by_worker, strict=True)
    )


DIGITS = 4
CHUNK_US = 20.0
"""Calls of one chunk of the recurrence that take their time whatever is in it; a probe's fit corrects it."""
CHUNK_CALLS = 20
"""The same as calls, where one takes longer."""
EXPERT_KERNELS, EXPERTS_NOTE = 5, "two products, each with a sort or a sum, and what is between them"
WITHIN = 0.999
"""Of a bound that the gate sets, so that rounding does not lead out of it."""


def hardware_toml(
    name: str, machine: MachineDescription, cores: Sequence[CoreRates], kernels: Sequence[KernelRates], address: str
) -> str:
    """The file of a hardware profile.

    Args:
        cores: rates of each worker's core, measured at the same time.

    Returns:
        TOML; every figure the median over cores, measured. A core computes in fp32, which stands for bf16: the profile
        formats know no wider one.
    """
    core, kernel = _medians(cores), _medians(kernels)
    peak = max(core["peak_flop_per_s"], *(_gemm(cores, rows) for rows in cores[0].gemm_flop_per_s))
    memory = max(core["memory_bytes_per_s"], kernel["attention_read_bytes_per_s"], kernel["state_bytes_per_s"])
    on_device, n_shares = machine.device_memory_bytes is not None, len(cores)
    share_gb = (machine.device_memory_bytes or 0) / n_shares / GB
    if not on_device:
        share_gb = machine.memory_bytes / machine.n_cores / GB
    share = "memory of the device over the workers" if on_device else "physical memory over the cores that may be used"
    figures = {
        "bf16_tflops": _figure(peak / TERA, "fp32 products, the best rate found"),
        "memory_gb": _figure(share_gb, share),
        "memory_bandwidth_tb_per_s": _figure(memory / TERA, "the best of reading weights, copying, latents and states"),
        "nic_gbps": _figure(gbps(core["loopback_bytes_per_s"]), "TCP over 127.0.0.1, both ends on one core"),
        "scaleup_domain_accelerators": _figure(1, "workers share one device" if on_device else "a worker is one core"),
    }
    fractions = {f"gemm_bf16_m{rows}_fraction": _gemm(cores, rows) / peak for rows in cores[0].gemm_flop_per_s}
    fractions |= {
        "attention_prefill_fraction": kernel["attention_flop_per_s"] / peak,
        "attention_decode_fraction": kernel["attention_read_bytes_per_s"] / memory,
        "weight_read_bf16_fraction": core["memory_bytes_per_s"] / memory,
        "moe_weight_read_bf16_fraction": core["memory_bytes_per_s"] / memory,
        "recurrence_fraction": kernel["recurrence_flop_per_s"] / peak,
        "recurrence_decode_fraction": kernel["state_bytes_per_s"] / memory,
    }
    fractions |= {f"moe_bf16_m{int(rows)}_fraction": kernel["moe_flop_per_s"] / peak for rows in MOE_ROWS}
    chunk_us = max(CHUNK_US, CHUNK_CALLS * core["call_s"] * 1e6)
    efficiency = _efficiencies(fractions)
    efficiency["moe_bf16_start_us"] = _figure(EXPERT_KERNELS * KERNEL_START_S / MICRO, EXPERTS_NOTE, basis="assumed")
    efficiency["recurrence_chunk_us"] = _figure(chunk_us, "some twenty calls of a microsecond", basis="assumed")
    head = {
        "schema": "planner.hardware/1",
        "name": name,
        "title": f"A worker's share of {machine.device}" if on_device else f"One core of {machine.processor}",
        "vendor": "this machine",
        "status": "available",
        # Of a device with cores of its own nothing is known beforehand.
        "generation": "other" if on_device else "cpu-core",
    }
    sources = {"live": f"Measured by planner live, all workers busy; {address}"}
    tables = [toml_table("sources", sources), toml_table("figures", figures), toml_table("efficiency", efficiency)]
    return "\n".join([toml_assignments(head), *tables])


def model_toml(model: ModelProfile) -> str:
    """The file of a model profile without measurements."""
    content = model.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
    architecture = content.pop("architecture")
    head = {key: content[key] for key in ("schema", "name", "title", "precision")}
    tables = [toml_assignments(head), toml_table("sources", content["sources"])]
    tables.append(toml_table("checkpoint", content["checkpoint"]))
    plain = {key: value for key, value in architecture.items() if key not in ("moe", "attention")}
    tables.append(toml_table("architecture", plain))
    if "moe" in architecture:
        tables.append(toml_table("architecture.moe", architecture["moe"]))
    tables += [toml_table("[architecture.attention]", group) for group in architecture["attention"]]
    return "\n".join(tables)


def write_profile(folder: Path, name: str, text: str) -> Path:
    """Write a profile under its name.

    Raises:
        InputError: the folder cannot be written.
    """
    path = folder / f"{name}.toml"
    write_text(path, text)
    return path


def _medians(items: Sequence[CoreRates] | Sequence[KernelRates]) -> Mapping[str, float]:
    names = [name for name, value in vars(items[0]).items() if isinstance(value, float)]
    return {name: float(np.median([getattr(item, name) for item in items])) for name in names}


def _gemm(cores: Sequence[CoreRates], rows: int) -> float:
    return float(np.median([core.gemm_flop_per_s[rows] for core in cores]))


def _figure(value: float, note: str | None = None, basis: str = "measured") -> dict[str, float | str]:
    shown = value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")
    return {"value": shown, "source": "live", "basis": basis, **({"note": note} if note else {})}


def _efficiencies(measured: Mapping[str, float]) -> dict[str, dict[str, float | str]]:
    """Efficiencies as measured, or the nearest that the gate allows: kernels are timed one after another."""
    kept = {key: min(max(value, RANGES[key].low), RANGES[key].high) for key, value in measured.items()}
    known = [pair for pair in BOUNDS if all(key in kept for key in pair)]
    while broken := [(low, high) for low, high in known if kept[low] > SLACK * kept[high]]:
        for low, high in broken:
            kept[low] = min(kept[low], WITHIN * SLACK * kept[high])
    return {
        key: _figure(kept[key])
        if kept[key] == min(value, RANGES[key].high)
        else _figure(kept[key], f"measured {value:.3g}; the nearest that the format allows", "derived")
        for key, value in measured.items()
    }
