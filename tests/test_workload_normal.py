"""The normal distribution in logarithms, held against scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from planner.workload.normal import log_ndtr, ndtri_exp


@given(st.floats(-1e6, 9.0))
def test_the_logarithm_of_the_normal_is_scipys(z: float) -> None:
    assert float(log_ndtr(z)) == pytest.approx(float(special.log_ndtr(z)), rel=1e-13, abs=0)


@given(st.floats(-700.0, -1e-12))
def test_its_inverse_is_scipys(log_p: float) -> None:
    assert float(ndtri_exp(log_p)) == pytest.approx(float(special.ndtri_exp(log_p)), rel=1e-12, abs=1e-15)


@given(st.floats(-1e8, -1e-3))
def test_the_two_undo_each_other(log_p: float) -> None:
    assert float(log_ndtr(ndtri_exp(log_p))) == pytest.approx(log_p, rel=1e-12)


def test_the_ends_are_infinite_and_shapes_are_kept() -> None:
    assert ndtri_exp([[-np.inf, 0.0]]).tolist() == [[-np.inf, np.inf]]
    assert log_ndtr([[-np.inf, np.inf]]).tolist() == [[-np.inf, 0.0]]
    assert (log_ndtr(0.0).shape, ndtri_exp(-1.0).shape) == ((), ())
