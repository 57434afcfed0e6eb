"""Tiers of tests: what an answer costs is charged to each test that asks for it; the list says what has changed."""

from collections.abc import Callable, Hashable
from pathlib import Path

import pytest

from tests import cpu_cost, tiers

COST_S = 2.0
Charges = dict[Hashable, float]


@pytest.fixture
def charges(monkeypatch: pytest.MonkeyPatch) -> Charges:
    """What is charged, empty at first; this test's own charges stay as they are."""
    found: Charges = {}
    monkeypatch.setattr(cpu_cost, "shared_s", found)
    return found


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    """A function that takes COST_S by a clock of its own."""
    clock = [0.0]
    monkeypatch.setattr(cpu_cost, "cpu_s", lambda: clock[0])

    def done(n: int) -> int:
        clock[0] += COST_S
        return n

    return done


def test_who_asks_again_is_charged_once_what_the_answer_cost(work: Callable[[int], int], charges: Charges) -> None:
    ask = cpu_cost.cached(work)
    assert ask(3) == 3
    assert cpu_cost.cpu_s() == COST_S
    assert sum(charges.values()) == 0  # the test has paid
    charges.clear()  # as before the next one
    assert [ask(3), ask(3)] == [3, 3]
    assert cpu_cost.cpu_s() == COST_S
    assert sum(charges.values()) == COST_S


def test_an_answer_made_of_another_costs_as_much_as_both(work: Callable[[int], int], charges: Charges) -> None:
    inner = cpu_cost.cached(work)
    outer = cpu_cost.cached(lambda n: inner(n) + work(n))
    inner(1)
    for _ in range(2):
        charges.clear()
        outer(1)
    assert sum(charges.values()) == 2 * COST_S


def test_the_list_names_slow_tests_with_seconds_that_stay_until_they_change() -> None:
    measured = {"a::b[1]": 0.5, "a::b[2]": 0.1, "a::c[1]": 9.0, "a::c[2]": 1.0, "a::d": 0.2}
    listed = tiers.to_list(measured, {}, {})
    assert listed == {"a::b[1]": 0.5, "a::c": 9.0}
    assert tiers.to_list({**measured, "a::b[1]": 0.6, "a::c[1]": 11.0}, {}, listed) == listed
    assert tiers.to_list({**measured, "a::b[1]": 0.1}, {}, listed) == {"a::c": 9.0}
    assert tiers.to_list({"a::d": 0.2}, {"a::c[1]": 9.0, "a::b[2]": 0.0}, listed) == {"a::c": 9.0}
    assert [tiers.listed_s(node, listed) for node in ("a::b[1]", "a::b[2]", "a::c[9]")] == [0.5, 0.0, 9.0]


def test_a_case_that_waits_for_a_campaign_leaves_the_others_where_they_are() -> None:
    listed = tiers.to_list({"a::c[1]": 2 * tiers.CAMPAIGN_S, "a::c[2]": 1.0, "a::c[3]": 0.1}, {}, {})
    assert [tiers.tier_of(f"a::c[{case}]", listed) for case in (1, 2, 3)] == ["campaign", "slow", "quick"]


LISTED, OTHER = tiers.LIST.with_name("test_listed.py"), tiers.LIST.with_name("test_other.py")


@pytest.mark.parametrize(
    ("asked", "path", "is_left"),
    [
        ("slow", LISTED, None),
        ("slow", OTHER, True),
        ("slow or campaign", OTHER, True),
        ("slow", OTHER.parent, None),
        ("not slow and not campaign", OTHER, None),
        ("", OTHER, None),
    ],
)
def test_a_file_is_left_unread_where_listed_tests_are_asked_for_and_it_has_none(
    asked: str, path: Path, is_left: bool | None, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "listed_files", lambda: {"tests/test_listed.py"})
    monkeypatch.setattr(pytestconfig.option, "markexpr", asked)
    assert tiers.pytest_ignore_collect(path, pytestconfig) is is_left
