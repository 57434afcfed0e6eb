"""What load adds to the time to first token: shared links and decode places, against simulation and known queues."""

import numpy as np
import pytest

from planner.optimizer.delays import admission_wait, busy_variance, link_slowdown
from planner.optimizer.formulation import Sizing
from planner.queueing import Service, Wait, gigc_wait
from planner.workload.distributions import LogNormal
from tests.builders import problem_of
from tests.service_simulation import fed_link_run

SERVICE_S = np.exp(0.5 * np.random.default_rng(3).standard_normal(4096).clip(-3, 3))


@pytest.mark.parametrize(
    ("n_instances", "busy", "link_load"),
    [(7, 0.66, 0.81), (7, 0.77, 0.95), (6, 0.91, 0.95), (12, 0.45, 0.9), (3, 0.5, 0.8)],
)
def test_what_a_shared_link_adds_is_within_a_factor_of_two_of_simulation(
    n_instances: int, busy: float, link_load: float
) -> None:
    rate = n_instances * busy / float(SERVICE_S.mean())
    link_s = SERVICE_S * link_load / (n_instances * busy)
    found = fed_link_run(n_instances, rate, SERVICE_S, link_s, 300_000, np.random.default_rng(1))
    sending_s = np.maximum(SERVICE_S, link_s)
    slowdown = link_slowdown(
        1.0, link_load, rate * float(sending_s.mean()), [n_instances], [rate * float(SERVICE_S.mean())]
    )
    assert 0.5 <= (slowdown - 1) * float(sending_s.mean()) / found <= 2.0


def test_instances_that_cannot_fill_a_link_do_not_wait_for_it() -> None:
    assert link_slowdown(10.0, 6.0, 2.0, [3], [2.0]) == 1.0
    assert link_slowdown(10.0, 0.0, 0.0, [3], [2.0]) == 1.0


def test_a_full_link_has_no_steady_state() -> None:
    assert link_slowdown(10.0, 10.0, 2.0, [30], [2.0]) == np.inf


def test_a_link_with_more_load_stretches_transfers_more() -> None:
    found = [link_slowdown(10.0, load, load / 2, [9], [load / 2]) for load in (2.0, 5.0, 8.0, 9.5)]
    assert found == sorted(found)
    assert found[0] >= 1.0


def test_busy_instances_of_a_large_pool_vary_as_poisson_and_of_one_as_a_coin() -> None:
    assert busy_variance(1, 0.25) == pytest.approx(0.25 * 0.75)
    assert busy_variance(400, 20.0) == pytest.approx(20.0)
    assert busy_variance(4, 4.0) == busy_variance(4, 0.0) == 0.0


def decoding(outputs: dict[str, object], busy: float) -> tuple[float, float, Wait | None]:
    """Places, mean stay [s] and the wait for one, of two instances so busy with outputs of some lengths."""
    problem = problem_of({"workload.output_lengths": outputs})
    decode = len(problem.pools) - 1
    point, tokens = problem.pools[decode].rates.decode, problem.classes[0].mix.mean_output_tokens
    assert point is not None
    rate = busy * 2 / point.seconds_per_request(tokens)
    return 2 * point.batch, tokens * point.step_s, admission_wait(problem, Sizing((1, 1, 2), ((1,),)), decode, (rate,))


CONSTANT = {"kind": "constant", "tokens": 300}
LONG_TAIL = {"kind": "lognormal", "mu": 5.0, "sigma": 1.8, "low_tokens": 1, "high_tokens": 65536}


def test_with_outputs_of_one_length_a_place_is_waited_for_as_in_mdc() -> None:
    places, stay_s, wait = decoding(CONSTANT, 0.9)
    assert wait is not None
    assert wait.mean_s == pytest.approx(gigc_wait(int(places), 0.9 * places / stay_s, Service.of([stay_s])).mean_s)


def test_outputs_with_a_long_tail_make_others_wait_longer_for_a_place() -> None:
    _, even_s, even = decoding(CONSTANT, 0.9)
    _, tailed_s, tailed = decoding(LONG_TAIL, 0.9)
    assert even is not None
    assert tailed is not None
    assert tailed.mean_s / tailed_s > 3 * even.mean_s / even_s


def test_a_full_decode_pool_has_no_steady_state() -> None:
    assert decoding(CONSTANT, 1.0)[2] is None


def test_output_lengths_keep_the_moments_of_their_distribution() -> None:
    outputs = problem_of({"workload.output_lengths": LONG_TAIL}).classes[0].mix.outputs
    stated = LogNormal(5.0, 1.8, 1, 65536)
    assert outputs is not None
    for order in (1, 2, 3):
        exact = float(stated.partial_moment(order, 0.0, 1e9))
        assert outputs.weights @ outputs.tokens**order == pytest.approx(exact, rel=3e-3)
