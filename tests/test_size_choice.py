"""`planner size` with several accelerators: what one adds takes nothing away, and its verdict on two fleets."""

from collections.abc import Sequence
from io import StringIO
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from planner.cli.common import n_lines
from planner.errors import InfeasibleError
from planner.executor.run_question import RunQuestion
from planner.report.size_tables import size_screen, size_tables
from planner.results.plan import Plan
from planner.results.size import Size
from planner.results.slo_run import SloRun
from planner.roofline import best_stack
from planner.scenario import Price
from planner.studies.size import SizeQuestion, _is_as_good, sized
from planner.studies.size_verdict import size_verdict
from planner.workload.spec import Workload
from tests.deploy_cases import UNPRICED, plan, pool

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
    """A model, accelerators with their prices, a demand and promises, with one software for all."""
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
        "stack": "vllm",
    }


def of(case: dict[str, Any], chips: Sequence[str], run: RunQuestion | None = None) -> Size | None:
    """The size of a case with some of its accelerators; None where there is none."""
    try:
        return sized(a_question(**{**case, "chips": chips}), run).size
    except InfeasibleError:
        return None


def printed(size: Size) -> str:
    """An answer as text, on one line."""
    console = Console(width=100, force_terminal=False, file=StringIO(), record=True)
    console.print(*size_tables(size))
    return " ".join(console.export_text().split())


def test_a_size_fits_a_screen_and_its_details_have_the_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sized(a_question("llama-3.1-8b", ("h100-sxm", "h200-sxm"), ttft_s=1.0)).size
    for columns, most in ((100, 30), (80, 40)):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert n_lines(size_screen(found, columns, n_lines)) <= most
    assert "layouts, without waiting" in printed(found)


def usd(size: Size | None, kind: str) -> float:
    """What a fleet costs; infinite where there is none whose promises its runs, if any, keep."""
    fleet = None if size is None else getattr(size, kind)
    if fleet is None or (fleet.slo_run is not None and fleet.slo_run.holds is False):
        return float("inf")
    return float(fleet.cost.usd_per_hour)


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_an_accelerator_that_is_added_never_makes_an_answer_dearer(seed: int) -> None:
    case = drawn(seed)
    both, *alone = (of(case, chips) for chips in (case["chips"], *([chip] for chip in case["chips"])))
    for kind in KINDS:
        assert usd(both, kind) <= min(usd(one, kind) for one in alone) * (1 + 1e-9)


def test_a_third_accelerator_takes_nothing_away_either() -> None:
    case = drawn(7, 3)
    everything, *pairs = (of(case, chips) for chips in (case["chips"], *combinations(case["chips"], 2)))
    for kind in KINDS:
        assert usd(everything, kind) <= min(usd(pair, kind) for pair in pairs) * (1 + 1e-9)


@pytest.mark.parametrize("seed", [100, 101])
def test_nor_does_it_where_fleets_are_run(seed: int) -> None:
    case = {**drawn(seed), "ttft_s": 2.0, "tpot_s": 0.06}
    run = RunQuestion(4000, 0, None, 4, most_requests=400_000)
    both = of(case, case["chips"], run)
    for chip in case["chips"]:
        alone = of(case, [chip], run)
        for kind in KINDS:
            assert usd(both, kind) <= usd(alone, kind) * (1 + 1e-9)


def test_all_fleets_run_the_software_that_suits_all_accelerators_best_unless_one_is_stated() -> None:
    chips = ("h200-sxm", "h100-sxm")
    found = of({"model": "llama-3.1-8b"}, chips)
    assert found is not None
    used = {one.stack for fleet in found.fleets.values() for one in fleet.pools}
    assert used == {best_stack("llama-3.1-8b", *chips).name} == {found.stack}


def fleet(bill: float, holds: bool | None = True, decided: bool = True) -> Plan:
    seen = {"executed_s": 0.5, "ci_low_s": 0.4, "ci_high_s": 0.6, "basis": "executed", "holds": holds}
    known = {"requests": 10, "percentile": 90.0, "promised_s": 1.0, "predicted_s": 0.5, "decided": decided}
    cost = UNPRICED.model_copy(update={"usd_per_hour": bill})
    return plan("size", (pool("colocated", "colocated"),), cost=cost, slo_run=SloRun.model_validate({**known, **seen}))


def test_fleets_that_cost_the_same_have_no_preference() -> None:
    tie = size_verdict(fleet(0.1 + 0.2), fleet(0.3))
    assert (tie.recommendation, tie.worth_it, tie.decided, tie.margin_fraction) == (None, False, True, 0.0)
    assert tie.because.startswith("both cost 0.3 USD/h")
    sized_once = of({"model": "llama-3.1-8b"}, ["h100-sxm"])
    assert sized_once is not None
    assert "disaggregate? either: both cost 0.3 USD/h" in printed(sized_once.model_copy(update={"disaggregation": tie}))


def test_the_cheaper_kind_of_fleet_is_recommended_where_runs_bear_out_both() -> None:
    for together, apart, kind in ((4.0, 3.0, "separate"), (3.0, 4.0, "colocated")):
        found = size_verdict(fleet(together), fleet(apart))
        assert (found.recommendation, found.decided) == (kind, True)
        assert found.worth_it == (kind == "separate")
    mixed = size_verdict(fleet(4.0), fleet(5.0), fleet(3.0))
    assert (mixed.recommendation, mixed.margin_fraction) == ("separate", 0.25)
    assert "pools of both kinds" in mixed.because


@pytest.mark.parametrize(
    ("together", "apart"), [(fleet(3.0, holds=False, decided=False), None), (None, fleet(3.0, holds=False))]
)
def test_the_only_fleet_there_is_decides_nothing_where_its_run_does_not_keep_the_promise(
    together: Plan | None, apart: Plan | None
) -> None:
    found = size_verdict(together, apart)
    assert (found.recommendation, found.worth_it, found.decided) == (None, False, False)
    assert "keeps its promise" in found.because


@pytest.mark.parametrize(
    ("plan_", "other", "is_as_good"),
    [
        (fleet(3.0), fleet(3.0), True),
        (fleet(4.0), fleet(3.0), False),
        (fleet(2.0, holds=False), fleet(3.0), False),
        (fleet(2.0, holds=False, decided=False), fleet(3.0, holds=False), True),
    ],
)
def test_a_fleet_hides_another_only_where_its_promise_is_borne_out_as_well(
    plan_: Plan, other: Plan, is_as_good: bool
) -> None:
    assert _is_as_good(plan_, other) is is_as_good
