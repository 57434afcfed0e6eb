"""A profile given by path is used everywhere, and held to what the gate asks; shared names are said or refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import InputError, PlannerError
from planner.profiles import check_profiles
from planner.profiles.folders import Kind, profile_dir
from planner.scenario import Scenario, load_scenario

SIZE = ("--rate", "20", "--input", "1500", "--output", "200", "--ttft-ms", "1000", "--tpot-ms", "30", "--no-run")
FAST = ("memory_bandwidth_tb_per_s = { value = 3.35", "memory_bandwidth_tb_per_s = { value = 4.6")
"""A change of h100-sxm that the gate lets through."""
SLOW = ("memory_bandwidth_tb_per_s = { value = 3.35", "memory_bandwidth_tb_per_s = { value = 2.1")


def copied(path: Path, kind: Kind, shipped: str, *changes: tuple[str, str]) -> Path:
    """A shipped profile under the name of a file, with changes."""
    text = (profile_dir(kind) / f"{shipped}.toml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^name = .*$", f'name = "{path.stem}"', text, count=1)
    if path.stem != shipped:
        text = re.sub(r"(?ms)^aliases = \[.*?\]$", "aliases = []", text, count=1)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


class Said(NamedTuple):
    """How a command ended, and all that it said."""

    exit_code: int
    output: str
    stdout: str = ""


def run(*arguments: str) -> Said:
    found = CliRunner().invoke(app, [*arguments])
    if isinstance(found.exception, PlannerError):
        return Said(found.exception.exit_code, str(found.exception))
    return Said(found.exit_code, found.output, found.stdout)


def answer(*arguments: str) -> Any:
    found = run(*arguments, "--format", "json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def codes(found: Any) -> list[str]:
    return [note.rpartition("(note: ")[2].rstrip(")") for note in found["notes"]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# one file everywhere


@pytest.mark.parametrize("name", ["h100-sxm", "own-chip"])
def test_both_fleets_of_a_size_run_on_the_file_that_is_named(name: str, here: Path) -> None:
    copied(here / f"{name}.toml", "hardware", "h100-sxm", SLOW)
    own = answer("size", "llama-3.1-8b", f"./{name}.toml", *SIZE, "--price", f"{name}=2")
    shipped = answer("size", "llama-3.1-8b", "h100-sxm", *SIZE, "--price", "2")
    for kind in ("colocated", "disaggregated"):
        assert own[kind]["latency"]["tpot_mean_s"] > 1.2 * shipped[kind]["latency"]["tpot_mean_s"]
        assert own[kind]["cost"]["usd_per_hour"] >= shipped[kind]["cost"]["usd_per_hour"]
    assert ("own-profile-used" in codes(own)) == (name == "h100-sxm")
    assert "own-profile-used" not in codes(shipped)


def test_the_scenario_that_a_size_writes_names_files_as_its_folder_sees_them(here: Path) -> None:
    copied(here / "chips" / "own-chip.toml", "hardware", "h100-sxm", FAST)
    copied(here / "own-model.toml", "model", "llama-3.1-8b")
    copied(here / "vllm.toml", "stack", "vllm", ("eager_launch_us = { value", "eager_launch_us = { value"))
    given = ("size", "own-model.toml", "chips/own-chip.toml", "--stack", "./vllm.toml", *SIZE, "--price", "2")
    sized = answer(*given, "--write", "out/asked.toml") if (here / "out").mkdir() is None else None
    text = (here / "out" / "asked.toml").read_text(encoding="utf-8")
    assert all(f'"../{path}"' in text for path in ("chips/own-chip.toml", "own-model.toml", "vllm.toml"))
    planned = answer("optimize", "out/asked.toml", "--no-run")
    bills = (sized[kind]["cost"]["usd_per_hour"] for kind in ("colocated", "disaggregated"))
    assert planned["cost"]["usd_per_hour"] == pytest.approx(min(bills))
    assert {pool["hardware"] for pool in planned["pools"]} == {"own-chip"}
    assert "own-profile-used" in codes(planned)
    assert set(planned["inputs"]["profiles"]) == {"hardware own-chip", "model own-model", "stack vllm"}


SCENARIO = """
schema = "planner.scenario/1"
name = "own"
objective = "min-cost"
demand_req_per_s = 20.0
[model]
profile = "llama-3.1-8b"
stack = "vllm"
[slo]
ttft_s = 1.0
[workload]
lengths = { kind = "constant", tokens = 1500.0 }
output_lengths = { kind = "constant", tokens = 200.0 }
[sites.here.accelerators]
CHIP = 64
[pools.prefill]
site = "here"
hardware = "./CHIP.toml"
role = "prefill"
accelerators_per_instance = 1
service_times = "roofline"
[pools.decode]
site = "here"
hardware = "./CHIP.toml"
role = "decode"
accelerators_per_instance = 1
service_times = "roofline"
[prices.CHIP]
usd_per_accelerator_hour = 2.0
[measured.mine]
hardware = "CHIP"
n_accelerators = 1
precision = "bf16"
source = "measured by us"
basis = "measured"
prefill = { tokens = [100, 1000], seconds = [0.1, 1.0], interpolation = "linear" }
"""


def scenario(folder: Path, chip: str, *changes: tuple[str, str]) -> Scenario:
    text = SCENARIO.replace("CHIP", chip)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return load_scenario(text, str(folder / "own.toml"), folder)


@pytest.mark.parametrize("name", ["h100-sxm", "own-chip"])
def test_a_name_in_a_scenario_means_the_file_that_its_pools_bring(name: str, here: Path) -> None:
    copied(here / f"{name}.toml", "hardware", "h100-sxm", FAST)
    found = scenario(here, name)
    for stated in (name, f"./{name}.toml"):
        assert found.hardware_named(stated).figures.memory_bandwidth_tb_per_s.value == 4.6
    assert found.price_of(found.hardware_of(found.pools["prefill"])) is not None


def test_a_name_that_would_mean_two_profiles_in_one_question_is_refused(here: Path) -> None:
    copied(here / "h100-sxm.toml", "hardware", "h100-sxm", FAST)
    with pytest.raises(InputError, match="'h100-sxm' is a hardware profile of the catalogue, and a name of the file"):
        scenario(
            here,
            "h100-sxm",
            ('hardware = "./h100-sxm.toml"\nrole = "decode"', 'hardware = "h100-sxm"\nrole = "decode"'),
        )
    copied(here / "b" / "h100-sxm.toml", "hardware", "h100-sxm", SLOW)
    with pytest.raises(InputError, match=r"another hardware profile named 'h100-sxm' than that of pools\.prefill"):
        scenario(here, "h100-sxm", ('"./h100-sxm.toml"\nrole = "decode"', '"b/h100-sxm.toml"\nrole = "decode"'))
    said = run("size", "llama-3.1-8b", "./h100-sxm.toml,h100-sxm", *SIZE)
    assert said.exit_code == 3
    assert "two profiles of the name h100-sxm" in said.output


def test_a_stack_is_found_from_the_folder_of_its_scenario(here: Path) -> None:
    copied(here / "asked" / "own-chip.toml", "hardware", "h100-sxm")
    copied(here / "asked" / "vllm-own.toml", "stack", "vllm")
    text = SCENARIO.replace("CHIP", "own-chip").replace('stack = "vllm"', 'stack = "vllm-own.toml"')
    (here / "asked" / "own.toml").write_text(text[: text.index("[measured")], encoding="utf-8")
    planned = answer("optimize", "asked/own.toml", "--no-run")
    assert {pool["stack"].partition("-0")[0] for pool in planned["pools"]} == {"vllm-own"}
    assert "stack vllm-own" in planned["inputs"]["profiles"]


def test_rents_that_are_known_are_not_those_of_a_file_of_the_same_name(here: Path) -> None:
    copied(here / "h200-sxm.toml", "hardware", "h200-sxm")
    said = run("size", "llama-3.1-8b", "./h200-sxm.toml", *SIZE)
    assert "no price of h200-sxm is known" in " ".join(said.output.lower().split())


def test_predictions_and_comparisons_say_that_a_file_takes_the_name_of_a_profile(here: Path) -> None:
    copied(here / "h100-sxm.toml", "hardware", "h100-sxm", FAST)
    own, shipped = (answer("predict", "llama-3.1-8b", chip) for chip in ("./h100-sxm.toml", "h100-sxm"))
    assert own["decode"][0]["step_s"] < shipped["decode"][0]["step_s"]
    assert "own-profile-used" in codes(own)
    assert "own-profile-used" not in codes(shipped)


# the gate, wherever a file is used

COMMANDS: dict[str, Callable[[str, str, str], tuple[str, ...]]] = {
    "predict": lambda model, chip, stack: ("predict", model, chip, "--stack", stack),
    "size": lambda model, chip, stack: ("size", model, chip, "--stack", stack, *SIZE),
    "optimize": lambda model, chip, stack: (
        "optimize",
        "asked.toml",
        *("--set", f"model.profile={model}", "--set", f"model.stack={stack}", "--no-run"),
        *("--set", f"pools.prefill.hardware={chip}", "--set", f"pools.decode.hardware={chip}"),
    ),
}
WRONG: dict[str, tuple[Kind, str, tuple[str, str]]] = {
    "GB/s as TB/s": (
        "hardware",
        "h100-sxm",
        ("memory_bandwidth_tb_per_s = { value = 3.35", "memory_bandwidth_tb_per_s = { value = 3350"),
    ),
    "TFLOP/s as PFLOP/s": ("hardware", "h100-sxm", ("bf16_tflops = { value = 989", "bf16_tflops = { value = 0.989")),
    "us as ms": ("stack", "vllm", ("request_overhead_ms = { value = ", "request_overhead_ms = { value = 1000")),
    "parameters": ("model", "llama-3.1-8b", ("n_layers = 32", "n_layers = 16")),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_the_gate_refuses_is_refused_with_its_words_wherever_it_is_used(
    command: str, wrong: str, here: Path
) -> None:
    kind, shipped, change = WRONG[wrong]
    name = "own" if kind != "stack" else "vllm-own"
    path = copied(here / f"{name}.toml", kind, shipped, change)
    text = SCENARIO.replace("./CHIP.toml", "h100-sxm").replace("CHIP", "h100-sxm")
    (here / "asked.toml").write_text(text[: text.index("[measured")], encoding="utf-8")
    given = {"model": "llama-3.1-8b", "hardware": "h100-sxm", "stack": "vllm", kind: f"./{path.name}"}
    said = run(*COMMANDS[command](given["model"], given["hardware"], given["stack"]))
    gate = [str(problem) for problem in check_profiles([path]).problems]
    assert gate
    assert said.exit_code == 3
    assert all(line in said.output for line in gate), (gate, said.output)


def test_an_own_profile_of_the_catalogue_is_held_to_the_gate_by_its_name(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_PROFILES", str(here))
    copied(here / "own-chip.toml", "hardware", "h100-sxm", WRONG["GB/s as TB/s"][2])
    said = run("predict", "llama-3.1-8b", "own-chip")
    assert said.exit_code == 3
    assert "figures.memory_bandwidth_tb_per_s.value: is 3350" in said.output
    assert run("predict", "llama-3.1-8b", "h100-sxm").exit_code == 0
