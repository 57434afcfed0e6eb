"""Request mixes: exact expectations against quadrature and brute force, and their laws."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from planner.curves import Curve, PrefillService
from planner.workload.atom_mix import AtomMix
from planner.workload.distributions import Atoms, LogNormal, mean_tokens
from planner.workload.length_mix import LengthMix
from planner.workload.requests import request_mix
from planner.workload.spec import Workload

PAPER = {"kind": "lognormal", "mu": 9.90, "sigma": 1.0, "low_tokens": 128.0, "high_tokens": 131072.0}
ANSWERS = {"kind": "constant", "tokens": 1024.0}
PAPER_MIX = LengthMix(LogNormal(9.90, 1.0, 128, 131072), 1024.0)
TABLE_5 = ([1024, 8192, 32000, 130000], [0.44, 0.72, 1.84, 7.40])
SERVICES = [PrefillService(Curve.linear(*TABLE_5)), PrefillService(Curve.monotone_cubic(*TABLE_5))]
KV = Curve.affine(182_353_920.0, 17_280.0)
THRESHOLDS = np.array([0.0, 128.0, 1024.0, 5000.0, 19_400.0, 60_000.0, 131_000.0, 131_072.0, 2e5])


def mix_of(**changes):
    stated = {"lengths": PAPER, "output_lengths": ANSWERS} | changes
    return request_mix(Workload.model_validate(stated), Path())


def mixes():
    rng = np.random.default_rng(7)
    total = rng.integers(1, 5000, 60).astype(float)
    cached = np.floor(total * rng.random(60) * rng.integers(0, 2, 60))
    component = {"weight": 1.0, "lengths": PAPER}, {"weight": 2.0, "lengths": ANSWERS}
    return [
        PAPER_MIX,
        mix_of(lengths={"kind": "mixture", "components": component}),
        AtomMix.of(total, cached, rng.random(60) + 0.1, 9.0),
        mix_of(prefix_hits={"kind": "beta", "alpha": 0.5, "beta": 0.8}),
    ]


MIXES = mixes()


def paper_expectation(function, low, high):
    """E[function(L); low < L <= high] of the paper's lengths by quadrature in ln L."""
    ends = np.log(np.clip([low, high], 128, 131072))
    knots = [x for x in np.log(TABLE_5[0]) if ends[0] < x < ends[1]]
    edges = [ends[0], *knots, ends[1]]
    density = stats.norm(9.90, 1.0)
    parts = (
        integrate.quad(lambda x: function(np.exp(x)) * density.pdf(x), a, b, epsabs=0, epsrel=1e-12)[0]
        for a, b in pairwise(edges)
        if a < b
    )
    return sum(parts) / (density.cdf(np.log(131072)) - density.cdf(np.log(128)))


def test_the_papers_mix_splits_at_19_400_as_published():
    assert PAPER_MIX.long_fraction(19_400) == pytest.approx(0.4957, abs=5e-5)
    assert PAPER_MIX.mean_short_length(19_400) == pytest.approx(10_224, abs=0.5)
    assert PAPER_MIX.mean_long_length(19_400) == pytest.approx(45_046, abs=0.5)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("t", [0, 500, 19_400, 40_000, 130_500])
def test_work_over_continuous_lengths_is_the_integral_of_the_curve(service, t, order):
    def power(tokens):
        return float(service.curve(tokens)) ** order

    assert PAPER_MIX.long_work(service, t, order) == pytest.approx(paper_expectation(power, t, np.inf), rel=1e-9)
    assert PAPER_MIX.short_work(service, t, order) == pytest.approx(paper_expectation(power, 0, t), rel=1e-9)


