"""No file may state a number without end: every number of every record that is read has a least and a most."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import planner
from planner.errors import InputError
from planner.profiles import HardwareProfile, ModelProfile, StackProfile, hardware_profile
from planner.results.live import Live
from planner.results.plan import Plan
from planner.scenario import Scenario, load_scenario
from planner.schema import StrictModel, TomlFile, numbers_allowed
from planner.studies.fidelity.survey import FidelityNotes
from tests.builders import SMALL, small_with
from tests.test_cli_errors import TINY

READ: tuple[type[BaseModel], ...] = (
    Scenario,
    HardwareProfile,
    ModelProfile,
    StackProfile,
    FidelityNotes,
    Plan,
    Live,
)
"""Records at the top of the files that are read."""
ANSWERS = "planner.results"
"""Room of answers; those that no file is read into are the planner's own, and are never a user's."""


@cache
def records() -> list[type[StrictModel]]:
    for module in pkgutil.walk_packages(planner.__path__, "planner."):
        if "executor.kernel" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)
    waiting, found = [StrictModel], set()
    while waiting:
        waiting += (children := waiting.pop().__subclasses__())
        found |= {child for child in children if child.__module__.startswith("planner.")}
    return sorted(found, key=lambda record: (record.__module__, record.__qualname__))


def names_within(record: type[BaseModel]) -> set[str]:
    # Records of one name are told apart by their modules in front.
    return {record.__name__, *(name.rsplit("__", 1)[-1] for name in record.model_json_schema().get("$defs", {}))}


@cache
def read_names() -> set[str]:
    return {name for record in READ for name in names_within(record)}


def numbers(node: Any) -> Iterator[dict[str, Any]]:
    """Every schema of a number within a field, references to other records aside."""
    if isinstance(node, list):
        for item in node:
            yield from numbers(item)
    elif isinstance(node, dict):
        if node.get("type") in ("integer", "number") and not {"enum", "const"} & node.keys():
            yield node
        for key, item in node.items():
            if key not in ("default", "$defs"):
                yield from numbers(item)


def endless(record: type[BaseModel]) -> Iterator[str]:
    for name, field in record.model_json_schema().get("properties", {}).items():
        for node in numbers(field):
            low = {"minimum", "exclusiveMinimum"} & node.keys()
            high = {"maximum", "exclusiveMaximum"} & node.keys()
            if not (low and high):
                yield f"{record.__module__}.{record.__qualname__}.{name}"


def is_asked(record: type[StrictModel]) -> bool:
    is_answer = record.__module__.startswith(ANSWERS) and record.__name__ not in read_names()
    return not is_answer and any(numbers(record.model_json_schema().get("properties", {})))


@cache
def asked() -> list[type[StrictModel]]:
    """Records with a number of their own that a file may state."""
    return [record for record in records() if is_asked(record)]


def test_every_number_of_a_record_that_is_read_has_a_least_and_a_most() -> None:
    assert [name for record in asked() for name in endless(record)] == []


def test_the_walk_finds_every_record_of_the_files() -> None:
    assert {record.__name__ for record in records()} >= read_names()
    known = {"Scenario", "Pool", "Link", "PoolPlan", "LiveCheck", "Architecture"}
    assert {record.__name__ for record in asked()} >= known


def test_the_walk_sees_a_number_without_end() -> None:
    class Endless(StrictModel):
        sizes: dict[str, tuple[float, ...]]

    assert [text.rsplit(".", 1)[1] for text in endless(Endless)] == ["sizes"]


HONEST = {
    "a million accelerators at a site": "sites.here.accelerators.h200-sxm=1000000",
    "a price of a million": "prices.h200-sxm.usd_per_accelerator_hour=1000000",
    "a free accelerator": "prices.h200-sxm.usd_per_accelerator_hour=0",
    "ten million tokens": 'workload.lengths={ kind = "constant", tokens = 10000000 }',
    "one request a week": "demand_req_per_s=0.0000017",
    "a million requests a second": "demand_req_per_s=1000000",
    "a hundred thousand instances": "pools.prefill.max_instances=100000",
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_extremes_are_taken(name: str) -> None:
    load_scenario(TINY, "tiny.toml", Path(), [HONEST[name]])


NONSENSE = {
    "round trip of ages": ("links.wan.round_trip_ms=5e23", "0 to 100,000 ms"),
    "endless": ("links.wan.round_trip_ms=inf", "0 to 100,000 ms"),
    "no number": ("links.wan.usd_per_gb=nan", "0 to 1,000,000,000 USD/GB"),
    "vanishing": ("links.wan.capacity_gbps=1e-300", "1e-06 to 1,000,000,000 Gbps"),
    "experts": ("model.n_experts_per_token=1000000000000000", "1 to 100,000"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused_with_the_range_and_its_unit(name: str) -> None:
    override, allowed = NONSENSE[name]
    with pytest.raises(InputError) as caught:
        load_scenario(SMALL, "small.toml", Path(), [override])
    (problem,) = caught.value.problems
    assert problem.file == f"--set {override}"
    assert allowed in problem.allowed


@pytest.mark.parametrize(
    ("key", "value"),
    [("n_layers", 3 * 10**8), ("n_heads", 10**15), ("intermediate_size", 2**64), ("head_dim", 0), ("vocab_size", -1)],
)
def test_shapes_of_no_model_are_refused(key: str, value: int) -> None:
    text = """
schema = "planner.model/1"
name = "x"
title = "X"
precision = "bf16"
[sources]
s = "x"
[architecture]
source = "s"
basis = "published"
n_layers = 2
hidden_size = 64
vocab_size = 100
tie_word_embeddings = true
intermediate_size = 128
[[architecture.attention]]
kind = "gqa"
n_layers = 2
n_heads = 4
n_kv_heads = 4
head_dim = 16
"""
    assert TomlFile("x.toml", text).record(ModelProfile).architecture.n_layers == 2
    lines = text.split("\n")
    first = next(index for index, line in enumerate(lines) if line.startswith(f"{key} = "))
    lines[first] = f"{key} = {value}"
    with pytest.raises(InputError) as caught:
        TomlFile("x.toml", "\n".join(lines)).record(ModelProfile)
    assert any(problem.line == first + 1 and problem.allowed for problem in caught.value.problems)


def test_a_range_names_the_unit_of_a_figure_by_the_key_that_holds_it() -> None:
    profile = hardware_profile("h200-sxm")
    assert profile.memory_bytes
    assert numbers_allowed({"minimum": 1, "maximum": 9}, ("figures", "memory_gb", "value")) == "1 to 9 GB"


def test_every_title_of_a_scenario_has_a_greatest_length() -> None:
    schema = Scenario.model_json_schema()
    records = {"Scenario": schema, **schema["$defs"]}
    titles = {
        name: record["properties"]["title"]
        for name, record in records.items()
        if "title" in record.get("properties", {})
    }
    assert {"Scenario", "Site", "Comparison", "BreakEven"} <= titles.keys()
    assert all(title.get("maxLength") == 300 for title in titles.values())
    with pytest.raises(InputError, match="title: string should have at most 300 characters"):
        small_with({"title": "x" * 301})
    assert small_with({"title": "x" * 300}).title
