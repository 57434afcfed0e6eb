"""What load adds to the time to first token: shared links and decode places, against simulation and known queues."""

import pytest

from planner.optimizer.delays import admission_wait
from planner.optimizer.formulation import Sizing
from planner.queueing import Service, Wait, gigc_wait
from planner.workload.distributions import LogNormal
from tests.builders import problem_of


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
