"""Layouts: what parses, what the sizes mean, and what is refused with the reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.roofline import Layout


def test_sizes_that_are_not_named_are_one_and_spaces_do_not_matter() -> None:
    assert Layout.parse("tp=8") == Layout(tp_size=8)
    assert Layout.parse(" dp = 4, ep=8 ,tp=2") == Layout(tp_size=2, ep_size=8, dp_size=4)


def test_a_stage_is_tp_times_dp_and_an_instance_has_pp_of_them() -> None:
    layout = Layout(tp_size=4, ep_size=8, dp_size=4, pp_size=3)
    assert (layout.stage_size, layout.n_accelerators) == (16, 48)


@given(tp=st.integers(1, 64), dp=st.integers(1, 64), pp=st.integers(1, 64))
def test_a_layout_is_what_its_own_text_says(tp: int, dp: int, pp: int) -> None:
    layout = Layout(tp_size=tp, ep_size=tp * dp, dp_size=dp, pp_size=pp)
    assert Layout.parse(str(layout)) == layout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is no size"),
        ("8", "'8' is no size"),
        ("tp=8,", "'' is no size"),
        ("tp=-8", "is no size"),
        ("tp=8.5", "is no size"),
        ("tp=999999", "is no size"),
        ("tpp=8", "did you mean 'tp'?"),
        ("TP=8", "is no size"),
        ("tp=8,tp=8", "is given twice"),
        ("tp=0", "tp: is 0"),
        ("tp=8,pp=0", "pp: is 0"),
        ("tp=8,ep=3", "ep: is 3, which does not divide the 8 ranks of a stage"),
        ("tp=2,ep=4", "ep: is 4"),
    ],
)
def test_what_is_no_layout_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        Layout.parse(text)
    assert said in str(error.value)
