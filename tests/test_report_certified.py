"""What was certified, in tables: the worst period of every promise, the farthest of every prediction, what it took."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from planner.report.certified_tables import certified_tables
from planner.results.certified import Certified, Promise, Round
from planner.results.validation import Check
from tests.test_report_records import make_plan


def promise(metric: str, limit: float, executed: float, **changes: Any) -> Promise:
    stated = {"ci_low": None, "ci_high": None, "allowed": 0.0, "holds": True}
    return Promise(metric=metric, limit=limit, executed=executed, **{**stated, **changes})


def check(metric: str, error: float, period: str | None = None) -> Check:
    return Check(
        metric=metric,
        predicted=1.0 + error,
        executed=1.0,
        ci_low=None,
        ci_high=None,
        relative_error=error,
        tolerance=0.5,
        holds=True,
        decided=True,
        period=period,
    )


def one_round(**changes: Any) -> Round:
    stated = {"ttft_s": 2.0, "tpot_ms": 30.0, "demand_req_per_s": 4.0, "req_per_s": 4.0, "broken": ()}
    return Round(**{**stated, **changes})


def said(**changes: Any) -> str:
    stated: dict[str, Any] = {
        "req_per_s": 4.0,
        "load": 0.9,
        "n_requests": 40_000,
        "n_replications": 4,
        "seed": 7,
        "promises": (promise("ttft_p90_s", 2.0, 1.5, ci_low=1.4, ci_high=1.6),),
        "checks": (check("ttft_mean_s", 0.1),),
        "unpredicted": (),
        "rounds": (one_round(),),
        "chosen": 0,
    }
    console = Console(file=StringIO(), width=100, highlight=False, emoji=False)
    for table in certified_tables(make_plan(certified=Certified(**{**stated, **changes}))):
        if table is not None:
            console.print(table)
    return " ".join(console.file.getvalue().replace("│", " ").split())  # type: ignore[attr-defined]


def test_a_promise_stands_beside_what_the_run_gave_and_its_interval() -> None:
    text = said()
    assert "ttft_p90_s 2 1.5 1.4 to 1.6" in text
    assert "40,000 requests in 4 replications at 0.9 of 4 req/s" in text
    assert "seed 7" in text
    assert "the plan held as it was asked for" in text.lower()
    assert certified_tables(make_plan()) == []


def test_of_several_periods_the_one_that_used_most_of_a_promise_is_told_whichever_side_is_good() -> None:
    """A TTFT is used up by its length, a rate by what is lacking."""
    promises = (
        promise("ttft_p90_s", 2.0, 1.5, period="day", request_class="chat"),
        promise("ttft_p90_s", 2.0, 1.8, period="night", request_class="chat"),
        promise("ttft_p90_s", 9.0, 1.9, period="day", request_class="code"),
        promise("throughput_req_per_s", 4.0, 4.5, period="day"),
        promise("throughput_req_per_s", 2.0, 2.1, period="night"),
    )
    checks = (check("ttft_mean_s", 0.1, "day"), check("ttft_mean_s", -0.3, "night"), check("tpot_mean_s", 0.2, "day"))
    text = said(promises=promises, checks=checks, periods=("day", "night"))
    assert "night ttft_p90_s, chat 2 1.8 –" in text
    assert "day ttft_p90_s, code 9 1.9 –" in text
    assert "night throughput_req_per_s 2 2.1 –" in text
    assert "1.5 –" not in text
    assert "night ttft_mean_s 0.7 1 – -30.0 %" in text
    assert "day tpot_mean_s 1.2 1 – +20.0 %" in text
    assert "its own demand in each of 2 periods" in text


@pytest.mark.parametrize("n", [1, 4, 6])
def test_what_was_broken_at_first_is_named_up_to_four_promises(n: int) -> None:
    rounds = (one_round(broken=tuple(f"metric{i}" for i in range(n))), one_round(broken=("metric0",)))
    text = said(rounds=rounds, chosen=1).lower()
    assert f"2 plans were run; not kept at first: {', '.join(f'metric{i}' for i in range(min(n, 4)))}" in text
    assert (" and 2 more" in text) is (n == 6)


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ({"ttft_s": 1.5}, "handed to the optimizer: TTFT of 1.5 s instead of 2 s"),
        ({"ttft_s": 2.5}, "TTFT that the run bears out: 2.5 s instead of 2 s"),
        ({"tpot_ms": 25.0}, "handed to the optimizer: decode step of 25 ms instead of 30 ms"),
        ({"demand_req_per_s": 4.4}, "handed to the optimizer: demand of 4.4 req/s instead of 4 req/s"),
        ({"req_per_s": 3.5}, "claimed: 3.5 req/s instead of 4 req/s"),
    ],
)
def test_what_was_handed_over_instead_of_what_was_asked_for_is_told(last: dict[str, Any], told: str) -> None:
    text = said(rounds=(one_round(), one_round(**last)), chosen=1)
    assert told.lower() in text.lower()
    assert text.lower().count("instead of") == 1


def test_promises_by_class_are_told_by_class_and_a_least_ttft_as_what_is_borne_out() -> None:
    first = one_round(ttft_s=None, ttft_by_class_s={"chat": 2.0, "code": 5.0})
    last = one_round(ttft_s=1.25, ttft_by_class_s={"chat": 1.6})
    text = said(rounds=(first, last), chosen=1).lower()
    assert "handed to the optimizer: ttft of chat of 1.6 s instead of 2 s" in text
    assert "code" not in text
    assert "ttft that the run bears out: 1.25 s" in text


def test_what_may_be_missed_is_told() -> None:
    text = said(promises=(promise("ttft_p90_s", 2.0, 1.5, allowed=0.05), promise("tpot_p90_s", 1.0, 0.5)))
    assert "llowed to be missed by: ttft_p90_s 5 %" in text
    assert "tpot_p90_s 5" not in text
