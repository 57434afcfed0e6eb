"""Where scenarios, profiles and traces are found: by bundled name, beside the scenario, from any folder."""

import json
import shutil
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.optimizer.layout_choice import planning_problem
from planner.profiles.folders import profile_dir
from planner.scenario import bundled_scenarios, read_scenario, scenario_path
from tests.builders import SMALL

ROOT = Path(__file__).resolve().parents[1]
TRACE = """
[workload]
trace = { path = "requests.jsonl" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario with its own profile and trace in one folder, seen from another."""
    home = tmp_path / "a folder" / "case"
    (home / "chips").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    profile = (profile_dir("hardware") / "h100-sxm.toml").read_text(encoding="utf-8")
    profile = profile.replace('name = "h100-sxm"', 'name = "mine"', 1)
    (home / "chips" / "mine.toml").write_text(profile, encoding="utf-8")
    row = {"timestamp": 0, "input_length": 700, "output_length": 10, "hash_ids": [0, 1]}
    (home / "requests.jsonl").write_text(f"{json.dumps(row)}\n", encoding="utf-8")
    start, end = SMALL.index("[workload]"), SMALL.index("[sites.remote]")
    text = SMALL[:start] + TRACE + SMALL[end:].replace("h100-sxm = 24", "'chips/mine.toml' = 24")
    text = text.replace('hardware = "h100-sxm"\nrole', 'hardware = "chips/mine.toml"\nrole')
    text = text.replace('hardware = "h100-sxm"\nn_acc', 'hardware = "mine"\nn_acc')
    text = text.replace("h100-sxm = { usd", "'chips/mine.toml' = { usd")
    (home / "scenario.toml").write_text(text, encoding="utf-8")
    return home


def test_bundled_scenarios_go_by_the_names_they_state() -> None:
    names = bundled_scenarios()
    assert set(names) == {path.parent.name for path in (ROOT / "reports").glob("*/scenario.toml")}
    for name, path in names.items():
        assert read_scenario(name).name == name
        assert scenario_path(name) == path


def test_an_installed_package_has_its_scenarios_inside(tmp_path: Path) -> None:
    inside = tmp_path / "data" / "scenarios"
    inside.mkdir(parents=True)
    (inside / "mine.toml").touch()
    assert bundled_scenarios(tmp_path) == {"mine": inside / "mine.toml"}


def test_profiles_and_traces_are_sought_beside_the_scenario_and_not_where_the_user_is(folder: Path) -> None:
    scenario = read_scenario("../a folder/case/scenario.toml")
    problem = planning_problem(scenario)
    assert scenario.directory == folder
    assert next((pool.hardware, pool.usd_per_hour) for pool in problem.pools) == ("mine", 32.0)
    assert next((v.hardware, v.n_accelerators) for v in problem.inventories) == ("mine", 24)
    assert problem.classes[0].mix.mean_total_tokens == 700


def test_a_folder_stands_for_the_scenario_in_it(folder: Path) -> None:
    assert read_scenario("../a folder/case").name == "small"
    assert scenario_path(str(folder)) == folder / "scenario.toml"


def test_a_variant_finds_what_its_scenario_finds(folder: Path) -> None:
    variant = read_scenario(str(folder)).varied({"title": "x"})
    assert planning_problem(variant).classes[0].mix.mean_total_tokens == 700


def test_a_trace_is_found_in_a_data_folder_and_in_its_traces(folder: Path, tmp_path: Path) -> None:
    for place in (tmp_path / "data", tmp_path / "data" / "traces"):
        place.mkdir()
        shutil.move(folder / "requests.jsonl", place / "requests.jsonl")
        assert planning_problem(read_scenario(str(folder)), [tmp_path / "data"]).classes[0].mix.mean_total_tokens == 700
        shutil.move(place / "requests.jsonl", folder / "requests.jsonl")


def test_an_absolute_trace_is_taken_as_it_is(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "requests.jsonl", tmp_path / "other.jsonl")
    scenario = read_scenario(str(folder), [f"workload.trace.path={tmp_path / 'other.jsonl'}"])
    assert planning_problem(scenario).classes[0].mix.mean_total_tokens == 700


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("prfaas-papr", "prfaas-papr: is no bundled scenario and no file (did you mean 'prfaas-paper'?)"),
        (
            "nothing-like-it",
            "(known: ascend-h20, east-west, egress-at-scale, mooncake-conversation, not-worth-it, prfaas-paper, "
            "prfaas-roofline, rubin-groq)",
        ),
        ("absent.toml", "absent.toml: cannot be read: No such file or directory"),
        ("x" * 300, "is no bundled scenario and no file"),
        ("x" * 300 + ".toml", "cannot be read: File name too long"),
        (".", "is a folder without scenario.toml"),
    ],
)
def test_a_scenario_that_is_not_there_is_an_input_error(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        read_scenario(name)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"), [("log.csv", "scenario new NAME --from FILE"), ("plan.json", "explain, diff and the --plan of")]
)
def test_a_file_that_is_no_scenario_is_told_what_takes_it(name: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="is no scenario") as caught:
        read_scenario(str(tmp_path / name))
    assert hint in str(caught.value)


def test_prices_and_measurements_go_by_any_name_of_the_chip() -> None:
    scenario = read_scenario("prfaas-paper").varied(
        {"prices": {"h200_sxm": {"usd_per_accelerator_hour": 7, "basis": "assumed", "source": "x"}}}
    )
    price = scenario.price_of(scenario.hardware_named("H200-SXM"))
    assert price is not None
    assert price.usd_per_accelerator_hour == 7
    assert scenario.price_of(scenario.hardware_named("h100-sxm")) is None
