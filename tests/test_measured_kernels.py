"""The roofline's operators against kernels timed on an H200 and an H100: tests/measured/SOURCES.md says how.

No figure of a profile was fitted to these timings. A bound is the median error as it is now and a little room: a change
that breaks one makes the roofline worse at that family than it was. Experts are predicted with what sorts their tokens
and sums their outputs, which was not timed here: the roofline is above these timings, and not below.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from planner.profiles import hardware_profile, model_profile
from planner.roofline import Chip, Factors, Layout, Sequences, operator_seconds, pass_operators, rank_work
from tests.cpu_cost import cached

DATA = Path(__file__).parent / "measured"
FILES = {"h200-sxm": DATA / "h200_kernels.csv", "h100-sxm": DATA / "h100_kernels.csv"}
DATASHEET = Factors(tile_rows=0.0, weight_read_fraction=1.0, kernel_latency_s=0.0)


@dataclass(frozen=True)
class Timing:
    """One row of a file, in numbers."""

    operator: str
    kernel: str
    format: str
    model: str
    tp: int
    phase: str
    sequences: float
    tokens: float
    cached: float
    n: int
    k: int
    seconds: float


@cached
def timings(hardware: str) -> list[Timing]:
    """Rows of operators of models, routed evenly where experts are: the roofline supposes that."""
    with FILES[hardware].open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] and row["routing"] != "zipf"]
    return [
        Timing(
            row["operator"],
            row["kernel"],
            row["format"],
            row["model"],
            int(row["tp"]),
            "decode" if row["phase"] == "decode" else "prefill",
            float(row["sequences"]),
            float(row["tokens"]),
            float(row["cached"]),
            int(row["n"] or 0),
            int(row["k"] or 0),
            float(row["seconds"]),
        )
        for row in rows
    ]


def predicted_s(chip: Chip, factors: Factors, rows: Iterable[Timing]) -> dict[Timing, float]:
    """Seconds of each timing's operator by the roofline."""
    groups: dict[tuple[str, int, str, str], list[Timing]] = defaultdict(list)
    for row in rows:
        groups[row.model, row.tp, row.phase, row.format].append(row)
    return {row: seconds for group in groups.values() for row, seconds in _group_s(chip, factors, group)}


def _group_s(chip: Chip, factors: Factors, group: list[Timing]) -> list[tuple[Timing, float]]:
    """As passes of one model on one rank, of which each timing has one operator of one layer."""
    first = group[0]
    sizes = np.array([(row.sequences, row.tokens, row.cached) for row in group])
    sequences, tokens, before = sizes.T
    prompts = first.phase == "prefill"
    part = Sequences.prefill(tokens, before, sequences) if prompts else Sequences.decode(sequences, before + tokens)
    layout = Layout(tp_size=first.tp)
    work = rank_work(model_profile(first.model), chip, layout, [part], precision=first.format)
    # Norms, rotations and what sorts tokens were not timed; recurrences and attention in decode have all their kernels.
    whole = ("recurrence",) if prompts else ("recurrence", "attention", "mla_attention")
    n_kernels = np.where(np.isin(work.name, whole), work.n_kernels, 1.0)
    seconds = np.maximum(*operator_seconds(work, factors)) / work.n_layers + n_kernels * factors.kernel_latency_s
    of_operator = dict(zip(work.name[:: len(group)].tolist(), seconds.reshape(-1, len(group)), strict=True))
    return [(row, float(of_operator[row.operator][index])) for index, row in enumerate(group)]


def fastest(rows: Iterable[Timing]) -> list[Timing]:
    """The fastest kernel of every shape."""
    best: dict[Timing, Timing] = {}
    for row in sorted(rows, key=lambda row: row.seconds):
        best.setdefault(replace(row, kernel="", seconds=0.0), row)
    return list(best.values())


FAMILIES = {  # beginnings of the names of kernels, phase, bound on the median error on H200 and on H100
    "dense products in bf16": ("cublas-bf16", "prefill", 0.06, 0.06),
    "dense products in fp8": ("cublas-fp8-tensorwise", "prefill", 0.16, 0.14),
    "dense products in fp8 by rows": ("cublas-fp8-rowwise", "prefill", 0.34, 0.28),
    "dense products in fp8 by blocks": ("cublas-fp8-blockwise", "prefill", 0.25, 0.21),
    "experts in bf16": (("torch-grouped", "triton-"), "prefill", 0.16, 0.19),
    "experts in fp8": ("torch-scaled-grouped", "prefill", 0.37, 0.34),
    "attention of prompts, FlashAttention-3": ("flash-attention-3", "prefill", 0.23, 0.23),
    "attention of prompts, cuDNN": ("cudnn", "prefill", 0.07, 0.06),
    "attention in decode": ("flash-attention-3", "decode", 0.12, 0.09),
    "latent attention in decode, FlashMLA": ("flash-mla", "decode", 0.21, 0.13),
    "KDA of prompts, FlashKDA": ("flash-kda", "prefill", 0.27, 0.21),
    "KDA of prompts, Triton": ("fla-chunk-kda-softplus", "prefill", 0.47, 0.52),
    "KDA in decode": ("fla-fused-recurrent-kda", "decode", 0.21, 0.20),
    "gated delta rule of prompts, Triton": ("fla-chunk-gated", "prefill", 0.28, 0.29),
    "gated delta rule in decode": ("fla-fused-recurrent-gated", "decode", 0.26, 0.15),
    "short convolution": ("fla-causal", "prefill", 0.45, 0.26),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("hardware", FILES)
def test_the_roofline_is_as_far_from_measured_kernels_as_is_said(hardware: str, family: str) -> None:
    kernels, phase, *bounds = FAMILIES[family]
    rows = fastest(row for row in timings(hardware) if row.kernel.startswith(kernels) and row.phase == phase)
    predicted = predicted_s(Chip(hardware_profile(hardware)), Factors(), rows)
    error = median(abs(predicted[row] / row.seconds - 1) for row in rows)
    if family.startswith("experts"):
        assert median(predicted[row] / row.seconds for row in rows) > 1
    assert error < dict(zip(FILES, bounds, strict=True))[hardware]


@pytest.mark.parametrize("hardware", FILES)
def test_no_kernel_is_faster_than_the_datasheet_allows(hardware: str) -> None:
    bare = Chip(hardware_profile(hardware), derated=False)
    bounds = predicted_s(bare, DATASHEET, timings(hardware))
    assert not [row for row, bound_s in bounds.items() if row.seconds < bound_s]


@pytest.mark.parametrize("hardware", FILES)
def test_products_were_measured_in_the_shapes_that_the_models_have(hardware: str) -> None:
    measured = {(row.model, row.operator, row.tp, row.n * row.k) for row in timings(hardware) if row.n}
    operators = {
        (model, operator.name): operator
        for model in {model for model, *_ in measured}
        for operator in pass_operators(model_profile(model), [Sequences.prefill(1)])
    }
    for model, name, tp, weights in measured:
        gemm = operators[model, name].gemm
        assert gemm is not None
        assert weights * tp == gemm.n * gemm.k
