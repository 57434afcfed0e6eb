"""Length distributions against quadrature, published figures and the laws of probability."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from scipy import integrate, stats

from planner.workload.distributions import Atoms, LogNormal, Mixture, cdf, distribution, mean_tokens, weighted_quantile
from planner.workload.lengths import Lengths

PAPER = {"kind": "lognormal", "mu": 9.90, "sigma": 1.0, "low_tokens": 128.0, "high_tokens": 131072.0}
CONSTANT = {"kind": "constant", "tokens": 1024.0}
EMPIRICAL = {"kind": "empirical", "tokens": (30.0, 10.0, 20.0), "weights": (1.0, 1.0, 2.0)}
COUNTED = {"kind": "histogram", "edges": (1.0, 10.0, 100.0, 2000.0, 3000.0, 9000.0), "weights": (0, 5.0, 2.0, 0, 1.0)}
FEW = {"kind": "empirical", "tokens": (7.0, 9000.0)}


def mixture(*parts):
    return {"kind": "mixture", "components": tuple({"weight": w, "lengths": part} for w, part in parts)}


def lengths(spec):
    return distribution(TypeAdapter(Lengths).validate_python(spec))


EVERY_KIND = [
    PAPER,
    CONSTANT,
    EMPIRICAL,
    COUNTED,
    mixture((1.0, PAPER), (3.0, EMPIRICAL)),
    mixture((1.0, FEW), (2.0, CONSTANT)),
    mixture((1.0, COUNTED), (2.0, CONSTANT)),
]
TRUNCATIONS = [
    LogNormal(9.90, 1.0, 128, 131072),
    LogNormal(6.0, 2.0, 1, 1e6),
    LogNormal(8.0, 0.05, 2000, 4000),
    LogNormal(2.0, 1.0, 10_000, 100_000),  # support 7 to 10 standard deviations above the mean
    LogNormal(14.0, 0.5, 10, 20_000),  # support 8 and more below
]


def test_the_papers_lengths_have_the_papers_moments():
    """Mean about 27K, 49.6 % above 19.4K tokens, P90 62K: arXiv 2604.15039v2; digits by hand calculation."""
    paper = lengths(PAPER)
    assert mean_tokens(paper) == pytest.approx(27_486, abs=0.5)
    assert 1 - cdf(paper, 19_400) == pytest.approx(0.4957, abs=5e-5)
    assert paper.partial_moment(1, 0, 19_400) / cdf(paper, 19_400) == pytest.approx(10_224, abs=0.5)
    assert paper.partial_moment(1, 19_400, np.inf) / (1 - cdf(paper, 19_400)) == pytest.approx(45_046, abs=0.5)
    assert paper.quantile(0.9) == pytest.approx(62_410, abs=0.5)


@pytest.mark.parametrize("order", range(7))
@pytest.mark.parametrize("law", TRUNCATIONS)
def test_log_normal_moments_are_the_integrals_of_the_density(law, order):
    """Integration in z = (ln L - mu) / sigma, scaled by the largest density in the support."""
    z_low, z_high = law._limits
    peak = min(max(z_low, 0.0), z_high)

    def density(z):
        return np.exp((peak**2 - z**2) / 2)

    def moment(low, high):
        value, _ = integrate.quad(
            lambda z: density(z) * np.exp(order * law.sigma * (z - z_high)),
            low,
            high,
            epsabs=0,
            epsrel=1e-12,
            limit=200,
        )
        return value

    norm, _ = integrate.quad(density, z_low, z_high, epsabs=0, epsrel=1e-12)
    middle = (max(z_low, peak - 1) + min(z_high, peak + 1)) / 2
    at = float(np.exp(law.mu + law.sigma * middle))
    for low, high, z_pair in ((0, at, (z_low, middle)), (at, np.inf, (middle, z_high))):
        expected = moment(*z_pair) / norm
        assert law.partial_moment(order, low, high) / law.high_tokens**order == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("law", TRUNCATIONS)
def test_probability_sums_to_one_and_nothing_lies_outside_the_support(law):
    low, high = law.support
    assert cdf(law, high) == pytest.approx(1, rel=1e-14)
    assert cdf(law, [0.0, low / 2, low]).tolist() == [0, 0, 0]
    assert law.partial_moment(1, high, np.inf) == 0


@pytest.mark.parametrize("law", TRUNCATIONS)
def test_the_log_normal_quantile_inverts_its_cdf(law):
    q = np.linspace(0, 1, 201)
    assert cdf(law, law.quantile(q)) == pytest.approx(q, abs=1e-12)


def test_the_quantile_keeps_its_digits_at_the_thin_end_of_the_lower_tail():
    law = LogNormal(9.90, 1.0, 1, 1e6)
    z = (np.log(law.quantile(1e-15)) - 9.90) / 1.0
    expected = stats.norm.ppf(stats.norm.cdf(-9.90) + 1e-15 * float(np.exp(law._log_norm)))
    assert z == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("spec", EVERY_KIND)
@given(cuts=st.lists(st.floats(0, 140_000), min_size=1, max_size=6), order=st.integers(0, 4))
def test_partial_moments_of_adjacent_ranges_add_up(spec, cuts, order):
    law = lengths(spec)
    edges = np.array([-np.inf, *sorted(cuts), np.inf])
    whole = law.partial_moment(order, -np.inf, np.inf)
    assert law.partial_moment(order, edges[:-1], edges[1:]).sum() == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("spec", EVERY_KIND)
@given(q=st.floats(0, 1))
def test_a_quantile_is_the_least_length_that_reaches_its_probability(spec, q):
    law = lengths(spec)
    at = float(law.quantile(q))
    low, high = law.support
    assert low <= at <= high
    assert cdf(law, at) >= q - 1e-9
    if at > low:
        assert cdf(law, at * (1 - 1e-9)) <= q + 1e-7


@pytest.mark.parametrize("order", range(7))
def test_histogram_moments_are_the_integrals_of_the_density(order):
    law = lengths(COUNTED)
    assert law.support == (10.0, 9000.0)
    for low, high in ((0.0, 50.0), (50.0, 50.5), (99.0, 2500.0), (2500.0, np.inf)):
        parts = [(10.0, 100.0, 5 / 8), (100.0, 2000.0, 2 / 8), (3000.0, 9000.0, 1 / 8)]
        expected = sum(
            share / (b - a) * integrate.quad(lambda x: x**order, max(a, low), min(b, high), epsrel=1e-12)[0]
            for a, b, share in parts
            if max(a, low) < min(b, high)
        )
        assert law.partial_moment(order, low, high) == pytest.approx(expected, rel=1e-10)


@given(q=st.floats(0, 1))
def test_the_histogram_quantile_inverts_its_cdf_as_prometheus_interpolates(q):
    law = lengths(COUNTED)
    assert cdf(law, law.quantile(q)) == pytest.approx(q, abs=1e-12)
    assert law.quantile(5 / 16) == pytest.approx(10 + 90 / 2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weights": (1.0, 2.0)}, "6 edges make 5 weights, got 2"),
        ({"edges": (1.0, 10.0, 10.0, 20.0, 30.0, 40.0)}, "edges must ascend"),
        ({"weights": (0, 0, 0, 0, 0)}, "at least one bucket"),
        ({"weights": (1.0, -1.0, 0, 0, 0)}, "greater than or equal to 0"),
    ],
    ids=["count", "order", "empty", "negative"],
)
def test_a_histogram_that_cannot_be_is_refused(changes, said):
    with pytest.raises(ValidationError, match=said):
        lengths({**COUNTED, **changes})


@pytest.mark.parametrize("spec", EVERY_KIND)
def test_a_mixture_of_one_is_that_one(spec):
    alone, mixed = lengths(spec), lengths(mixture((5.0, spec)))
    at = np.array([5.0, 10.0, 25.0, 1024.0, 30_000.0])
    assert mixed.partial_moment(2, 0, at) == pytest.approx(alone.partial_moment(2, 0, at), rel=1e-12)
    assert mixed.quantile([0.0, 0.3, 0.9, 1.0]) == pytest.approx(alone.quantile([0.0, 0.3, 0.9, 1.0]), rel=1e-9)
    assert mixed.support == alone.support
    assert mixed.is_discrete == alone.is_discrete


def test_a_mixture_has_the_weighted_moments_of_its_components():
    law = lengths(mixture((1.0, PAPER), (3.0, EMPIRICAL)))
    assert isinstance(law, Mixture)
    assert mean_tokens(law) == pytest.approx(0.25 * mean_tokens(lengths(PAPER)) + 0.75 * 20, rel=1e-12)
    assert law.support == (10.0, 131072.0)


def test_a_mixture_of_discrete_lengths_is_discrete():
    law = lengths(mixture((1.0, FEW), (2.0, CONSTANT)))
    assert isinstance(law, Atoms)
    assert cdf(law, [6, 7, 1023, 1024, 9000]) == pytest.approx([0, 1 / 6, 1 / 6, 5 / 6, 1])


def test_empirical_lengths_count_up_to_and_including_a_limit():
    law = lengths(EMPIRICAL)
    assert cdf(law, [9.9, 10, 19.9, 20, 30]).tolist() == [0, 0.25, 0.25, 0.75, 1]
    assert law.partial_moment(1, 10, 30) == pytest.approx(17.5)
    assert law.partial_moment(0, 30, 10) == 0


def test_a_constant_length_is_its_own_mean_support_and_quantile():
    law = lengths(CONSTANT)
    assert (mean_tokens(law), law.support, float(law.quantile(0.5))) == (1024.0, (1024.0, 1024.0), 1024.0)


@given(
    pairs=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), min_size=1, max_size=30).filter(
        lambda pairs: any(w for _, w in pairs)
    ),
    q=st.floats(0, 1),
)
def test_the_weighted_quantile_is_that_of_the_values_repeated_as_often_as_they_weigh(pairs, q):
    values, weights = map(np.array, zip(*pairs, strict=True))
    repeated = np.sort(np.repeat(values, weights))
    rank = q * repeated.size
    candidates = {repeated[max(int(np.ceil(rank + d)) - 1, 0)] for d in (-1e-9, 0)}
    assert float(weighted_quantile(values, weights, q)) in candidates


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (PAPER | {"low_tokens": 2e5}, "must be below"),
        (PAPER | {"sigma": 0.0}, "greater than or equal to"),
        (PAPER | {"low_tokens": 0.0}, "greater than or equal to 1"),
        (PAPER | {"mu": float("nan")}, "finite"),
        (PAPER | {"kind": "normal"}, "lognormal"),
        (EMPIRICAL | {"weights": (1.0,)}, "as many weights"),
        (EMPIRICAL | {"weights": (1.0, 0.0, 1.0)}, "greater than or equal to"),
        ({"kind": "empirical", "tokens": ()}, "at least 1"),
        (mixture(), "at least 1"),
        (CONSTANT | {"tokens": "many"}, "valid number"),
    ],
)
def test_impossible_lengths_are_refused_with_the_reason(spec, reason):
    with pytest.raises(ValidationError, match=reason):
        lengths(spec)
