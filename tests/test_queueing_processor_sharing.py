"""What a shared link adds: exact results of processor sharing, laws, and simulation of fed transfers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.queueing.processor_sharing import Senders, alone_s, link_stretch
from tests.tandem_simulation import tandem_run

ONE = np.array([1.0])


def senders(n: int, rate: float, service_s: float = 1e-3, link_s: float = 1.0) -> Senders:
    return Senders(n, rate, np.array([service_s]), np.array([link_s]), ONE)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_the_mean_of_processor_sharing_is_that_of_every_size(load: float) -> None:
    kinds = np.array([0.2, 1.0, 3.0]), np.array([0.5, 0.3, 0.2])
    rate = load / float(kinds[0] @ kinds[1])
    found = link_stretch([Senders(500, rate, np.full(3, 1e-3), *kinds)], [60])
    factors, weights = found.levels(kinds[0])
    assert factors @ weights == pytest.approx(1 / (1 - load), rel=2e-4)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_the_variance_of_processor_sharing_is_yashkovs(load: float) -> None:
    """Exponential sizes (Coffman, Muntz and Trotter 1970), 1 on average.

    Var = 2 u x / (1 - u)^3 - 2 u (1 - exp(-(1 - u) x)) / (1 - u)^4.
    """
    middles = -np.log1p(-(np.arange(4000) + 0.5) / 4000)
    found = link_stretch([Senders(500, load, np.full(4000, 1e-3), middles, np.full(4000, 1 / 4000))], [60])
    for size in (0.3, 1.0, 4.0):
        exact = 2 * load * (size / (1 - load) ** 3 - -np.expm1(-(1 - load) * size) / (1 - load) ** 4)
        variance = found.variance * float(found.left_fraction(np.array([size]))[0]) * size**2
        assert variance == pytest.approx(exact, rel=0.02)


def test_instances_that_cannot_fill_a_link_stretch_nothing() -> None:
    assert link_stretch([senders(3, 1.0, service_s=1.0, link_s=0.3)], [60]).mean == 1.0


def test_a_full_link_or_pool_has_no_steady_state() -> None:
    assert link_stretch([senders(50, 1.0)], [60]).mean == np.inf
    assert link_stretch([senders(2, 2.0, service_s=1.0, link_s=0.4)], [60]).mean == np.inf


def test_an_unused_link_stretches_nothing() -> None:
    assert link_stretch([], []).mean == link_stretch([senders(3, 0.0)], [60]).mean == 1.0


@given(st.integers(1, 30), st.floats(0.1, 0.85), st.floats(0.05, 4.0), st.sampled_from([0.25, 1.0, 4.0]))
def test_more_load_stretches_more_and_never_shortens(n: int, load: float, service: float, scv: float) -> None:
    loads = [part * load for part in (0.5, 0.8, 1.0) if part * load * service < 0.95 * n]
    found = [link_stretch([senders(n, rate, service)], [60], scv) for rate in loads]
    means = [x.mean for x in found]
    assert all(mean >= 1 for mean in means)
    assert all(a <= b * (1 + 1e-6) for a, b in pairwise(means))
    for x in found:
        factors, weights = x.levels(np.array([0.1, 1.0]))
        assert (np.diff(factors, axis=1) >= -1e-9).all()
        assert factors.min() >= 1 - 1e-9
        assert weights.sum() == pytest.approx(1.0)


def test_seconds_may_be_minutes() -> None:
    here, scaled = (link_stretch([senders(3, 0.5 / unit, 0.9 * unit, unit)], [60]) for unit in (1.0, 60.0))
    assert here.mean == pytest.approx(scaled.mean)
    assert here.levels(ONE)[0] == pytest.approx(scaled.levels(60 * ONE)[0], rel=1e-6)


@pytest.mark.parametrize(("n", "service_s", "load"), [(3, 1.15, 0.44), (4, 0.8, 0.75), (12, 2.5, 0.8), (2, 0.5, 0.6)])
def test_fed_transfers_of_one_size_are_as_late_as_simulated_ones(n: int, service_s: float, load: float) -> None:
    rng, many = np.random.default_rng(5), 200_000
    service, link = np.full(many, service_s), np.ones(many)
    gaps = rng.standard_exponential(many) / load
    _, begin, _, there = tandem_run(np.array([n]), gaps, np.zeros(many, np.int64), service, link, 61)
    alone = alone_s(service[:1], link[:1], 61)
    factors, weights = link_stretch([senders(n, load, service_s)], [61]).levels(alone)
    found = np.maximum(alone[0] * factors[0], service_s + 1 / 61)
    taken = (there - begin)[many // 10 :]
    assert found @ weights == pytest.approx(taken.mean(), rel=0.06)
    reached = np.cumsum(weights)
    for q, error in ((0.9, 0.1), (0.99, 0.15)):
        assert np.interp(q, reached - weights / 2, found) == pytest.approx(np.quantile(taken, q), rel=error)
