"""The page of scenario keys: the committed one is what the models say, whole, with links that lead somewhere."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError
from typer.testing import CliRunner

from planner.cli import app
from planner.report.scenario_keys import scenario_keys_page, toml
from planner.scenario import Scenario

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = tomllib.loads((ROOT / "planner" / "report" / "key_examples.toml").read_text(encoding="utf-8"))


def records_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from records_in(part)


def records() -> dict[str, list[type[BaseModel]]]:
    """Every record of a scenario by its name, two of one name under it together."""
    found: list[type[BaseModel]] = [Scenario]
    for record in found:
        for field in record.model_fields.values():
            found += [one for one in dict.fromkeys(records_in(field.annotation)) if one not in found]
    by_name: dict[str, list[type[BaseModel]]] = {}
    for record in found:
        by_name.setdefault(record.__name__, []).append(record)
    return by_name


RECORDS = records()
KEYS = [
    (record, field.alias or name, field)
    for same in RECORDS.values()
    for record in same
    for name, field in record.model_fields.items()
]


def frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def test_the_command_prints_the_page_whole() -> None:
    found = CliRunner().invoke(app, ["scenario", "schema", "--format", "markdown"])
    assert found.exit_code == 0
    assert found.stdout == scenario_keys_page()


def test_every_key_of_every_record_has_a_row_with_what_it_takes_its_default_meaning_and_example() -> None:
    page = scenario_keys_page()
    rows = [re.split(r" \| ", line.strip("| ")) for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) == len(KEYS)
    assert {row[0].strip("`") for row in rows} == {key for _, key, _ in KEYS}
    assert all(len(row) == 5 and all(row) for row in rows)
    assert not [row for row in rows if row[4] == "–"], "these keys have no example in planner/report/key_examples.toml"
    assert not [row for row in rows if "any value" in row[1]]


def test_limits_and_units_of_the_models_stand_on_the_page() -> None:
    page = scenario_keys_page()
    assert '| `n_instances` | whole number, 0 or more, at most 1,000,000 or `"free"` | `"free"` |' in page
    assert "| `ttft_percentile` | number [%], above 0, below 100 | `90.0` |" in page
    assert "| `share` | number, 1e-09 or more, at most 1 | required |" in page


def test_every_link_of_the_page_leads_to_one_heading_of_it() -> None:
    page = scenario_keys_page()
    headings = re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
    anchors = [re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert len(set(anchors)) == len(anchors) == sum(map(len, RECORDS.values()))
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) == set(anchors)


@pytest.mark.parametrize("name", sorted(name for name, examples in EXAMPLES.items() if examples))
def test_examples_are_taken_by_their_keys_and_belong_to_a_key(name: str) -> None:
    for record in RECORDS[name]:
        known = {field.alias or key for key, field in record.model_fields.items()}
        assert set(EXAMPLES[name]) <= known
        faults = {key: faulty_keys(record, {key: frozen(value)}) for key, value in EXAMPLES[name].items()}
        assert [key for key, found in faults.items() if key in found] == []


def faulty_keys(record: type[BaseModel], data: dict[str, Any]) -> set[str | int]:
    """Keys that a record refuses; what lacks, or only holds of a whole record, is no fault of a single key."""
    try:
        record.model_validate(data)
    except ValidationError as error:
        return {e["loc"][0] for e in error.errors() if e["loc"] and e["type"] != "planner_fault"}
    return set()


def test_a_value_is_written_as_toml_reads_it() -> None:
    examples = {f"{name}-{key}": value for name, of in EXAMPLES.items() for key, value in of.items()}
    text = "\n".join(f"{key} = {toml(value)}" for key, value in examples.items())
    assert tomllib.loads(text) == examples != {}
