"""Values that a key may have instead of what is stated: in order, on a scale, the nearest that is good enough."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planner.comparison.changes import Change, Scale, cents, only, significant, step_multiples, with_value
from tests.builders import small_with

SCALES = {"whole": step_multiples(1), "eights": step_multiples(8), "cents": cents(), "digits": significant()}
VALUES = st.floats(1.0, 5e4)


def change(scale: Scale, stated: float, is_more: bool, farthest: float) -> Change:
    nothing: Any = None
    return Change(("key",), stated, scale, is_more, farthest, nothing, nothing)


@given(st.sampled_from([*SCALES]), VALUES, VALUES, st.booleans())
def test_the_nearest_value_is_at_least_as_good_and_the_one_before_is_not(
    scale: str, stated: float, wanted: float, is_more: bool
) -> None:
    one = change(SCALES[scale], stated, is_more, wanted)
    i = one.nearest(wanted)
    good, stated_or_better = (one.value(i), max if is_more else min)
    sign = 1 if is_more else -1
    assert i >= 1
    assert sign * good >= sign * stated_or_better(wanted, stated) - 1e-6
    assert sign * one.value(0) <= sign * stated + 1e-6
    if i > 1:
        assert sign * one.value(i - 1) < sign * wanted + 1e-6
    assert [sign * one.value(k) for k in range(4)] == sorted(sign * one.value(k) for k in range(4))
    assume(sign * wanted > sign * stated)
    assert one.n_values <= i + 1
    assert one.n_values >= i - 1


@pytest.mark.parametrize(
    ("scale", "stated", "is_more", "part", "n"),
    [
        ("whole", 10.0, True, 0.5, 5),
        ("whole", 10.0, False, 0.5, 5),
        ("whole", 10.0, True, 0.01, 1),
        ("whole", 10.0, False, 0.01, 1),
        ("cents", 10.0, True, 0.01, 10),
        ("digits", 20.0, True, 0.5, 1000),
    ],
)
def test_values_within_a_part_of_what_is_stated_are_counted_and_are_one_at_least(
    scale: str, stated: float, is_more: bool, part: float, n: int
) -> None:
    assert change(SCALES[scale], stated, is_more, 1.0).n_within(part) == n


def test_a_value_is_told_beside_what_is_stated_and_put_in_its_place() -> None:
    stated = small_with({"slo": {"ttft_s": 2.0}})
    nothing: Any = None
    one = Change(("slo", "ttft_s"), 2.0, significant(), True, 9.0, nothing, nothing)
    i = one.nearest(2.5)
    assert one.sentence(i) == "slo.ttft_s at least 2.5 (is 2)"
    assert one.option(i) == "--set slo.ttft_s=2.5"
    changed = one.at(stated, i)
    assert changed.slo is not None
    assert changed.slo.ttft_s == 2.5
    left_out = Change(("routing", "prefill_to_decode"), "1:5", only("free"), False, "free", nothing, nothing)
    assert left_out.n_values == 1
    assert left_out.sentence(1) == 'routing.prefill_to_decode = "free" (is "1:5")'
    assert left_out.option(1) == "--set routing.prefill_to_decode=free"
    assert with_value({"a": ({"b": 1}, {"b": 2})}, ("a", 1, "b"), 7) == {"a": ({"b": 1}, {"b": 7})}
    assert with_value({"a": (1, 2, 3)}, ("a", 0), 7) == {"a": (7, 2, 3)}
