"""What the README and the handbook tell a reader to type works, and what they link to exists."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.notes import MEANINGS
from planner.profiles.hf_families import FAMILIES
from planner.roofline import stack
from tests.cpu_cost import cached
from tests.fidelity_points import configurations, slower, timed, written

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
HANDBOOK = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *HANDBOOK, *(ROOT / "reports").glob("*/*.md")])
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


def console_blocks(text: str = README) -> list[list[list[str]]]:
    """Arguments of every `$ planner` line, block by block."""
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    return [
        [shlex.split(line.removeprefix("$ planner "), comments=True) for line in block.splitlines() if line[:1] == "$"]
        for block in blocks
    ]


@pytest.fixture
def folder(tmp_path: Path, made_traces: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to type commands in, with the files that pages suppose a reader has, made traces among them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLANNER_DATA", str(made_traces))
    found = stack("vllm")
    exact = timed(configurations()[::3], found.factors, found.settings)
    scattered = (slower([point], ratio) for point, ratio in zip(exact, cycle((0.93, 1.0, 1.04, 1.1)), strict=False))
    written(tmp_path / "points.csv", [*chain.from_iterable(scattered)])
    (tmp_path / "config.json").write_text(json.dumps(MIXTRAL), encoding="utf-8")
    shutil.copy(DOCS / "tutorial" / "requests.csv", tmp_path)
    shutil.copytree(made_traces, tmp_path, dirs_exist_ok=True)
    return tmp_path


WRITES = {">", "new", "--out", "--csv", "--figure", "--write"}


def typed(arguments: list[str]) -> str:
    """What a command prints that is run as a reader types it, `> FILE` included."""
    if not WRITES & set(arguments) and not any(Path(part).exists() for part in arguments):
        return answer(*arguments)
    found = run(arguments[: arguments.index(">")] if ">" in arguments else arguments)
    if ">" in arguments:
        Path(arguments[-1]).write_text(found, encoding="utf-8")
    return found


@cached
def answer(*arguments: str) -> str:
    """What a command prints that neither reads nor writes a file of the folder: the same on every page."""
    return run(arguments)


def run(arguments: Sequence[str]) -> str:
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, (arguments, found.output, found.exception)
    return found.stdout


def shown_outputs() -> list[list[list[str]]]:
    """Lines that the README shows below every `$ planner` line, block by block."""
    blocks = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
    return [[part.splitlines() for part in re.split(r"^\$ .*\n", text, flags=re.MULTILINE)[1:]] for text in blocks]


@pytest.mark.parametrize("block", range(len(console_blocks())))
def test_every_command_of_the_readme_succeeds_in_order_and_prints_what_is_shown(block: int, folder: Path) -> None:
    """Up to an ellipsis. To mend: run the commands of the block and copy their output anew."""
    assert folder == Path.cwd()
    for arguments, lines in zip(console_blocks()[block], shown_outputs()[block], strict=True):
        printed = [line.rstrip() for line in typed(arguments).splitlines()]
        is_head = lines[-1:] == ["..."]
        assert printed[: len(lines) - 1] == lines[:-1] if is_head else not any(lines) or printed == lines


@pytest.mark.parametrize("page", [p for p in HANDBOOK if console_blocks(p.read_text("utf-8"))], ids=lambda p: p.stem)
def test_every_command_of_a_page_of_the_handbook_succeeds_in_order(page: Path, folder: Path) -> None:
    assert folder == Path.cwd()
    for block in console_blocks(page.read_text(encoding="utf-8")):
        for arguments in block:
            typed(arguments)


def test_the_readme_has_commands_to_try() -> None:
    assert sum(len(block) for block in console_blocks()) >= 10
    assert sum(any(lines) for block in shown_outputs() for lines in block) >= 1


def test_the_readme_is_short_and_every_question_has_a_page_with_commands() -> None:
    assert len(README.splitlines()) <= 160
    with_commands = {page.stem for page in HANDBOOK if "planner " in page.read_text(encoding="utf-8")}
    wanted = ["size-for-a-promise", "is-a-remote-site-worth-it", "calibrate-my-stack", "several-sites", "ci", "export"]
    assert {*wanted, "diff-in-a-pull-request"} <= with_commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_and_picture_of_a_page_exists(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    told = "\n".join(re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL) + re.findall(r"`(make [^`]+)`", README))
    named = set(re.findall(r"^make ([a-z-]+)", told, flags=re.MULTILINE))
    assert named
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in named)


def test_the_page_of_own_profiles_names_every_family_once_and_shows_what_import_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (DOCS / "how-to" / "add-a-model.md").read_text(encoding="utf-8")
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


def test_an_accelerator_that_a_page_shows_holds_as_it_stands(tmp_path: Path) -> None:
    text = (DOCS / "how-to" / "add-an-accelerator.md").read_text(encoding="utf-8")
    (profile,) = re.findall(r"```toml\n(schema = \"planner.hardware/1\".*?)```", text, flags=re.DOTALL)
    (tmp_path / "my-chip.toml").write_text(profile, encoding="utf-8")
    found = CliRunner().invoke(app, ["profiles", "check", str(tmp_path / "my-chip.toml")])
    assert found.exit_code == 0, found.output


def test_two_models_on_two_sites_are_shown_as_a_whole_file() -> None:
    shown = [tomllib.loads(text) for text in whole_scenarios()]
    assert any(len(found.get("models", {})) == 1 and len(found["sites"]) == 2 for found in shown)


# The handbook as a site


@cached
def reference_pages() -> dict[str, str]:
    """Pages of the reference, as the code writes them."""
    found: dict[str, str] = runpy.run_path(str(DOCS / "write_reference.py"))["reference_pages"]()
    return found


def test_the_pages_of_the_reference_are_what_the_code_says() -> None:
    pages = reference_pages()
    written = {page.name: page.read_text("utf-8") for page in HANDBOOK if "<!-- Written by" in page.read_text("utf-8")}
    assert written.keys() == pages.keys(), "stale: make reference"
    assert [name for name, text in pages.items() if written[name] != text] == [], "stale: make reference"


def test_links_of_the_reference_lead_to_headings() -> None:
    pages = reference_pages()
    headings = {name: [*map(anchor, re.findall(r"^#{2,} (.*)$", text, re.MULTILINE))] for name, text in pages.items()}
    links = [
        (name, *link) for name, text in pages.items() for link in re.findall(r"\]\(([\w-]*(?:\.md)?)#([\w-]+)\)", text)
    ]
    assert len(links) > 300
    assert not [(name, to, there) for name, to, there in links if there not in headings[to or name]]


def anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


def test_no_page_of_the_reference_is_longer_than_a_reader_scrolls_through() -> None:
    """Pages of 20,000 characters are up to 10,000 pixels long at the width of the site."""
    assert {name: len(text) for name, text in reference_pages().items() if len(text) > 20_000} == {}


def test_every_code_of_a_note_has_one_entry_on_its_page() -> None:
    parts = [text for name, text in reference_pages().items() if name.startswith("notes")]
    assert [code for text in parts for code in re.findall(r"^## (.*)$", text, re.MULTILINE)] == sorted(MEANINGS)


def test_every_field_of_an_answer_is_on_the_page_of_json() -> None:
    page = "\n".join(text for name, text in reference_pages().items() if name.startswith("json"))
    known = set(re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE))
    for command in ("optimize not-worth-it", "predict llama-3.1-8b h100-sxm", "explain not-worth-it"):
        answer = json.loads(CliRunner().invoke(app, [*command.split(), "--format", "json"]).stdout)
        assert answer.keys() <= known
        assert {key for value in answer.values() if isinstance(value, list) for key in keys(value)} <= known


def keys(items: list[Any]) -> set[str]:
    return {key for item in items if isinstance(item, dict) for key in item}


def test_the_page_of_exit_codes_has_every_code_of_an_error() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE)][:7] == list(range(7))


def test_every_page_of_the_handbook_is_reached_from_its_index() -> None:
    for index in [page for page in HANDBOOK if page.name == "index.md"]:
        beside = {page.name for page in index.parent.glob("*.md")} | {
            f"{page.parent.name}/index.md" for page in index.parent.glob("*/index.md")
        }
        named = named_below(index)
        parts = {part for name in named for part in named_below(index.parent / name) if "/" not in name}
        assert named | parts == beside - {"index.md"}, index
        assert not named & parts


def named_below(page: Path) -> set[str]:
    """Pages that a page has below it."""
    trees = re.findall(r"```{toctree}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {f"{line}.md" for tree in trees for line in tree.splitlines() if line and line[0] != ":"}


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if find_spec("sphinx") is None or find_spec("furo") is None:
        pytest.skip("sphinx and furo are not installed (extra docs)")
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    found = subprocess.run([*sphinx, str(DOCS), str(tmp_path / "site")], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "site" / "explanation" / "search-and-gap.html").is_file()
