"""Laws of `tests.metamorphic` on a sample of `tests/campaigns/optimizer_laws.py`, and on families that broke them."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from planner.comparison import optimize
from tests.campaigns.random_scenarios import Data, network_data, one_site_data, toml_text
from tests.cpu_cost import cached
from tests.metamorphic import LAWS, Answer, answer_to, breaks

CONSTANT_PERIOD = "one constant period changes nothing"
UNUSED_POOL = "an unused pool changes nothing"
IN_HALVES = "a class in two halves with one threshold changes nothing"
SCALED = (
    "doubling all prices doubles the bill and keeps the plan",
    "halving all times keeps the plan",
    "other names in another order change nothing",
)
NETWORK = 50_013
"""Seed of a network that is planned in about a second."""


def plain(seed: int) -> Data:
    """The cheapest fleet for one class, without a promise or a ratio, that means the same in both forms."""
    data = one_site_data(seed, is_enumerable=True, objective="min-cost", promises=False, n_classes=1)
    routing = {key: value for key, value in data.get("routing", {}).items() if key != "prefill_to_decode"}
    return {**data, "capacity_rule": "expected-work", "routing": routing if has_long_pool(data) else {}}


def has_long_pool(data: Data) -> bool:
    """Whether some pool takes long prompts alone."""
    decoding = {p["site"] for p in data["pools"].values() if p["role"] == "decode"}
    return any(p.get("prompts") == "long" or p["site"] not in decoding for p in data["pools"].values())


def stating(seed: int, **keys: Any) -> Data:
    """A plain question with keys at the top of its file replaced; one that is None is left out."""
    return {key: value for key, value in {**plain(seed), **keys}.items() if value is not None}


def fastest(seed: int, **keys: Any) -> Data:
    """A plain question about the highest rate."""
    return stating(seed, objective="max-throughput", demand_req_per_s=None, budget_usd_per_hour=None, **keys)


def promising(data: Data, services: float = 2.0) -> Data:
    """With a promise of so many of the quickest services of the longest prompt, to nine requests of ten."""
    longest = max(data["workload"]["lengths"]["tokens"])
    prefill = [p["hardware"] for p in data["pools"].values() if p["role"] == "prefill"]
    curves = [data["measured"][f"m-{hardware}"]["prefill"] for hardware in prefill]
    quickest_s = min(float(np.interp(longest, c["tokens"], c["seconds"])) for c in curves)
    return {**data, "slo": {"ttft_s": float(f"{services * quickest_s:.4g}"), "ttft_percentile": 90.0}}


def answers(law: str, data: Data) -> tuple[Answer, Answer]:
    """What is said to a question and to the changed one."""
    pair = LAWS[law].questions(data)
    assert pair is not None
    before, after = (asked_once(toml_text(question)) for question in pair)
    return before, after


@cached
def asked_once(question: str) -> Answer:
    """The answer to a question that most laws begin with."""
    return answer_to(tomllib.loads(question))


def broken(law: str, data: Data) -> list[str]:
    """What breaks a law for a question that has a plan in one of its forms."""
    before, after = answers(law, data)
    assert "plan" in (before.kind, after.kind)
    return list(breaks(LAWS[law], before, after))


@pytest.mark.parametrize("seed", [72_000, 72_003])
@pytest.mark.parametrize("law", LAWS)
def test_a_law_holds_for_the_cheapest_fleet_of_one_stream(law: str, seed: int) -> None:
    assert broken(law, plain(seed)) == []


@pytest.mark.parametrize("law", [IN_HALVES, UNUSED_POOL, *SCALED])
def test_a_law_holds_for_a_network_of_a_day_and_a_night(law: str) -> None:
    assert broken(law, network_data(NETWORK, objective="min-cost", n_sites=2, n_periods=2)) == []


@dataclass(frozen=True)
class Family:
    """Questions of one kind for which a law did not hold once."""

    law: str
    what: str
    """What they are about."""
    questions: Callable[[int], Data]
    seeds: tuple[int, ...]


FAMILIES = (
    Family(
        CONSTANT_PERIOD,
        "the rule of mean lengths",
        lambda seed: stating(seed, capacity_rule="mean-length", budget_usd_per_hour=None),
        (71_000, 71_009),
    ),
    Family(
        CONSTANT_PERIOD,
        "a stated threshold without a pool for long prompts",
        lambda seed: stating(seed, routing={"threshold_tokens": 2000}, budget_usd_per_hour=None),
        (71_002, 71_009),
    ),
    Family(
        CONSTANT_PERIOD,
        "a ratio of prefill to decode",
        lambda seed: stating(seed, routing={"prefill_to_decode": "1:1"}, budget_usd_per_hour=None),
        (71_000, 71_001),
    ),
    Family(
        CONSTANT_PERIOD,
        "the cheapest fleet under a promise",
        lambda seed: promising(stating(seed, budget_usd_per_hour=None)),
        (71_000,),
    ),
    Family(
        IN_HALVES,
        "a promise to two classes",
        lambda seed: promising(stating(seed, budget_usd_per_hour=None)),
        (71_000, 71_002),
    ),
    Family(
        CONSTANT_PERIOD,
        "the highest rate under a promise",
        lambda seed: promising(fastest(seed)),
        (71_001, 71_006),
    ),
    Family(
        CONSTANT_PERIOD,
        "a promise with two pools for the same prompts",
        lambda seed: promising(stating(seed, budget_usd_per_hour=None)),
        (71_005, 71_009),
    ),
    Family(
        UNUSED_POOL,
        "a promise beside an empty pool",
        lambda seed: promising(stating(seed, budget_usd_per_hour=None)),
        (71_001,),
    ),
    Family(
        CONSTANT_PERIOD,
        "fleets of the highest rate, of which the cheapest counts",
        fastest,
        (71_005, 71_007, 71_009),
    ),
    Family(
        CONSTANT_PERIOD,
        "a pool that is busy all the time",
        fastest,
        (71_008,),
    ),
    Family(
        CONSTANT_PERIOD,
        "the TTFT of a plan",
        fastest,
        (71_003,),
    ),
)


@pytest.mark.parametrize(
    ("family", "seed"),
    [pytest.param(family, seed, id=f"{i}-{seed}") for i, family in enumerate(FAMILIES) for seed in family.seeds],
)
def test_a_law_holds_for_every_family_of_questions(family: Family, seed: int) -> None:
    assert broken(family.law, family.questions(seed)) == []


@pytest.mark.parametrize("data", [fastest(71_004), promising(fastest(71_004))], ids=["plain", "promising"])
def test_what_has_no_plan_has_none_in_either_form(data: Data) -> None:
    before, after = answers(CONSTANT_PERIOD, data)
    assert (before.kind, after.kind) == ("infeasible", "infeasible")


@pytest.mark.parametrize("seed", [10_029])
def test_every_random_network_is_answered(seed: int) -> None:
    assert answer_to(network_data(seed), planner=optimize).kind in ("plan", "infeasible")


def test_a_link_from_a_site_without_pools_is_not_rented() -> None:
    assert broken("an unused link changes nothing", network_data(30_002)) == []


def test_no_plan_beats_its_own_bound_on_the_least_ttft() -> None:
    answer = answer_to(one_site_data(30_028))
    assert answer.objective >= answer.planned.bound * (1 - 1e-6)
