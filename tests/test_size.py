"""`planner size`: laws of what a demand costs, the scenario it stands for, runs, and what cannot be asked."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.comparison import best_fleet
from planner.errors import InputError, PlannerError
from planner.executor.run_question import RunQuestion
from planner.profiles import hardware_profile, model_profile
from planner.results.size import Size
from planner.roofline.layouts import layouts
from planner.scenario import Price, load_scenario, read_scenario
from planner.studies.drafts import AskedDrafts
from planner.studies.size import SizeQuestion, sized
from planner.workload.spec import Workload
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
    sizes = ([(pool.layout, pool.n_instances) for pool in plan.pools] for plan in (one.colocated, two.colocated))
    assert next(sizes) == next(sizes)


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


def test_the_scenario_that_is_written_has_the_plan_that_was_answered(tmp_path: Path) -> None:
    found = sized(a_question(), None)
    path = tmp_path / "asked.toml"
    path.write_text(found.scenario_text)
    fleet = best_fleet(read_scenario(str(path))).fleet
    assert fleet.cost.usd_per_hour == CLOSE(min(bills(found.size)))
    assert {pool.role for pool in read_scenario(str(path)).pools.values()} == {"colocated", "prefill", "decode"}


def test_what_is_not_run_is_not_decided() -> None:
    found = size_of(a_question()).disaggregation
    assert (found.worth_it, found.decided) == (False, False)
    assert "not run" in found.because


def test_without_promises_the_cheaper_fleet_decides() -> None:
    size = size_of(a_question(ttft_s=None, tpot_s=None))
    together, apart = bills(size)
    assert size.disaggregation.decided
    assert size.disaggregation.worth_it == (apart < together)


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
    both = (answer[kind]["cost"]["usd_per_hour"] for kind in ("colocated", "disaggregated"))
    assert best_fleet(read_scenario(str(out))).fleet.cost.usd_per_hour == CLOSE(min(both))


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
        (["--ttft-ms", "1"], 4, "within 0.001 s to the first token"),
        (["--tpot-ms", "0.01"], 4, "0.01 ms"),
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
            "does not fit",
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
    found = sized(a_question(), RunQuestion(40_000, 0, None, 4, most_requests=2_000_000))
    for fleet in (found.size.colocated, found.size.disaggregated):
        assert fleet is not None
        run = fleet.slo_run
        assert run is not None
        assert run.tpot is not None
        assert (run.basis, run.holds, run.decided, run.tpot.holds) == ("executed", True, True, True)
    assert found.size.disaggregation.decided
    assert found.plan.cost.usd_per_hour == min(bills(found.size))


def test_drafted_tokens_are_sized_on_pools_of_their_own_and_written_into_the_scenario() -> None:
    asked = a_question(drafts=AskedDrafts(3, (0.7,), "llama-3.1-8b"), ttft_s=None)
    found = sized(asked, None)
    assert (found.size.colocated, found.size.disaggregation.decided) == (None, False)
    assert "colocated-without-drafts" in " ".join(found.size.notes)
    choice = load_scenario(found.scenario_text, "size.toml", Path()).model
    assert (choice.draft_tokens, choice.acceptance, choice.draft_model) == (3, (0.7, 0.7, 0.7), "llama-3.1-8b")
