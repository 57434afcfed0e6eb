"""Strict records: nothing is coerced, added, changed or let through; problems say where, what and what would do."""

from math import inf, nan
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError, model_validator
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import ExcessiveAnswerError, InputError, InputProblem
from planner.ranges import Quantity
from planner.schema import FieldError, StrictModel, TomlFile, dotted, excessive_answer, raise_faults


class Round(StrictModel):
    kind: Literal["round"]
    radius: float


class Square(StrictModel):
    kind: Literal["square"]
    width: Annotated[float, Field(gt=0)]
    height: float = 1.0


class Part(StrictModel):
    size: int
    note: str = ""


class Figures(StrictModel):
    sizes: dict[str, tuple[Quantity, ...]]


class Thing(StrictModel):
    name: str
    size: Annotated[float, Field(ge=0)] | Literal["free"] = "free"
    count: int = 1
    is_new: bool = False
    from_place: Annotated[str, Field(alias="from")] = ""
    shape: Annotated[Round | Square, Field(discriminator="kind")] | None = None
    parts: tuple[Part, ...] = ()
    named: dict[str, Part] = {}

    @model_validator(mode="after")
    def _is_consistent(self) -> "Thing":
        faults = [
            FieldError(("parts", i, "size"), "is {unlucky}") for i, part in enumerate(self.parts) if part.size == 13
        ]
        raise_faults([*faults, *(FieldError(("count",), "is unlucky too") for _ in range(self.count == 13))])
        return self


