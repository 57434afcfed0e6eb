"""A report that takes long: what it is at is told, what it found is kept, and its folder is whole however it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.report.phrases import break_even_line
from planner.results.case import BreakEvenResult
from planner.studies.break_even import break_evens
from tests.builders import FAST, HOME, SMALL, small_with
from tests.test_cli_endings import CODES, ENVIRONMENT, PREPARED
from tests.test_studies_break_even import FLEETS

RENTS = [
    {
        "key": f"prices.{hardware}.usd_per_accelerator_hour",
        "title": f"rent of {hardware} [USD/h]",
        "low": 1.0,
        "high": 9.0,
    }
    for hardware in (FAST, HOME)
]
NETWORK = f"""{SMALL}
[periods]
day = {{ hours = 16.0 }}
night = {{ hours = 8.0, demand = 0.25 }}
""" + "".join(
    f'\n[[break_even]]\nkey = "{item["key"]}"\ntitle = "{item["title"]}"\nlow = 1.0\nhigh = 9.0\n' for item in RENTS * 4
)
SETTINGS = [
    "objective=min-cost",
    "demand_req_per_s=10",
    f"sites.remote.accelerators.{FAST}=320",
    f"sites.local.accelerators.{HOME}=480",
    "links.wan.capacity_gbps=2000",
]
REPORTING = PREPARED + "import planner.cli\nsys.argv[0] = 'planner'\nplanner.cli.main()\n"


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_break_even_is_told_before_it_is_looked_for_and_kept_as_soon_as_it_is_found() -> None:
    told: list[str | BreakEvenResult] = []
    scenario = small_with({**FLEETS, "break_even": [{**item, "decides": "near"} for item in RENTS]})
    results = break_evens(scenario, progress=told.append, keep=told.append)
    assert told[1::2] == list(results)
    for i, (said, item) in enumerate(zip(told[::2], results, strict=True), 1):
        assert said == f"break-even {i} of {len(results)}: {item.title} ({item.key} from 1 to 9)"
        assert break_even_line(item).startswith(f"{item.title}: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_report_of_a_network_has_told_what_it_found_and_leaves_the_old_one(
    number: signal.Signals, tmp_path: Path
) -> None:
    question, out = tmp_path / "small.toml", tmp_path / "out"
    question.write_text(NETWORK)
    (out / "figures").mkdir(parents=True)
    for name in ("report.md", "scenario.toml", "figures/cost.png"):
        (out / name).write_text(f"the old {name}")
    was = content(out)
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    command = [sys.executable, "-c", REPORTING, "report", str(question), "--out", str(out), *settings]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        told = next(line for line in process.stderr if "break-even 1 of 8: " in line and "turns" in line)
        process.send_signal(number)
        printed, rest = process.communicate(timeout=60)
    assert told.startswith(f"planner: small: break-even 1 of 8: rent of {FAST} [USD/h]: ")
    assert (process.returncode, printed) == (CODES[number], "")
    assert rest.splitlines()[-1] == f"planner: {'interrupted' if number == signal.SIGINT else 'terminated'}"
    assert content(out) == was
    assert sorted(path.name for path in out.iterdir()) == ["figures", "report.md", "scenario.toml"]
    assert os.listdir(out / "figures") == ["cost.png"]


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_plan_names_the_command_that_answers_the_break_evens_of_its_file(n: int, tmp_path: Path) -> None:
    question = tmp_path / "a file.toml"
    entry = f'\n[[break_even]]\nkey = "{RENTS[0]["key"]}"\ntitle = "rent"\nlow = 1.0\nhigh = 9.0\n'
    question.write_text(SMALL + entry * n)
    found = CliRunner().invoke(app, ["optimize", str(question), "--set", "name=other", "--format", "json"])
    assert found.exit_code == 0, found.output
    command = f"planner report '{question}' --out DIR --set name=other"
    assert (command in found.stdout) is (n > 0)
    assert found.stdout.count("asked for, which a report answers") == (n > 0)
