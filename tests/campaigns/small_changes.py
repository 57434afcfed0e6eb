"""Every number of every bundled scenario halved, doubled and at both ends of its range, each change planned.

The law is that of `tests.campaigns.commands`. What a comparison sets is planned as that comparison. Scenarios of a
trace need its folder in PLANNER_DATA, else they exit 3. The seed shuffles the changes, so that the first of them are a
sample; those that no plan depends on come last. Run from the root of a checkout:

    python -m tests.campaigns.small_changes --seed 1 --count 2000 --out tests/campaigns/small_changes.md
"""

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from planner.profiles.toml_text import toml_value
from planner.scenario import Scenario, bundled_scenarios
from planner.scenario.overrides import assign, parsed_key
from planner.schema import dotted, number_schemas
from planner.toml_lines import KeyPath
from tests.campaigns.commands import Ended, campaign_parser, ended, judged, load_rooms
from tests.campaigns.corpus import Case

BESIDE_PLANS = ("break_even", "claims", "execution", "report")
"""Tables that a plan is checked with, and made without."""
SEARCH_S, MOST_CPU_S = 10, 40
"""Longest search for one plan; a command makes several plans."""
INSIDE = 1e-6
"""How far inside a range that leaves out its end a number is, of the end or of 1."""


@dataclass(frozen=True)
class Change:
    """A bundled scenario with other numbers."""

    scenario: str
    settings: tuple[str, ...]
    """As `--set` takes them."""
    is_planned: bool
    """Whether a plan may depend on it."""


def changes(kinds: Sequence[str] = ()) -> list[Change]:
    """All changes of some bundled scenarios; of all where none is named."""
    known = bundled_scenarios()
    texts = {name: known[name].read_text(encoding="utf-8") for name in kinds or known}
    return [change for name, text in texts.items() for change in _changes_of(name, tomllib.loads(text))]


def _changes_of(name: str, stated: Mapping[str, Any]) -> Iterator[Change]:
    comparisons = stated.get("comparisons", {}).values()
    for settings in ({}, *(comparison["set"] for comparison in comparisons)):
        data: dict[str, Any] = {key: item for key, item in stated.items() if key != "comparisons"}
        for key, value in settings.items():
            assign(data, parsed_key(key), value)
        for path, number in _numbers(settings or data):
            changed = (*parsed_key(str(path[0])), *path[1:]) if settings else path
            given = [f"{key}={toml_value(value)}" for key, value in settings.items()]
            for other in _others(data, changed, number):
                text = f"{dotted(changed)}={toml_value(other)}"
                yield Change(name, (*given, text), changed[0] not in BESIDE_PLANS)


def _numbers(value: Any, key: KeyPath = ()) -> Iterator[tuple[KeyPath, float]]:
    """Every number of a parsed file with its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, item in items:
        yield from _numbers(item, (*key, part))
    if type(value) in (int, float):
        yield key, value


def _others(data: Any, key: KeyPath, number: float) -> list[float]:
    """Half and twice the number, and the least and the most that the schema allows."""
    found = [number // 2 if isinstance(number, int) else number / 2, 2 * number]
    for schema in number_schemas(Scenario, data, key):
        whole = schema["type"] == "integer"
        ends = [float(schema[name]) for name in ("minimum", "maximum") if name in schema]
        for name, inwards in (("exclusiveMinimum", INSIDE), ("exclusiveMaximum", -INSIDE)):
            if name in schema:
                ends.append(schema[name] + inwards * max(abs(schema[name]), 1.0))
        found += [round(end) if whole else end for end in ends]
    return list(dict.fromkeys(other for other in found if other != number))


def campaign(seed: int, indexes: Sequence[int], kinds: Sequence[str] = ()) -> Iterator[Ended]:
    """Plans of changed scenarios, in the order of the seed."""
    load_rooms()
    shuffled = changes(kinds)
    Random(seed).shuffle(shuffled)
    shuffled.sort(key=lambda change: not change.is_planned)
    for index in indexes:
        if index < len(shuffled):
            yield ended(_case(shuffled[index]), shuffled[index].scenario, index, MOST_CPU_S)


def _case(change: Change) -> Case:
    settings = [part for setting in change.settings for part in ("--set", setting)]
    command = ("optimize", change.scenario, *settings, "--no-run", "--time-limit", str(SEARCH_S))
    return Case({}, command, command.index(change.settings[-1]))


if __name__ == "__main__":
    given = campaign_parser(__doc__).parse_args()
    sys.exit(judged("Small changes", given, lambda indexes: campaign(given.seed, indexes, given.kind)))
