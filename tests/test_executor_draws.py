"""Requests as drawn: the stated distributions, and independent draws that do not move one another."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.arrivals import diurnal_s
from planner.executor.draws import Draws, drawn_requests
from planner.scenario import DiurnalArrivals
from planner.workload.requests import request_mix
from tests.builders import in_classes, small_with
from tests.trace_cases import Conversations

N = 50_000


def drawn(changes: dict[str, Any], seed: int = 3, n: int = N) -> Any:
    return drawn_requests(small_with(changes), n, 2.0, Draws(seed))


def test_lengths_hits_and_rate_are_those_of_the_scenario() -> None:
    found = drawn({"workload.prefix_hits": {"kind": "beta", "alpha": 2.0, "beta": 3.0}})
    mix = request_mix(small_with({}).workloads["all"][1], Path())
    assert found["arrival_s"][-1] == pytest.approx(N / 2.0, rel=0.02)
    assert found["total_tokens"].mean() == pytest.approx(mix.mean_total_tokens, rel=0.02)
    assert (found["cached_tokens"] / found["total_tokens"]).mean() == pytest.approx(0.4, rel=0.02)
    assert (found["cached_tokens"] < found["total_tokens"]).all()


def test_a_quantity_that_becomes_random_moves_no_other() -> None:
    before = drawn({})
    after = drawn(
        {
            "workload.output_lengths": {
                "kind": "lognormal",
                "mu": 6.0,
                "sigma": 1.0,
                "low_tokens": 1,
                "high_tokens": 9000,
            },
            "workload.prefix_hits": {"kind": "beta", "alpha": 2.0, "beta": 3.0},
        }
    )
    for field in ("arrival_s", "total_tokens", "draw"):
        assert (before[field] == after[field]).all()
    assert (before["output_tokens"] != after["output_tokens"]).any()


def test_another_seed_or_replication_is_another_draw_and_the_same_is_the_same() -> None:
    scenario = small_with({})
    first, again, other = (drawn_requests(scenario, 100, 1.0, s) for s in (Draws(1), Draws(1), Draws(1, 1)))
    assert first.tobytes() == again.tobytes()
    assert not set(first["arrival_s"]) & set(other["arrival_s"])
    assert not set(first["arrival_s"]) & set(drawn_requests(scenario, 100, 1.0, Draws(2))["arrival_s"])


def test_more_requests_begin_with_the_same_ones() -> None:
    assert (drawn({}, n=100)["arrival_s"] == drawn({}, n=200)["arrival_s"][:100]).all()


def test_classes_come_by_their_shares_with_their_own_lengths() -> None:
    output = {"kind": "constant", "tokens": 10}
    classes = {
        "chat": (0.7, {"lengths": {"kind": "constant", "tokens": 100}, "output_lengths": output}),
        "papers": (0.3, {"lengths": {"kind": "constant", "tokens": 9000}, "output_lengths": output}),
    }
    found = drawn_requests(in_classes(classes, {}), N, 1.0, Draws(0))
    is_chat = found["request_class"] == 0
    assert is_chat.mean() == pytest.approx(0.7, abs=0.01)
    assert set(found["total_tokens"][is_chat]) == {100}
    assert set(found["total_tokens"][~is_chat]) == {9000}


def trace_of(path: Path, n: int, **arrivals: Any) -> dict[str, Any]:
    """A workload whose prompts have 10, 11, 12, ... tokens."""
    lines = [f'{{"timestamp": {1000 * i}, "input_length": {10 + i}, "output_length": 5}}' for i in range(n)]
    (path / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    stated = {"workload": {"trace": {"path": str(path / "t.jsonl")}}}
    return stated | ({"execution.arrivals": arrivals} if arrivals else {})


def test_a_trace_is_run_in_its_order_from_some_row_on_and_round(tmp_path: Path) -> None:
    found = drawn(trace_of(tmp_path, 7), n=10)["total_tokens"]
    assert set(found) == set(range(10, 17))
    assert set(np.diff(found)) == {1, -6}
    assert (np.diff(found) == -6).sum() in (1, 2)


def test_the_only_replication_of_a_run_replays_a_trace_from_its_first_row(tmp_path: Path) -> None:
    asked = small_with(trace_of(tmp_path, 7, kind="recorded"))
    found = drawn_requests(asked, 10, 2.0, Draws(3, 0, is_only=True))
    assert found["total_tokens"].tolist() == [10, 11, 12, 13, 14, 15, 16, 10, 11, 12]


@pytest.mark.parametrize("n", [20, 200, 1000])
@pytest.mark.parametrize("seed", [0, 7])
def test_replications_of_a_trace_begin_at_rows_that_are_spread_over_it(n: int, seed: int, tmp_path: Path) -> None:
    """Shorter than the trace, as long as it and longer: the rows are the same."""
    asked = small_with(trace_of(tmp_path, 200, kind="recorded"))
    every = [drawn_requests(asked, n, 2.0, Draws(seed, r)) for r in range(8)]
    starts = np.sort([int(one["total_tokens"][0]) for one in every])
    assert (np.diff([*starts, starts[0] + 200]) >= 200 / 8 / 2.62).all()  # a golden rotation never leaves less
    again = drawn_requests(asked, n, 2.0, Draws(seed, 3))
    assert again.tobytes() == every[3].tobytes()
    other = drawn_requests(asked, n, 2.0, Draws(seed + 1, 3))
    assert other["total_tokens"][0] != every[3]["total_tokens"][0]
    for one in every:
        assert (one["total_tokens"] - 10).tolist() == one["trace_row"].tolist()


@pytest.mark.parametrize("hits", ["none", "ideal"])
def test_a_trace_of_conversations_has_the_hits_of_its_workload(hits: str, mooncake: Conversations) -> None:
    stated = {"workload": {"trace": {"path": str(mooncake.path)}, "prefix_hits": hits}}
    found = drawn(stated, n=mooncake.n_requests)
    fraction = found["cached_tokens"].sum() / found["total_tokens"].sum()
    assert fraction == pytest.approx(mooncake.ideal_hit_fraction if hits == "ideal" else 0.0, abs=0.005)


def counts(arrival_s: Any, window_s: float) -> Any:
    """Arrivals in windows of equal length."""
    return np.bincount((arrival_s / window_s).astype(int))[:-1]


@pytest.mark.parametrize("squared_cv", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_their_rate_and_variation(squared_cv: float) -> None:
    gaps = np.diff(drawn({"execution.arrivals": {"kind": "gamma", "squared_cv": squared_cv}})["arrival_s"])
    assert gaps.mean() == pytest.approx(0.5, rel=0.03)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(squared_cv, rel=0.08)


@pytest.mark.parametrize("squared_cv", [0.25, 4.0])
def test_requests_arrive_as_their_workload_says_unless_the_run_states_otherwise(squared_cv: float) -> None:
    planned = {"workload.arrivals": {"kind": "gamma", "squared_cv": squared_cv}}
    gaps = np.diff(drawn(planned)["arrival_s"])
    assert gaps.mean() == pytest.approx(0.5, rel=0.03)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(squared_cv, rel=0.08)
    stated = {"execution.arrivals": {"kind": "gamma", "squared_cv": 1.0}}
    assert (drawn({**planned, **stated})["arrival_s"] == drawn(stated)["arrival_s"]).all()


def test_every_class_arrives_as_its_own_workload_says_at_its_own_rate() -> None:
    requests = {"lengths": {"kind": "constant", "tokens": 100}, "output_lengths": {"kind": "constant", "tokens": 10}}
    variations, rates = {"even": 0.25, "plain": 1.0, "bursty": 4.0}, {"even": 0.4, "plain": 0.4, "bursty": 1.2}
    classes = {
        name: {
            "share": {"bursty": 0.6}.get(name, 0.2),
            "workload": {**requests, "arrivals": {"kind": "gamma", "squared_cv": squared_cv}},
        }
        for name, squared_cv in variations.items()
    }
    found = drawn({"workload": None, "classes": classes}, n=200_000)
    assert (np.diff(found["arrival_s"]) >= 0).all()
    for index, (name, squared_cv) in enumerate(variations.items()):
        gaps = np.diff(found["arrival_s"][found["request_class"] == index])
        assert 1 / gaps.mean() == pytest.approx(rates[name], rel=0.03)
        assert gaps.var() / gaps.mean() ** 2 == pytest.approx(squared_cv, rel=0.08)


def test_bursts_keep_the_rate_and_scatter_the_counts() -> None:
    """Variance over mean of counts in long windows: 1 + 2 (rate gap)^2 tau p (1 - p) / rate, tau 1 / (1/a + 1/b)."""
    bursts = {"kind": "bursts", "rate_factor": 5.0, "mean_calm_s": 60.0, "mean_burst_s": 20.0}
    found = drawn({"execution.arrivals": bursts}, n=400_000)["arrival_s"]
    assert found[-1] == pytest.approx(200_000, rel=0.03)
    calm = 2.0 * 80 / (60 + 5 * 20)
    expected = 1 + 2 * (4 * calm) ** 2 * 0.25 * 0.75 / (1 / 60 + 1 / 20) / 2.0
    in_windows = counts(found, 2000.0)
    assert in_windows.var() / in_windows.mean() == pytest.approx(expected, rel=0.35)
    plain = counts(drawn({}, n=400_000)["arrival_s"], 2000.0)
    assert in_windows.var() > 10 * plain.var()


def test_other_arrivals_move_no_length() -> None:
    bursts = {"kind": "bursts", "rate_factor": 5.0, "mean_calm_s": 60.0, "mean_burst_s": 20.0}
    assert (drawn({})["total_tokens"] == drawn({"execution.arrivals": bursts})["total_tokens"]).all()


@pytest.mark.parametrize("at_own_rate", [False, True])
def test_recorded_arrivals_are_the_traces_stretched_to_the_rate_or_as_they_were(
    at_own_rate: bool, tmp_path: Path
) -> None:
    times = [0, 500, 700, 4000, 9000]
    lines = [f'{{"timestamp": {t}, "input_length": {10 + i}, "output_length": 5}}' for i, t in enumerate(times)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    trace = {"workload": {"trace": {"path": str(tmp_path / "t.jsonl")}}}
    found = drawn(trace | {"execution.arrivals": {"kind": "recorded", "at_own_rate": at_own_rate}}, n=7)
    span = 9.0 * 5 / 4
    round_ = np.array([0, 0.5, 0.7, 4.0, 9.0])
    start = int(found["total_tokens"][0]) - 10
    own = np.concatenate([round_, round_ + span, round_ + 2 * span])[start : start + 7] - round_[start]
    assert found["arrival_s"] == pytest.approx(own if at_own_rate else own * (5 / span) / 2.0)


def test_recorded_arrivals_need_a_trace() -> None:
    with pytest.raises(InputError, match="not all requests come from one trace"):
        drawn({"execution.arrivals": {"kind": "recorded"}})


@pytest.mark.parametrize(
    ("day", "shares"),
    [
        ({"factors": (1.0, 3.0, 0.0, 4.0)}, [0.125, 0.375, 0.0, 0.5]),
        ({"swing_fraction": 0.5}, [0.25 + sign * 0.5 / (2 * np.pi) for sign in (-1, 1, 1, -1)]),
    ],
)
def test_a_day_has_its_share_of_requests_at_every_hour(day: dict[str, Any], shares: list[float]) -> None:
    n, rate, period_s = 200_000, 2.0, 5_000.0
    process = DiurnalArrivals(kind="diurnal", period_s=period_s, **day)
    times = diurnal_s(n, rate, process, Draws(1).generator)
    assert (np.diff(times) >= 0).all()
    assert times[-1] == pytest.approx(n / rate, rel=0.01)
    within = times % period_s / period_s
    counts = np.histogram(within, np.linspace(0, 1, 5))[0]
    for share, count in zip(shares, counts, strict=True):
        assert count == pytest.approx(share * n, abs=5 * np.sqrt(n * max(share, 0.0)))
    # Within a part of even rate gaps are exponential.
    if "factors" in day:
        gaps = np.diff(times[times < 0.25 * period_s / 2])
        assert gaps.mean() == pytest.approx(1 / (rate * 0.125 * 4), rel=0.15)
        assert gaps.std() == pytest.approx(gaps.mean(), rel=0.15)


def test_a_flat_day_is_no_day_at_all() -> None:
    flat = DiurnalArrivals(kind="diurnal", period_s=100.0, factors=(2.0, 2.0, 2.0))
    times = diurnal_s(1000, 3.0, flat, Draws(1).generator)
    gaps = Draws(1).generator("diurnal arrivals").standard_exponential(1000)
    assert times == pytest.approx(np.cumsum(gaps) / 3.0)
