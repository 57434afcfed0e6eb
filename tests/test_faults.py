"""Planted faults: how they are made, drawn, run and struck."""

import ast
import doctest
from pathlib import Path

import pytest

from tests.campaigns import computing_lines, faults
from tests.campaigns.computing_lines import Fault
from tests.campaigns.faults import Checkout, Planted, campaign_faults, equivalents, imports, stages

SOURCE = '''"""Text with 2 * 3."""

LIMIT = 5


def seconds(n: int, k: list[float], low: float = 0.5) -> float:
    """Text with 4 + 5."""
    if n < 0 and low > 1:
        raise ValueError(f"{n + 1} is below {0 - 1}")
    a, b = min(k[0], 2.5), max(k[-1], k[1])
    path = "a" + "b"
    return -a * b + n // 2 - round(a**2 % 3, 7) / (1 if n <= 1e-9 or "µ" >= path else 0.0)
'''


def line(source: str, fault: Fault) -> str:
    """Line of a source with a fault."""
    return fault.applied(source).splitlines()[fault.line - 1].strip()


def test_a_line_that_computes_has_faults_of_every_kind_and_each_parses_and_means_something_else() -> None:
    found = computing_lines.faults(SOURCE)
    assert {fault.kind for fault in found} == {"operator", "constant", "index", "extreme", "minus"}
    meaning = ast.dump(ast.parse(SOURCE))
    assert all(ast.dump(ast.parse(fault.applied(SOURCE))) != meaning for fault in found)
    assert {fault.line for fault in found} == {8, 10, 12}
    assert {line(SOURCE, fault) for fault in found if fault.line == 8} == {
        "if n > 0 and low > 1:",
        "if n <= 0 and low > 1:",
        "if n < 1 and low > 1:",
        "if n < 0 or low > 1:",
        "if n < 0 and low < 1:",
        "if n < 0 and low >= 1:",
        "if n < 0 and low > 2:",
    }
    assert {line(SOURCE, fault) for fault in found if fault.line == 10} == {
        "a, b = max(k[0], 2.5), max(k[-1], k[1])",
        "a, b = min(k[1], 2.5), max(k[-1], k[1])",
        "a, b = min(k[0], 5.0), max(k[-1], k[1])",
        "a, b = min(k[0], 2.5), min(k[-1], k[1])",
        "a, b = min(k[0], 2.5), max(k[0], k[1])",
        "a, b = min(k[0], 2.5), max(k[-1], k[0])",
    }
    last = SOURCE.splitlines()[-1].strip()
    others = [line(SOURCE, fault) for fault in found if fault.line == 12]
    assert {
        last.replace("-a", "a"),
        last.replace("a * b", "a / b"),
        last.replace("b + n", "b - n"),
        last.replace("2 -", "2 +"),
        last.replace("//", "*"),
        last.replace("//", "/"),
        last.replace("7) /", "7) *"),
        last.replace(" or ", " and "),
        last.replace('"µ" >=', '"µ" <='),
        last.replace("0.0", "1.0"),
    } <= set(others)
    assert len(others) == len(set(others))


def test_examples_of_the_drawing_hold() -> None:
    for module in (computing_lines, faults):
        assert doctest.testmod(module).attempted > 0
        assert doctest.testmod(module).failed == 0


def test_a_seed_draws_the_same_faults_of_many_modules_and_compiled_loops_as_a_share_of_their_own() -> None:
    chosen = campaign_faults(100, 60)
    few = {path: source for path, source in faults.sources().items() if "/roofline/" in path}
    assert faults.drawn(few, 1, 9) == faults.drawn(few, 1, 9) != faults.drawn(few, 2, 9)
    assert sum(one.room == "compiled" for one in chosen) == 5
    assert len({one.path for one in chosen}) > 45
    assert {"optimizer", "queueing", "roofline", "executor", "studies", "report"} <= {one.room for one in chosen}


def test_every_struck_fault_is_one_that_a_source_can_have_and_has_its_proof() -> None:
    for one in equivalents():
        source = (faults.ROOT / one["file"]).read_text(encoding="utf-8")
        places = [number for number, text in enumerate(source.splitlines(), 1) if text.strip() == one["line"]]
        planted = [Planted(one["file"], source, f) for f in computing_lines.faults(source) if f.line in places]
        possible = {(p.before, p.after) for p in planted}
        assert (one["line"], one["fault"]) in possible
        assert len(one["proof"].split()) > 5


def test_tests_of_a_fault_begin_with_its_module_and_those_that_import_it_and_end_with_the_command_line() -> None:
    near, of_name, of_room, of_commands = stages("planner/queueing/erlang.py", imports())
    assert near[0] == "planner/queueing/erlang.py"
    assert "tests/test_queueing_erlang.py" in near
    assert {"planner/queueing/phases.py", "tests/test_queueing_gigc.py"} <= set(of_name)
    assert "tests/test_cli_goldens.py" in of_commands
    assert len({*near, *of_name, *of_room, *of_commands}) == len([*near, *of_name, *of_room, *of_commands])


@pytest.mark.parametrize(("old", "new", "is_caught"), [("a / b", "a * b", True), ("b > 9", "b >= 9", False)])
def test_a_fault_that_no_test_sees_is_told_from_one_that_a_doctest_catches(
    tmp_path: Path, old: str, new: str, is_caught: bool
) -> None:
    source = '"""R.\n\n>>> ratio(1, 4)\n0.25\n"""\n\n\ndef ratio(a, b):\n    return 0.0 if b > 9 else a / b\n'
    module = "planner/queueing/ratio.py"
    fault = next(f for f in computing_lines.faults(source) if f.applied(source) == source.replace(old, new))
    checkout = Checkout(tmp_path)
    (tmp_path / module).write_text(source, encoding="utf-8")
    caught, by = checkout.ending(Planted(module, source, fault), [[module]])
    assert caught == is_caught
    assert ("planner.queueing.ratio" in by) == is_caught
    assert (tmp_path / module).read_text(encoding="utf-8") == source


@pytest.mark.parametrize(("n_missed", "n_struck", "code"), [(1, 0, 0), (1, 1, 6), (0, 9, 0), (2, 0, 6)])
def test_the_answer_fails_where_less_than_nine_tenths_of_what_is_not_struck_are_caught(
    n_missed: int, n_struck: int, code: int
) -> None:
    source = "def f(a, b):\n    return a * b\n"
    planted = Planted("planner/queueing/a.py", source, computing_lines.faults(source)[0])
    endings: list[faults.Ending] = ["not caught"] * n_missed + ["struck"] * n_struck
    endings += ["caught"] * (10 - len(endings))
    text, got = faults.summary([(planted, ending) for ending in endings])
    assert got == code
    assert text.count("- planner/queueing/a.py:2 operator: `return a * b` -> `return a / b`") == n_missed


def test_a_struck_fault_is_known_wherever_its_line_stands() -> None:
    source = "def f(a, b):\n    return a * b\n"
    known = [{"file": "planner/queueing/a.py", "line": "return a * b", "fault": "return a / b", "proof": "b is 1"}]
    for moved in (source, f"\n\n{source}"):
        planted = Planted("planner/queueing/a.py", moved, computing_lines.faults(moved)[0])
        assert faults.is_equivalent(planted, known)
        assert not faults.is_equivalent(Planted("planner/queueing/b.py", moved, planted.fault), known)
