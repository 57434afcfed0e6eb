"""Every note ends with a stable code, and every code is explained once."""

import ast
import json
import re
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from planner import results
from planner.cli import app
from planner.notes import MEANINGS, Note, code_of, note
from planner.schema import StrictModel

ROOT = Path(__file__).resolve().parents[1]


@cache
def sources() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "planner").rglob("*.py"))}


def coded() -> list[tuple[Path, str | None]]:
    """Where notes are made, and their codes; None for one that is not written out."""
    calls = [(path, node) for path, tree in sources().items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [
        (path, node.args[0].value if isinstance(node.args[0], ast.Constant) else None)
        for path, node in calls
        if isinstance(node.func, ast.Name) and node.func.id == "note"
    ]


def test_every_note_has_a_code_that_is_explained_and_every_code_is_used() -> None:
    assert {code for _, code in coded()} == set(MEANINGS)


def test_a_code_that_nobody_explained_is_refused() -> None:
    with pytest.raises(KeyError):
        note("nobody-explained-this", "a text")


def test_every_meaning_has_commands_sentences_and_advice() -> None:
    for code, meaning in MEANINGS.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)
        assert meaning.of
        assert meaning.means.endswith((".", ":"))
        assert meaning.do.endswith(".")


def functions() -> list[ast.FunctionDef]:
    return [node for tree in sources().values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def test_what_makes_notes_promises_the_type_checker_that_they_have_codes() -> None:
    """The type checker takes no plain text for a Note, so what is annotated so has codes."""
    makers = [f for f in functions() if re.fullmatch(r"_?(\w+_)?notes", f.name) and f.returns is not None]
    assert len(makers) > 10
    others = {"input_notes", "read_notes"}  # sources of figures, and a file of remarks on measured points
    assert [f.name for f in makers if "Note" not in ast.unparse(f.returns or f) and f.name not in others] == []


def records() -> list[type[StrictModel]]:
    modules = [import_module(f"planner.results.{module.name}") for module in iter_modules(results.__path__)]
    found = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    return [kind for kind in found if issubclass(kind, StrictModel) and kind.__module__.startswith("planner.results.")]


def test_notes_of_answers_are_notes() -> None:
    lists = [kind.model_fields["notes"].annotation for kind in records() if "notes" in kind.model_fields]
    kinds = [get_args(kind)[0] for kind in lists if get_args(kind)]
    assert len(kinds) >= 8
    assert set(kinds) == {Note}


ANSWERS = {
    "a plan at its highest rate": "optimize prfaas-paper",
    "a plan under a promise": "optimize --set objective=min-cost --set demand_req_per_s=2 --set slo.ttft_s=9",
    "a plan of one site": "optimize not-worth-it",
    "a prediction": "predict qwen3-235b h200-sxm --precision fp8",
    "a prediction for an announced chip": "predict kimi-k2 rubin-vr200",
}


@pytest.mark.parametrize("question", ANSWERS)
def test_every_note_of_an_answer_has_a_known_code(question: str) -> None:
    found = CliRunner().invoke(app, [*ANSWERS[question].split(), "--format", "json"])
    assert found.exit_code == 0, found.output
    answer: dict[str, Any] = json.loads(found.stdout)
    assert answer["notes"]
    assert {code_of(text) for text in answer["notes"]} <= set(MEANINGS)


def test_notes_in_committed_answers_have_known_codes() -> None:
    plans = [json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "tests/goldens/cli").glob("*.json")]
    texts = [text for plan in plans for text in plan.get("notes", ())]
    assert texts
    assert None not in Counter(map(code_of, texts))
