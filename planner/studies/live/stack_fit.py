"""A stack profile for the hybrid room: factors fitted to timed passes of probe models, none the served one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.hybrid import shrunk
from planner.hybrid.arrays import NUMPY, Backend
from planner.hybrid.timing import DecodePoint, Point, PrefillPoint, Timed
from planner.profiles import HardwareProfile, ModelProfile, model_profile
from planner.profiles.stack import (
    Calibration,
    Errors,
    ErrorSummary,
    Factor,
    GroupError,
    PointsFile,
    StackFactors,
    StackProfile,
    StackSettings,
)
from planner.profiles.stack_checks import RANGES
from planner.roofline import Chip, Factors, InstanceModel, Layout, RankWork, Sequences, factors_of, pass_time

TITLES = {"numpy": "planner/hybrid in NumPy, one BLAS thread", "torch": "planner/hybrid in torch, one thread"}
FREE: Mapping[str, tuple[float, float]] = {
    "gemm_efficiency": (0.9, 0.2),
    "moe_efficiency": (0.9, 0.3),
    "attention_efficiency": (0.8, 0.5),
    "recurrence_efficiency": (0.8, 0.5),
    "weight_read_fraction": (0.8, 0.3),
    "kv_read_efficiency": (0.5, 0.7),
    "activation_traffic": (4.0, 0.7),
    "kernel_latency_us": (15.0, 0.7),
    "step_overhead_ms": (0.1, 0.7),
    "sequence_overhead_us": (60.0, 0.7),
}
"""Factors that are fitted: what is expected of each before any point speaks, and its spread in the logarithm."""
FIXED: Mapping[str, tuple[float, str]] = {
    "collective_latency": (1.0, "a worker is one core"),
    "tile_rows": (0.0, "products are measured down to one row"),
    "replica_latency_us": (0.0, "a worker is one core"),
    "host_step_ms": (0.0, "the core that computes is the host"),
    "host_sequence_us": (0.0, "the core that computes is the host"),
    "eager_launch_us": (0.0, "calls are counted as the latency of kernels"),
    "request_overhead_ms": (0.0, "a request's overhead is in the router, not in a pass"),
    "prompt_token_us": (0.0, "prompts come as token ids"),
    "burst": (1.0, "arrivals are an open loop"),
}
POINT_SPREAD = 0.05
"""Error of a point in the logarithm that the fit holds for likely."""
PROBE_POINTS: tuple[Point, ...] = (
    PrefillPoint(16),
    PrefillPoint(64),
    PrefillPoint(200),
    PrefillPoint(448),
    PrefillPoint(200, 400),
    DecodePoint(1, 300),
    DecodePoint(2, 900),
    DecodePoint(5, 600),
    DecodePoint(8, 300),
    DecodePoint(8, 1200),
)


@dataclass(frozen=True, eq=False)
class Probe:
    """A probe model and what was timed of it."""

    model: ModelProfile
    timed: tuple[Timed, ...]


def probe_models(served: ModelProfile) -> tuple[ModelProfile, ...]:
    """Models of the served one's kinds of layers in other proportions and with another width.

    Each leans on one kind, so that the factors of kinds can be told apart: delta layers, latent layers, and experts.
    """
    shapes = served.architecture
    hidden, heads = shapes.hidden_size or 0, _heads(served)
    whole = model_profile("kimi-linear-48b")
    n_experts = shapes.moe.n_experts if shapes.moe else 4

    def probe(name: str, pattern: str, dense: int, width: float = 1.0) -> ModelProfile:
        made = shrunk(
            whole,
            f"probe-{name}",
            n_layers=4,
            hidden_size=int(width * hidden),
            n_heads=heads[0],
            head_dim=heads[1],
            n_experts=n_experts,
            vocab_size=(shapes.vocab_size or 0) // 2,
        )
        return _arranged(made, pattern, dense)

    return (
        probe("delta", "KKKK", 1),
        probe("latent", "AAA", 1),
        probe("experts", "KAK", 0),
        probe("wide", "KKAK", 1, width=1.5),
    )


def _heads(served: ModelProfile) -> tuple[int, int]:
    group = next(group for group in served.architecture.attention if group.kind == "kda")
    return group.n_heads, group.head_dim


def _arranged(model: ModelProfile, pattern: str, n_dense: int) -> ModelProfile:
    """The same layers in another order and number."""
    content = model.model_dump(by_alias=True)
    shapes: dict[str, Any] = content["architecture"]
    groups = [group | {"n_layers": pattern.count(group["symbol"])} for group in shapes["attention"]]
    shapes["attention"] = tuple(group for group in groups if group["n_layers"])
    shapes |= {"pattern": pattern, "n_layers": len(pattern)}
    shapes["moe"]["n_dense_first_layers"] = n_dense
    return ModelProfile.model_validate(content)


def fitted_stack(
    hardware: HardwareProfile,
    probes: Sequence[Probe],
    *,
    chunk_tokens: int,
    day: date,
    source: str,
    backend: Backend = NUMPY,
) -> StackProfile:
    """Factors by least squares on logarithms, drawn towards what is expected.

    Equation:
        min sum over points (log predicted - log measured)^2 / 0.05^2 + sum over factors (log f - log f0)^2 / s^2

    Args:
        hardware: profile of a core.
        probes: probe models with their times.
        chunk_tokens: most tokens of one prefill pass; no probe's prompt is longer.
        day: of the measurement.
        source: where the points are kept.
        backend: what the probes computed with.

    Returns:
        A stack profile `hybrid-numpy` or `hybrid-torch` with its in-sample errors.

    Valid:
        For this room's software on that machine.

    Source:
        The method of `planner calibrate`, with passes in place of served requests.
    """
    from scipy.optimize import least_squares

    framework = f"hybrid-{backend.name}"
    names = list(FREE)
    expected = np.log([FREE[name][0] for name in names])
    spread = np.array([FREE[name][1] for name in names])
    low, high = (np.log([max(bound, 1e-3) for bound in bounds]) for bounds in _bounds(names))
    measured = np.log([timed.median_s for probe in probes for timed in probe.timed])
    predict = _Predictor(hardware, probes, names)

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        misses = np.log(predict(np.exp(logs))) - measured
        return np.concatenate([misses / POINT_SPREAD, (logs - expected) / spread])

    found = least_squares(residuals, np.clip(expected, low + 1e-6, high - 1e-6), bounds=(low, high))
    values = dict(zip(names, np.exp(found.x).tolist(), strict=True))
    errors = predict(np.exp(found.x)) / np.exp(measured) - 1
    return StackProfile.model_validate(
        {
            "schema": "planner.stack/1",
            "name": framework,
            "title": TITLES[backend.name],
            "framework": framework,
            "sources": {"probes": source, "build": "How planner/hybrid/live is built"},
            "settings": StackSettings(chunk_tokens=chunk_tokens).model_dump(),
            "factors": _factors(values).model_dump(),
            "calibration": _calibration(hardware, probes, errors, day).model_dump(),
        }
    )


class _Predictor:
    """Seconds of every point of every probe as a function of the free factors; what they rest on is counted once."""

    def __init__(self, hardware: HardwareProfile, probes: Sequence[Probe], names: Sequence[str]) -> None:
        self.names = names
        self.base = expected_factors()
        points = [(probe.model, timed.point) for probe in probes for timed in probe.timed]
        served = {probe.model.name: InstanceModel(probe.model, Chip(hardware), Layout(), self.base) for probe in probes}
        self.work = RankWork.joined(served[model.name].work([_sequences(point)]) for model, point in points)
        self.n_sequences = np.array([_n_sequences(point) for _, point in points], float)

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return pass_time(self.work, self._factors(values), self.n_sequences).total_s

    def _factors(self, values: NDArray[np.float64]) -> Factors:
        units = {"_us": 1e-6, "_ms": 1e-3}
        changes = {}
        for name, value in zip(self.names, values.tolist(), strict=True):
            suffix = name[-3:]
            changes[f"{name[:-3]}_s" if suffix in units else name] = value * units.get(suffix, 1.0)
        return replace(self.base, **changes)


def _sequences(point: Point) -> Sequences:
    if isinstance(point, DecodePoint):
        return Sequences.decode(point.batch, point.context_tokens)
    return Sequences.prefill(point.new_tokens, point.cached_tokens)


def _n_sequences(point: Point) -> int:
    return point.batch if isinstance(point, DecodePoint) else 1


def _bounds(names: Sequence[str]) -> tuple[list[float], list[float]]:
    return [RANGES[name].low for name in names], [RANGES[name].high for name in names]


def _factors(values: Mapping[str, float]) -> StackFactors:
    fitted = {name: Factor(value=value, source="probes", basis="calibrated") for name, value in values.items()}
    fixed = {name: Factor(value=v, source="build", basis="assumed", note=why) for name, (v, why) in FIXED.items()}
    return StackFactors(**fitted, **fixed)


def expected_factors() -> Factors:
    """Factors before any point speaks."""
    expected = StackProfile.model_validate(
        {
            "schema": "planner.stack/1",
            "name": "hybrid",
            "title": "hybrid",
            "framework": "hybrid",
            "sources": {"probes": "expected", "build": "expected"},
            "factors": _factors({name: value for name, (value, _) in FREE.items()}).model_dump(),
        }
    )
    return factors_of(expected)


def _calibration(
    hardware: HardwareProfile, probes: Sequence[Probe], errors: NDArray[np.float64], day: date
) -> Calibration:
    timed = [item for probe in probes for item in probe.timed]
    is_decode = np.array([isinstance(item.point, DecodePoint) for item in timed])
    owner = np.repeat([probe.model.name for probe in probes], [len(probe.timed) for probe in probes])
    prompts = [item.point for item in timed if isinstance(item.point, PrefillPoint)]
    steps = [item.point for item in timed if isinstance(item.point, DecodePoint)]
    lengths = [point.new_tokens + point.cached_tokens for point in prompts]
    contexts = [point.context_tokens for point in steps]
    text = probes_csv(probes)
    file = PointsFile(
        name="probes.csv", sha256=sha256(text.encode()).hexdigest(), n_points=len(timed), n_used=len(timed)
    )
    groups = [
        GroupError(
            model=probe.model.name,
            hardware=hardware.name,
            n_points=len(probe.timed),
            ttft_mean_abs=float(np.abs(errors[(owner == probe.model.name) & ~is_decode]).mean()),
            tpot_mean_abs=float(np.abs(errors[(owner == probe.model.name) & is_decode]).mean()),
        )
        for probe in probes
    ]
    return Calibration(
        date=day.isoformat(),
        source="probes",
        points=(file,),
        models=tuple(probe.model.name for probe in probes),
        hardware=(hardware.name,),
        input_tokens=(min(lengths), max(lengths)),
        context_tokens=(min(contexts), max(contexts)),
        batch=(min(p.batch for p in steps), max(p.batch for p in steps)),
        n_accelerators=(1, 1),
        in_sample=Errors(ttft=_summary(errors[~is_decode]), tpot=_summary(errors[is_decode])),
        groups=tuple(groups),
    )


def _summary(errors: NDArray[np.float64]) -> ErrorSummary:
    absolute = np.abs(errors)
    return ErrorSummary(
        n=errors.size,
        mean_abs=float(absolute.mean()),
        median_abs=float(np.median(absolute)),
        bias=float(np.median(errors)),
    )


def probes_csv(probes: Sequence[Probe]) -> str:
    """The timed points, one per line: busy seconds are what the fit reads."""
    lines = ["model,phase,batch,new_tokens,context_tokens,median_busy_s,least_busy_s,most_busy_s,median_wall_s"]
    for probe in probes:
        for timed in probe.timed:
            point = timed.point
            if isinstance(point, DecodePoint):
                shape = f"decode,{point.batch},1,{point.context_tokens}"
            else:
                shape = f"prefill,1,{point.new_tokens},{point.new_tokens + point.cached_tokens}"
            values = (timed.median_s, min(timed.busy_s), max(timed.busy_s), float(np.median(timed.wall_s)))
            lines.append(f"{probe.model.name},{shape}," + ",".join(f"{value:.6g}" for value in values))
    return "\n".join(lines) + "\n"
