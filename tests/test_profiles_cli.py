"""`planner profiles` answers on stdout: tables within 100 columns, JSON that parses, exit 6 for what does not hold."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from planner.cli.profiles import app
from planner.errors import InputError
from planner.profiles import profile_names
from planner.profiles.folders import KINDS, profile_dir

NAMES = [name for kind in KINDS for name in profile_names(kind)]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with two faults, named from the current folder."""
    text = (profile_dir("hardware") / "h200-sxm.toml").read_text(encoding="utf-8")
    text = text.replace("{ value = 141.0", "{ value = -141.0").replace('"available"', '"rumoured"')
    (tmp_path / "h200-sxm.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return "h200-sxm.toml"


def line_of(path: str, text: str) -> int:
    content = Path(path).read_text(encoding="utf-8")
    return content[: content.index(text)].count("\n") + 1


@pytest.mark.parametrize("arguments", [("list",), *(("show", name) for name in NAMES)])
def test_tables_fit_a_hundred_columns_and_exit_0(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines
    assert max(map(len, lines)) <= 100


def test_list_names_every_profile() -> None:
    text = run("list").stdout
    for name in NAMES:
        assert name in text


def test_list_prints_unknown_as_a_dash() -> None:
    row = next(line for line in run("list").stdout.splitlines() if "rubin-cpx" in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells == ["rubin-cpx", "announced", "rubin", "–", "–", "128", "2", "–"]


def test_list_as_json_is_one_object_with_names_and_aliases() -> None:
    found = json.loads(run("list", "--format", "json").stdout)
    assert found["schema"] == "planner.profiles/1"
    assert [item["name"] for item in found["hardware"]] == list(profile_names("hardware"))
    assert [item["name"] for item in found["models"]] == list(profile_names("model"))
    assert [item["name"] for item in found["stacks"]] == list(profile_names("stack"))
    assert all(item["aliases"] for item in found["hardware"] + found["models"])


def test_show_by_alias_prints_every_figure_with_its_source_and_where_that_is() -> None:
    text = run("show", "h200_sxm").stdout
    row = next(line for line in text.splitlines() if "memory_gb" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")][:4] == [
        "memory_gb",
        "141",
        "datasheet",
        "ml-engineering",
    ]
    assert "https://www.mercatus-ai.com/blog/cloud-gpu-pricing" in text


def test_show_a_model_prints_shapes_and_measured_points() -> None:
    text = run("show", "prfaas-1t").stdout
    assert "kind = mla, n_layers = 15" in text
    assert "0.44, 0.72, 1.84, 7.4" in text
    assert "Measured table-6-h20: 8 x h20-141gb, fp8, inferred" in text


def test_show_as_json_leaves_out_what_is_unknown() -> None:
    found = json.loads(run("show", "rubin-cpx", "--format", "json").stdout)
    assert found["schema"] == "planner.hardware/1"
    assert found["figures"]["fp4_tflops"]["value"] == 20000
    assert "bf16_tflops" not in found["figures"]


def test_show_an_unknown_name_is_an_input_error_for_the_caller_to_report() -> None:
    result = run("show", "h200-smx")
    assert isinstance(result.exception, InputError)
    assert result.stdout == ""


def test_check_of_all_shipped_profiles_exits_0_with_their_count() -> None:
    result = run("check")
    assert (result.exit_code, result.stdout) == (
        0,
        f"{len(NAMES)} profiles hold ({len(NAMES)} shipped; PLANNER_PROFILES names no folder of own ones)\n",
    )


def test_check_prints_every_problem_with_file_line_and_key_and_exits_6(broken: str) -> None:
    result = run("check", broken)
    assert result.exit_code == 6
    status, memory = result.stdout.splitlines()
    assert status.startswith(f"{broken}:{line_of(broken, 'status =')}: status: is ")
    assert status.endswith("(allowed: 'available' or 'announced')")
    assert memory.startswith(f"{broken}:{line_of(broken, 'memory_gb =')}: figures.memory_gb.value: ")


def test_check_as_json_lists_file_line_key_and_message(broken: str) -> None:
    result = run("check", broken, "--format", "json")
    assert result.exit_code == 6
    problems = json.loads(result.stdout)
    assert [set(problem) for problem in problems] == [{"schema", "file", "line", "key", "message"}] * 2
    assert {problem["schema"] for problem in problems} == {"planner.problem/1"}
    assert problems[1]["file"] == broken
    assert problems[1]["line"] == line_of(broken, "memory_gb =")
    assert problems[1]["key"] == "figures.memory_gb.value"
    assert "got -141.0" in problems[1]["message"]


def test_check_as_json_is_an_empty_list_when_all_hold() -> None:
    result = run("check", "--format", "json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])


def test_check_for_github_prints_one_annotation_per_problem(broken: str) -> None:
    result = run("check", broken, "--format", "github")
    assert result.exit_code == 6
    status, memory = result.stdout.splitlines()
    assert status.startswith(f"::error file={broken},line={line_of(broken, 'status =')}::status: is ")
    assert memory.startswith(f"::error file={broken},line={line_of(broken, 'memory_gb =')}::figures.memory_gb.value: ")


def test_a_github_annotation_escapes_what_would_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a,b:50%.toml").write_text('schema = "x%\\ny"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (line,) = run("check", "a,b:50%.toml", "--format", "github").stdout.splitlines()
    assert line.startswith("::error file=a%2Cb%3A50%25.toml,line=1::schema: is 'x%25")


def test_an_unknown_format_is_a_usage_error() -> None:
    assert run("check", "--format", "yaml").exit_code == 2


@pytest.mark.parametrize("kind", KINDS)
def test_schema_describes_every_key_of_the_shipped_files(kind: str) -> None:
    result = run("schema", kind)
    assert result.exit_code == 0
    schema = json.loads(result.stdout)
    assert schema["properties"]["schema"]["const"] == f"planner.{kind}/1"
    assert set(schema["required"]) >= {"schema", "name", "title", "sources"}
    assert schema["additionalProperties"] is False


def test_every_key_in_the_schemas_carries_its_description() -> None:
    for kind in KINDS:
        schema = json.loads(run("schema", kind).stdout)
        for record in (schema, *schema["$defs"].values()):
            bare = [key for key, field in record.get("properties", {}).items() if not field.get("description")]
            assert bare == []


def test_show_prints_efficiencies_where_there_are_any() -> None:
    row = next(line for line in run("show", "h200-sxm").stdout.splitlines() if "gemm_bf16_m4096_fraction" in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[:4] == ["gemm_bf16_m4096_fraction", "0.78", "derived", "kernels"]
    assert "Efficiency" not in run("show", "l20").stdout


def test_the_schema_of_hardware_lists_the_efficiencies_without_requiring_them() -> None:
    schema = json.loads(run("schema", "hardware").stdout)
    assert "efficiency" not in schema["required"]
    assert "recurrence_chunk_us" in schema["$defs"]["Efficiencies"]["properties"]
