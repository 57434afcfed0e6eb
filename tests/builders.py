"""Small scenarios for the tests: one reference question of two sites, its variants, and random ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from planner.comparison import Planned, sketched, solved
from planner.comparison.evaluation import Evaluation
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.optimizer.single_route import RoutedSolution, solution_of_routes
from planner.optimizer.solution import Solution, objective_unit
from planner.optimizer.strategies import best_solution
from planner.results.plan import Fleet, Plan
from planner.scenario import Scenario, load_scenario, read_scenario
from tests.cpu_cost import cached

GPUS = 8
"""Accelerators per instance in every small scenario."""
FAST, HOME = "h100-sxm", "h200-sxm"

SMALL = f"""
schema = "planner.scenario/1"
name = "small"

[model]
profile = "qwen3-235b"

[workload]
lengths = {{ kind = "lognormal", mu = 9.0, sigma = 1.0, low_tokens = 128, high_tokens = 65536 }}
output_lengths = {{ kind = "constant", tokens = 500 }}

[sites.remote]
accelerators = {{ {FAST} = 24 }}

[sites.local]
accelerators = {{ {HOME} = 40 }}

[pools.fast]
site = "remote"
hardware = "{FAST}"
role = "prefill"

[pools.near]
site = "local"
hardware = "{HOME}"
role = "prefill"

[pools.decode]
site = "local"
hardware = "{HOME}"
role = "decode"

[links.wan]
from = "remote"
to = "local"
capacity_gbps = 100
usd_per_hour = 20
round_trip_ms = 10

[prices]
{FAST} = {{ usd_per_accelerator_hour = 4.0, basis = "assumed", source = "a test" }}
{HOME} = {{ usd_per_accelerator_hour = 2.0, basis = "assumed", source = "a test" }}

[measured.fast]
hardware = "{FAST}"
n_accelerators = {GPUS}
precision = "bf16"
basis = "measured"
source = "a test"
prefill = {{ tokens = [64, 8192, 65536], seconds = [0.2, 0.8, 6.0], interpolation = "monotone-cubic" }}

[measured.home]
hardware = "{HOME}"
n_accelerators = {GPUS}
precision = "bf16"
basis = "measured"
source = "a test"
prefill = {{ tokens = [64, 8192, 65536], seconds = [0.3, 1.6, 15.0], interpolation = "linear" }}
decode = {{ batch = 20, step_s = 0.025 }}
"""


POOLS_HERE = """
[pools.prefill]
site = "here"
hardware = "h200-sxm"
role = "prefill"

[pools.decode]
site = "here"
hardware = "h200-sxm"
role = "decode"
"""
"""The pools of a scenario of one site."""


@cached
def small() -> Scenario:
    """Two sites, three pools, one link: the question that the variants start from."""
    return load_scenario(SMALL, "small.toml", Path())


def small_with(changes: Mapping[str, Any]) -> Scenario:
    """The small scenario with keys changed."""
    return small().varied(changes)


TWO_PERIODS: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": 3.0,
    "sites.remote.accelerators": {FAST: 40 * GPUS},
    "sites.local.accelerators": {HOME: 60 * GPUS},
    "periods": {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.25}},
}
"""Changes that make a network of the small scenario: the least cost of a day and a night."""


def problem_of(changes: Mapping[str, Any] | None = None) -> Problem:
    """The small scenario with keys changed, resolved."""
    return planning_problem(small_with(changes or {}))


def sketch(scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0) -> Plan:
    """What `optimize` plans, without the other fleets that it is compared with, which take most of the time."""
    problem = planning_problem(scenario, data_dirs)
    return sketched(problem, solved(problem, time_limit_s))


@cached
def reference(rule: str = "mean-length", **changes: Any) -> Scenario:
    """The paper's case study under a capacity rule, without the variants of its report."""
    scenario = read_scenario("prfaas-paper", [f"capacity_rule={rule}"])
    return scenario.varied(changes).model_copy(update={"comparisons": {}, "claims": ()})


