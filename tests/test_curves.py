"""Curves over tokens: interpolation, extrapolation, exact pieces, and the seconds of a partly cached prompt."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator

from planner.curves import Curve, PrefillService

TABLE_5_TOKENS = [1024, 8192, 32000, 130000]
TABLE_5_S = [0.44, 0.72, 1.84, 7.40]
KINDS = [Curve.linear, Curve.monotone_cubic]


@st.composite
def ascending_points(draw):
    """Token counts and rising values whose extrapolation to 0 tokens cannot be negative."""
    n = draw(st.integers(2, 7))
    steps = draw(st.lists(st.integers(50, 40_000), min_size=n, max_size=n))
    rises = draw(st.lists(st.just(0.0) | st.floats(1e-6, 3), min_size=n - 1, max_size=n - 1))
    tokens = np.cumsum(steps)
    floor = 3 * (1 + tokens[0]) * max(rises, default=0)
    return tokens.tolist(), (floor + np.concatenate([[0.0], np.cumsum(rises)])).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_curve_goes_through_its_points(kind):
    assert kind(TABLE_5_TOKENS, TABLE_5_S)(TABLE_5_TOKENS) == pytest.approx(TABLE_5_S, rel=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_token_count_gives_a_single_value_and_an_array_keeps_its_shape(kind):
    curve = kind(TABLE_5_TOKENS, TABLE_5_S)
    assert np.shape(curve(5000)) == ()
    assert curve(np.full((2, 3), 5000.0)).shape == (2, 3)


def test_straight_lines_are_those_of_numpy_inside_the_points():
    tokens = np.linspace(1024, 130000, 1001)
    expected = np.interp(tokens, TABLE_5_TOKENS, TABLE_5_S)
    assert Curve.linear(TABLE_5_TOKENS, TABLE_5_S)(tokens) == pytest.approx(expected, rel=1e-14)


def test_the_monotone_cubic_is_scipys_pchip_inside_the_points():
    tokens = np.linspace(1024, 130000, 1001)
    expected = PchipInterpolator(TABLE_5_TOKENS, TABLE_5_S)(tokens)
    assert Curve.monotone_cubic(TABLE_5_TOKENS, TABLE_5_S)(tokens) == pytest.approx(expected, rel=1e-13)


def test_two_points_make_the_same_line_by_either_construction():
    tokens = [0, 500, 90_000]
    line, cubic = (kind([1024, 8192], [0.44, 0.72])(tokens) for kind in KINDS)
    assert line == pytest.approx(cubic, rel=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_extrapolation_is_straight_and_meets_the_curve_with_its_end_slope(kind):
    curve = kind(TABLE_5_TOKENS, TABLE_5_S)
    for end, outward in ((1024, -1), (130000, 1)):
        inside, edge, near, far = (float(curve(end + outward * d)) for d in (-1e-2, 0, 100, 200))
        assert far - near == pytest.approx(near - edge, rel=1e-9)
        assert (edge - inside) / 1e-2 == pytest.approx((near - edge) / 100, rel=1e-4)


def test_only_what_lies_outside_the_points_is_extrapolated():
    curve = Curve.linear(TABLE_5_TOKENS, TABLE_5_S)
    assert curve.is_extrapolated([0, 1023, 1024, 130000, 130001]).tolist() == [True, True, False, False, True]


def test_an_affine_curve_is_known_everywhere():
    curve = Curve.affine(3.0, 2.0)
    assert curve([0, 1, 1e9]).tolist() == [3.0, 5.0, 2e9 + 3]
    assert not curve.is_extrapolated([0, 1e9]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_pieces_about_zero_are_the_curve(kind):
    curve = kind(TABLE_5_TOKENS, TABLE_5_S)
    for piece in curve.pieces():
        tokens = np.linspace(max(piece.low_tokens, 0) + 1, min(piece.high_tokens, 2e5), 50)
        powers = np.vander(tokens, 4, increasing=True)
        assert powers @ piece.coefficients == pytest.approx(curve(tokens), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(points=ascending_points(), at=st.lists(st.floats(0, 400_000), min_size=2, max_size=2))
def test_where_the_points_rise_so_does_the_curve_and_it_is_never_negative(kind, points, at):
    low, high = kind(*points)(sorted(at))
    assert 0 <= low <= high * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize(
    ("tokens", "values", "reason"),
    [
        ([1024], [0.4], "two points"),
        ([1024, 2048], [0.4], "two points"),
        ([2048, 1024], [0.4, 0.5], "ascend"),
        ([1024, 1024], [0.4, 0.5], "ascend"),
        ([-1, 1024], [0.4, 0.5], "ascend"),
        ([1024, 2048], [0.4, float("nan")], "finite"),
        ([1024, 2048], [0.1, 0.9], "at 0 tokens"),
        ([1024, 2048, 4096], [0.4, 0.5, 0.3], "fall beyond"),
        ([1024, 2048], [0.4, -0.5], "negative"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_points_that_make_no_sensible_curve_are_refused_with_the_reason(kind, tokens, values, reason):
    with pytest.raises(ValueError, match=reason):
        kind(tokens, values)


def test_an_affine_curve_below_zero_is_refused():
    with pytest.raises(ValueError, match="at 0 tokens"):
        Curve.affine(-1.0, 1.0)


def test_a_prompt_without_cached_tokens_takes_the_curve():
    curve = Curve.monotone_cubic(TABLE_5_TOKENS, TABLE_5_S)
    assert PrefillService(curve).seconds(62_410, 0) == curve(62_410)


def test_a_cached_prefix_saves_its_own_seconds_but_not_the_overhead():
    service = PrefillService(Curve.affine(0.4, 1e-4), overhead_s=0.3)
    assert service.seconds([20_000, 20_000], [10_000, 19_999]) == pytest.approx([1.0, 0.3])


def test_the_overhead_is_the_curve_at_zero_tokens_unless_stated():
    curve = Curve.linear([1024, 8192], [0.44, 0.72])
    assert PrefillService(curve).floor_s == pytest.approx(0.4)
    assert PrefillService(curve, 0.1).floor_s == 0.1
