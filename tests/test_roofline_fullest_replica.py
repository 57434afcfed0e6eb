"""The fullest attention replica: the model against balls thrown into bins, and its limits."""

import numpy as np
import pytest

from planner.roofline.fullest_replica import fullest_context, mean_greatest, replicas_busy

SIZES, SHARES = np.array([300.0, 1200.0, 2600.0]), np.array([0.5, 0.3, 0.2])


@pytest.mark.parametrize("n", [2, 3, 8, 16])
def test_the_mean_greatest_deviate_is_that_of_draws(n: int) -> None:
    drawn = np.random.default_rng(n).standard_normal((200_000, n)).max(axis=1)
    assert mean_greatest(n) == pytest.approx(drawn.mean(), abs=5 * drawn.std() / np.sqrt(len(drawn)))


@pytest.mark.parametrize(("n_replicas", "prompts"), [(2, 0.5), (2, 4.0), (8, 1.0), (8, 6.0), (8, 60.0)])
def test_replicas_that_are_busy_are_those_of_prompts_thrown_into_bins(n_replicas: int, prompts: float) -> None:
    chunk, draw = 4096.0, np.random.default_rng(round(10 * prompts) + n_replicas)
    by_kind = draw.poisson(prompts / n_replicas * SHARES, (100_000, n_replicas, len(SIZES)))
    taken = np.minimum(by_kind @ SIZES, chunk)
    p, fullest = taken.sum(axis=1).mean(), taken.max(axis=1).mean()
    found = replicas_busy(p, n_replicas, SIZES, SHARES, chunk)
    assert float(found) == pytest.approx(p / fullest, rel=0.02)


def test_replicas_that_are_busy_go_from_one_to_all_and_never_fall() -> None:
    tokens = np.geomspace(1.0, 8 * 4096.0, 200)
    found = replicas_busy(tokens, 8, SIZES, SHARES, 4096.0)
    assert found[0] == pytest.approx(1.0, abs=0.01)
    assert found[-1] == pytest.approx(8.0, rel=0.01)
    assert (np.diff(found) > -1e-9).all()


def test_one_replica_is_the_fullest_and_the_mean_one() -> None:
    assert replicas_busy([1.0, 9e9], 1, SIZES, SHARES, 512.0).tolist() == [1.0, 1.0]
    assert fullest_context([1.0, 300.0], 1, 0.7).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("scv", [0.0, 0.3])
def test_the_fullest_of_many_sequences_is_hardly_fuller_than_the_mean(scv: float) -> None:
    batch = np.array([8.0, 80.0, 800.0, 8e6])
    found = fullest_context(batch, 8, scv)
    assert (np.diff(found) < 0).all()
    assert found[-1] == pytest.approx(1.0, abs=2e-3)
