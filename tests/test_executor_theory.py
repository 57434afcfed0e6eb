"""Pieces of the executor against queueing theory: exact sample paths, and closed forms within confidence intervals."""

import heapq

import numpy as np
import pytest
from numpy.typing import NDArray

from planner.roofline import exposed_transfer_s
from planner.units import bytes_per_s
from tests.executor_cases import N_LAYERS, STEP_S, TOKEN_BYTES, TOKEN_S, asked, poisson_s, run, whole_tokens
from tests.oracles import mdc_mean_wait_services, mmc_waiting_fraction

Floats = NDArray[np.float64]
N_REPLICATIONS = 12
SIGMAS = 4.0
"""Of the mean over replications: a false alarm in 16,000 comparisons."""
MEAN_TOKENS = 2000.0
"""Of prompts whose longest still fit an instance."""


def close(found: list[float], expected: float, slack: float = 0.0) -> None:
    """Hold the mean of replications against a closed form."""
    values = np.array(found)
    assert abs(values.mean() - expected) <= SIGMAS * values.std(ddof=1) / np.sqrt(len(values)) + slack * expected


def first_come_starts_s(n_servers: int, arrival_s: Floats, service_s: Floats) -> Floats:
    """Starts of service in one first-come-first-served queue: each takes the server that is free first."""
    free = [0.0] * n_servers
    starts = []
    for arrival, service in zip(arrival_s.tolist(), service_s.tolist(), strict=True):
        start = max(arrival, heapq.heappop(free))
        heapq.heappush(free, start + service)
        starts.append(start)
    return np.array(starts)


@pytest.mark.parametrize("dispatch", ["shared-queue", "join-shortest-work"])
@pytest.mark.parametrize("n_servers", [1, 3, 7])
def test_prefill_starts_are_those_of_one_first_come_queue(dispatch: str, n_servers: int) -> None:
    rng = np.random.default_rng(n_servers)
    arrival_s, tokens = poisson_s(rng, 5000, 0.85 * n_servers), whole_tokens(rng.lognormal(-0.5, 1.0, 5000))
    w = run(asked(arrival_s, tokens), {"dispatch": dispatch}, n_near=n_servers)
    expected = first_come_starts_s(n_servers, arrival_s, tokens * TOKEN_S)
    assert w.requests["prefill_start_s"] == pytest.approx(expected, rel=1e-9)


def test_round_robin_is_a_queue_per_instance() -> None:
    rng = np.random.default_rng(5)
    arrival_s, tokens = poisson_s(rng, 3000, 2.4), whole_tokens(rng.exponential(1.0, 3000))
    w = run(asked(arrival_s, tokens), {"dispatch": "round-robin"}, n_near=3)
    for i in range(3):
        expected = first_come_starts_s(1, arrival_s[i::3], tokens[i::3] * TOKEN_S)
        assert w.requests["prefill_start_s"][i::3] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("c", "load"), [(1, 0.7), (4, 0.8), (9, 0.9)])
def test_mean_wait_of_exponential_service_is_erlangs(c: int, load: float) -> None:
    found = []
    for seed in range(N_REPLICATIONS):
        rng = np.random.default_rng([c, seed])
        n = 40_000
        w = run(asked(poisson_s(rng, n, c * load), whole_tokens(rng.exponential(1.0, n))), n_near=c)
        found.append(float((w.requests["prefill_start_s"] - w.requests["arrival_s"])[4000:].mean()))
    close(found, mmc_waiting_fraction(c, c * load) / (c * (1 - load)))


@pytest.mark.parametrize("sigma", [0.0, 0.6, 1.2])
def test_mean_wait_of_general_service_is_pollaczek_and_khinchines(sigma: float) -> None:
    load, found = 0.75, []
    for seed in range(N_REPLICATIONS):
        rng = np.random.default_rng([int(10 * sigma), seed])
        n = 40_000
        seconds = rng.lognormal(-(sigma**2) / 2, sigma, n)
        w = run(asked(poisson_s(rng, n, load), whole_tokens(seconds)))
        found.append(float((w.requests["prefill_start_s"] - w.requests["arrival_s"])[4000:].mean()))
    close(found, load * np.exp(sigma**2) / (2 * (1 - load)))


def test_mean_wait_of_constant_service_with_several_servers_is_crommelins() -> None:
    c, load = 4, 0.8
    found = []
    for seed in range(N_REPLICATIONS):
        rng = np.random.default_rng([77, seed])
        w = run(asked(poisson_s(rng, 40_000, c * load), whole_tokens(np.ones(40_000))), n_near=c)
        found.append(float((w.requests["prefill_start_s"] - w.requests["arrival_s"])[4000:].mean()))
    close(found, mdc_mean_wait_services(c, load))


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_a_link_shared_evenly_is_processor_sharing(sigma: float) -> None:
    """M/G/1-PS: a transfer of size x takes x / (1 - load) in the mean, whatever the distribution."""
    load, mean_s, changes = 0.7, 2.0, {"execution.max_transfers": 100_000, "measured.fast.prefill": fast(1e-6)}
    gbps = 8e-9 * TOKEN_BYTES * MEAN_TOKENS / mean_s
    found = []
    for seed in range(N_REPLICATIONS):
        rng = np.random.default_rng([int(sigma), seed, 3])
        n = 10_000
        tokens = np.maximum(np.rint(MEAN_TOKENS * rng.lognormal(-(sigma**2) / 2, sigma, n)), 1)
        w = run(asked(poisson_s(rng, n, load / mean_s), tokens), changes, threshold_tokens=0.0, link_gbps=gbps)
        transfer_s = (w.requests["kv_end_s"] - w.requests["prefill_end_s"])[1000:]
        found.append(float(transfer_s.mean() / (mean_s * tokens[1000:].mean() / MEAN_TOKENS)))
    close(found, 1 / (1 - load))