def problems(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        TomlFile("t.toml", text).record(Thing)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", nan),
        ("size", inf),
        ("size", -inf),
        ("size", "1"),
        ("size", True),
        ("count", 1.0),
        ("count", "1"),
        ("count", True),
        ("is_new", 1),
        ("is_new", "true"),
        ("name", 1),
        ("name", b"x"),
        ("parts", [{"size": 1}]),
        ("unknown", 1),
        ("from_place", "x"),
    ],
)
def test_a_record_takes_no_value_of_another_kind(field: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Thing.model_validate({"name": "x", field: value})
    assert {error["loc"][0] for error in caught.value.errors()} == {field}


def test_a_whole_number_is_a_number() -> None:
    assert TomlFile("t.toml", "name = 'x'\nsize = 2").record(Thing).size == 2.0


def test_a_record_cannot_be_changed() -> None:
    thing = Thing(name="x")
    with pytest.raises(ValidationError, match="frozen"):
        thing.name = "y"  # type: ignore[misc]


def fault_of(sizes: dict[str, tuple[Any, ...]]) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Figures(sizes=sizes)
    return caught.value


def test_a_figure_too_great_for_an_answer_is_the_fault_of_the_question() -> None:
    found = excessive_answer(fault_of({"a": (1.0, 2e31)}))
    assert found is not None
    assert str(found).startswith("sizes.a[1] of the answer is 2e+31, and no answer states more than 1e+30")
    assert found.exit_code == InputError.exit_code


@pytest.mark.parametrize("number", [nan, inf, -1.0, "1"])
def test_any_other_fault_of_an_answer_is_the_fault_of_the_program(number: Any) -> None:
    assert excessive_answer(fault_of({"a": (2e31, number)})) is None


@pytest.mark.parametrize(("figure", "code"), [(2e31, 3), (-1.0, 1)])
def test_a_command_whose_answer_has_such_a_figure_says_so(
    figure: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.studies.predict.predict", lambda *_: Figures(sizes={"a": (figure,)}))
    found = CliRunner().invoke(app, ["predict", "qwen3-32b", "h200-sxm", "--format", "json"])
    error = found.exception
    assert isinstance(error, ExcessiveAnswerError if code == 3 else ValidationError)
    assert ('"exit_code": 3' in found.stdout) == (code == 3)


def test_a_figure_too_great_in_a_file_is_a_problem_of_the_file() -> None:
    with pytest.raises(InputError) as caught:
        TomlFile("f.toml", "sizes = { a = [1.0, 2e31] }").record(Figures)
    assert [problem.key for problem in caught.value.problems] == ["sizes.a[1]"]


def test_arrays_of_a_file_become_tuples_that_cannot_be_changed() -> None:
    assert TomlFile("t.toml", "name = 'x'\nparts = [{ size = 1 }, { size = 2 }]").record(Thing).parts == (
        Part(size=1),
        Part(size=2),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nme = 'x'\nname = 'x'", "t.toml:1: nme: unknown key (did you mean 'name'?)"),
        (
            "name = 'x'\nzzz = 1",
            "t.toml:2: zzz: unknown key (known: count, from, is_new, name, named, parts, shape, size)",
        ),
        ("name = 'x'\nform = 'y'", "t.toml:2: form: unknown key (did you mean 'from'?)"),
        ("name = 'x'\nfrom_place = 'y'", "t.toml:2: from_place: unknown key (did you mean 'from'?)"),
        ("count = 2", "t.toml: name: is required"),
        ("name = 'x'\n[[parts]]\nsize = 1\n[[parts]]\nnote = ''", "t.toml:4: parts[1].size: is required"),
        (
            "name = 'x'\nparts = [\n { size = 1 },\n { size = 1, nte = '' },\n]",
            "t.toml:4: parts[1].nte: unknown key (did you mean 'note'?)",
        ),
        (
            "name = 'x'\n[named.'a.b']\nsize = 1\nsizes = 1",
            "t.toml:4: named.\"a.b\".sizes: unknown key (did you mean 'size'?)",
        ),
        (
            "name = 'x'\nsize = -1",
            "t.toml:2: size: should be greater than or equal to 0, got -1 (at least 0 or 'free')",
        ),
        ("name = 'x'\nsize = 'fre'", "t.toml:2: size: should be a valid number, got \"fre\" (or 'free')"),
        ("name = 'x'\nsize = nan", "t.toml:2: size: should be a finite number, got NaN (at least 0 or 'free')"),
        ("name = 'x'\ncount = 2.5", "t.toml:2: count: should be a valid integer, got 2.5"),
        ("name = 'x'\nnamed = 3", "t.toml:2: named: should be a table, got 3"),
        ("name = 'x'\n[named]\na = 3", "t.toml:3: named.a: should be a table, got 3"),
        ("name = { a = 1 }", "t.toml:1: name: should be a valid string, got a table"),
        ("name = 1979-05-27", 't.toml:1: name: should be a valid string, got "1979-05-27"'),
        ("name = 'x'\n[shape]\nradius = 1", "t.toml:2: shape.kind: is required"),
        ("name = 'x'\n[shape]\nkind = 'oval'", "t.toml:3: shape.kind: is \"oval\" (allowed: 'round', 'square')"),
        ("name = 'x'\n[shape]\nkind = 3", "t.toml:3: shape.kind: is 3 (allowed: 'round', 'square')"),
        ("name = 'x'\nshape = 3", "t.toml:2: shape: should be a table, got 3"),
        ("name = 'x'\nshape = { kind = 'round' }", "t.toml:2: shape.radius: is required"),
        (
            "name = 'x'\nshape = { kind = 'square', width = 0 }",
            "t.toml:2: shape.width: should be greater than 0, got 0",
        ),
        (
            "name = 'x'\n[shape]\nkind = 'square'\nwidth = 1\nradius = 1",
            "t.toml:5: shape.radius: unknown key (known: height, kind, width)",
        ),
        ("name = 'x'\ncount = 13", "t.toml:2: count: is unlucky too"),
        ("name = 'x'\nparts = [\n { size = 1 },\n { size = 13 },\n]", "t.toml:4: parts[1].size: is {unlucky}"),
    ],
)
def test_one_fault_is_one_problem_with_its_line_and_what_is_allowed(text: str, problem: str) -> None:
    (found,) = problems(text)
    assert found.startswith(problem)


def test_every_fault_of_a_file_is_reported() -> None:
    found = problems("nme = 'x'\nsize = -1\ncount = 'y'\n[[parts]]\nsize = 0.5\n")
    assert [text.split(": ")[1] for text in found] == ["name", "size", "count", "parts[0].size", "nme"]


def test_faults_across_fields_are_all_reported() -> None:
    assert len(problems("name = 'x'\ncount = 13\nparts = [{ size = 13 }, { size = 13 }]")) == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1\nb = \n", "t.toml:2: is not valid TOML: Invalid value (TOML 1.0)"),
        ("a = 1\na = 2\n", "t.toml:2: is not valid TOML: Cannot overwrite a value (TOML 1.0)"),
        ("a = 1\n\nb = [\n1,\n\n\n", "t.toml:4: is not valid TOML: Invalid value (TOML 1.0)"),
        ("a = [\n", "t.toml:1: is not valid TOML: Invalid value (TOML 1.0)"),
        ("a = " + "[" * 5000 + "]" * 5000, "t.toml: is nested too deep (at most 32 levels)"),
    ],
)
def test_text_that_is_no_toml_is_an_input_error_at_its_line(text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        TomlFile("t.toml", text)
    assert [str(p) for p in caught.value.problems] == [problem]


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    for path, reason in (
        (tmp_path / "missing.toml", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "latin.toml", "is not UTF-8 text"),
        (tmp_path / ("x" * 300), "cannot be read: File name too long"),
    ):
        with pytest.raises(InputError, match=reason) as caught:
            TomlFile.read(path)
        assert caught.value.problems[0].file == str(path)
        assert caught.value.exit_code == 3


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "windows.toml").write_bytes("\ufeffname = 'x'\r\ncount = 2\r\n".encode())
    file = TomlFile.read(tmp_path / "windows.toml")
    assert (file.data, file.line(("count",))) == ({"name": "x", "count": 2}, 2)


@pytest.mark.parametrize(
    ("key", "line"),
    [(("a",), 1), (("a", "b"), 2), (("a", "b", "c", 0), 2), (("a", "x"), 1), (("x",), None), ((), None)],
)
def test_an_absent_key_has_the_line_of_what_encloses_it(key: tuple[str | int, ...], line: int | None) -> None:
    assert TomlFile("t.toml", "[a]\nb = 1\n").line(key) == line


def test_a_problem_reads_file_line_key_message_allowed() -> None:
    problem = InputProblem("t.toml", dotted(("a", 0, "b")), "is wrong", "allowed: 1", 7)
    assert str(problem) == "t.toml:7: a[0].b: is wrong (allowed: 1)"
    assert str(InputProblem("t.toml", "", "is wrong")) == "t.toml: is wrong"
