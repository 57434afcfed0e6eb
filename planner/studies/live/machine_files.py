"""Measurements of this machine as a hardware profile: one core is one accelerator."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from planner.files import write_text
from planner.hybrid.machine import CoreRates, KernelRates, MachineDescription
from planner.profiles import ModelProfile
from planner.profiles.efficiency_checks import BOUNDS, RANGES, SLACK
from planner.profiles.toml_text import toml_assignments, toml_table
from planner.roofline.chip import KERNEL_START_S, MOE_ROWS
from planner.units import GB, MICRO, TERA, gbps

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
        name: name of the profile.
        machine: the machine in words.
        cores: rates of each worker's core, measured at the same time.
        kernels: rates of each worker's kernels, likewise.
        address: where the measurements are kept.

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
    """The file of a model profile without measurements.

    Returns:
        TOML that reads back as the profile.
    """
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
