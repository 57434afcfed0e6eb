"""`planner optimize --format json` answers field for field as the contract lists them, the same bytes every time."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.cli.common import print_json
from tests.cpu_cost import cached
from tests.json_forms import MAYBE, Only, faults
from tests.talk import without_progress

ROOT = Path(__file__).resolve().parents[1]

POOLS = [
    {
        "name": str,
        "site": str,
        "hardware": str,
        "role": Only("prefill", "decode", "colocated"),
        "n_instances": int,
        "n_accelerators": int,
        "capacity_req_per_s": float,
        "offered_req_per_s": float,
        "utilization": float,
    }
]
LINKS = [{"name": str, "from": str, "to": str, "capacity_gbps": float, "mean_gbps": float, "utilization": float}]
LATENCY = dict.fromkeys(
    (
        "ttft_mean_s",
        "ttft_p50_s",
        "ttft_p90_s",
        "ttft_p99_s",
        "ttft_unloaded_mean_s",
        "ttft_unloaded_p90_s",
        "tpot_mean_s",
    ),
    MAYBE,
)
COST = dict.fromkeys(("usd_per_hour", "usd_per_million_input_tokens", "usd_per_million_output_tokens"), MAYBE)
FLEET = {
    "threshold_tokens": MAYBE,
    "offload_fraction": float,
    "throughput_req_per_s": float,
    "max_throughput_req_per_s": float,
    "pools": POOLS,
    "links": LINKS,
    "latency": LATENCY,
    "cost": COST,
}
PLAN = {
    **FLEET,
    "schema": Only("planner.plan/1"),
    "scenario": str,
    "status": Only("optimal", "feasible"),
    "gap": float,
    "capacity_rule": Only("mean-length", "expected-work"),
    "goodput_req_per_s": MAYBE,
    "bottlenecks": [{"constraint": str, "shadow_price": float, "unit": str}],
    "verdict": {"worth_it": bool, "because": str, "decided": bool, "margin_fraction": MAYBE},
    "classes": [{"name": str, "model": str, "share": float, "slo": None, "latency": LATENCY}],
    "periods": [],
    "survives": [],
    "baselines": [{**FLEET, "name": str, "ratio": float}],
}


@cached
def answer(*arguments: str) -> str:
    """stdout of a plan."""
    found = CliRunner().invoke(app, ["optimize", *arguments, "--format", "json"])
    assert found.exit_code == 0, (found.output, found.exception)
    assert without_progress(found.stderr) == ""
    return found.stdout


ASKED: dict[str, tuple[str, ...]] = {
    "reference": ("prfaas-paper",),
    "paper's rule": ("prfaas-paper", "--set", "capacity_rule=mean-length"),
    "below saturation": ("prfaas-paper", "--set", "demand_req_per_s=2"),
    "cheapest": ("prfaas-paper", "--set", "objective=min-cost", "--set", "demand_req_per_s=2"),
    "ports to choose": ("prfaas-paper", "--set", "links.wan.capacity_gbps=free"),
    "no link": ("not-worth-it",),
    "no price": ("egress-at-scale",),
    "nothing offloaded": ("prfaas-paper", "--set", "routing.threshold_tokens=1e9"),
    "everything offloaded": ("prfaas-paper", "--set", "routing.threshold_tokens=0"),
    "no waiting model": ("prfaas-paper", "--set", "demand_req_per_s=2", "--set", "dispatch=round-robin"),
    "two classes": ("two-classes.toml",),
}


@pytest.fixture(autouse=True, scope="module")
def two_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference case with its requests as two classes."""
    text = (ROOT / "reports" / "prfaas-paper" / "scenario.toml").read_text(encoding="utf-8")
    start, end = text.index("[workload.lengths]"), text.index("[routing]")
    lengths = 'output_lengths = { kind = "constant", tokens = 1024 }\nlengths = { kind = "constant", tokens = %d }\n'
    classes = "".join(
        f"[classes.{name}]\nshare = {share}\n[classes.{name}.workload]\n{lengths % tokens}"
        for name, share, tokens in (("chat", 0.75, 4000), ("code", 0.25, 60000))
    )
    path = tmp_path_factory.mktemp("json") / "two-classes.toml"
    path.write_text(text[:start] + classes + text[end : text.index("# The four readings")], encoding="utf-8")
    return path


@pytest.fixture
def asked(request: pytest.FixtureRequest, two_classes: Path) -> tuple[str, ...]:
    """Arguments of a question of the table."""
    arguments = ASKED[request.param]
    return (str(two_classes),) if arguments == ("two-classes.toml",) else arguments


