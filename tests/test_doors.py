"""The house: rooms are entered by their public modules, and every public name is defined once and has a caller."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.test_architecture import PACKAGE, ROOT, nodes

FILES = sorted(PACKAGE.rglob("*.py"))
NAMES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in FILES}
LISTED = re.compile(r"^    ([a-z_.]+)  +\S", re.MULTILINE)
APART = ("cli", "hybrid")
"""A command has the name of the function that it calls, and the hybrid model is a house of its own."""
MOST_LINES = 450
MOST_ASIDES = 100


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def public_modules(room: str) -> set[str]:
    """Modules that the docstring of a room lists."""
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    _, _, listed = text.partition("Public modules:")
    return set(LISTED.findall(f"{listed}\n"))


def entered(path: Path) -> set[str]:
    """Modules of other rooms that a file imports, not counting the rooms' own packages."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {node.module, *(name for name in within if not is_exported(name))}
    return {name for name in found & NAMES if name.count(".") > 1 and name.split(".")[1] != room_of(path)}


def is_exported(name: str) -> bool:
    """True if a package exports a function of the name that one of its modules has."""
    package, _, last = name.rpartition(".")
    path = ROOT / package.replace(".", "/") / "__init__.py"
    return path.is_file() and f'"{last}",' in path.read_text(encoding="utf-8").partition("__all__")[2]


def definitions() -> dict[str, list[tuple[Path, ast.FunctionDef | ast.ClassDef]]]:
    """Public functions and classes of the modules, by name."""
    found = defaultdict(list)
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append((path, node))
    return found


def test_a_room_is_entered_by_its_package_or_by_a_public_module() -> None:
    rooms = {room_of(path) for path in FILES if path.name == "__init__.py" and path.parent != PACKAGE}
    public = {f"planner.{room}.{name}" for room in rooms for name in public_modules(room)}
    used = {name for path in FILES for name in entered(path)}
    assert used - public == set(), "list these in the docstrings of their rooms"
    assert public - used == set(), "no other room uses these"


def test_no_public_name_is_defined_twice() -> None:
    where = {
        name: {str(p.relative_to(ROOT)) for p, _ in found if room_of(p) not in APART}
        for name, found in definitions().items()
    }
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_every_public_name_has_a_caller() -> None:
    """In the package or its templates: what is only tested is not needed. Commands are called by whoever types them."""
    words = {
        node.id if isinstance(node, ast.Name) else node.attr
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Name | ast.Attribute)
    }
    for path in PACKAGE.rglob("*.jinja"):
        words |= {*re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    alone = {name for name, found in definitions().items() if any(room_of(path) != "cli" for path, _ in found)} - words
    assert alone == set()


def test_no_module_is_longer_than_a_reader_can_keep_in_mind() -> None:
    lines = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8").count("\n") for path in FILES}
    assert {name: n for name, n in lines.items() if n > MOST_LINES} == {}


def test_first_sentences_name_the_thing() -> None:
    docs = (
        ast.get_docstring(node) or ""
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    )
    assert sum(doc.startswith(("What ", "Whether ", "How ")) for doc in docs) <= MOST_ASIDES
