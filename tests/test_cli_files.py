"""Files of commands: read and checked before any work, written before the answer, and none of others' lost."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from planner.cli import app, main
from planner.errors import InputError, PlannerError
from planner.profiles import hardware_profile
from tests.fidelity_points import POINT, written
from tests.kernel_tables import kernel_tables
from tests.test_cli_errors import TINY
from tests.test_cli_goldens import commands

ROOT = Path(__file__).resolve().parents[1]
OF_FILES = {"FILE", "DIR", "PATH", "TRACE", "CONFIG", "POINTS", "PATHS"}
"""What parameters that name files are called in the help."""
SIZE = "size llama-3.1-8b h100-sxm --rate 4 --input 900 --output 100 --no-run"
FILE, TARGET = "given", "asked-for"

READ = {
    "optimize --current": "optimize tiny.toml --current given",
    "simulate --plan": "simulate tiny.toml --plan given",
    "schedulers --plan": "schedulers tiny.toml --plan given",
    "explore --plan": "explore tiny.toml --plan given --out page.html",
    "diff before": "diff given tiny.toml",
    "diff after": "diff tiny.toml given",
    "export source": "export given --to vllm --out new",
    "explain source": "explain given",
    "size --from": "size llama-3.1-8b h100-sxm --rate 4 --from given",
    "scenario new --from": "scenario new fresh --from given",
    "live --from": "live --from given",
    "fidelity points": "fidelity given",
    "calibrate points": "calibrate given --stack vllm --out vllm.toml",
    "profiles import path": "profiles import given",
    "profiles import --index": "profiles import config.json --index given",
}
WRITTEN = {
    "optimize --figure": "optimize tiny.toml --sensitivity --figure asked-for.png",
    "simulate --records": "simulate tiny.toml --records asked-for.csv",
    "simulate --trace": "simulate tiny.toml --trace asked-for.json",
    "simulate --figure": "simulate tiny.toml --figure asked-for.png",
    "schedulers --figure": "schedulers tiny.toml --figure asked-for.png",
    "sweep --csv": "sweep tiny.toml --over demand_req_per_s=1,2 --csv asked-for.csv",
    "sweep --figure": "sweep tiny.toml --over demand_req_per_s=1,2 --figure asked-for.png",
    "export --out": "export tiny.toml --to vllm --out asked-for",
    "explore --out": "explore tiny.toml --out asked-for.html",
    "report --out": "report tiny.toml --out asked-for",
    "size --write": f"{SIZE} --write asked-for.toml",
    "scenario new name": "scenario new asked-for",
    "live --out": "live --out asked-for",
    "live --report": "live --report asked-for",
    "predict --figure": "predict qwen3-32b h200-sxm --figure asked-for.png",
    "fidelity --out": "fidelity points.csv --out asked-for.csv",
    "fidelity --report": "fidelity points.csv --report asked-for",
    "calibrate --out": "calibrate points.csv --stack vllm --out folder/vllm.toml",
    "profiles import --out": "profiles import config.json --out folder/my-model.toml",
    "profiles kernels --out": "profiles kernels tables --out folder/h100-sxm.toml",
    "profiles new name": "profiles new folder/my-chip",
}
NOT_HERE = {"explore --index", "profiles check paths", "scenario check files"}
"""Files that are the work itself: what is wrong with each is the answer."""
WORK = {
    "pulp": ["LpProblem"],
    "planner.executor.run": ["simulate"],
    "planner.executor.periods": ["simulate_periods"],
    "planner.studies.live": ["live"],
    "planner.studies.fidelity": ["fidelity", "survey", "calibrated_stack"],
    "planner.studies.case": ["build_case"],
    "planner.studies.predict": ["predict"],
    "planner.studies.kernels": ["kernel_figures"],
}
"""What takes a command long."""
MODEL = {"model_type": "mistral", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
MODEL |= {"num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 1000, "torch_dtype": "bfloat16"}
MODEL |= {"sliding_window": None, "tie_word_embeddings": False}


class WorkHasBegunError(BaseException):
    """Planning, running or scoring."""


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "config.json").write_text(json.dumps(MODEL))
    kernel_tables(tmp_path / "tables", hardware_profile("h100-sxm"))
    (tmp_path / "a-file").write_text("kept")
    (tmp_path / "folder").mkdir()
    written(tmp_path / "points.csv", [POINT])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: object, **__: object) -> None:
        raise WorkHasBegunError

    for module, names in WORK.items():
        for name in names:
            monkeypatch.setattr(import_module(module), name, begun)


def file_parameters() -> Iterator[str]:
    """Commands with the options and arguments of theirs that name files."""
    top = typer.main.get_command(app)
    for names in commands():
        command = top
        for name in names:
            command = command.commands[name]  # type: ignore[attr-defined]
        for parameter in command.params:
            if (parameter.metavar or str(parameter.name).upper()) in OF_FILES:
                option = next((text for text in parameter.opts if text.startswith("--")), parameter.name)
                yield f"{' '.join(names)} {option}"


def test_every_option_that_names_a_file_is_held_here() -> None:
    assert set(file_parameters()) <= {*READ, *WRITTEN, *NOT_HERE}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", ["optimize tiny.toml", "diff tiny.toml tiny.toml", "report tiny.toml --out new"])
def test_what_takes_long_is_noticed(command: str) -> None:
    with pytest.raises(WorkHasBegunError):
        CliRunner().invoke(app, command.split(), catch_exceptions=False)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("fault", ["missing", "garbled", "a folder"])
@pytest.mark.parametrize("option", READ)
def test_a_file_that_cannot_be_used_is_refused_before_any_work(option: str, fault: str, in_folder: Path) -> None:
    given = in_folder / "given.json"
    if fault == "garbled":
        given.write_text('{"half of": [', encoding="utf-8")
    if fault == "a folder":
        given.mkdir()
    found = CliRunner().invoke(app, READ[option].replace(FILE, given.name).split())
    assert isinstance(found.exception, PlannerError | SystemExit), found.exception
    code = found.exception.exit_code if isinstance(found.exception, PlannerError) else found.exit_code
    assert code in (2, 3)
    assert given.name in f"{found.output}{found.exception}"


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("text", ['{"pools": {"no-such-pool": 3}}', '{"pools": {}}', "[]"])
def test_a_fleet_of_another_scenario_is_refused_before_any_plan_is_sought(text: str, in_folder: Path) -> None:
    (in_folder / "fleet.json").write_text(text)
    found = CliRunner().invoke(app, ["optimize", "tiny.toml", "--current", "fleet.json"])
    assert isinstance(found.exception, InputError)
    assert "fleet.json" in str(found.exception)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("option", WRITTEN)
def test_what_cannot_be_written_is_said_before_any_work(option: str, in_folder: Path) -> None:
    command = WRITTEN[option].replace(TARGET, f"a-file/{TARGET}").replace("folder/", "a-file/")
    found = CliRunner().invoke(app, command.split())
    assert isinstance(found.exception, InputError), found.exception
    assert "a-file" in str(found.exception)
    assert (in_folder / "a-file").read_text() == "kept"


# Files before the answer

ANSWERED = {
    "fidelity points.csv --out made.csv": "made.csv",
    "predict llama-3.1-8b h100-sxm --figure made.svg": "made.svg",
    f"{SIZE} --write made.toml": "made.toml",
    "sweep tiny.toml --over demand_req_per_s=1,2 --csv made.csv": "made.csv",
    "optimize tiny.toml --pareto throughput --points 2 --set objective=max-throughput "
    "--set prices.h200-sxm.usd_per_accelerator_hour=3 --figure made.svg": "made.svg",
    "profiles import config.json --out made.toml": "made.toml",
}


class Gone:
    """A standard output whose reader has left."""

    encoding = "utf-8"

    def write(self, _: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return 1


@pytest.mark.parametrize("command", ANSWERED)
def test_who_reads_the_answer_may_leave_and_has_the_files(
    command: str, in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["planner", *shlex.split(command)])
    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(SystemExit):
        main()
    assert (in_folder / ANSWERED[command]).stat().st_size > 0


def test_fidelity_in_a_pipe_that_nobody_reads_writes_its_file(in_folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "planner", "fidelity", "points.csv", "--out", "made.csv"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, env=environment, stdout=writing, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(writing)
    assert found.returncode == 141, found.stderr
    assert "predicted_ttft_ms" in (in_folder / "made.csv").read_text()


# Files that are there

EDITED = {
    "scenario new mine": "mine.toml",
    f"{SIZE} --write mine.toml": "mine.toml",
    "calibrate points.csv --stack vllm --out vllm-mine.toml": "vllm-mine.toml",
    "profiles import config.json --out mine.toml": "mine.toml",
    "profiles import config.json --name mine --out .": "mine.toml",
    "profiles new mine": "mine.toml",
}
"""Scenarios and profiles: what people go on to edit."""


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", EDITED)
def test_a_scenario_or_a_profile_is_written_over_only_where_that_is_asked_for(command: str, in_folder: Path) -> None:
    there = in_folder / EDITED[command]
    there.write_text("edited by hand")
    found = CliRunner().invoke(app, command.split())
    assert isinstance(found.exception, InputError), found.exception
    assert str(found.exception).endswith(f"{there.name}: exists already (a new name, or --force to write over it)")
    assert there.read_text() == "edited by hand"


@pytest.mark.parametrize("command", [text for text in EDITED if not text.startswith(("calibrate", "size"))])
def test_force_writes_over_it(command: str, in_folder: Path) -> None:
    there = in_folder / EDITED[command]
    there.write_text("edited by hand")
    assert CliRunner().invoke(app, [*command.split(), "--force"], catch_exceptions=False).exit_code == 0
    assert there.read_text() != "edited by hand"


def test_a_result_replaces_the_one_before_it(in_folder: Path) -> None:
    for text in ("fidelity points.csv --out made.csv", "predict llama-3.1-8b h100-sxm --figure made.svg"):
        there = in_folder / text.split()[-1]
        there.write_text("of an earlier call")
        assert CliRunner().invoke(app, text.split(), catch_exceptions=False).exit_code == 0
        assert there.read_text() != "of an earlier call"
