"""The fullest attention replica: the model against draws, and its limits."""

import numpy as np
import pytest

from planner.roofline.colocated import fullest_context, mean_greatest


@pytest.mark.parametrize("n", [2, 3, 8, 16])
def test_the_mean_greatest_deviate_is_that_of_draws(n: int) -> None:
    drawn = np.random.default_rng(n).standard_normal((200_000, n)).max(axis=1)
    assert mean_greatest(n) == pytest.approx(drawn.mean(), abs=5 * drawn.std() / np.sqrt(len(drawn)))


def test_one_replica_is_the_fullest_and_the_mean_one() -> None:
    assert fullest_context([1.0, 300.0], 1, 0.7).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("scv", [0.0, 0.3])
def test_the_fullest_of_many_sequences_is_hardly_fuller_than_the_mean(scv: float) -> None:
    batch = np.array([8.0, 80.0, 800.0, 8e6])
    found = fullest_context(batch, 8, scv)
    assert (np.diff(found) < 0).all()
    assert found[-1] == pytest.approx(1.0, abs=2e-3)
