"""The line of every key of a TOML text: examples of every way to write a key, and documents whose lines are known."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.toml_lines import KeyPath, key_lines

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES: dict[str, tuple[str, dict[KeyPath, int]]] = {
    "plain": ("\na = 1\n\nb = 2\n", {("a",): 2, ("b",): 4}),
    "header": ("[a]\n\nb = 1\n", {("a",): 1, ("a", "b"): 3}),
    "header after its child": (
        "[a.b]\nc = 1\n[a]\nd = 1\n",
        {("a",): 3, ("a", "b"): 1, ("a", "b", "c"): 2, ("a", "d"): 4},
    ),
    "header with blanks and a comment": ("[ a . b ] # [c]\n", {("a",): 1, ("a", "b"): 1}),
    "dotted": ("a.b . c = 1\na.d = 2\n", {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 1, ("a", "d"): 2}),
    "quoted": (
        '"a.b" = 1\n\'c = d\'."e]" = 2\n["f]#"]\n"\\u0067" = 3\n"" = 4\n',
        {
            ("a.b",): 1,
            ("c = d",): 2,
            ("c = d", "e]"): 2,
            ("f]#",): 3,
            ("f]#", "g"): 4,
            ("f]#", ""): 5,
        },
    ),
    "inline table": (
        "a = { b = 1, c.d = { e = '}, x = 1' }, \"f g\" = 2 }\nh = 1\n",
        {
            ("a",): 1,
            ("a", "b"): 1,
            ("a", "c"): 1,
            ("a", "c", "d"): 1,
            ("a", "c", "d", "e"): 1,
            ("a", "f g"): 1,
            ("h",): 2,
        },
    ),
    "array on several lines": (
        "a = [ # ]\n  1,\n\n  2, 3 ]\nb = 1\n",
        {("a",): 1, ("a", 0): 2, ("a", 1): 4, ("a", 2): 4, ("b",): 5},
    ),
    "array of arrays": (
        "a = [\n [1],\n [],\n]\nb = 1\n",
        {("a",): 1, ("a", 0): 2, ("a", 0, 0): 2, ("a", 1): 3, ("b",): 5},
    ),
    "array of inline tables": (
        "a = [{ b = 1 }, { b = 2 },\n  # { b = 9 },\n  { b = 3,\tc = [\n 4 ] },\n]\nd = 1\n",
        {
            ("a",): 1,
            ("a", 0): 1,
            ("a", 0, "b"): 1,
            ("a", 1): 1,
            ("a", 1, "b"): 1,
            ("a", 2): 3,
            ("a", 2, "b"): 3,
            ("a", 2, "c"): 3,
            ("a", 2, "c", 0): 4,
            ("d",): 6,
        },
    ),
    "array of tables": (
        "[[a]]\nb = 1\n[a.c]\nd = 1\n[[a]]\n[a.c]\nd = 2\n[[a.e]]\n[[a.e]]\n[a.e.f]\ng = 3\n",
        {
            ("a",): 1,
            ("a", 0): 1,
            ("a", 0, "b"): 2,
            ("a", 0, "c"): 3,
            ("a", 0, "c", "d"): 4,
            ("a", 1): 5,
            ("a", 1, "c"): 6,
            ("a", 1, "c", "d"): 7,
            ("a", 1, "e"): 8,
            ("a", 1, "e", 0): 8,
            ("a", 1, "e", 1): 9,
            ("a", 1, "e", 1, "f"): 10,
            ("a", 1, "e", 1, "f", "g"): 11,
        },
    ),
    "long strings": (
        'a = """\nb = 1\n[c]\n\\""" """\nd = \'\'\'\n# e = 1\n"""\'\'\'\nf = """g""""\nh = 1\n',
        {("a",): 1, ("d",): 5, ("f",): 8, ("h",): 9},
    ),
    "short strings that look like others": (
        'a = "\'\'\' [b] # \\" c = 1"\nd = \'""" # e = 1\'\nf = 1 # """\ng = 1\n',
        {("a",): 1, ("d",): 2, ("f",): 3, ("g",): 4},
    ),
    "dates and numbers": (
        "a = 1979-05-27 07:32:00 # b\nc = [+1e3, inf, 0x_F]\n".replace("0x_F", "0xF"),
        {("a",): 1, ("c",): 2, ("c", 0): 2, ("c", 1): 2, ("c", 2): 2},
    ),
    "carriage returns": (
        "a = 1\r\n\r\n[b]\r\nc = [\r\n2,\r\n]\r\n",
        {("a",): 1, ("b",): 3, ("b", "c"): 4, ("b", "c", 0): 5},
    ),
    "separators that end no line": ("a = 'x\u2028\u2029\x85y'\nb = 1\n", {("a",): 1, ("b",): 2}),
    "nothing": ("# a = 1\n", {}),
    "no line end": ("[a]\nb = 1", {("a",): 1, ("a", "b"): 2}),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_key_has_the_line_it_is_written_on(name: str) -> None:
    text, lines = EXAMPLES[name]
    tomllib.loads(text)
    assert key_lines(text) == lines


