"""Every factor of a stack that seconds of a pass depend on: they change as the equations say, by hand."""

from dataclasses import fields, replace
from math import cbrt
from typing import Any

import numpy as np
import pytest

from planner.roofline import Factors, RankWork, operator_seconds, pass_time
from planner.roofline.factors import DATASHEET, FACTOR_NAMES, PRIOR, PRIORS
from planner.roofline.rank_work import (
    ATTENTION,
    COLLECTIVE,
    EXCHANGE,
    GEMM,
    GROUPED,
    MOE,
    OTHER,
    RECURRENCE,
    REPLICAS,
)

N_LAYERS, N_KERNELS, N_SEQUENCES = 2.0, 3.0, 10.0
PRODUCTS = {"fixed_s": 1e-3, "kernel_s": 3e-3, "ceiling_s": 2e-3}
BYTES = {"weight_s": 4e-3, "activation_s": 2e-3, "kv_s": 1e-3}
"""Of an entry, each time [s]."""
CHUNKS = {"serial_s": 5e-3}
SENT = {"transfer_s": 2e-3, "latency_s": 1e-3}


def work(*entries: tuple[int, dict[str, float]], n_passes: int = 1) -> RankWork:
    """The same entries in every pass, each of two layers with three kernels and products of 16 rows."""
    columns: dict[str, Any] = {
        field.name: np.array([columns.get(field.name, 0.0) for _, columns in entries] * n_passes)
        for field in fields(RankWork)
    }
    n = len(entries)
    alike = {"n_layers": N_LAYERS, "n_kernels": N_KERNELS, "rows": 16.0}
    columns |= {name: np.full(n * n_passes, value) for name, value in alike.items()}
    columns |= {"n_passes": n_passes, "pass_index": np.repeat(np.arange(n_passes), n)}
    return RankWork(**{**columns, "work_class": np.array([kind for kind, _ in entries] * n_passes)})


def with_factor(name: str, value: Any) -> Factors:
    """The bare roofline but for one factor."""
    return replace(DATASHEET, **{name: value})


def total_s(of: RankWork, factors: Factors, **options: Any) -> list[float]:
    return [float(seconds) for seconds in pass_time(of, factors, N_SEQUENCES, **options).total_s]


CASES = [  # factor, its value, kind and columns of the pass; its seconds on the bare roofline, and with the factor
    # 2 layers of 1 ms that no stack changes and 3 ms at the measured rate
    ("gemm_efficiency", 0.5, GEMM, PRODUCTS, 8e-3, 2 * (1e-3 + 3e-3 / 0.5)),
    ("moe_efficiency", 0.5, MOE, PRODUCTS, 8e-3, 2 * (1e-3 + 3e-3 / 0.5)),
    ("attention_efficiency", 0.5, ATTENTION, PRODUCTS, 8e-3, 2 * (1e-3 + 3e-3 / 0.5)),
    ("recurrence_efficiency", 0.5, RECURRENCE, PRODUCTS, 8e-3, 2 * (1e-3 + 3e-3 / 0.5)),
    ("recurrence_efficiency", 0.5, RECURRENCE, PRODUCTS | CHUNKS, 10e-3, 2 * 5e-3 / 0.5),
    ("gemm_efficiency", 10.0, GEMM, PRODUCTS, 8e-3, 2 * 2e-3),  # no kernel is above the ceiling
    # rows of 16 padded by half a tile of 64, of which 256 rows have 32 / 256 in what was measured
    ("tile_rows", 64.0, GEMM, PRODUCTS, 8e-3, 2 * 4e-3 * (1 + 32 / 16) / (1 + 32 / 256)),
    ("tile_rows", 64.0, GROUPED, PRODUCTS, 8e-3, 2 * 4e-3 * (1 + 32 / 16) / (1 + 32 / 256)),
    ("weight_read_fraction", 0.5, OTHER, BYTES, 14e-3, 2 * (4e-3 / 0.5 + 2e-3 + 1e-3)),
    ("activation_traffic", 1.5, OTHER, BYTES, 14e-3, 2 * (4e-3 + 2e-3 * 1.5 + 1e-3)),
    ("kv_read_efficiency", 0.5, OTHER, BYTES, 14e-3, 2 * (4e-3 + 2e-3 + 1e-3 / 0.5)),
    ("kernel_latency_s", 1e-3, OTHER, BYTES, 14e-3, 14e-3 + 2 * 3 * 1e-3),
    ("collective_latency", 1.5, COLLECTIVE, SENT, 2 * 2e-3, 2 * (2e-3 + 1.5 * 1e-3)),
    ("collective_latency", 1.5, EXCHANGE, SENT, 2 * 2e-3, 2 * (2e-3 + 1.5 * 1e-3)),
    ("replica_latency_s", 1e-3, REPLICAS, {}, 0.0, 2 * 1e-3),
    ("step_overhead_s", 1e-3, OTHER, BYTES, 14e-3, 14e-3 + 1e-3),
    ("sequence_overhead_s", 1e-3, OTHER, BYTES, 14e-3, 14e-3 + 10 * 1e-3),
    # the host beside the accelerator: as long as it, 2^(1/3) of each
    ("host_step_s", 14e-3, OTHER, BYTES, 14e-3, 14e-3 * cbrt(2)),
    ("host_sequence_s", 1.4e-3, OTHER, BYTES, 14e-3, 14e-3 * cbrt(2)),
    ("eager_launch_s", 7e-3, OTHER, BYTES, 14e-3, 14e-3 * cbrt(1 + 3**3)),  # 2 layers of 3 kernels: 42 ms
]
BEFORE_A_PASS = {"request_overhead_s", "prompt_token_s", "burst"}
"""Factors of what precedes a prefill, or of a closed loop: no pass has them."""


