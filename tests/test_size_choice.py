"""`planner size` with several accelerators: what one adds takes nothing away, and its fleets are those of it alone."""

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from planner.errors import InfeasibleError
from planner.optimizer.service_times import pool_stack
from planner.report.size_tables import size_tables
from planner.results import Promise, Size, SizedCost, SizedFleet, SizedLatency, SizedSloRun
from planner.roofline import best_stack, stack
from planner.scenario import Price, load_scenario
from planner.studies.size import SizeQuestion, sized
from planner.studies.size.choice import best_first, run_best
from planner.studies.size.colocated import Executed, cheapest
from planner.studies.size.notes import size_notes
from planner.studies.size.verdict import verdict
from planner.studies.size.ways import ways
from planner.workload import Workload

MODELS = ("llama-3.1-8b", "qwen3-32b")
CHIPS = ("h200-sxm", "h100-sxm", "b200-sxm", "h20-141gb", "l40s", "mi300x", "a100-sxm-80gb")
KINDS = ("colocated", "disaggregated")


def a_question(model: str, chips: Sequence[str], **stated: Any) -> SizeQuestion:
    requests = {
        name: {"kind": "constant", "tokens": stated.pop(name, 1000.0)} for name in ("lengths", "output_lengths")
    }
    prices = stated.pop("prices", dict.fromkeys(chips, 1.0))
    rents = {chip: Price(usd_per_accelerator_hour=prices[chip]) for chip in chips}
    return SizeQuestion(
        model, tuple(chips), stated.pop("rate", 5.0), Workload.model_validate(requests), rents, **stated
    )


def drawn(seed: int, n_chips: int = 2) -> dict[str, Any]:
    """A model, accelerators with their prices, a demand and promises."""
    rng = np.random.default_rng(seed)
    chips = [str(chip) for chip in rng.choice(CHIPS, n_chips, replace=False)]
    return {
        "model": str(rng.choice(MODELS)),
        "chips": chips,
        "prices": {chip: float(rng.choice([0.9, 1.5, 2.1, 3.2, 5.0])) for chip in chips},
        "rate": float(rng.choice([0.5, 5.0, 30.0])),
        "lengths": float(rng.choice([300, 2000, 9000])),
        "output_lengths": float(rng.choice([100, 600])),
        "ttft_s": [None, 1.0, 4.0][rng.integers(3)],
        "tpot_s": [None, 0.03, 0.08][rng.integers(3)],
    }


def of(case: dict[str, Any], chips: Sequence[str], n_requests: int | None = None) -> Size | None:
    """The size of a case with some of its accelerators; None where there is none."""
    try:
        return sized(a_question(**{**case, "chips": chips}), n_requests).size
    except InfeasibleError:
        return None


def printed(size: Size) -> str:
    """An answer as text, on one line."""
    console = Console(width=100, force_terminal=False, file=StringIO(), record=True)
    console.print(*size_tables(size))
    return " ".join(console.export_text().split())


def usd(size: Size | None, kind: str) -> float:
    """What a fleet costs; infinite where there is none whose promises its runs, if any, keep."""
    fleet = None if size is None else getattr(size, kind)
    if fleet is None or any(run.holds is False for run in (fleet.slo_run, fleet.tpot_run) if run is not None):
        return float("inf")
    return float(fleet.cost.usd_per_hour)


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_an_accelerator_that_is_added_never_makes_an_answer_dearer(seed: int) -> None:
    case = drawn(seed)
    both, *alone = (of(case, chips) for chips in (case["chips"], *([chip] for chip in case["chips"])))
    assert usd(both, "colocated") == pytest.approx(min(usd(one, "colocated") for one in alone))
    assert usd(both, "disaggregated") <= min(usd(one, "disaggregated") for one in alone) * (1 + 1e-9)


def test_a_third_accelerator_takes_nothing_away_either() -> None:
    case = drawn(7, 3)
    everything, *pairs = (of(case, chips) for chips in (case["chips"], *combinations(case["chips"], 2)))
    for kind in KINDS:
        assert usd(everything, kind) == pytest.approx(min(usd(pair, kind) for pair in pairs))