def test_a_curve_of_many_knots_keeps_its_digits():
    tokens = np.geomspace(16, 2**20, 400)
    smooth = PrefillService(Curve.monotone_cubic(tokens, 0.3 + 3e-5 * tokens + 2e-10 * tokens**2))
    moments = [PAPER_MIX.lengths.partial_moment(k, 19_400, np.inf) for k in range(3)]
    expected = 0.3 * moments[0] + 3e-5 * moments[1] + 2e-10 * moments[2]
    assert PAPER_MIX.long_work(smooth, 19_400) == pytest.approx(expected, rel=1e-5)
    doubled = PAPER_MIX.long_work(smooth, 19_400, 2) + PAPER_MIX.short_work(smooth, 19_400, 2)
    by_atoms = AtomMix.of(PAPER_MIX.atoms(200_000).total_tokens).long_work(smooth, 0, 2)
    assert doubled == pytest.approx(by_atoms, rel=1e-4)


def test_wire_bytes_of_continuous_lengths_are_those_of_the_mean_length_for_an_affine_cache():
    expected = PAPER_MIX.long_fraction(THRESHOLDS) * 182_353_920 + 17_280 * PAPER_MIX.lengths.partial_moment(
        1, THRESHOLDS, np.inf
    )
    for holds in (False, True):
        assert PAPER_MIX.long_wire_bytes(KV, THRESHOLDS, holds) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("order", [1, 2])
def test_long_and_short_work_add_up_to_the_whole(mix, order):
    whole = mix.long_work(SERVICES[1], -1.0, order)
    parts = mix.long_work(SERVICES[1], THRESHOLDS, order) + mix.short_work(SERVICES[1], THRESHOLDS, order)
    assert parts == pytest.approx(np.full(THRESHOLDS.shape, whole), rel=1e-11)


@pytest.mark.parametrize("mix", MIXES)
def test_long_and_short_means_average_to_the_mean(mix):
    t = mix.threshold_grid(9)[1:-1]
    p = mix.long_fraction(t)
    average = p * mix.mean_long_length(t) + (1 - p) * mix.mean_short_length(t)
    assert average == pytest.approx(np.full(t.shape, mix.mean_uncached_tokens), rel=1e-11)


@pytest.mark.parametrize("mix", MIXES)
def test_a_higher_threshold_never_makes_more_requests_work_or_bytes_long(mix):
    t = np.sort(np.concatenate([np.linspace(-1, 140_000, 700), mix.threshold_grid(50)]))
    for long in (
        mix.long_fraction(t),
        mix.long_work(SERVICES[0], t),
        mix.long_wire_bytes(KV, t, True),
        mix.long_wire_bytes(KV, t, False),
    ):
        assert (np.diff(long) <= 1e-12 * long[0]).all()
        assert long[-1] == 0


@pytest.mark.parametrize("mix", MIXES)
def test_means_of_no_requests_are_nan_and_not_zero(mix):
    low, high = mix.support
    assert np.isnan(mix.mean_long_length(high))
    assert np.isnan(mix.mean_short_length(low - 1))


@pytest.mark.parametrize("mix", MIXES)
def test_answers_have_the_shape_of_the_thresholds(mix):
    for t in (1000.0, np.full(3, 1000.0), np.full((2, 3), 1000.0)):
        for answer in (mix.long_fraction(t), mix.mean_long_length(t), mix.short_work(SERVICES[0], t)):
            assert np.shape(answer) == np.shape(t)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("n", [2, 3, 40])
def test_the_threshold_grid_ascends_and_spans_the_support(mix, n):
    grid = mix.threshold_grid(n)
    assert (grid[0], grid[-1]) == pytest.approx(mix.support)
    assert (np.diff(grid) > 0).all()
    assert grid.size <= n


def test_the_threshold_grid_has_equal_probability_between_its_points():
    assert -np.diff(PAPER_MIX.long_fraction(PAPER_MIX.threshold_grid(11))) == pytest.approx(np.full(10, 0.1), rel=1e-9)


