"""What load adds to the time to first token: shared links and decode places, against simulation and known queues."""

from math import factorial, inf

import numpy as np
import pytest

from planner.optimizer.delays import (
    DecodeDemand,
    place_steps_s,
    places_wait,
    places_waits,
    sending_s,
    sent_bytes,
    transfer_s,
)
from planner.optimizer.sized import Sizing
from planner.queueing.service import Service
from planner.queueing.wait import NO_WAIT, Wait
from planner.queueing.waits import gigc_wait
from planner.roofline import DecodeLimit
from planner.workload.distributions import LogNormal
from tests.builders import problem_of


def decoding(outputs: dict[str, object], busy: float) -> tuple[float, float, Wait | None]:
    """Places, mean stay [s] and the wait for one, of two instances so busy with outputs of some lengths."""
    problem = problem_of({"workload.output_lengths": outputs})
    decode = len(problem.pools) - 1
    point, tokens = problem.pools[decode].rates.decode, problem.classes[0].mix.mean_output_tokens
    assert point is not None
    rate = busy * 2 / point.seconds_per_request(tokens)
    return 2 * point.batch, tokens * point.step_s, places_wait(point, [DecodeDemand.of(problem.classes[0], rate)], 2)


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


def test_of_outputs_that_are_known_by_their_mean_alone_the_mean_over_all_requests_counts() -> None:
    """Steps of 10 ms in four places: a request of 60 tokens holds one for 0.6 s, like 1 of 100 to every 4 of 50."""
    point, rate = DecodeLimit(batch=4, step_s=0.01), 5.0
    mixed = [DecodeDemand(1.0, 100.0, None, 1.0), DecodeDemand(4.0, 50.0, None, 1.0)]
    for found, multiple in zip(places_waits(point, mixed, 1, np.array([1.0, 0.5])), (1.0, 0.5), strict=True):
        assert found is not None
        (alone,) = places_waits(point, [DecodeDemand(multiple * rate, 60.0, None, 1.0)], 1, np.ones(1))
        assert alone is not None
        assert found.mean_s == pytest.approx(alone.mean_s)
        load = multiple * rate * 0.6
        full = load**4 / factorial(4) / (1 - load / 4)
        waiting_fraction = full / (sum(load**k / factorial(k) for k in range(4)) + full)
        assert found.mean_s == pytest.approx(waiting_fraction * 0.6 / (4 - load))
    assert places_waits(point, mixed, 1, np.array([4 / 3, 0.0]))[0] is None
    assert places_waits(None, mixed, 1, np.ones(2)) == places_waits(point, [], 1, np.ones(2)) == [NO_WAIT] * 2


@pytest.mark.parametrize("holds_prefix", [False, True])
def test_a_link_is_busy_with_the_bytes_that_its_destination_lacks(holds_prefix: bool) -> None:
    """Bytes of a hybrid model: states whatever the length, and KV of every token; 2 ports of 100 Gbps."""
    stated = {"model.profile": "kimi-linear-48b", "links.wan.destination_holds_prefix": holds_prefix}
    problem = problem_of({**stated, "sites.local.fabric_gbps": 40.0})
    sizing, rates = Sizing((1, 1, 1), ((2,),)), problem.pools[0].rates
    total, cached, service_s = np.array([8000.0, 64_000.0]), np.array([2000.0, 0.0]), np.array([1e-3, 5.0])
    kv, layers = rates.kv_bytes, rates.n_layers
    assert layers is not None
    assert float(kv(0.0)) > 0
    sent = kv(total) - (kv(cached) - kv(0.0) if holds_prefix else 0.0)
    assert sent_bytes(problem, 0, 0, total, cached) == pytest.approx(sent)
    assert sent_bytes(problem, 1, None, total, cached) == pytest.approx(kv(total))
    alone_s, before_s = sent * 8 / 200e9, service_s * (layers - 1) / layers
    left_s = transfer_s(problem, sizing, 0, 0, total, cached, service_s)
    assert left_s == pytest.approx(np.maximum(alone_s - before_s, alone_s / layers) + 0.005)
    assert sending_s(problem, sizing, 0, 0, sent, service_s) == pytest.approx(np.maximum(alone_s, before_s))
    within_s = kv(total) * 8 / 40e9
    found = transfer_s(problem, sizing, 1, None, total, cached, service_s)
    assert found == pytest.approx(np.maximum(within_s - before_s, within_s / layers))
    assert sending_s(problem, sizing, 1, None, sent, service_s).tolist() == [0.0, 0.0]
    none = Sizing((1, 1, 1), ((0,),))
    assert transfer_s(problem, none, 0, 0, total, cached, service_s).tolist() == [inf, inf]
    assert transfer_s(problem_of(), sizing, 1, None, total, cached, service_s).tolist() == [0.0, 0.0]


def test_places_are_as_many_as_their_last_step_lets_out_at_the_capacity() -> None:
    """40 ms for 4 sequences are 10 ms a token; steps with fewer are never longer than the last."""
    assert place_steps_s(DecodeLimit(4, 0.04, (0.01, 0.05, 0.02, 0.04))).tolist() == [0.01, 0.04, 0.02, 0.04]
    assert place_steps_s(DecodeLimit(4, 0.04, (0.01, 0.02, 0.03, 0.04), slot_s=0.5, full_step_s=0.03)).tolist() == [0.5]