@pytest.mark.parametrize("seed", [100, 101])
def test_nor_does_it_where_fleets_are_run(seed: int) -> None:
    case = {**drawn(seed), "ttft_s": 2.0, "tpot_s": 0.06}
    both = of(case, case["chips"], 4000)
    for chip in case["chips"]:
        alone = of(case, [chip], 4000)
        for kind in KINDS:
            assert usd(both, kind) <= usd(alone, kind) * (1 + 1e-9)


def test_a_mixture_of_experts_with_a_version_of_its_own_on_each_is_no_dearer_on_two_accelerators() -> None:
    case = {"model": "gpt-oss-120b", "prices": {"h200-sxm": 3.2, "h100-sxm": 2.1}, "output_lengths": 500.0}
    promised = {"ttft_s": 1.0, "tpot_s": 0.03}
    both, one = (of({**case, **promised}, chips) for chips in (["h200-sxm", "h100-sxm"], ["h200-sxm"]))
    for kind in KINDS:
        assert usd(both, kind) <= usd(one, kind)
    assert one is not None
    assert one.stack == best_stack("gpt-oss-120b", "h200-sxm").name


TWO = ("h200-sxm", "h100-sxm")


@pytest.mark.parametrize("chips", [TWO, TWO[::-1], (*TWO, "l40s")])
def test_the_software_of_a_fleet_is_that_of_its_accelerators_whatever_others_there_are(chips: tuple[str, ...]) -> None:
    found = ways(a_question("llama-3.1-8b", chips))
    for chip, some in zip(chips, found.colocated, strict=True):
        assert {way.kind.software.name for way in some} == {best_stack("llama-3.1-8b", chip).name}
    for prefill, decode in found.pairs:
        used = {way.kind.software.name for way in (*prefill, *decode)}
        assert used == {best_stack("llama-3.1-8b", prefill[0].chip.name, decode[0].chip.name).name}
    assert len(found.stacks) > 1
    assert len(ways(a_question("llama-3.1-8b", chips, stack="vllm")).stacks) == 1


@pytest.mark.parametrize("chip", TWO)
def test_both_kinds_of_fleets_are_timed_with_the_factors_that_the_scenario_has(chip: str) -> None:
    # A version of which one model alone tells has factors of its own on it.
    question = a_question("qwen3-32b", [chip], stack="vllm-0.12.0")
    assert question.software(*question.chips).factors != stack("vllm-0.12.0").factors
    scenario = load_scenario(sized(question, None).scenario_text or "", "size.toml", Path())
    known = {tuple(vars(pool_stack(scenario, pool).factors).items()) for pool in scenario.pools.values()}
    for found in ways(question).by_role(question):
        assert {tuple(vars(way.served.factors).items()) for way in found} == known


def test_an_answer_says_the_software_of_each_fleet_where_there_are_several() -> None:
    both, one = (of({"model": "llama-3.1-8b"}, chips) for chips in (TWO, TWO[:1]))
    assert both is not None
    text = printed(both)
    for fleet in (both.colocated, both.disaggregated):
        assert fleet is not None
        (used,) = {pool.stack for pool in fleet.pools}
        assert used == best_stack("llama-3.1-8b", *{pool.hardware for pool in fleet.pools}).name
        assert used in text
    assert "software-by-accelerator" in text
    assert one is not None
    assert "software-by-accelerator" not in printed(one)
    assert one.stack == best_stack("llama-3.1-8b", TWO[0]).name


class Fleet:
    """A fleet as the choice sees it."""

    def __init__(self, name: str, usd_per_hour: float, holds: bool | None = None, least: float = 0.0) -> None:
        self.name, self.usd_per_hour, self.least_usd_per_hour = name, usd_per_hour, least
        self.promises = () if holds is None else (a_promise(holds, decided=True),)


def a_promise(holds: bool, *, decided: bool) -> Promise:
    return Promise(
        metric="ttft", limit=1.0, executed=1.0, ci_low=0.9, ci_high=1.1, allowed=0.0, holds=holds, decided=decided
    )