@pytest.mark.parametrize(("factor", "value", "kind", "columns", "bare_s", "seconds"), CASES)
def test_seconds_of_a_pass_change_with_a_factor_as_the_equation_says(
    factor: str, value: float, kind: int, columns: dict[str, float], bare_s: float, seconds: float
) -> None:
    eager = factor == "eager_launch_s"
    each = with_factor(factor, np.array([getattr(DATASHEET, factor), value]))
    found = total_s(work((kind, columns), n_passes=2), each, eager=eager)
    assert found == pytest.approx([bare_s, seconds], rel=1e-12)
    alone = total_s(work((kind, columns)), with_factor(factor, value), eager=eager)
    assert alone == pytest.approx([seconds], rel=1e-12)


@pytest.mark.parametrize("request_s", [0.0, 0.1])
def test_a_prompt_waits_for_its_request_and_for_its_tokens_before_its_prefill(request_s: float) -> None:
    factors = Factors(request_overhead_s=request_s, prompt_token_s=1e-6)
    assert np.asarray(factors.before_prefill_s(np.array([0.0, 1000.0]))) == pytest.approx([request_s, request_s + 1e-3])


def test_every_factor_has_a_prior_that_is_that_of_a_framework_of_which_nothing_is_known() -> None:
    assert {*PRIORS} == {*FACTOR_NAMES}
    assert vars(PRIOR) == {name: prior.value for name, prior in PRIORS.items()}
    assert all(prior.spread > 0 for prior in PRIORS.values())


def test_every_factor_is_asked_about_or_is_of_no_pass() -> None:
    assert {factor for factor, *_ in CASES} == set(FACTOR_NAMES) - BEFORE_A_PASS


KINDS = (GEMM, MOE, ATTENTION, RECURRENCE, OTHER, COLLECTIVE, REPLICAS, EXCHANGE, GROUPED)
OF_KINDS = {
    "gemm_efficiency": {GEMM},
    "moe_efficiency": {MOE},
    "attention_efficiency": {ATTENTION},
    "recurrence_efficiency": {RECURRENCE},
    "tile_rows": {GEMM, GROUPED},
    "collective_latency": {COLLECTIVE, EXCHANGE},
    "replica_latency_s": {REPLICAS},
}


OF_BYTES = ("weight_read_fraction", "activation_traffic", "kv_read_efficiency")


@pytest.mark.parametrize("factor", FACTOR_NAMES)
def test_a_factor_changes_passes_of_its_own_kinds_and_of_no_other(factor: str) -> None:
    columns = BYTES if factor in OF_BYTES else PRODUCTS | CHUNKS | SENT
    value = getattr(Factors(), factor) or 1.0
    once, twice = (
        [total_s(work((kind, columns)), replace(Factors(), **{factor: n * value}), eager=True) for kind in KINDS]
        for n in (1, 2)
    )
    changed = {kind for kind, before, after in zip(KINDS, once, twice, strict=True) if before != after}
    assert changed == (set() if factor in BEFORE_A_PASS else OF_KINDS.get(factor, set(KINDS)))


def test_products_and_bytes_of_an_operator_are_stated_apart() -> None:
    halved = replace(DATASHEET, gemm_efficiency=0.5, activation_traffic=3.0)
    compute, memory = operator_seconds(work((GEMM, PRODUCTS | BYTES)), halved)
    assert compute.tolist() == pytest.approx([2 * 7e-3])
    assert memory.tolist() == pytest.approx([2 * 11e-3])
    parts = pass_time(work((GEMM, PRODUCTS | BYTES)), halved)
    assert (parts.compute_s.tolist(), parts.memory_s.tolist()) == ([0.0], pytest.approx([2 * 11e-3]))


@pytest.mark.parametrize(
    ("factor", "value", "seconds"),
    [
        # Attention of 20 ms and an exchange of 12 ms at no latency, of which half is hidden
        ("collective_latency", 0.0, 20e-3 + 12e-3 - 6e-3),
        ("collective_latency", 2.0, 20e-3 + 16e-3 - 8e-3),
        ("kernel_latency_s", 1e-4, 20e-3 + 1.2e-3 + 12e-3 - (6e-3 - 1.2e-3)),  # 12 kernels, launched twice
        ("weight_read_fraction", 0.5, 20e-3 + 12e-3 - 6e-3),  # 4 ms of weights read twice are within 20 ms of products
        ("weight_read_fraction", 0.1, 20e-3 + 12e-3),  # 20 ms of weights read again save nothing
    ],
)
def test_what_two_micro_batches_hide_changes_with_a_factor_as_the_equation_says(
    factor: str, value: float, seconds: float
) -> None:
    entries = (ATTENTION, {"kernel_s": 10e-3, "weight_s": 1e-3}), (EXCHANGE, {"transfer_s": 6e-3, "latency_s": 1e-3})
    two = pass_time(work(*entries), with_factor(factor, value), overlap=0.5)
    assert two.total_s.tolist() == pytest.approx([seconds], rel=1e-12)
