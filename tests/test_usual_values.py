"""Values beyond what anybody asks for are used, and said with the unit that they were probably meant in."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.documented import documented_schema
from planner.errors import PlannerError
from planner.notes import code_of
from planner.scenario import Scenario, bundled_scenarios, question_notes, read_scenario
from planner.scenario.usual import USUAL, unusual, usual_at

BASE = "prfaas-paper"
CODE = "value-beyond-usual"
STATED = {
    "slo.ttft_s=2000": "likely 2,000 ms, that is 2 s",
    "slo.tpot_ms=0.03": "likely 0.03 s, that is 30 ms",
    "prices.h200-sxm.usd_per_accelerator_hour=63.3": "likely 63.3 USD of a server with 8, that is 7.912 USD/h",
    "prices.h200-sxm.usd_per_accelerator_hour=16": "likely 16 USD of a server with 8, that is 2 USD/h",
    "prices.h200-sxm.usd_per_accelerator_hour=2100": "likely 2,100 USD per month, that is 2.877 USD/h",
    "links.wan.capacity_gbps=100000": "likely 100,000 Mbit/s, that is 100 Gbps",
    "links.wan.round_trip_ms=0.03": "likely 0.03 s, that is 30 ms",
    "links.wan.usd_per_gb=20": "likely 20 USD per TB, that is 0.02 USD/GB",
    "demand_req_per_s=36000": "likely 36,000 a minute, that is 600 requests/s",
    "demand_req_per_s=0.0005": "the rate of all users together, and not that of each",
    "workload.output_lengths.tokens=10000000": "more than any engine takes",
    "routing.threshold_tokens=8": "likely 8 thousand tokens, that is 8,000 tokens",
    "growth_fraction_per_month=5": "likely 5 percent, that is 0.05 of the demand",
    "pools.pd-p.time_factor=110": "likely 110 percent, that is 1.1 times the known time",
    'execution.arrivals={kind="diurnal",period_s=24,swing_fraction=0.5}': "likely 24 hours, that is 86,400 s",
}
SITES = {
    "usd_per_kwh=65": "likely 65 USD per MWh, that is 0.065 USD/kWh",
    "fabric_gbps=0.4": "likely 0.4 Tbit/s, that is 400 Gbps",
}


def said(*overrides: str) -> list[str]:
    return [text for text in question_notes(read_scenario(BASE, overrides)) if code_of(text) == CODE]


@pytest.mark.parametrize("override", STATED)
def test_a_value_in_another_unit_is_said_with_what_it_would_be(override: str) -> None:
    found = said(override)
    assert len(found) == 1
    assert found[0].startswith(override.partition("=")[0])
    assert STATED[override] in found[0]


def test_a_percentile_as_a_fraction_is_said() -> None:
    (found,) = said("slo.ttft_s=2", "slo.ttft_percentile=0.9")
    assert "likely 0.9 parts of 1, that is 90 %" in found


@pytest.mark.parametrize("override", SITES)
def test_keys_of_a_site_are_judged_whatever_its_name(override: str) -> None:
    site = next(iter(read_scenario(BASE).sites))
    (found,) = said(f"sites.{site}.{override}")
    assert SITES[override] in found


def test_factors_and_figures_that_a_scenario_assumes_are_held_to_the_ranges_of_the_gate() -> None:
    stack = 'stacks.own={like="vllm",factors={host_step_ms=2200.0},source="a guess"}'
    (found,) = said(stack)
    assert found.startswith("stacks.own.factors.host_step_ms = 2,200 is beyond the usual 0 to 50")
    assert "2200 us are 2.2" in found


@pytest.mark.parametrize("name", bundled_scenarios())
def test_scenarios_that_ship_state_nothing_beyond_what_is_usual(name: str) -> None:
    assert [text for text in question_notes(read_scenario(name)) if code_of(text) == CODE] == []


def numeric_keys(
    node: Any, root: Any, path: tuple[str, ...] = (), seen: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Keys of a schema at which a number may stand; names are `*`, indexes of lists left out."""
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        if name not in seen:
            yield from numeric_keys(root["$defs"][name], root, path, (*seen, name))
    if node.get("type") in ("number", "integer"):
        yield path
    for key, item in node.get("properties", {}).items():
        yield from numeric_keys(item, root, (*path, key), seen)
    for item in [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]:
        if isinstance(item, dict):
            yield from numeric_keys(item, root, (*path, "*"), seen)
    inner = [node[key] for key in ("items",) if isinstance(node.get(key), dict)]
    for item in [*inner, *node.get("prefixItems", []), *node.get("anyOf", []), *node.get("oneOf", [])]:
        yield from numeric_keys(item, root, path, seen)


