"""Infeasible for want of accelerators or instances: what is said to do does, in both planners and with promises."""

import re
from typing import Any

import pytest

from planner.comparison import best_fleet
from planner.errors import InfeasibleError
from planner.scenario import Scenario
from tests.builders import FAST, HOME, small_with

PART = re.compile(r"(?P<key>\S+) = (?P<value>\d+) \(is \d+\)")
MIN_COST: dict[str, Any] = {"objective": "min-cost", "demand_req_per_s": 2.0}
PERIODS = {"periods": {"day": {}, "night": {"demand": 0.5}}}
STOCK = {f"sites.local.accelerators.{HOME}": 16, f"sites.remote.accelerators.{FAST}": 8}
TOO_LITTLE: dict[str, dict[str, Any]] = {
    "one site short": MIN_COST | {"demand_req_per_s": 4.0},
    "both sites short": MIN_COST | STOCK | {"pools.near.n_instances": 0},
    "all pools fixed too small": MIN_COST | {f"pools.{n}.n_instances": 1 for n in ("fast", "near", "decode")},
    "pools limited too small": MIN_COST | {f"pools.{n}.max_instances": 1 for n in ("fast", "near", "decode")},
    "a promise, and one site short": MIN_COST | {"slo.ttft_s": 4.0, f"sites.remote.accelerators.{FAST}": 8},
    "a promise, and pools fixed too small": MIN_COST
    | {"slo.ttft_s": 4.0}
    | {f"pools.{n}.n_instances": 1 for n in ("fast", "near", "decode")},
    "the least TTFT, and one site short": {"objective": "min-ttft", "demand_req_per_s": 1.0}
    | {f"sites.local.accelerators.{HOME}": 8, f"sites.remote.accelerators.{FAST}": 8},
    "a network, one site short": MIN_COST | PERIODS | {"demand_req_per_s": 4.0},
    "a network with all pools fixed too small": MIN_COST
    | PERIODS
    | {f"pools.{n}.n_instances": 1 for n in ("fast", "near", "decode")},
    "a network with a promise": MIN_COST | PERIODS | {"slo.ttft_s": 8.0, "demand_req_per_s": 4.0},
}


PATIENT_S = 1200.0
"""A time limit that a busy machine does not reach: what is found must not depend on it here."""


def ways_out(scenario: Scenario) -> list[dict[str, int]]:
    """What the message says of accelerators and instances, as keys and values."""
    with pytest.raises(InfeasibleError) as caught:
        best_fleet(scenario, time_limit_s=PATIENT_S)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("  - ")]
    found = [{match["key"]: int(match["value"]) for match in PART.finditer(line)} for line in lines]
    return [way for way in found if way]


@pytest.mark.parametrize("case", sorted(TOO_LITTLE))
def test_more_accelerators_or_instances_are_named_and_do(case: str) -> None:
    scenario = small_with(TOO_LITTLE[case])
    ways = ways_out(scenario)
    assert ways
    for way in ways:
        for key, value in way.items():
            assert re.fullmatch(r"(sites|pools)\.\S+\.(accelerators\.\S+|n_instances|max_instances)", key)
            before = scenario.value_at(key)
            assert before is not None
            assert value > before
        assert best_fleet(scenario.varied(way), time_limit_s=PATIENT_S).fleet.throughput_req_per_s > 0
