"""`planner size`: laws of what a demand costs, the scenario it stands for, runs, and what cannot be asked."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.comparison import best_fleet
from planner.errors import InputError, PlannerError
from planner.profiles import hardware_profile, model_profile
from planner.results import Size
from planner.roofline.layouts import layouts
from planner.scenario import Price, load_scenario, read_scenario
from planner.studies.drafts import AskedDrafts
from planner.studies.size import SizeQuestion, sized
from planner.studies.size.colocated import TPOT, Chosen, cheapest, predicted
from planner.studies.size.runs import N_REPLICATIONS, Runs, executed
from planner.studies.size.ways import ColocatedWay, quantile, ways
from planner.workload import Workload
from tests.json_forms import MAYBE, Only, faults

CLOSE = pytest.approx
CHIP = "h100-sxm"


def constant(tokens: float) -> dict[str, Any]:
    return {"kind": "constant", "tokens": tokens}


def a_question(**changed: Any) -> SizeQuestion:
    workload = Workload.model_validate({"lengths": constant(1500.0), "output_lengths": constant(200.0)})
    price = {CHIP: Price(usd_per_accelerator_hour=2.0)}
    stated = {"ttft_s": 1.0, "tpot_s": 0.03, "stack": "vllm", **changed}
    return SizeQuestion("llama-3.1-8b", (CHIP,), stated.pop("rate_req_per_s", 30.0), workload, price, **stated)


def size_of(question: SizeQuestion) -> Size:
    return sized(question, None).size


def bills(size: Size) -> list[float]:
    assert size.colocated is not None
    assert size.disaggregated is not None
    return [fleet.cost.usd_per_hour or 0.0 for fleet in (size.colocated, size.disaggregated)]


def test_a_higher_rate_never_costs_less() -> None:
    few, many = (bills(size_of(a_question(rate_req_per_s=rate))) for rate in (10.0, 60.0))
    assert all(a < b for a, b in zip(few, many, strict=True))


@pytest.mark.parametrize("looser", [{"ttft_s": 5.0}, {"tpot_s": 0.06}, {"percentile": 50.0}])
def test_a_looser_promise_never_costs_more(looser: dict[str, float]) -> None:
    strict, loose = (bills(size_of(a_question(**change))) for change in ({}, looser))
    assert all(b <= a for a, b in zip(strict, loose, strict=True))


def test_twice_the_price_is_twice_the_bill_and_no_other_fleet() -> None:
    one, two = (size_of(a_question()), size_of(replace(a_question(), prices={CHIP: Price(usd_per_accelerator_hour=4)})))
    assert bills(two) == CLOSE([2 * bill for bill in bills(one)], rel=1e-12)
    assert one.colocated is not None
    assert two.colocated is not None
    assert one.colocated.pools == two.colocated.pools


def test_more_kinds_to_choose_from_never_cost_more() -> None:
    both = {CHIP: Price(usd_per_accelerator_hour=2.0), "h200-sxm": Price(usd_per_accelerator_hour=2.5)}
    alone, free = size_of(a_question()), size_of(replace(a_question(), hardware=(CHIP, "h200-sxm"), prices=both))
    assert all(b <= a for a, b in zip(bills(alone), bills(free), strict=True))


def test_the_bill_is_that_of_the_accelerators_and_of_the_tokens() -> None:
    size = size_of(a_question())
    for fleet in (size.colocated, size.disaggregated):
        assert fleet is not None
        assert fleet.cost.usd_per_hour == CLOSE(2.0 * fleet.n_accelerators)
        per_hour = (fleet.cost.usd_per_million_input_tokens or 0) * 30 * 1500 * 3600 / 1e6
        assert per_hour == CLOSE(fleet.cost.usd_per_hour)


def test_the_fewest_colocated_instances_are_chosen() -> None:
    question = a_question()
    chosen = cheapest(question, ways(question).colocated[0])
    assert chosen is not None
    n = chosen.predicted.n_instances
    fewer = predicted(question, chosen.way, n - 1)
    assert chosen.predicted.tpot_s(90.0) <= 0.03
    assert fewer.tpot_s(90.0) > 0.03


def test_the_scenario_that_is_written_has_the_plan_that_was_answered(tmp_path: Path) -> None:
    found = sized(a_question(), None)
    path = tmp_path / "apart.toml"
    path.write_text(found.scenario_text or "")
    fleet = best_fleet(read_scenario(str(path))).fleet
    assert found.size.disaggregated is not None
    assert [pool.n_instances for pool in fleet.pools] == [p.n_instances for p in found.size.disaggregated.pools]
    assert fleet.cost.usd_per_hour == CLOSE(found.size.disaggregated.cost.usd_per_hour)


def test_what_is_not_run_is_not_decided() -> None:
    found = size_of(a_question()).disaggregation
    assert (found.worth_it, found.decided) == (False, False)
    assert "not run" in found.because


def test_without_promises_the_cheaper_fleet_decides() -> None:
    size = size_of(a_question(ttft_s=None, tpot_s=None))
    together, apart = bills(size)
    assert size.disaggregation.decided
    assert size.disaggregation.worth_it == (apart < together)


def test_a_run_keeps_a_pool_that_suffices_and_enlarges_one_that_does_not() -> None:
    question = a_question()
    chosen = cheapest(question, ways(question).colocated[0])
    assert chosen is not None
    runs = Runs(question, chosen.way, 4000, 0)
    kept = executed(question, chosen, runs)
    assert kept.executed is not None
    assert kept.executed.holds
    tpot = next(p for p in kept.executed.promises if p.metric == TPOT)
    assert tpot.executed == CLOSE(kept.predicted.tpot_s(90.0), rel=0.15)
    too_few = replace(chosen, predicted=predicted(question, chosen.way, max(kept.predicted.n_instances - 2, 1)))
    assert executed(question, too_few, runs).predicted.n_instances == kept.predicted.n_instances


def a_pool_at_its_promise(shift: float) -> Runs:
    """A pool whose TTFT promise is what a run of it comes to, longer by a part."""
    question = a_question(tpot_s=None)
    way = ways(question).colocated[0][0]
    met = _short(Runs(question, way, 1000, 0)).run(4, range(N_REPLICATIONS)).promises[0]
    return _short(Runs(replace(question, ttft_s=met.executed * (1 + shift)), way, 1000, 0))


def _short(runs: Runs) -> Runs:
    runs.n = 300
    return runs


def test_a_promise_is_kept_by_the_worse_end_of_the_interval_and_broken_by_the_better_one() -> None:
    for shift, holds, decided in ((0.5, True, True), (0.0, False, False), (-0.5, False, True)):
        (found,) = a_pool_at_its_promise(shift).run(4, range(N_REPLICATIONS)).promises
        assert (found.holds, found.decided) == (holds, decided)


def test_runs_go_on_while_a_promise_is_undecided_and_no_longer() -> None:
    kept, near, broken = (a_pool_at_its_promise(shift).watched(4, 0) for shift in (0.5, 0.0, -0.5))
    assert kept.n_counted == broken.n_counted < near.n_counted


def test_a_pool_that_arrivals_do_not_fill_is_not_said_to_keep_its_promise() -> None:
    runs = a_pool_at_its_promise(0.5)
    runs.is_long_enough = False
    (found,) = runs.run(4, range(N_REPLICATIONS)).promises
    assert (found.holds, found.decided) == (False, False)


def test_the_same_seed_gives_the_same_run() -> None:
    question = a_question()
    chosen = cheapest(question, ways(question).colocated[0])
    assert chosen is not None
    one, two = (Runs(question, chosen.way, 2000, 7).run(chosen.predicted.n_instances, range(2)) for _ in range(2))
    assert one == two


@pytest.mark.parametrize("model", ["llama-3.1-70b", "deepseek-v3", "qwen3-235b"])
@pytest.mark.parametrize("chip", ["h200-sxm", "l40s", "gb200"])
def test_layouts_are_such_as_an_instance_can_have_each_once(model: str, chip: str) -> None:
    profile, hardware = model_profile(model), hardware_profile(chip)
    found = list(layouts(profile, hardware))
    assert len(found) == len(set(found))
    domain = max(hardware.n_scaleup_domain_accelerators or 8, 8)
    for layout in found:
        assert layout.n_accelerators & (layout.n_accelerators - 1) == 0
        assert layout.tp_size <= domain
        if profile.architecture.moe is None:
            assert layout.dp_size == 1


def test_a_weighted_quantile_is_the_least_value_with_that_share_below() -> None:
    values, weights = np.array([4.0, 1.0, 2.0]), np.array([0.1, 0.6, 0.3])
    assert [quantile(values, weights, p) for p in (50.0, 60.0, 61.0, 90.0, 91.0)] == [1.0, 1.0, 2.0, 2.0, 4.0]


# The command

ASKED = ["size", "llama-3.1-8b", CHIP, "--rate", "30", "--input", "1500", "--output", "200", "--no-run"]
POOL = {
    "name": str,
    "role": Only("prefill", "decode", "colocated"),
    "hardware": str,
    "layout": str,
    "accelerators_per_instance": int,
    "n_instances": int,
    "n_accelerators": int,
    "capacity_req_per_s": float,
    "utilization": float,
}
RUN = {
    "basis": Only("executed", "predicted"),
    "requests": int,
    "percentile": float,
    "promised_s": float,
    "predicted_s": MAYBE,
    "executed_s": MAYBE,
    "ci_low_s": MAYBE,
    "ci_high_s": MAYBE,
}
FLEET = {
    "pools": [POOL],
    "n_accelerators": int,
    "cost": dict.fromkeys(("usd_per_hour", "usd_per_million_input_tokens", "usd_per_million_output_tokens"), MAYBE),
    "slo_run": RUN,
}
ANSWER = {
    "schema": Only("planner.size/1"),
    "model": str,
    "hardware": [str],
    "colocated": FLEET,
    "disaggregated": FLEET,
    "disaggregation": {"worth_it": bool, "decided": bool, "because": str},
    "notes": [str],
}


def test_the_answer_has_the_fields_it_should() -> None:
    found = CliRunner().invoke(app, [*ASKED, "--ttft-ms", "1000", "--tpot-ms", "30", "--format", "json"])
    assert found.exit_code == 0
    assert list(faults(json.loads(found.stdout), ANSWER)) == []


def test_lengths_may_be_log_normal_and_prices_stated() -> None:
    asked = ["size", "llama-3.1-8b", f"{CHIP},l40s", "--rate", "5", "--no-run", "--ttft-ms", "2000"]
    lengths = ["--input", "lognormal:2000,0.8", "--output", "lognormal:300,0.5,10,2000"]
    found = CliRunner().invoke(app, [*asked, *lengths, "--price", f"{CHIP}=3,l40s=0.5", "--format", "json"])
    assert found.exit_code == 0
    answer = json.loads(found.stdout)
    assert answer["input_tokens_mean"] == CLOSE(2000, rel=0.02)
    assert answer["output_tokens_mean"] == CLOSE(300, rel=0.02)
    assert answer["hardware"] == [CHIP, "l40s"]


@pytest.mark.parametrize(("text", "mean"), [("lognormal:4000,1.2,1,8192", 4000), ("lognormal:300,0.3,250,400", 300)])
def test_lengths_between_two_ends_have_the_mean_that_is_stated(text: str, mean: float) -> None:
    asked = ["size", "llama-3.1-8b", CHIP, "--rate", "5", "--no-run", "--output", "100", "--format", "json"]
    found = CliRunner().invoke(app, [*asked, "--ttft-ms", "2000", "--input", text])
    assert json.loads(found.stdout)["input_tokens_mean"] == CLOSE(mean, rel=1e-4)


def test_prices_of_several_accelerators_may_stand_in_one_option_or_in_several() -> None:
    asked = ["size", "llama-3.1-8b", f"{CHIP},l40s", "--rate", "5", *ASKED[5:], "--format", "json"]
    together = CliRunner().invoke(app, [*asked, "--price", f"{CHIP}=3,l40s=0.5"])
    apart = CliRunner().invoke(app, [*asked, "--price", f"{CHIP}=3", "--price", "L40S=0.5"])
    assert together.exit_code == 0, together.exception
    assert apart.stdout == together.stdout
    unclear = CliRunner().invoke(app, [*asked, "--price", "3"])
    assert unclear.exit_code == 2 or "does not say of which accelerator" in str(unclear.exception)


@pytest.mark.parametrize(
    ("price", "said"), [("h100-sxm=3", "beside the price of h100-sxm"), (None, "so that cost counts accelerators")]
)
def test_a_price_that_nobody_knows_is_said_in_the_answer_with_what_cost_then_means(
    price: str | None, said: str
) -> None:
    asked = ["size", "llama-3.1-8b", f"{CHIP},l40s", *ASKED[3:], "--format", "json"]
    found = CliRunner().invoke(app, [*asked, *(() if price is None else ("--price", price))])
    (told,) = [note for note in json.loads(found.stdout)["notes"] if "price-unknown" in note]
    assert said in told
    assert "l40s" in told


def test_a_trace_brings_lengths_and_rate(tmp_path: Path) -> None:
    trace = tmp_path / "seen.csv"
    rows = [f"2026-01-01 00:00:{i / 10:09.6f},{500 + 10 * i},{50 + i}" for i in range(200)]
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    out = tmp_path / "deep" / "apart.toml"
    out.parent.mkdir()
    asked = ["size", "llama-3.1-8b", CHIP, "--from", str(trace), "--no-run", "--write", str(out), "--format", "json"]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0
    answer = json.loads(found.stdout)
    assert answer["rate_req_per_s"] == CLOSE(10.0, rel=0.02)
    assert answer["input_tokens_mean"] == CLOSE(1495.0, rel=1e-6)
    assert best_fleet(read_scenario(str(out))).fleet.cost.usd_per_hour == CLOSE(
        answer["disaggregated"]["cost"]["usd_per_hour"]
    )


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        (["--rate", "-1"], 3, "--rate"),
        (["--percentile", "100"], 3, "--percentile"),
        (["--precision", "fp7"], 3, "--precision"),
        (["--input", "many"], 2, "--input many"),
        (["--output", "lognormal:5"], 2, "--output lognormal:5"),
        (["--output", "lognormal:2000,1,3000,9000"], 2, "no such lengths have a mean of 2,000 (a mean from 3,"),
        (["--price", "h200-sxm=2"], 2, f"--price h200-sxm=2: h200-sxm is not asked about, which is {CHIP}"),
        (["--price", "2,=3"], 2, "--price =3:  is not asked about"),
        (["--price", f"{CHIP}=2,h100=3"], 2, f"--price: {CHIP} has two prices, 2 and 3"),
        (["--price", "2", "--price", "3"], 2, f"--price: {CHIP} has two prices, 2 and 3"),
        (["--price", "0"], 2, f"--price 0: is no price (above 0, at most 1e+06 USD an hour, as {CHIP}=USD)"),
        (["--price", "h200-sxm=nan"], 2, "is no price"),
        (["--requests", "100"], 2, "--requests"),
        (["--from", "absent.jsonl"], 2, "--from"),
        (["--ttft-ms", "1"], 4, "first token of 1 ms"),
        (["--tpot-ms", "0.01"], 4, "output token of 0.01 ms"),
        (["--stack", "nobody"], 3, "nobody"),
        (["--write", "absent/folder/x.toml"], 3, "cannot be written"),
    ],
)
def test_what_cannot_be_asked_is_named(changed: list[str], code: int, said: str) -> None:
    asked = list(ASKED)
    if changed[0] in asked:
        at = asked.index(changed[0])
        del asked[at : at + 2]
    found = CliRunner().invoke(app, [*asked, *changed])
    assert isinstance(found.exception, PlannerError)
    assert (found.exception.exit_code, found.stdout) == (code, "")
    assert said in str(found.exception)


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (["size", "llama-3.1-8b", CHIP], 2, "--input, --output"),
        (["size", "llama-3.1-8b", CHIP, "--input", "5", "--output", "5"], 2, "--rate"),
        (["size", "nobody", CHIP, "--rate", "1", "--input", "5", "--output", "5"], 3, "nobody"),
        (["size", "llama-3.1-8b", "nothing", "--rate", "1", "--input", "5", "--output", "5"], 3, "nothing"),
        (["size", "prfaas-1t", CHIP, "--rate", "1", "--input", "5", "--output", "5"], 3, "hidden_size"),
        (
            ["size", "deepseek-v3", "l40s", "--rate", "1", *["--input", "5", "--output", "5", "--precision", "bf16"]],
            4,
            "fits no",
        ),
    ],
)
def test_what_is_missing_is_named(asked: list[str], code: int, said: str) -> None:
    found = CliRunner().invoke(app, asked)
    assert isinstance(found.exception, PlannerError)
    assert (found.exception.exit_code, found.stdout) == (code, "")
    assert said in str(found.exception)


def test_a_file_that_is_there_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    refused = CliRunner().invoke(app, [*ASKED, "--write", str(path)])
    assert isinstance(refused.exception, InputError)
    assert path.read_text() == "mine"
    assert CliRunner().invoke(app, [*ASKED, "--write", str(path), "--force"]).exit_code == 0
    assert read_scenario(str(path)).demand_req_per_s == 30.0


def test_both_fleets_are_run_and_the_verdict_decided() -> None:
    found = sized(a_question(), 40_000).size
    for fleet in (found.colocated, found.disaggregated):
        assert fleet is not None
        for run in (fleet.slo_run, fleet.tpot_run):
            assert run is not None
            assert (run.basis, run.holds, run.decided) == ("executed", True, True)
    assert found.disaggregation.decided


def test_drafted_tokens_are_sized_on_pools_of_their_own_and_written_into_the_scenario() -> None:
    asked = a_question(drafts=AskedDrafts(3, (0.7,), "llama-3.1-8b"), ttft_s=None)
    found = sized(asked, None)
    assert (found.size.colocated, found.size.disaggregation.decided) == (None, False)
    assert "colocated-without-drafts" in " ".join(found.size.notes)
    assert found.scenario_text is not None
    choice = load_scenario(found.scenario_text, "size.toml", Path()).model
    assert (choice.draft_tokens, choice.acceptance, choice.draft_model) == (3, (0.7, 0.7, 0.7), "llama-3.1-8b")
    both = (ways(q).by_role(q)[2] for q in (asked, a_question(ttft_s=None)))
    drafted, plain = ({way.layout: way for way in decode} for decode in both)
    assert {layout.pp_size for layout in drafted} == {1}
    for layout, way in drafted.items():  # a model that drafts for itself costs more than it saves
        assert way.capacity_req_per_s < plain[layout].capacity_req_per_s


def test_without_promises_a_fleet_does_the_rate_whether_or_not_runs_are_asked_for() -> None:
    question = a_question(ttft_s=None, tpot_s=None, rate_req_per_s=100.0)
    assert sized(question, 4000).size.colocated == size_of(question).colocated


def test_a_fleet_that_promises_a_time_per_token_alone_does_the_rate_all_the_same() -> None:
    # Waits may be long, and a full instance keeps its time per token whatever comes on top.
    question = a_question(ttft_s=None, tpot_s=0.2, rate_req_per_s=100.0)
    way = ways(question).colocated[0][0]
    runs = Runs(question, way, 4000, 0)
    too_few = predicted(question, way, runs.least_instances - 1)
    assert runs.run(too_few.n_instances, range(2)).holds
    kept = executed(question, Chosen(way, too_few), runs)
    assert kept.predicted.n_instances == runs.least_instances
    assert way.capacity_req_per_s * kept.predicted.n_instances >= 0.97 * question.rate_req_per_s


def test_an_instance_that_does_less_once_its_memory_is_full_is_sized_by_what_it_does_then() -> None:
    """A run that begins empty keeps the promise with two instances; once they are full, they never catch up."""
    lengths = {"low_tokens": 1.0, "kind": "lognormal"}
    prompts = {**lengths, "mu": 6.6, "sigma": 0.8, "high_tokens": 11_000.0}
    answers = {**lengths, "mu": 7.5, "sigma": 1.0, "high_tokens": 60_000.0}
    workload = Workload.model_validate({"lengths": prompts, "output_lengths": answers})
    asked = replace(a_question(ttft_s=6.0, tpot_s=None), model="llama-3.1-70b", workload=workload)

    def widest(q: SizeQuestion) -> ColocatedWay:
        every = ways(q).colocated[0]
        return max(every, key=lambda way: (way.layout.tp_size, way.tokens_per_pass or 0))

    question = replace(asked, rate_req_per_s=2.14 * widest(asked).capacity_req_per_s)
    way = widest(question)
    runs = Runs(question, way, 10_000, 0)
    assert runs.least_instances == 3
    flattered, needed = (runs.run(n, range(2)) for n in (2, 3))
    assert flattered.holds
    assert needed.holds
    kept = executed(question, Chosen(way, predicted(question, way, 4)), runs)
    assert kept.predicted.n_instances == runs.least_instances
