"""Measured points that the model itself makes with factors that a test knows: what a fit ought to find again."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.profiles.points import ServingPoint, points_csv
from planner.profiles.stack import StackSettings
from planner.roofline import Factors, RunAs, Stack, stack
from planner.studies.fidelity.cases import PointCase, cases_of
from planner.studies.fidelity.fidelity import case_times
from planner.studies.fidelity.loads import loads_of

SETTINGS = StackSettings(memory_fraction=0.9)
MODELS = {"qwen3-32b": "bf16", "gpt-oss-120b": "fp4"}
HARDWARE = ("h100-sxm", "h200-sxm")
LENGTHS = ((1024.0, 512.0), (4096.0, 1024.0))
CONCURRENCY = (1.0, 8.0, 32.0)

POINT = ServingPoint(
    file="points.csv",
    line=2,
    model="qwen3-32b",
    hardware="h200-sxm",
    framework="vllm",
    framework_version="0.19.0",
    precision="bf16",
    kv_precision=None,
    mode="agg",
    input_tokens=1024.0,
    output_tokens=512.0,
    concurrency=8.0,
    request_rate_req_per_s=None,
    n_accelerators=4,
    tp_size=4,
    pp_size=1,
    attention_dp_size=1,
    moe_tp_size=4,
    moe_ep_size=1,
    prefill_num_workers=None,
    prefill_tp_size=None,
    decode_num_workers=None,
    decode_tp_size=None,
    ttft_s=0.25,
    tpot_s=0.0125,
    measured_date="2026-01-31",
)


def configurations(framework: str = "vllm", version: str | None = "0.19.0") -> list[ServingPoint]:
    """Two models on two accelerators in two layouts, two lengths and three loads: 48 points without latencies."""
    return [
        replace(
            POINT,
            line=2 + index,
            model=model,
            precision=precision,
            hardware=hardware,
            framework=framework,
            framework_version=version,
            n_accelerators=tp,
            tp_size=tp,
            moe_tp_size=tp,
            input_tokens=prompt,
            output_tokens=output,
            concurrency=concurrency,
        )
        for index, ((model, precision), hardware, tp, (prompt, output), concurrency) in enumerate(
            product(MODELS.items(), HARDWARE, (2, 4), LENGTHS, CONCURRENCY)
        )
    ]


def timed(points: Sequence[ServingPoint], factors: Factors, settings: StackSettings = SETTINGS) -> list[ServingPoint]:
    """Points with the latencies that the model has for them with these factors."""
    return _with(points, *case_times(_cases(points), Stack("test", factors, settings))[:2])


def made_by(name: str, points: Sequence[ServingPoint]) -> list[ServingPoint]:
    """Points with the latencies that a shipped stack has for them."""
    return _with(points, *case_times(_cases(points), stack(name))[:2])


def by_formulas(points: Sequence[ServingPoint], factors: Factors) -> list[ServingPoint]:
    """Points with the latencies of the closed formulas, which a fit moves between runs."""
    return _with(points, *loads_of(_cases(points), RunAs(SETTINGS)).latencies(factors))


def _cases(points: Sequence[ServingPoint]) -> list[PointCase]:
    cases, refused = cases_of(points)
    assert not refused
    return cases


def _with(points: Sequence[ServingPoint], ttft: NDArray[np.float64], tpot: NDArray[np.float64]) -> list[ServingPoint]:
    return [
        replace(point, ttft_s=first, tpot_s=later if point.output_tokens > 1 else None)
        for point, first, later in zip(points, ttft.tolist(), tpot.tolist(), strict=True)
    ]


def slower(points: Iterable[ServingPoint], ratio: float) -> list[ServingPoint]:
    """Points with latencies so many times as long."""
    return [
        replace(p, ttft_s=None if p.ttft_s is None else ratio * p.ttft_s, tpot_s=p.tpot_s and ratio * p.tpot_s)
        for p in points
    ]


def written(path: Path, points: Sequence[ServingPoint]) -> Path:
    """A table of points."""
    path.write_text(points_csv(points), encoding="utf-8")
    return path


def shown(text: str, points: Iterable[ServingPoint]) -> list[ServingPoint]:
    """Points both of whose latencies [ms] are on one line of a text, which would publish their row."""
    lines = text.splitlines()
    figures = [(point, [f"{1e3 * (s or 0.0):.6g}" for s in (point.ttft_s, point.tpot_s)]) for point in points]
    return [point for point, (ttft, tpot) in figures if any(ttft in line and tpot in line for line in lines)]