@pytest.mark.parametrize("mix", MIXES)
def test_split_points_lie_strictly_inside_and_ascend(mix):
    low, high = mix.threshold_grid(5)[1:3]
    points = mix.split_points(low, high, 10)
    assert 0 < points.size <= 10
    assert low < points[0]
    assert points[-1] < high
    assert (np.diff(points) > 0).all()


def test_split_points_of_atoms_are_lengths_that_occur():
    mix = AtomMix.of([10, 20, 20, 30, 40, 50])
    assert mix.split_points(10, 50, 9).tolist() == [20, 30, 40]
    assert mix.split_points(10, 50, 2).tolist() == [20, 40]
    assert mix.split_points(20, 30, 9).size == 0


def test_no_threshold_splits_beyond_the_support():
    assert PAPER_MIX.split_points(2e5, 3e5, 5).size == 0
    assert PAPER_MIX.split_points(0, 100, 5).size == 0


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("t", THRESHOLDS)
def test_atoms_of_a_part_are_all_in_it_and_weigh_what_it_does(mix, t):
    for (total, cached, weights), fraction, length, is_long in (
        (mix.long_atoms(t, 500), mix.long_fraction(t), mix.mean_long_length(t), True),
        (mix.short_atoms(t, 500), 1 - mix.long_fraction(t), mix.mean_short_length(t), False),
    ):
        assert weights.sum() == pytest.approx(fraction, rel=1e-12, abs=1e-12)
        assert ((total - cached > t) == is_long).all()
        if fraction > 1e-12:  # what is left of 1 by rounding is no part
            assert (total - cached) @ weights / weights.sum() == pytest.approx(length, rel=2e-3)


def test_atoms_stand_for_continuous_lengths():
    total, cached, weights = PAPER_MIX.atoms(4096)
    assert weights.sum() == pytest.approx(1)
    assert weights @ total == pytest.approx(PAPER_MIX.mean_total_tokens, rel=2e-4)
    assert not cached.any()


@st.composite
def requests(draw):
    n = draw(st.integers(1, 12))
    total = draw(st.lists(st.integers(1, 4000), min_size=n, max_size=n))
    cached = [draw(st.integers(0, x)) for x in total]
    weights = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    return list(zip(total, cached, weights, strict=True))


@given(rows=requests(), t=st.integers(-1, 4001), order=st.integers(1, 2))
def test_atoms_give_what_adding_up_request_by_request_gives(rows, t, order):
    mix = AtomMix.of(*zip(*rows, strict=True))
    service = SERVICES[1]
    whole = sum(w for *_, w in rows)
    long = [(n, c, w / whole) for n, c, w in rows if n - c > t]
    short = [(n, c, w / whole) for n, c, w in rows if n - c <= t]

    def seconds(n, c):
        full = float(service.curve(n))
        return full if c == 0 else max(full - float(service.curve(c)), float(service.curve(0)))

    def kv(n):
        return 182_353_920 + 17_280 * n

    assert mix.long_fraction(t) == pytest.approx(sum(w for *_, w in long), abs=1e-12)
    assert mix.long_work(service, t, order) == pytest.approx(sum(w * seconds(n, c) ** order for n, c, w in long))
    assert mix.short_work(service, t, order) == pytest.approx(sum(w * seconds(n, c) ** order for n, c, w in short))
    assert mix.long_wire_bytes(KV, t, False) == pytest.approx(sum(w * kv(n) for n, _, w in long))
    assert mix.long_wire_bytes(KV, t, True) == pytest.approx(sum(w * (kv(n) - 17_280 * c) for n, c, w in long))
    assert mix.cached_fraction == pytest.approx(sum(w * c for _, c, w in rows) / sum(w * n for n, _, w in rows))
    if long:
        expected = sum(w * (n - c) for n, c, w in long) / sum(w for *_, w in long)
        assert mix.mean_long_length(t) == pytest.approx(expected)


