"""Profiles that a scenario brings by path: which file a name then means, and where two files would share one."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import InputError, InputProblem
from planner.notes import Note
from planner.profiles import Kind, labels, namesake_note, namesakes, profile
from planner.profiles.instance_spec import StackCriteria
from planner.reading import resolved_path
from planner.scenario.located import is_path, located
from planner.schema import dotted
from planner.toml_lines import KeyPath

if TYPE_CHECKING:
    from planner.scenario.parts import ModelChoice, Pool
    from planner.scenario.question import Scenario

Reference = tuple[Kind, KeyPath, str]
"""Kind of profile, key that names it, and its name or path."""


def references(scenario: "Scenario") -> Iterator[Reference]:
    """Every profile that a scenario names, those that pools use first."""
    for name, pool in scenario.pools.items():
        yield "hardware", ("pools", name, "hardware"), pool.hardware
        if pool.stack is not None:
            yield "stack", ("pools", name, "stack"), pool.stack
    tables = (("prices", scenario.prices), ("assumed", scenario.assumed))
    yield from (("hardware", (table, name), name) for table, items in tables for name in items)
    for site, place in scenario.sites.items():
        yield from (("hardware", ("sites", site, "accelerators", name), name) for name in place.accelerators)
    choices = [(("model",), scenario.model), *((("models", n), choice) for n, choice in scenario.models.items())]
    for key, choice in choices:
        yield "model", (*key, "profile"), choice.profile
        if choice.draft_model is not None:
            yield "model", (*key, "draft_model"), choice.draft_model
        if choice.stack is not None:
            yield "stack", (*key, "stack"), choice.stack
    yield from (("stack", ("stacks", name, "like"), own.like) for name, own in scenario.stacks.items())


def brought(scenario: "Scenario") -> Iterator[tuple[Kind, KeyPath, Path]]:
    """Profiles that are given by path, each as often as it is named."""
    for kind, key, name in references(scenario):
        if is_path(name):
            yield kind, key, Path(located(name, scenario.directory))


def brought_hardware(scenario: "Scenario") -> dict[str, str]:
    """Files of accelerators that are given by path, by every name and alias that they have, in lower case."""
    found: dict[str, str] = {}
    for kind, _, path in brought(scenario):
        with suppress(InputError):  # told where the path is
            for label in labels(profile(str(path), ("hardware",))) if kind == "hardware" else ():
                found.setdefault(label.casefold(), str(path))
    return found


def shared_names(scenario: "Scenario") -> Iterator[InputProblem]:
    """Names that would stand for two profiles: those of two files, or of a file and of one in the catalogue."""
    owners: dict[tuple[Kind, str], tuple[KeyPath, Path]] = {}
    taken: dict[tuple[Kind, str], KeyPath] = {}
    for kind, key, path in brought(scenario):
        with suppress(InputError):  # told where the path is
            name = profile(str(path), (kind,)).name
            first, other = owners.setdefault((kind, name), (key, resolved_path(path)))
            if other != resolved_path(path):
                what = f"is another {kind} profile named {name!r} than that of {dotted(first)}"
                yield scenario.problem(key, what, "profiles with names of their own")
            taken |= {(kind, label.casefold()): first for label in namesakes(path, kind)}
    for kind, key, name in references(scenario):
        label = name if kind != "stack" else _framework(name, taken)
        if key[0] in ("pools", "model", "models", "stacks") and (kind, label.casefold()) in taken:
            what = f"{name!r} is a {kind} profile of the catalogue, and a name of the file at "
            allowed = "that path in both places, or a file with a name of its own"
            yield scenario.problem(key, what + dotted(taken[kind, label.casefold()]), allowed)


def own_profile_notes(scenario: "Scenario") -> Iterator[Note]:
    """Files that are used in place of profiles of the catalogue that have their names."""
    for kind, path in dict.fromkeys((kind, path) for kind, _, path in brought(scenario)):
        yield from namesake_note(str(path), kind)


def _framework(name: str, taken: dict[tuple[Kind, str], KeyPath]) -> str:
    """The part of a stack's name before its version that is taken; else all of it."""
    return next((label for kind, label in taken if kind == "stack" and f"{name}-".startswith(f"{label}-")), name)


def stack_criteria(scenario: "Scenario", model: str | None) -> StackCriteria:
    """Criteria that choose the stack for the pools of a model that state none."""
    pools = [pool for pool in scenario.stated_pools.values() if pool.model == model]
    measured = (scenario.measured_for(pool) for pool in pools)
    stated = scenario.model_choice(model).stack
    return StackCriteria(
        model=scenario.profile_of(model).name,
        hardware=tuple(sorted({scenario.hardware_of(pool).name for pool in pools})),
        ran_under=tuple(sorted({found.stack for found in measured if found is not None and found.stack is not None})),
        stated=stated and located(stated, scenario.directory),
    )


def choice_for(choice: "ModelChoice", pool: "Pool") -> "ModelChoice":
    """Model that is served where a pool may state number formats of its own."""
    stated = {"precision": pool.precision, "kv_precision": pool.kv_precision}
    return choice.model_copy(update={key: value for key, value in stated.items() if value is not None})