@pytest.mark.parametrize("asked", ASKED, indirect=True)
def test_an_answer_is_one_object_with_every_field_of_the_contract_at_its_operating_point(
    asked: tuple[str, ...],
) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    text = answer(*asked)
    assert text.endswith("}\n")
    found = json.loads(text, parse_constant=refuse)
    assert faults(found, PLAN) == []
    demand = 0.05 if "not-worth-it" in asked else 2.0 if "demand_req_per_s=2" in asked else None
    assert found["throughput_req_per_s"] == (demand or found["max_throughput_req_per_s"])
    for pool in found["pools"]:
        if pool["capacity_req_per_s"]:
            assert pool["utilization"] == pytest.approx(pool["offered_req_per_s"] / pool["capacity_req_per_s"])
        assert pool["utilization"] <= 1 + 1e-9
        assert pool["n_accelerators"] == 8 * pool["n_instances"]
    if any(pool["utilization"] > 1 - 1e-9 for pool in found["pools"] if pool["role"] == "prefill"):
        assert found["latency"]["ttft_mean_s"] is None


def test_the_first_fields_say_what_the_answer_is() -> None:
    assert list(json.loads(answer("prfaas-paper")))[:4] == ["schema", "scenario", "objective", "status"]


def test_names_of_the_reference_case_are_those_of_the_contract() -> None:
    found = json.loads(answer("prfaas-paper"))
    assert [pool["name"] for pool in found["pools"]] == ["prfaas", "pd-p", "pd-d"]
    pools = {baseline["name"]: [pool["name"] for pool in baseline["pools"]] for baseline in found["baselines"]}
    assert pools["homogeneous-pd"] == ["pd-p", "pd-d"]
    assert pools["naive-heterogeneous-pd"] == ["prfaas", "pd-d"]
    assert pools["equal-cost-homogeneous-pd"] == ["pd-p", "pd-d"]
    assert (found["links"][0]["from"], found["links"][0]["to"]) == ("remote", "local")


def test_several_classes_have_a_threshold_each_and_none_together(two_classes: Path) -> None:
    found = json.loads(answer(str(two_classes)))
    assert found["threshold_tokens"] is None
    assert [(c["name"], c["share"]) for c in found["classes"]] == [("chat", 0.75), ("code", 0.25)]


def test_a_price_that_is_not_stated_is_null() -> None:
    assert json.loads(answer("egress-at-scale"))["cost"]["usd_per_hour"] is None


@pytest.mark.parametrize("form", ["text", "json"])
def test_two_runs_print_the_same_bytes_whatever_the_hash_seed_and_the_terminal(form: str) -> None:
    command = [sys.executable, "-m", "planner", "optimize", "--format", form]
    environment = {"PYTHONHASHSEED": "2", "FORCE_COLOR": "1", "COLUMNS": "", "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, env=os.environ | environment, capture_output=True, check=True, cwd="/")
    here = CliRunner().invoke(app, ["optimize"]).stdout if form == "text" else answer("prfaas-paper")
    assert found.stdout.decode() == here
    assert without_progress(found.stderr.decode()) == ""


def test_talk_goes_to_stderr_where_that_is_a_terminal() -> None:
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    command = [sys.executable, "-m", "planner", "optimize", "not-worth-it", "--format", "json"]
    found = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=slave, check=True)
    os.close(slave)
    assert b"planning not-worth-it" in os.read(master, 65536)
    os.close(master)
    assert json.loads(found.stdout)["scenario"] == "not-worth-it"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_cannot_say_is_a_fault_of_the_program_and_not_an_answer(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json({"x": value})


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"gap": None}, "answer.gap is None"),
        ({"gap": "0"}, "answer.gap is '0'"),
        ({"status": "fine"}, "answer.status is 'fine'"),
        ({"verdict": {"worth_it": 1, "because": ""}}, "answer.verdict.worth_it is 1"),
        ({"pools": [{}]}, "answer.pools[0].name is missing"),
        ({"links": None}, "answer.links is None"),
        ({"cost": {"usd_per_hour": True}}, "answer.cost.usd_per_hour is True"),
    ],
)
def test_the_checker_of_this_file_finds_what_is_not_of_the_contract(change: dict[str, Any], fault: str) -> None:
    assert fault in faults({**json.loads(answer("prfaas-paper")), **change}, PLAN)
