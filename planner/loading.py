"""Rooms whose modules load when somebody asks for a name of theirs, so that a command loads what it needs."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(room: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Args:
        room: the package.
        names: what it exports, each with the module below it that has it. No name may be a module's.
    """

    def found(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(f"{room}.{names[name]}"), name)
        setattr(import_module(room), name, value)  # asked for once
        return value

    return found
