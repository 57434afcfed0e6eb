"""Names that Kubernetes takes and YAML that cannot be misread, whatever goes in."""

import re
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from planner.deploy.names import label
from planner.deploy.yaml_text import yaml_text
from tests.deploy_cases import CASES, exported, manifests, pool, two_pools

RFC_1123 = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
TRAPS = st.sampled_from(
    ["y", "no", "On", "OFF", "null", "~", "1", "0x1f", "1e3", "2026-11-23", "012", "- a", "a: b", "#"]
)
TEXTS = st.one_of(TRAPS, st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
VALUES = st.recursive(
    st.one_of(TEXTS, st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)


def read_back(text: str) -> Any:
    return yaml.safe_load(text)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=5))
def test_yaml_is_read_back_as_what_was_written(content: dict[str, Any]) -> None:
    assert read_back(yaml_text(content)) == content


@given(TEXTS, TEXTS)
def test_whole_lines_are_read_back_as_they_were(first: str, second: str) -> None:
    text = f"{first}\n{second}\n"
    assert read_back(yaml_text({"data": {"file": text}, "list": [text]})) == {"data": {"file": text}, "list": [text]}


@given(TEXTS)
def test_a_string_is_quoted_or_a_block_of_lines(text: str) -> None:
    line = yaml_text({"value": text}).split("\n")[0]
    if text.endswith("\n"):
        assert line.startswith(("value: |", 'value: "'))
    else:
        assert line.startswith('value: "')
        assert line.endswith('"')


def test_several_documents_are_kept_apart() -> None:
    assert list(yaml.safe_load_all(yaml_text({"a": "1"}, {"b": []}))) == [{"a": "1"}, {"b": []}]


@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_a_label_is_of_rfc_1123_and_begins_with_a_letter(parts: list[str]) -> None:
    found = label(*parts)
    assert RFC_1123.fullmatch(found)
    assert found[0].isalpha()
    assert len(found) <= 40


@given(TEXTS, TEXTS)
def test_two_names_never_get_one_label(one: str, other: str) -> None:
    assert (label(one) == label(other)) == (one == other)


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True))
def test_a_name_that_is_a_label_already_stays(name: str) -> None:
    assert label(name) == name


@given(
    st.from_regex(r"[a-z0-9][a-z0-9-]{0,99}", fullmatch=True),
    st.from_regex(r"[a-z0-9][a-z0-9-]{0,80}( tp=8,ep=1)?", fullmatch=True),
    st.from_regex(r"[a-z0-9][a-z0-9-]{0,99}", fullmatch=True),
)
def test_every_name_of_an_export_is_a_label_whatever_the_scenario_calls_things(
    scenario: str, name: str, site: str
) -> None:
    pools = (pool(f"p{name}", "prefill", site), pool(name, "decode", site))
    for target in ("dynamo", "llm-d", "kserve"):
        for one in manifests(exported(two_pools(scenario=scenario).model_copy(update={"pools": pools}), target)):
            spec = one.get("spec", {})
            named = [one.get("metadata", {}), *spec.get("components", []), *spec.get("roles", [])]
            assert all(RFC_1123.fullmatch(item["name"].lower()) for item in named if item), named


def test_counts_of_accelerators_are_strings_and_of_instances_are_numbers() -> None:
    for case in ("reference", "two-pools", "two-sites"):
        for one in manifests(exported(CASES[case](), "dynamo"), "DynamoGraphDeployment"):
            for component in one["spec"]["components"]:
                assert type(component["replicas"]) is int
                for main in component["podTemplate"]["spec"]["containers"]:
                    limits = main.get("resources", {}).get("limits", {})
                    assert all(type(value) is str and value.isdecimal() for value in limits.values())
                    assert all(type(word) is str for word in [*main["command"], *main["args"]])
