"""Rates of a machine: operations and bytes that are counted apart from them, by the seconds of a clock made up."""

from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np
import pytest

from planner.hybrid import Products, hybrid_model, machine
from planner.profiles import model_profile

TINY = hybrid_model(model_profile(str(Path(__file__).with_name("hybrid-tiny.toml"))))
TOOK_S = 4.0


class Stopped:
    """Stands for the timing of calls: each is made once, and said to take some seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[np.ndarray] = []
        self.products: list[Products] = []
        monkeypatch.setattr(machine, "call_seconds", self.call_seconds)
        monkeypatch.setattr(machine, "Products", self.counted)

    def call_seconds(self, call: Callable[[], np.ndarray], like: np.ndarray) -> float:  # noqa: ARG002
        self.made.append(call())
        return TOOK_S

    def counted(self) -> Products:
        self.products.append(Products())
        return self.products[-1]


def test_rates_of_kernels_are_what_their_products_count_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """By chunks of the delta rule to a few hundredths: the closed form counts half squares for triangles."""
    heads, tokens, dim, batch = 4, 1024, 64, 8
    stopped = Stopped(monkeypatch)
    found = machine.kernel_rates(TINY)
    attention, read, moe, recurrence, step = stopped.made
    experts, chunks, steps = (one.kept_flop for one in stopped.products)
    queries = attention.shape[1]
    assert found.attention_flop_per_s * TOOK_S == 2 * (2 * prod((heads, queries, tokens, dim)))
    assert found.attention_read_bytes_per_s * TOOK_S == 2 * tokens * (4 * dim)
    assert found.moe_flop_per_s * TOOK_S == experts["experts_gate_up"] + experts["experts_down"]
    assert found.recurrence_flop_per_s * TOOK_S == pytest.approx(chunks["recurrence"], rel=0.04)
    assert found.state_bytes_per_s * TOOK_S == 2 * 4 * (steps["recurrence"] / 7), "7 FLOP for each value of a state"
    shapes = [(heads, queries, dim), (heads, 4 * dim), (tokens, 512), (heads, tokens, dim), (batch, heads, dim)]
    assert [one.shape for one in (attention, read, moe, recurrence, step)] == shapes
    assert all(np.isfinite(one).all() for one in (attention, read, moe, recurrence, step))


def test_decays_are_drawn_below_zero() -> None:
    drawn = machine.Drawing(np.random.default_rng(1), TINY.embedding).decays(2, 50)
    assert drawn.shape == (2, 50)
    assert drawn.max() < 0.0


def test_rates_of_products_are_harmonic_means_over_shapes_and_of_memory_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "GEMM_ROWS", (1, 16, 256))
    monkeypatch.setattr(machine, "STREAM_BYTES", 2**20)
    monkeypatch.setattr(machine, "loopback_bytes_per_s", lambda: 5.0)
    Stopped(monkeypatch)
    found = machine.core_rates(TINY)
    for rows, rate in found.gemm_flop_per_s.items():
        flop = [2 * rows * depth * columns for depth, columns in machine.GEMM_SHAPES]
        assert rate == pytest.approx(len(flop) / sum(TOOK_S / one for one in flop))
    assert found.peak_flop_per_s == 2 * 256 * 1024 * 1024 / TOOK_S
    assert found.memory_bytes_per_s == 4 * 1024 * 1024 / TOOK_S, "weights for one row, more than 2^20 copied"
    assert (found.call_s, found.loopback_bytes_per_s) == (TOOK_S, 5.0)
    monkeypatch.setattr(machine, "STREAM_BYTES", 2**23)
    assert machine.core_rates(TINY).memory_bytes_per_s == 2**23 / TOOK_S, "half of them read, half written"


@pytest.mark.parametrize(("rows", "n_weights"), [(1, 6), (256, 2)])
def test_products_of_few_rows_meet_other_weights_each_time(
    rows: int, n_weights: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many matrices as do not fit in the caches, one after another; where rows are many two are enough."""
    monkeypatch.setattr(machine, "STREAM_BYTES", 6 * 4 * 8 * 16)
    seen: list[int] = []

    def call_seconds(call: Callable[[], None], like: np.ndarray) -> float:  # noqa: ARG001
        monkeypatch.setattr(np, "matmul", lambda *of, **_: seen.append(of[1].ctypes.data))
        for _ in range(2 * n_weights):
            call()
        return 1.0

    monkeypatch.setattr(machine, "call_seconds", call_seconds)
    assert machine.gemm_flop_per_s(rows, 8, 16) == 2 * rows * 8 * 16
    assert len(set(seen)) == n_weights
    assert seen[:n_weights] == seen[n_weights:]


@pytest.mark.parametrize("each_s", [0.003, 0.5])
def test_seconds_of_a_call_are_those_of_its_batches_that_no_slow_spell_hits(
    each_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are made large enough to be timed before they count."""
    now_s, n_calls = 0.0, 0

    def call() -> None:
        nonlocal now_s, n_calls
        n_calls += 1
        now_s += each_s if n_calls > 2 else each_s + 100.0 * (n_calls == 1)

    monkeypatch.setattr(machine, "busy_clock_s", lambda _: now_s)
    assert machine.call_seconds(call) == pytest.approx(each_s)
    assert n_calls >= machine.LEAST_TIMED_S / each_s


def test_the_loopback_carries_its_bytes_in_the_seconds_of_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((10.0, 10.0 + TOOK_S))
    monkeypatch.setattr(machine, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(machine, "LOOPBACK_BYTES", 2**16)
    assert machine.loopback_bytes_per_s() == 2**16 / TOOK_S


def test_the_machine_has_the_memory_and_the_processor_that_its_system_tells() -> None:
    if not Path("/proc/meminfo").is_file():
        pytest.skip("the system tells nothing under /proc")
    found = machine.machine_description()
    total_kib = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert found.memory_bytes == pytest.approx(1024 * int(total_kib.split()[1]), rel=0.01)
    told = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    assert not told or told[0].endswith(f": {found.processor}")
    assert (found.torch, found.device, found.device_memory_bytes) == (None, None, None)
