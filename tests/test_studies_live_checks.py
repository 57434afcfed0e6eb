"""Figures of a live run, from records made by hand: served twice, once faster, and some not at all."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.hybrid.live import LiveRecord
from planner.hybrid.timing import DecodePoint, PrefillPoint, Timed
from planner.profiles import model_profile
from planner.roofline import kv_bytes
from planner.studies.live.checks import (
    ServedRuns,
    metric_check,
    pass_checks,
    passes,
    promised_figures,
    repeat,
    run_checks,
    ttft_of,
)
from planner.studies.live.question import LINK_BYTES_PER_S

MODEL = model_profile("kimi-linear-48b")
LENGTHS, OUTPUTS = np.array([100, 200, 400]), np.array([3, 5, 7])


def record(index: int, factor: float) -> LiveRecord:
    """Arrives at 10 s times its number; its first token takes 2 s more than its number, each after it half a second."""
    arrival_s, n = 10.0 * index, int(OUTPUTS[index])
    return LiveRecord(
        index,
        arrival_s,
        int(LENGTHS[index]),
        n,
        prefill_start_s=arrival_s + 0.5,
        prefill_end_s=arrival_s + 1.5,
        prefill_busy_s=0.8 if index else None,
        received_s=arrival_s + factor * (2.0 + index),
        joined_s=arrival_s + factor * (2.0 + index),
        finished_s=arrival_s + factor * (2.0 + index) + 0.5 * factor * (n - 1),
        kv_bytes=1000 * (index + 1),
        outcome="finished",
    )


def run(factor: float = 1.0) -> Any:
    records = tuple(record(i, factor) for i in range(3))
    return SimpleNamespace(finished=records, dropped=(1, 2), duration_s=99.0, link_bytes=LINK_BYTES_PER_S * factor)


def served(executed: Any = None) -> ServedRuns:
    plan: Any = SimpleNamespace(
        ttft_mean_s=3.0,
        ttft_p90_s=4.0,
        tpot_mean_s=0.5,
        offered_req_per_s=0.1,
        threshold_tokens=150.0,
        ttft_fractions=(0.5, 0.9),
        ttft_quantiles_s=(3.0, 4.0),
    )
    drawn: Any = SimpleNamespace(gaps=np.array([1.0, 2.0, 0.5]), input_tokens=LENGTHS, output_tokens=OUTPUTS)
    return ServedRuns(MODEL, plan, drawn, [run(), run(2.0)], executed)


def test_a_repeat_has_the_figures_of_its_requests_until_the_last_token() -> None:
    """Requests of 3, 5 and 7 tokens end at 3, 15 and 27 s."""
    found = repeat(run())
    assert (found.n_finished, found.n_dropped, found.served_s) == (3, 2, 99.0)
    assert found.ttft_mean_s == pytest.approx(3.0)
    assert found.ttft_p90_s == pytest.approx(np.quantile([2.0, 3.0, 4.0], 0.9))
    assert found.tpot_mean_s == pytest.approx(0.5)
    assert found.throughput_req_per_s == pytest.approx(3 / 27)
    assert found.link_fraction == pytest.approx(1 / 27)
    assert found.busy_fraction == pytest.approx(1.6 / 2.0), "of the first nobody knows how long its worker ran"


def test_what_is_promised_of_throughput_and_link_is_over_the_time_until_the_last_is_served() -> None:
    """Gaps of 3.5 in all at 0.1 a second, then 3 s and four tokens more of half a second on average."""
    found = promised_figures(served())
    span_s = 35.0 + 3.0 + 4 * 0.5
    assert found["throughput_req_per_s"] == pytest.approx(3 / span_s)
    crosses = float(kv_bytes(MODEL, [200, 400]).sum())
    assert found["link_fraction"] == pytest.approx(crosses / span_s / LINK_BYTES_PER_S)
    assert (found["ttft_mean_s"], found["ttft_p90_s"], found["tpot_mean_s"]) == (3.0, 4.0, 0.5)


def test_measured_figures_are_of_all_repeats_together_beside_those_promised_and_executed() -> None:
    executed: Any = SimpleNamespace(metrics={"ttft_mean_s": 3.5}, ttft_s=np.array([4.0, 2.0]))
    found = {one.metric: one for one in run_checks(served(executed))}
    ttft = np.array([2.0, 3.0, 4.0, 4.0, 6.0, 8.0])
    assert found["ttft_mean_s"].measured == pytest.approx(ttft.mean())
    assert found["ttft_p90_s"].measured == pytest.approx(np.quantile(ttft, 0.9))
    assert found["tpot_mean_s"].measured == pytest.approx(0.75)
    assert found["throughput_req_per_s"].measured == pytest.approx(6 / (27 + 34))
    assert found["link_fraction"].measured == pytest.approx(3 / (27 + 34))
    assert found["kv_bytes"].measured == pytest.approx(6000.0)
    assert found["kv_bytes"].predicted == pytest.approx(float(kv_bytes(MODEL, LENGTHS).sum()))
    assert [found[name].executed for name in ("ttft_mean_s", "tpot_mean_s")] == [3.5, None]
    half = 1.96 * ttft.std() / 3**0.5
    assert (found["ttft_mean_s"].ci_low, found["ttft_mean_s"].ci_high) == pytest.approx(
        (ttft.mean() - half, ttft.mean() + half)
    )
    assert found["ttft_p90_s"].ci_low is None
    assert found["ttft_mean_s"].spread == pytest.approx((6.0 - 3.0) / 4.5)
    assert found["kv_bytes"].spread is None
    times = ttft_of(served(executed))
    assert times.executed_s == (2.0, 4.0)
    assert times.measured_s == ((2.0, 3.0, 4.0), (4.0, 6.0, 8.0))
    assert ttft_of(served()).executed_s == ()


@pytest.mark.parametrize(("predicted", "holds"), [(1.0, True), (1.1, True), (1.11, False), (0.9, True), (0.89, False)])
def test_a_figure_holds_within_its_tolerance(predicted: float, holds: bool) -> None:
    found = metric_check("x", "s", (predicted, None, 1.0), None, None, 0.1000001)
    assert found.holds is holds
    assert found.relative_error == pytest.approx(predicted - 1)


def test_passes_have_the_median_of_every_round_and_nine_tenths_of_all_tries() -> None:
    prefill, decode = PrefillPoint(100), DecodePoint(4, 900)
    tries = (1.0, 3.0, 2.0, 4.0, 6.0, 5.0)
    own = [Timed(prefill, tries, tries), Timed(decode, tries, tries)]
    executed: Any = SimpleNamespace(points={prefill: 2.5, decode: 3.5})
    found = passes({prefill: 2.0, decode: 3.0}, own, executed, 2)
    assert [(one.kind, one.size, one.context_tokens) for one in found] == [("prefill", 100, None), ("decode", 4, 900)]
    assert [(one.predicted_s, one.executed_s) for one in found] == [(2.0, 2.5), (3.0, 3.5)]
    assert {one.rounds_s for one in found} == {(2.0, 5.0)}
    assert [one.executed_s for one in passes({prefill: 2.0, decode: 3.0}, own, None, 2)] == [None, None]
    checks = pass_checks(found, own)
    assert [one.metric for one in checks] == ["prefill, 100 tokens", "decode step, batch 4"]
    for one in checks:
        assert one.measured == 3.5
        assert (one.ci_low, one.ci_high) == pytest.approx(tuple(np.quantile(tries, [0.05, 0.95])))
        assert one.spread == pytest.approx((5.0 - 2.0) / 3.5)
