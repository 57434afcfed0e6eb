"""Which change of a scenario a problem comes from: one of `--set`, told where it was given."""

from collections.abc import Mapping
from dataclasses import replace

from planner.errors import InputProblem, did_you_mean
from planner.scenario.overrides import KEY, parsed_key, shortened_override
from planner.schema import TomlFile, dotted
from planner.toml_lines import KeyPath


def of_override(problem: InputProblem, file: TomlFile, changes: Mapping[str, KeyPath]) -> InputProblem:
    """A problem that the file alone does not have, as told of the override; one inside a profile's file stays there."""
    if problem.file != file.name:
        return problem
    hints = (_new_entry(key, file) for key in changes.values() if problem.key.startswith(dotted(key[:2]) + "."))
    guilty = [text for text, key in changes.items() if is_within(problem.key, dotted(key))] or [*changes]
    key = "" if problem.key == dotted(changes[guilty[-1]]) else problem.key
    allowed = problem.allowed or next(filter(None, hints), "")
    return replace(problem, file=" ".join(map(shortened_override, guilty)), key=key, line=None, allowed=allowed)


def _new_entry(key: KeyPath, file: TomlFile) -> str:
    """Hint at what an override that begins a new pool, site or link perhaps meant; empty when it does not."""
    table, others = key[:2], [str(other[1]) for other in file.lines if other[:1] == key[:1] and len(other) == 2]
    if len(key) < 3 or table in file.lines or not others:
        return ""
    return f"'{table[1]}' is new; {did_you_mean(str(table[1]), others)}"


def is_within(key: str, other: str) -> bool:
    """True if one of two written keys is the other or encloses it."""
    key, other = (dotted(parsed_key(text)) if KEY.fullmatch(text) else text for text in (key, other))
    inner, outer = sorted((key, other), key=len, reverse=True)
    return inner == outer or inner.startswith((outer + ".", outer + "["))
