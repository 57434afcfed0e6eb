"""The fewest instances that runs show to be needed, where it is known from which size on they keep the promises."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.results import Promise
from planner.studies.size import runs as sizes
from planner.studies.size.colocated import MOST_INSTANCES, Chosen, Executed
from planner.studies.size.runs import MOST_REPLICATIONS, MOST_STEPS, Runs, Times, _answered, _most_instances, executed

LIMIT_S = 2.0


def judged(time_s: float, decided: bool = True) -> Executed:
    holds = decided and time_s <= LIMIT_S
    one = Promise(
        metric="ttft",
        limit=LIMIT_S,
        executed=time_s,
        ci_low=None,
        ci_high=None,
        allowed=0.0,
        holds=holds,
        decided=decided,
    )
    return Executed((one,), 1000)


class Known:
    """Runs of which the time falls with the size: it is kept from some size on, and undecided just below."""

    def __init__(self, enough: int, undecided: tuple[int, ...] = (), least: int = 1, times: float = 1.5) -> None:
        self.enough, self.undecided, self.least_instances, self.times = enough, undecided, least, times
        self.seed, self.is_long_enough = 7, True
        self.question: Any = SimpleNamespace(recorded=None)
        self.looked: list[tuple[int, int]] = []

    def watched(self, n: int, first: int, n_at_first: int = 4) -> Executed:
        self.looked.append((n, first))
        assert n_at_first in (2, 4)
        return judged(1.0 if n >= self.enough else self.times * LIMIT_S, n not in self.undecided)


def found(known: Known, predicted: int, below_usd_per_hour: float = np.inf) -> Chosen:
    way: Any = SimpleNamespace(usd_per_hour=10.0)
    chosen: Any = SimpleNamespace(way=way, predicted=SimpleNamespace(n_instances=predicted))
    question: Any = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "predicted", lambda _, __, n: n)
        runs: Any = known
        return executed(question, chosen, runs, below_usd_per_hour=below_usd_per_hour)


@given(st.integers(1, 12), st.integers(-5, 5))
def test_the_fewest_instances_that_keep_the_promises_are_found_from_any_prediction_near(enough: int, off: int) -> None:
    known = Known(enough)
    answer = found(known, max(enough + off, 1))
    assert answer.predicted == enough
    assert answer.executed is not None
    assert answer.executed.holds
    down = [n for n, first in known.looked if first == 0]
    assert down == sorted(down, reverse=True)
    up = [(n, first // MOST_REPLICATIONS) for n, first in known.looked if first]
    assert up == [(up[0][0] + k, 1 + k) for k in range(len(up))], "each with seeds of its own"


def test_no_fewer_are_run_than_do_the_rate_when_they_are_full_nor_more_than_the_rent_allows() -> None:
    known = Known(1, least=4)
    assert found(known, 6).predicted == 4
    assert min(n for n, _ in known.looked) == 4
    dear = Known(9)
    answer = found(dear, 5, below_usd_per_hour=70.0)
    assert max(n for n, _ in dear.looked) == 6
    assert answer.executed is not None
    assert not answer.executed.holds
    assert len({n for n, first in Known(50).looked}) <= MOST_STEPS


def test_where_none_is_sure_the_fewest_that_is_undecided_is_the_answer() -> None:
    assert found(Known(99, undecided=(4, 5)), 3, below_usd_per_hour=60.0).predicted == 4
    cheaper = found(Known(6, undecided=(4, 5)), 3)
    assert (cheaper.predicted, cheaper.undecided) == (6, (4, 5))


@pytest.mark.parametrize(
    ("rent", "bill", "n"),
    [(10.0, 70.0, 6), (10.0, 70.1, 7), (10.0, 5.0, 0), (10.0, 10.0, 0), (1.0, np.inf, MOST_INSTANCES)],
)
def test_the_most_instances_below_a_bill_cost_less_than_it(rent: float, bill: float, n: int) -> None:
    assert _most_instances(rent, bill) == n


def test_refused_requests_are_answered_ten_times_as_late_as_the_last() -> None:
    assert _answered(np.array([1.0, np.nan, 3.0])).tolist() == [1.0, 30.0, 3.0]
    assert _answered(np.array([0.5, np.nan])).tolist() == [0.5, 10.0], "and at least ten seconds"


def made(n: int, is_long_enough: bool = True, **limits: float | None) -> tuple[Any, list[int]]:
    """Runs whose replication k takes as many tenths of seconds as k to the first token, and the replications made."""
    seen: list[int] = []
    runs: Any = object.__new__(Runs)
    stated = {"ttft_s": LIMIT_S, "tpot_s": None, "percentile": 90.0, **limits}
    runs.question, runs.is_long_enough, runs.n = SimpleNamespace(**stated), is_long_enough, n
    return runs, seen


def test_runs_go_on_by_doubling_while_a_promise_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, seen = made(10)
    monkeypatch.setattr(Runs, "_times", lambda *of: seen.append(of[-1]) or Times(np.ones(3), np.ones(0)))
    monkeypatch.setattr(Runs, "_judged", lambda _, times: judged(1.0, len(times) >= 16))
    assert runs.watched(3, 100).holds
    assert seen == [*range(100, 116)]
    seen.clear()
    runs.is_long_enough = False
    runs.watched(3, 0)
    assert len(seen) == 4
    seen.clear()
    monkeypatch.setattr(Runs, "_judged", lambda *_: judged(1.0, False))
    runs.is_long_enough = True
    runs.watched(3, 0, 2)
    assert len(seen) == MOST_REPLICATIONS


@pytest.mark.parametrize(
    ("time_s", "tpot_s", "holds"), [(1.0, 0.01, [True, True]), (3.0, 0.01, [False, True]), (1.0, 0.5, [True, False])]
)
def test_promises_are_judged_by_their_own_times_and_not_kept_by_runs_that_are_too_short(
    time_s: float, tpot_s: float, holds: list[bool]
) -> None:
    runs, _ = made(10, tpot_s=0.02)
    times = [Times(np.full(50, time_s), np.full(50, tpot_s)) for _ in range(4)]
    found = runs._judged(times)
    assert [one.holds for one in found.promises] == holds
    assert found.n_counted == 200
    runs.is_long_enough = False
    assert not any(one.holds for one in runs._judged(times).promises)
    alone, _ = made(10)
    assert len(alone._judged(times).promises) == 1