def test_what_is_kept_comes_before_what_is_undecided_and_broken_and_of_each_the_cheapest_first() -> None:
    undecided = Fleet("undecided", 1.0)
    undecided.promises = (a_promise(holds=False, decided=False),)
    fleets = [
        Fleet("broken", 0.5, holds=False),
        Fleet("dear", 4.0, holds=True),
        undecided,
        Fleet("kept", 3.0, holds=True),
    ]
    assert [one.name for one in best_first(fleets)] == ["kept", "dear", "undecided", "broken"]
    assert [one.name for one in best_first([Fleet("a", 0.1 + 0.2), Fleet("b", 0.3)])] == ["a", "b"]


def test_a_fleet_is_run_unless_it_cannot_cost_less_than_one_that_is_kept() -> None:
    ran = list[tuple[str, float]]()

    def run(one: Fleet, below: float) -> Fleet:
        ran.append((one.name, below))
        return Fleet(one.name, one.usd_per_hour + (2.0 if one.name == "flattered" else 0.0), holds=True)

    fleets = [
        Fleet("flattered", 1.0),
        Fleet("second", 2.0),
        Fleet("may", 9.0, least=1.9),
        Fleet("cannot", 9.0, least=2.0),
    ]
    assert [one.name for one in run_best(fleets, run)] == ["second", "flattered", "may"]
    assert ran == [("flattered", float("inf")), ("second", 3.0), ("may", 2.0)]


def test_a_cheaper_fleet_on_another_accelerator_that_no_run_decides_is_named() -> None:
    question = a_question("llama-3.1-8b", TWO, ttft_s=1.0, prices={"h200-sxm": 3.0, "h100-sxm": 2.0})
    every = ways(question)
    dear, cheap = (cheapest(question, found) for found in every.colocated)
    assert dear is not None
    assert cheap is not None
    kept = replace(dear, executed=Executed((a_promise(holds=True, decided=True),), 10))
    for holds, decided, is_named in ((False, False, True), (False, True, False)):
        other = replace(cheap, executed=Executed((a_promise(holds=holds, decided=decided),), 10))
        said = [
            one for one in size_notes(question, every, (kept, other), (), (None, None)) if "cheaper-undecided" in one
        ]
        assert bool(said) == is_named
        assert all("x h100-sxm" in one for one in said)


def fleet(bill: float, holds: bool | None = True, decided: bool = True) -> SizedFleet:
    known = {"requests": 10, "seed": 0, "percentile": 90.0, "promised_s": 1.0, "predicted_s": 0.5, "metric": "ttft"}
    seen = {"executed_s": 0.5, "ci_low_s": 0.4, "ci_high_s": 0.6, "basis": "executed"}
    return SizedFleet(
        pools=(),
        n_accelerators=1,
        cost=SizedCost(usd_per_hour=bill, usd_per_million_input_tokens=None, usd_per_million_output_tokens=None),
        latency=SizedLatency(**dict.fromkeys(SizedLatency.model_fields)),
        binds="x",
        slo_run=SizedSloRun.model_validate({**known, **seen, "holds": holds, "decided": decided}),
        tpot_run=None,
    )


def test_fleets_that_cost_the_same_have_no_preference() -> None:
    tie = verdict(fleet(0.1 + 0.2), fleet(0.3))
    assert (tie.worth_it, tie.decided, tie.margin_fraction) == (False, True, 0.0)
    assert tie.because.startswith("both cost 0.3 USD/h")
    sized_once = of({"model": "llama-3.1-8b"}, TWO[1:])
    assert sized_once is not None
    assert "disaggregate? either: both cost 0.3 USD/h" in printed(sized_once.model_copy(update={"disaggregation": tie}))
    less = verdict(fleet(4.0), fleet(3.0))
    assert (less.worth_it, less.decided, less.margin_fraction) == (True, True, 0.25)


@pytest.mark.parametrize(
    ("together", "apart"), [(fleet(3.0, holds=False, decided=False), None), (None, fleet(3.0, holds=False))]
)
def test_the_only_fleet_there_is_decides_nothing_where_its_run_does_not_keep_the_promise(
    together: SizedFleet | None, apart: SizedFleet | None
) -> None:
    found = verdict(together, apart)
    assert (found.worth_it, found.decided) == (False, False)
    assert "but the promise" in found.because