ANY = {
    "acceptance": "the schema's 0 to 1",
    "accelerators_per_instance": "a count",
    "n_experts_per_token": "a count, held to the model's experts",
    "draft_tokens": "a count",
    "low_tokens": "may be 1 and below high_tokens",
    "weights": "relative",
    "weight": "relative",
    "fraction": "the schema's 0 to 1",
    "fractions": "the schema's 0 to 1",
    "alpha": "without a unit",
    "beta": "without a unit",
    "squared_cv": "without a unit",
    "share": "adds up to 1",
    "sites": "adds up to 1",
    "n_candidates": "a count",
    "pue": "the schema's 1 to 5",
    "draw_fraction": "the schema's",
    "discount_fraction": "the schema's",
    "idle_draw_fraction": "the schema's",
    "n_instances": "a count",
    "min_instances": "a count",
    "max_instances": "a count",
    "max_ports": "a count",
    "factors": "the ranges of the gate, or relative",
    "value": "the ranges of the gate",
    "measured": "what the gate asks of measurements",
    "swing_fraction": "the schema's 0 to 1",
    "mean_turns": "a count",
    "step_fraction": "without a unit",
    "range_factor": "without a unit",
    "link_utilization": "the schema's 0 to 1",
    "busy_fraction": "the schema's 0 to 1",
    "min_gain_fraction": "without a unit",
    "n_decisions": "a count",
    "min_observed": "a count",
    "state_interval_tokens": "of the cache's blocks",
    "block_tokens": "held against the blocks of the trace",
    "link_fraction": "the schema's 0 to 1",
    "min_uses": "a count",
    "at_s": "any moment of a run",
    "instance": "a place in a list",
    "left_fraction": "the schema's 0 to 1",
    "connections": "a count",
    "background_connections": "a count",
    "batch_limit": "a count",
    "max_transfers": "a count",
    "max_retries": "a count",
    "warm_up_fraction": "the schema's",
    "cool_down_fraction": "the schema's",
}
"""Keys at which any number that the schema takes may be meant, or that something else judges."""


def test_every_number_of_a_scenario_is_judged_or_may_be_anything() -> None:
    schema = documented_schema(Scenario)
    keys = {
        key for key in numeric_keys(schema, schema) if key[0] not in ("claims", "break_even", "report", "comparisons")
    }
    assert len(keys) > 100
    left = {
        key for key in keys if usual_at(key) is None and not set(key) & set(ANY) and key[:2] != ("execution", "report")
    }
    assert left == set()
    assert all(any(usual_at(key) is usual for key in keys) for usual in USUAL.values())


def test_usual_values_are_not_spoken_of() -> None:
    for usual in USUAL.values():
        assert [
            *unusual("key", usual.low, usual),
            *unusual("key", usual.high, usual),
            *unusual("key", 0.0, usual),
        ] == []


SIZE = ("size", "llama-3.1-8b", "h100-sxm", "--no-run", "--output", "200")


@pytest.mark.parametrize(
    ("options", "likely"),
    [
        (("--ttft-ms", "2", "--price", "2"), "slo.ttft_s = 0.002 s is beyond the usual 0.01 to 60 s"),
        (("--tpot-ms", "0.03", "--price", "2"), "likely 0.03 s, that is 30 ms"),
        (("--ttft-ms", "2000", "--percentile", "0.9", "--price", "2"), "likely 0.9 parts of 1, that is 90 %"),
        (("--ttft-ms", "2000", "--price", "16"), "likely 16 USD of a server with 8, that is 2 USD/h"),
        (("--ttft-ms", "2000", "--price", "2100"), "likely 2,100 USD per month, that is 2.877 USD/h"),
        (("--ttft-ms", "2000", "--price", "2", "--rate", "0.001"), "the rate of all users together"),
    ],
)
def test_options_of_a_size_are_said_with_the_likely_unit_also_where_nothing_can_keep_them(
    options: tuple[str, ...], likely: str
) -> None:
    rate = () if "--rate" in options else ("--rate", "20")
    found = CliRunner().invoke(app, [*SIZE, "--input", "1500", *rate, *options, "--format", "json"])
    if isinstance(found.exception, PlannerError):
        assert found.exception.exit_code == 4
        assert likely in found.stderr
    else:
        assert any(likely in text for text in json.loads(found.stdout)["notes"])


def test_the_gate_of_scenarios_says_what_is_beyond_the_usual_and_lets_it_through(tmp_path: Any) -> None:
    path = tmp_path / "asked.toml"
    text = bundled_scenarios()[BASE].read_text(encoding="utf-8")
    text = re.sub(r"round_trip_ms = \d+", "round_trip_ms = 0.03", text)
    path.write_text(text, encoding="utf-8")
    found = CliRunner().invoke(app, ["scenario", "check", str(path)])
    assert found.exit_code == 0
    assert "note: links.wan.round_trip_ms = 0.03 ms is beyond the usual" in found.output