def test_discrete_lengths_give_the_same_as_atoms_and_as_a_length_mix():
    spec = {"kind": "empirical", "tokens": (500.0, 20_000.0, 60_000.0), "weights": (1.0, 2.0, 1.0)}
    atoms = mix_of(lengths=spec)
    by_moments = LengthMix(Atoms(np.array(spec["tokens"]), np.array(spec["weights"])), 1024.0)
    assert isinstance(atoms, AtomMix)
    assert atoms.long_work(SERVICES[1], THRESHOLDS) == pytest.approx(by_moments.long_work(SERVICES[1], THRESHOLDS))
    assert atoms.long_fraction(20_000) == by_moments.long_fraction(20_000) == 0.25


def test_requests_that_cannot_be_are_refused():
    for total, cached, weight in ([10, 11, 1], [10, -1, 1], [10, 0, 0], [10, 0, -1]):
        with pytest.raises(ValueError, match="positive weight"):
            AtomMix.of([total], [cached], [weight])


def test_requests_of_no_weight_are_left_out():
    assert AtomMix.of([10, 20, 30], 0, [1, 1, 0]).support == (10, 20)


def test_a_hit_fraction_of_zero_is_no_hits_but_for_the_strata():
    mix = mix_of(prefix_hits={"kind": "constant", "fraction": 0.0})
    assert mix.long_fraction(THRESHOLDS) == pytest.approx(PAPER_MIX.long_fraction(THRESHOLDS), abs=8e-6)
    assert mix.mean_total_tokens == pytest.approx(PAPER_MIX.mean_total_tokens, rel=1e-12)
    for service in SERVICES:
        expected = PAPER_MIX.long_work(service, THRESHOLDS)
        assert mix.long_work(service, THRESHOLDS) == pytest.approx(expected, rel=2e-4, abs=5e-5)


def test_a_constant_hit_fraction_scales_the_uncached_length():
    mix = mix_of(prefix_hits={"kind": "constant", "fraction": 0.3})
    assert mix.cached_fraction == pytest.approx(0.3, rel=1e-12)
    assert mix.long_fraction(0.7 * THRESHOLDS) == pytest.approx(PAPER_MIX.long_fraction(THRESHOLDS), abs=8e-6)


def test_several_hit_fractions_are_mixed_by_their_weights():
    hits = {"kind": "discrete", "fractions": (0.0, 0.5), "weights": (1.0, 3.0)}
    expected = 0.25 * PAPER_MIX.long_fraction(THRESHOLDS) + 0.75 * PAPER_MIX.long_fraction(2 * THRESHOLDS)
    assert mix_of(prefix_hits=hits).long_fraction(THRESHOLDS) == pytest.approx(expected, abs=1.6e-5)


@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 3.0), (0.5, 0.8), (8.0, 1.5)])
def test_beta_hits_are_integrated_over_their_density(alpha, beta):
    mix = mix_of(prefix_hits={"kind": "beta", "alpha": alpha, "beta": beta})
    assert mix.cached_fraction == pytest.approx(alpha / (alpha + beta), rel=1e-9)
    for t in (1000.0, 10_000.0, 40_000.0):

        def long_given(q, t=t):
            return float(PAPER_MIX.long_fraction(t / max(1 - stats.beta.ppf(q, alpha, beta), 1e-12)))

        expected, _ = integrate.quad(long_given, 0, 1, epsabs=1e-9, limit=400)
        assert mix.long_fraction(t) == pytest.approx(expected, abs=2e-4)


def test_output_lengths_count_by_their_mean():
    assert PAPER_MIX.mean_output_tokens == 1024
    outputs = {"kind": "lognormal", "mu": 6.0, "sigma": 1.0, "low_tokens": 1.0, "high_tokens": 4096.0}
    expected = mean_tokens(LogNormal(6.0, 1.0, 1, 4096))
    assert mix_of(output_lengths=outputs).mean_output_tokens == pytest.approx(expected)
