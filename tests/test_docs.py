"""What the README tells a newcomer to type works, and what it links to exists."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.profiles.hf_families import FAMILIES
from planner.roofline import stack
from tests.fidelity_points import configurations, timed, written

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "reports").glob("*/*.md")]
)


MIXTRAL = {
    "model_type": "mixtral",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def console_blocks() -> list[list[list[str]]]:
    """Arguments of every `$ planner` line, block by block."""
    blocks = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
    return [
        [shlex.split(line.removeprefix("$ planner "), comments=True) for line in block.splitlines() if line[:1] == "$"]
        for block in blocks
    ]


@pytest.mark.parametrize("block", range(len(console_blocks())))
def test_every_command_of_the_readme_succeeds_in_order(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = stack("vllm")
    written(tmp_path / "points.csv", timed(configurations()[::3], found.factors, found.settings))
    (tmp_path / "config.json").write_text(json.dumps(MIXTRAL), encoding="utf-8")
    for arguments in console_blocks()[block]:
        found = CliRunner().invoke(app, arguments)
        assert found.exit_code == 0, (arguments, found.output, found.exception)


def test_the_readme_has_commands_to_try() -> None:
    assert sum(len(block) for block in console_blocks()) >= 10


def shown_outputs() -> list[tuple[int, int, list[str]]]:
    """Block, place in it and lines of what the README shows of a command's output, up to an ellipsis."""
    found: list[tuple[int, int, list[str]]] = []
    for block, text in enumerate(re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)):
        parts = re.split(r"^\$ .*\n", text, flags=re.MULTILINE)[1:]
        found += [(block, place, part.splitlines()) for place, part in enumerate(parts) if part.strip()]
    return found


def test_output_that_the_readme_shows_is_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To mend: run the commands of the block and copy their output anew."""
    monkeypatch.chdir(tmp_path)
    shown = {(block, place): lines for block, place, lines in shown_outputs()}
    assert shown
    for block in {block for block, _ in shown}:
        for place, arguments in enumerate(console_blocks()[block]):
            printed = [line.rstrip() for line in CliRunner().invoke(app, arguments).stdout.splitlines()]
            lines = shown.get((block, place), [])
            is_head = lines[-1:] == ["..."]
            assert printed[: len(lines) - 1] == lines[:-1] if is_head else not lines or printed == lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_and_picture_of_a_page_exists(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    typed = "\n".join(re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL) + re.findall(r"`(make [^`]+)`", README))
    named = set(re.findall(r"^make ([a-z-]+)", typed, flags=re.MULTILINE))
    assert named
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in named)


def test_the_page_of_own_profiles_names_every_family_once_and_shows_what_import_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "profiles.md").read_text(encoding="utf-8")
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ") and "`" in line.split("|")[2]]
    named = re.findall(r"`(\w+)`", " ".join(rows[1:]))
    assert sorted(named) == sorted(FAMILIES)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(MIXTRAL), encoding="utf-8")
    command, shown = re.findall(r"```(?:sh|text)\n(.*?)```", page, flags=re.DOTALL)[:2]
    said = CliRunner().invoke(app, shlex.split(command.removeprefix("planner "))).stderr
    assert said == shown


def whole_scenarios() -> list[str]:
    """Every scenario that a page shows as a whole file."""
    pages = [page.read_text(encoding="utf-8") for page in PAGES if page.parent.name != "reports"]
    blocks = [block for page in pages for block in re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)]
    return [block for block in blocks if "planner.scenario/1" in block]


@pytest.mark.parametrize("text", whole_scenarios(), ids=lambda text: re.findall('name = "(.*?)"', text)[0])
def test_a_scenario_that_a_page_shows_holds_as_it_stands(text: str, tmp_path: Path) -> None:
    (tmp_path / "shown.toml").write_text(text, encoding="utf-8")
    found = CliRunner().invoke(app, ["scenario", "check", str(tmp_path)])
    assert found.exit_code == 0, (found.output, found.exception)
    assert found.stdout.startswith(f"{tmp_path / 'shown.toml'}: holds (")


def test_two_models_on_two_sites_are_shown_as_a_whole_file() -> None:
    shown = [tomllib.loads(text) for text in whole_scenarios()]
    assert any(len(found.get("models", {})) == 1 and len(found["sites"]) == 2 for found in shown)