def fast(seconds_per_token: float) -> dict[str, object]:
    """A prefill that takes next to no time."""
    return {
        "tokens": [1, 1000],
        "seconds": [seconds_per_token * 1e-6, seconds_per_token * 1e-3],
        "interpolation": "linear",
    }


@pytest.mark.parametrize("gbps", [0.5, 5.0, 50.0, 79.0, 81.0, 400.0])
@pytest.mark.parametrize("round_trip_ms", [0.0, 40.0])
def test_a_transfer_alone_is_left_exactly_what_prefill_could_not_hide(gbps: float, round_trip_ms: float) -> None:
    tokens = np.array([100, 20_000, 900_000])
    w = run(
        asked([0.0, 1000.0, 20_000.0], tokens),
        {"links.wan.round_trip_ms": round_trip_ms},
        threshold_tokens=0.0,
        link_gbps=gbps,
    )
    sizes, seconds = tokens * TOKEN_BYTES, tokens * TOKEN_S
    expected = exposed_transfer_s(seconds, sizes, bytes_per_s(gbps), round_trip_ms / 1e3, N_LAYERS)
    assert w.requests["kv_end_s"] - w.requests["prefill_end_s"] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert w.requests["wire_bytes"] == pytest.approx(sizes)
    assert w.links[0]["sent_bytes"] == pytest.approx(sizes.sum(), rel=1e-9)


def test_decode_slots_are_servers_of_constant_time() -> None:
    """With room for c sequences and constant outputs, waits for a slot are those of M/D/c."""
    rng = np.random.default_rng(8)
    arrival_s = poisson_s(rng, 4000, 0.9)
    w = run(asked(arrival_s, 1, output=1001), batch=5, n_decode=2)
    service_s = np.full(4000, 1000 * STEP_S)
    expected = first_come_starts_s(10, np.asarray(w.requests["kv_end_s"]), service_s)
    found = np.asarray(w.requests["first_token_s"])
    # Joining waits for the end of a step, so that slots are free up to a step later for each customer before.
    assert (found >= expected - 1e-9).all()
    assert float((found - expected).mean()) < 20 * STEP_S


def test_decode_whose_step_grows_with_the_batch_is_processor_sharing() -> None:
    """Step seconds s b: every sequence gets 1 / b of the instance; M/M/1-PS takes E[S] / (1 - load)."""
    load, step_s, found = 0.6, 1e-3, []
    steps = np.column_stack([step_s * np.maximum(np.arange(201), 1), np.zeros(201)])
    for seed in range(N_REPLICATIONS):
        rng = np.random.default_rng([seed, 11])
        output = np.maximum(np.rint(rng.exponential(1000, 6000)), 1) + 1
        w = run(asked(poisson_s(rng, 6000, load), 1, output=output), batch=200, steps=steps)
        found.append(float((w.requests["finish_s"] - w.requests["first_token_s"])[500:].mean()))
    close(found, 1 / (1 - load), slack=0.01)


def stepwise_finish_s(arrival_s: Floats, prompt: Floats, output: Floats, steps: Floats) -> Floats:
    """One decode instance, one step after another, every sequence in it: what the closed forms must equal."""
    limit, now, waiting, batch = len(steps) - 1, 0.0, list(range(len(arrival_s))), {}
    finish = np.full(len(arrival_s), np.nan)
    while waiting or batch:
        if not batch:
            now = max(now, arrival_s[waiting[0]])
        while waiting and arrival_s[waiting[0]] <= now + 1e-12 and len(batch) < limit:
            r = waiting.pop(0)
            batch[r] = [prompt[r] + 1, output[r] - 1]
        base, slope = steps[len(batch)]
        now += base + slope * sum(context for context, _ in batch.values())
        for r in list(batch):
            batch[r] = [batch[r][0] + 1, batch[r][1] - 1]
            if batch[r][1] == 0:
                finish[r] = now
                del batch[r]
    return finish


@pytest.mark.parametrize("slope", [0.0, 2e-8, 5e-7])
def test_decode_in_closed_form_is_decode_step_by_step(slope: float) -> None:
    rng = np.random.default_rng(21)
    n, limit = 150, 12
    steps = np.column_stack([0.005 + 0.001 * np.arange(limit + 1), np.full(limit + 1, slope)])
    arrival_s, output = poisson_s(rng, n, 1.2), np.rint(rng.uniform(2, 900, n))
    prompt = np.rint(rng.uniform(1, 20_000, n))
    changes = {"measured.home.prefill": fast(1e-9)}
    w = run(asked(arrival_s, prompt, output=output), changes, batch=limit, steps=steps, n_near=40)
    arrived = np.asarray(w.requests["kv_end_s"])
    order = np.argsort(arrived, kind="stable")
    expected = stepwise_finish_s(arrived[order], prompt[order], output[order], steps)
    assert np.asarray(w.requests["finish_s"])[order] == pytest.approx(expected, rel=1e-9)