def in_classes(classes: Mapping[str, tuple[float, Mapping[str, Any]]], changes: Mapping[str, Any]) -> Scenario:
    """The small scenario with classes (share and workload each) instead of its workload, and keys changed."""
    parts = {name: {"share": share, "workload": workload} for name, (share, workload) in classes.items()}
    return small_with({"workload": None, "classes": parts, **changes})


LONGEST_TOKENS = 200_000.0
"""Prompts beyond do not fit every instance of the small scenario."""
BOTH_WAYS: dict[str, Any] = {
    "pools.far.site": "remote",
    "pools.far.hardware": HOME,
    "pools.far.role": "decode",
    "sites.remote.accelerators": {FAST: 40 * GPUS, HOME: 40 * GPUS},
    "links.back": {"from": "local", "to": "remote", "capacity_gbps": 400, "usd_per_hour": 20, "round_trip_ms": 10},
    "links.wan.capacity_gbps": 400,
}
"""Changes that make both sites of the small scenario decode, each with a link to the other."""


@dataclass(frozen=True)
class Draw:
    """Random parts of scenarios; every number depends on the generator's seed alone."""

    rng: np.random.Generator

    def lengths(self, *kinds: str) -> dict[str, Any]:
        """Lengths of one of the kinds, by default of any."""
        kind = self.rng.choice(kinds or ("lognormal", "constant", "empirical", "mixture"))
        return {
            "lognormal": self.lognormal,
            "constant": self.constant,
            "empirical": self.empirical,
            "mixture": self.mixture,
        }[str(kind)]()

    def lognormal(self) -> dict[str, Any]:
        """A log-normal cut somewhere on either side."""
        low = float(self.rng.integers(16, 512))
        return {
            "kind": "lognormal",
            "mu": float(self.rng.uniform(6.5, 10)),
            "sigma": float(self.rng.uniform(0.2, 1.6)),
            "low_tokens": low,
            "high_tokens": min(low * float(self.rng.uniform(20, 600)), LONGEST_TOKENS),
        }

    def constant(self) -> dict[str, Any]:
        """One length."""
        return {"kind": "constant", "tokens": float(self.rng.integers(64, 60_000))}

    def empirical(self) -> dict[str, Any]:
        """A handful of lengths, repeats included, evenly or unevenly likely."""
        n = int(self.rng.integers(1, 13))
        lengths = {"kind": "empirical", "tokens": np.exp(self.rng.uniform(4, 11, n)).round().tolist()}
        return lengths | ({"weights": self.rng.uniform(0.05, 1, n).tolist()} if self.rng.random() < 0.5 else {})

    def mixture(self) -> dict[str, Any]:
        """Two or three parts, discrete or not."""
        parts = [self.lengths("lognormal", "constant", "empirical") for _ in range(int(self.rng.integers(2, 4)))]
        weights = self.rng.uniform(0.1, 1, len(parts)).tolist()
        return {
            "kind": "mixture",
            "components": [{"weight": w, "lengths": p} for w, p in zip(weights, parts, strict=True)],
        }

    def prefill(self) -> dict[str, Any]:
        """A monotone curve with an overhead, not always convex, sometimes with a flat part."""
        n = int(self.rng.integers(2, 6))
        tokens = np.unique(np.concatenate([[8], np.exp(self.rng.uniform(6.5, 11.5, n - 1)).round()]))
        rises = self.rng.uniform(0, 4, len(tokens) - 1) * (self.rng.random(len(tokens) - 1) < 0.9)
        seconds = self.rng.uniform(0.1, 0.6) + np.concatenate([[0.0], np.cumsum(rises)])
        return {
            "tokens": tokens.astype(int).tolist(),
            "seconds": seconds.tolist(),
            "interpolation": str(self.rng.choice(["linear", "monotone-cubic"])),
        }

    def decode(self) -> dict[str, Any]:
        """A decode point that limits some fleets and not others."""
        return {"batch": int(self.rng.integers(4, 64)), "step_s": float(self.rng.uniform(0.005, 0.05))}

    def question(self, *kinds: str) -> dict[str, Any]:
        """Changes that make a random small max-throughput question of the small scenario."""
        changes: dict[str, Any] = {
            "capacity_rule": str(self.rng.choice(["mean-length", "expected-work"])),
            "workload.lengths": self.lengths(*kinds),
            "workload.output_lengths.tokens": float(self.rng.integers(50, 2000)),
            "measured.fast.prefill": self.prefill(),
            "measured.home.prefill": self.prefill(),
            "measured.home.decode": self.decode(),
            "links.wan.capacity_gbps": float(10 ** self.rng.uniform(-1, 3)),
            "links.wan.usd_per_hour": 0.0,
            "routing.n_candidates": int(self.rng.choice([2, 5, 16, 64])),
            f"sites.remote.accelerators.{FAST}": int(self.rng.integers(8, 49)),
            f"sites.local.accelerators.{HOME}": int(self.rng.integers(16, 49)),
        }
        return changes | self.limits()

    def tiers(self) -> dict[str, Any]:
        """A link of two port sizes, sometimes charged by volume."""
        sizes = sorted(float(10 ** self.rng.uniform(-1, 2.5)) for _ in range(2))
        tiers = [{"capacity_gbps": g, "usd_per_hour": g**0.7, "max_ports": int(self.rng.integers(1, 3))} for g in sizes]
        usd_per_gb = float(self.rng.choice([0.0, 0.002, 0.02]))
        return {"links.wan.capacity_gbps": "free", "links.wan.tiers": tiers, "links.wan.usd_per_gb": usd_per_gb}

    def power(self) -> dict[str, Any]:
        """Electricity at both sites, dear enough to matter, by use or not."""
        changes: dict[str, Any] = {}
        for site in ("remote", "local"):
            draw = float(self.rng.uniform(0.5, 1.4))
            changes[f"sites.{site}.usd_per_kwh"] = float(10 ** self.rng.uniform(-1.5, 1))
            changes[f"sites.{site}.pue"] = float(self.rng.uniform(1, 1.6))
            changes[f"sites.{site}.draw_fraction"] = draw
            if self.rng.random() < 0.8:
                changes[f"sites.{site}.idle_draw_fraction"] = float(draw * self.rng.uniform(0, 1))
        return changes

    def limits(self) -> dict[str, Any]:
        """Now and then a budget, a fixed size, limits of a size, a ratio or a threshold."""
        changes: dict[str, Any] = {}
        if self.rng.random() < 0.2:
            changes["budget_usd_per_hour"] = float(self.rng.uniform(40, 300))
        if self.rng.random() < 0.2:
            changes[f"pools.{self.rng.choice(['fast', 'near', 'decode'])}.n_instances"] = int(self.rng.integers(0, 4))
        if self.rng.random() < 0.2:
            low = int(self.rng.integers(0, 3))
            changes["pools.near.min_instances"] = low
            changes["pools.near.max_instances"] = low + int(self.rng.integers(0, 3))
        if self.rng.random() < 0.15:
            changes["routing.prefill_to_decode"] = f"{self.rng.integers(1, 4)}:{self.rng.integers(1, 4)}"
        if self.rng.random() < 0.2:
            changes["routing.threshold_tokens"] = float(self.rng.integers(0, 30_000))
        return changes


def search(problem: Problem, time_limit_s: float = 60.0) -> RoutedSolution | Solution | None:
    """What is found in the units of answers: of one route with its loads and rates."""
    found, unit = best_solution(problem, time_limit_s), objective_unit(problem)
    if found is None or found.routed is not None:
        return found and found.routed
    return replace(found, objective=found.objective * unit, bound=found.bound * unit)


def routed_search(problem: Problem, time_limit_s: float = 60.0) -> RoutedSolution | None:
    """The same of a problem whose requests all take one route."""
    found = search(problem, time_limit_s)
    assert found is None or isinstance(found, RoutedSolution)
    return found


def fleet_of(problem: Problem, routed: RoutedSolution) -> Fleet:
    """The fleet of a plan of one route, at the rate that the plan is for."""
    return Planned(problem, solution_of_routes(problem, routed)).fleet


def evaluation_of(problem: Problem, routed: RoutedSolution, req_per_s: float) -> Evaluation:
    """A plan of one route at a rate."""
    return Evaluation(problem, solution_of_routes(problem, replace(routed, req_per_s=req_per_s)))
