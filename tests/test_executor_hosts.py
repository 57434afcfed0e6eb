"""Prefill pools on the instances of another, limits on the batch, and engines that are slower than known."""

from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.run import RunQuestion, simulate
from planner.executor.systems import system
from tests.builders import HOME
from tests.executor_cases import STEP_S, TOKEN_S, asked, fleet, poisson_s, run, scenario, whole_tokens

HOSTED = {"pools.fast.hardware": HOME, "execution.pools.fast.instances_of": "near"}


def mixed(n: int, rate: float) -> Any:
    """Prompts of half a second, and every third one of one and a half."""
    rng = np.random.default_rng(4)
    return asked(poisson_s(rng, n, rate), whole_tokens(np.where(np.arange(n) % 3 == 0, 1.5, 0.5)))


@pytest.mark.parametrize("n_near", [1, 2])
def test_a_pool_on_anothers_instances_waits_in_its_line(n_near: int) -> None:
    """As one pool with those instances does, request by request; without it, two lines are shorter."""
    threshold = 1.0 / TOKEN_S
    wanted = {"n_near": n_near, "link_gbps": 1e6}
    hosted = run(mixed(300, 1.0 * n_near), HOSTED, threshold_tokens=threshold, **wanted)
    alone = run(mixed(300, 1.0 * n_near), threshold_tokens=1e9, **wanted)
    apart = run(mixed(300, 1.0 * n_near), threshold_tokens=threshold, **wanted)
    for moment in ("prefill_start_s", "prefill_end_s"):
        assert hosted.requests[moment] == pytest.approx(alone.requests[moment], abs=1e-9)
    assert apart.requests["prefill_end_s"].mean() < hosted.requests["prefill_end_s"].mean()
    assert len(hosted.instances) == n_near


def test_its_caches_still_take_its_own_link() -> None:
    """Long prompts cross, although the instance that computes them stands where decode is."""
    w = run(mixed(60, 0.5), HOSTED, threshold_tokens=1.0 / TOKEN_S, link_gbps=100.0)
    is_long = w.requests["total_tokens"] * TOKEN_S > 1
    assert (w.requests["wire_bytes"][is_long] > 0).all()
    assert (w.requests["wire_bytes"][~is_long] == 0).all(), "no fabric is stated"
    assert w.links["sent_bytes"].sum() == pytest.approx(w.requests["wire_bytes"].sum())


def test_a_hosted_pool_is_as_busy_as_its_hosts_instances() -> None:
    question = RunQuestion(2000, n_replications=1, load=0.3)
    found, _ = simulate(scenario({**HOSTED, "execution.warm_up_fraction": 0.0}), fleet(threshold_tokens=1e4), question)
    assert found.utilization["fast"] == found.utilization["near"] > 0
    assert set(found.pools) == {"near", "decode"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"execution.pools.fast.instances_of": "nera"}, "is 'nera', no other pool of the scenario.*near"),
        ({"execution.pools.fast.instances_of": "fast"}, "is 'fast', no other pool"),
        ({"execution.pools.fast.instances_of": "near"}, "instances are of another kind"),
        ({"execution.pools.near.instances_of": "decode"}, "instances are of another kind"),
        ({**HOSTED, "execution.pools.near.instances_of": "fast"}, "has no instances of its own"),
    ],
)
def test_what_cannot_host_is_refused_with_its_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"instances_of: .*{message}"):
        scenario(changes)


def test_a_plan_without_the_hosts_instances_is_refused() -> None:
    with pytest.raises(InputError, match="computes on instances of 'near', of which the plan has none"):
        system(scenario(HOSTED), fleet(n_near=0))


def test_a_slower_engine_takes_its_factor_longer_in_prefill_and_decode() -> None:
    requests = asked([0.0], 100_000, output=11)
    slow = run(requests, {"pools.near.time_factor": 3.0, "pools.decode.time_factor": 2.0}).requests[0]
    assert slow["prefill_end_s"] == pytest.approx(3.0)
    assert slow["finish_s"] - slow["first_token_s"] == pytest.approx(10 * 2 * STEP_S)


def test_no_batch_is_larger_than_its_limit() -> None:
    """Six prompts at once, in batches of four: the last two begin when the first four are done."""
    requests = asked([0.0] * 6, 1, output=101)
    w = run(requests, {"execution.pools.decode.batch_limit": 4}, n_near=6)
    ends = np.sort(w.requests["finish_s"])
    assert ends[:4] == pytest.approx(100 * STEP_S, rel=0.02)
    assert ends[4:] == pytest.approx(200 * STEP_S, rel=0.02)