class Page:
    """Writes TOML at random and notes on which line each key went."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.text, self.keys, self.n = draw, "", {}, 0

    def note(self, key: KeyPath) -> None:
        self.keys.setdefault(key, self.text.count("\n") + 1)

    def gap(self, comments: bool = True) -> None:
        """White space, line ends and comments, where TOML allows them."""
        self.text += self.draw(
            st.sampled_from(["", " ", "\n", " # [no] = {\n", "\n\t# ''' \"\"\"\n"] if comments else ["", " "])
        )

    def name(self) -> tuple[str, str]:
        """A name nothing else has, and how it is written here."""
        self.n += 1
        odd = self.draw(st.sampled_from(["", "", "a.b", "x = 1, ", "[t]", "# ", "é", '"', "'", "}\\"]))
        name = f"{odd}k{self.n}"
        if not odd:
            return name, name
        return name, json.dumps(name) if "'" in odd or self.draw(st.booleans()) else f"'{name}'"

    def names(self) -> tuple[KeyPath, str]:
        """A key of one to three parts."""
        parts = [self.name() for _ in range(self.draw(st.integers(1, 3)))]
        return tuple(name for name, _ in parts), self.draw(st.sampled_from([".", " . "])).join(
            text for _, text in parts
        )

    def note_all(self, table: KeyPath, names: KeyPath) -> KeyPath:
        for depth in range(1, len(names) + 1):
            self.note((*table, *names[:depth]))
        return (*table, *names)

    def scalar(self) -> None:
        self.text += self.draw(
            st.sampled_from(
                [
                    "1",
                    "-2.5e3",
                    "true",
                    "1979-05-27 07:32:00",
                    '"[x] # \\" y = {"',
                    '\'\\ """ \'',
                    '"""\nz = 1\n[[t]]\n\\""" ""\\\n"""',
                    "'''\n}, q = [ # '' \"\"\"'''",
                    '"""quote""""',
                    '""',
                ]
            )
        )

    def value(self, key: KeyPath, depth: int) -> None:
        kind = self.draw(st.sampled_from(["scalar", "array", "table"])) if depth else "scalar"
        {"scalar": lambda *_: self.scalar(), "array": self.array, "table": self.inline_table}[kind](key, depth)

    def array(self, key: KeyPath, depth: int) -> None:
        self.text += "["
        n = self.draw(st.integers(0, 3))
        for index in range(n):
            self.gap()
            self.note((*key, index))
            self.value((*key, index), depth - 1)
            self.gap()
            self.text += "," if index < n - 1 or self.draw(st.booleans()) else ""
        self.gap()
        self.text += "]"

    def inline_table(self, key: KeyPath, depth: int) -> None:
        self.text += "{"
        for index in range(self.draw(st.integers(0, 3))):
            self.text += "," if index else ""
            self.gap(comments=False)
            self.assignment(key, depth - 1)
            self.gap(comments=False)
        self.text += "}"

    def assignment(self, table: KeyPath, depth: int) -> None:
        names, written = self.names()
        key = self.note_all(table, names)
        self.text += written + self.draw(st.sampled_from(["=", " = "]))
        self.value(key, depth)

    def table(self, table: KeyPath, above: str, depth: int) -> None:
        """A header or two of an array of tables, what is in it, and the tables under it."""
        names, written = self.names()
        is_array = self.draw(st.booleans())
        for index in range(self.draw(st.integers(1, 2)) if is_array else 1):
            key = self.note_all(table, names)
            key = (*key, index) if is_array else key
            self.note(key)
            self.text += f"[[{above}{written}]]" if is_array else f"[ {above}{written} ]"
            self.end()
            self.body(key)
            for _ in range(self.draw(st.integers(0, 2)) if depth else 0):
                self.table(key, f"{above}{written}.", depth - 1)

    def body(self, table: KeyPath) -> None:
        for _ in range(self.draw(st.integers(0, 3))):
            self.assignment(table, 2)
            self.end()

    def end(self) -> None:
        self.text += self.draw(st.sampled_from(["\n", " \n\n", " # = [{\n", '\n# """\n']))


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[KeyPath, int]]:
    page = Page(draw)
    page.body(())
    for _ in range(draw(st.integers(0, 3))):
        page.table((), "", 2)
    return page.text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))), page.keys


def paths(value: Any, key: KeyPath = ()) -> set[KeyPath]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {key} - {()} | {path for name, item in items for path in paths(item, (*key, name))}


@given(documents())
def test_a_written_document_has_every_key_on_its_line_and_no_other(document: tuple[str, dict[KeyPath, int]]) -> None:
    text, lines = document
    assert paths(tomllib.loads(text)) == set(lines)
    assert key_lines(text) == lines


FOLDERS = ("hardware_profiles", "model_profiles", "stack_profiles", "reports")
SHIPPED = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_key_of_a_shipped_file_has_a_line_that_names_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = key_lines(text)
    assert set(lines) == paths(tomllib.loads(text))
    for key, line in lines.items():
        if isinstance(key[-1], str):
            assert key[-1] in text.split("\n")[line - 1]
