"""Fields are described by the strings beneath them, as pydantic would read them at every start."""

import pytest
from pydantic import ConfigDict, create_model
from pydantic._internal._docs_extraction import extract_docstrings_from_cls

from planner.documented import documented_schema, field_texts
from planner.profiles.hardware import Figures, HardwareProfile
from planner.profiles.model import ModelProfile
from planner.profiles.stack import StackProfile
from planner.scenario import Scenario
from planner.schema import StrictModel

RECORDS: list[type[StrictModel]] = [Scenario, HardwareProfile, ModelProfile, StackProfile, Figures]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_the_strings_beneath_fields_are_those_pydantic_finds(record: type[StrictModel]) -> None:
    assert extract_docstrings_from_cls(record).items() <= field_texts(record).items()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_of_a_file_is_described_in_its_schema(record: type[StrictModel]) -> None:
    schema = documented_schema(record)
    tables = {"": schema, **schema.get("$defs", {})}
    bare = [
        f"{name}.{key}"
        for name, table in tables.items()
        for key, node in table.get("properties", {}).items()
        if "description" not in node and "const" not in node
    ]
    assert bare == []


def test_a_class_made_without_a_source_has_no_texts() -> None:
    made = create_model("Made", size=(int, 1), __config__=ConfigDict(strict=True))
    assert documented_schema(made)["properties"] == {"size": {"default": 1, "title": "Size", "type": "integer"}}
