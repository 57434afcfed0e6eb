"""Plans written by others: every text in them is refused with its key, or stands as it is in whatever is written."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from planner.cli import main
from planner.deploy import Target, export_files
from planner.errors import InputError
from planner.report.diff_comment import diff_markdown
from planner.results.plan import Plan
from planner.results.plan_file import plan_from
from planner.studies.diff import plan_diff
from tests.deploy_cases import CASES

HOSTILE = [
    "x\nrm -rf ~ #",
    "\"; rm -rf ~; '",
    "$(rm -rf ~)",
    "`rm -rf ~`",
    "# x",
    "@team",
    "<script>x</script>",
    "a | b",
    "x\x1b[31m",
    "x\u202ey",
    "---\nx: y",
    "--flag",
    "${HOME}",
]
WORST = "@team \\\"'$(rm -rf ~)`rm -rf ~` #1 <script>x</script> | www.x.example ---"
FREE = {"title", "because", "notes", "rests_on", "constraint", "unit", "changes", "opponent", "beyond_stock", "no_plan"}
FREE |= {"missing_prices"}
"""Fields for people, which no export has."""


def answer(case: str) -> dict[str, Any]:
    """The JSON of a plan, as another would hand it in."""
    found: dict[str, Any] = json.loads(json.dumps(CASES[case]().answer()))
    return found


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all texts, and of the keys of tables that are names: these end in `None`."""
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if any(part in ("thresholds", "pool_shares", "decoded_req_per_s", "slo") for part in path):
            yield (*path, key, "")
        yield from places(item, (*path, key))


def replaced(value: Any, path: tuple[str | int, ...], text: str) -> None:
    """Write a text where a path leads."""
    *before, last = path[:-1] if path[-1] == "" else path
    for part in before:
        value = value[part]
    value[text if path[-1] == "" else last] = value.pop(last) if path[-1] == "" else text


def is_free(path: tuple[str | int, ...]) -> bool:
    """Whether a field is for people."""
    return bool(FREE & set(path)) or (path[0] == "baselines" and path[-1] == "name" and len(path) == 3)


NAMED = [(case, path) for case in ("two-sites", "reference") for path in places(answer(case)) if not is_free(path)]


@pytest.mark.parametrize("text", HOSTILE)
def test_every_name_of_a_plan_is_refused_with_file_key_and_value_where_it_is_none(text: str) -> None:
    plans = {case: json.dumps(answer(case)) for case in dict(NAMED)}
    assert len(NAMED) > 100
    for case, path in NAMED[:: len(HOSTILE)] + NAMED[HOSTILE.index(text) :: len(HOSTILE)]:
        changed = json.loads(plans[case])
        replaced(changed, path, text)
        with pytest.raises(InputError) as refused:
            plan_from(json.dumps(changed), "theirs.json")
        found = refused.value.problems[0]
        assert found.file == "theirs.json"
        assert str(path[0]) in found.key
        assert any(word in found.message for word in ("got", "is ", "holds", "unknown key"))


def hostile(case: str) -> Plan:
    """A plan with the worst in every text for people."""
    changed = answer(case)
    for path in [*places(changed)]:
        if is_free(path) and path[-1] != "":
            replaced(changed, path, WORST)
    return plan_from(json.dumps(changed), "theirs.json")


@pytest.mark.parametrize("target", get_args(Target))
def test_texts_for_people_reach_no_file_that_is_deployed(target: Target) -> None:
    for case in ("two-pools",) if target == "kserve" else ("two-sites", "reference"):
        plan, other = plan_from(json.dumps(answer(case)), "ours.json"), hostile(case)
        told = ["engine=vllm"] if target == "dynamo" else []
        assert export_files(other, target, told, "theirs.json") == export_files(plan, target, told, "ours.json")


def test_a_comment_on_a_hostile_plan_mentions_nobody_and_holds_no_markup_of_it() -> None:
    plan = plan_from(json.dumps(answer("two-sites")), "ours.json")
    text = diff_markdown(plan_diff((WORST, plan), ("theirs", hostile("two-sites"))))
    assert "@team" not in text
    assert "www." not in text
    assert "<script" not in text
    assert "`rm" not in text


@pytest.mark.parametrize("target", get_args(Target))
def test_names_that_no_pattern_held_are_text_in_scripts_yaml_and_markdown_all_the_same(target: Target) -> None:
    plan = CASES["two-pools" if target == "kserve" else "two-sites"]()
    worst = "x\n" + WORST
    sites = {site: f"{worst} {n}" for n, site in enumerate({pool.site for pool in plan.pools})}
    pools = tuple(pool.model_copy(update={"site": sites[pool.site]}) for pool in plan.pools)
    links = tuple(
        link.model_copy(update={"from_site": sites[link.from_site], "to_site": sites[link.to_site]})
        for link in plan.links
    )
    periods = tuple(
        one.model_copy(
            update={
                field: {
                    name: {sites[site]: value for site, value in at.items()} for name, at in getattr(one, field).items()
                }
                for field in ("thresholds", "decoded_req_per_s", "pool_shares")
            }
        )
        for one in plan.periods
    )
    files = export_files(
        plan.model_copy(update={"pools": pools, "links": links, "periods": periods}),
        target,
        ["engine=vllm"] if target == "dynamo" else [],
        "theirs.json",
    )
    for name, text in files.items():
        if name.endswith(".sh"):
            assert not any(line.lstrip().startswith(("rm ", "@team")) for line in text.splitlines())
            done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
        elif name.endswith(".yaml"):
            assert all(isinstance(one, dict) for one in yaml.safe_load_all(text))
        else:
            assert "@team" not in text
            assert "<script" not in text


@pytest.mark.parametrize("command", ["export PLAN --to vllm --out OUT", "explain PLAN", "diff PLAN PLAN"])
def test_a_command_ends_with_what_is_wrong_and_writes_nothing(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, path, out = answer("two-sites"), tmp_path / "theirs.json", tmp_path / "out"
    changed["pools"][0]["site"] = HOSTILE[0]
    path.write_text(json.dumps(changed), encoding="utf-8")
    words = command.replace("PLAN", str(path)).replace("OUT", str(out)).split()
    monkeypatch.setattr(sys, "argv", ["planner", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 3
    assert f"{path}: pools[0].site: " in said
    assert "rm -rf" in said
    assert not out.exists()
