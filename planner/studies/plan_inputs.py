"""The inputs of a plan as its answer carries them, and of a report as it is known by: scenario, profiles and traces."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from planner.profiles import HardwareProfile, ModelProfile, StackProfile, profile_names, stack_profile
from planner.results.plan import Plan
from planner.results.plan_parts import Inputs, PlanInputs
from planner.scenario import Scenario, is_path, located
from planner.scenario.own_profiles import brought
from planner.schema import StrictModel, dotted
from planner.toml_lines import KeyPath
from planner.workload.requests import trace_path

READING = {"title", "notes", "note", "source", "sources", "power_source", "how", "aliases"}
"""Keys of text for readers: no plan depends on them."""
STUDIES = ("comparisons", "claims", "break_even", "report", "observed", "growth_fraction_per_month")
"""Tables and keys of a scenario about what is shown beside the plan."""
IDENTITY = {"schema", "schema_id", "name", "vendor", "status"}
PROVENANCE = (
    "published",
    "checkpoint",
    "calibration.points",
    "calibration.groups",
    "calibration.date",
    "calibration.in_sample",
    "calibration.held_out",
)
"""Parts of profiles that say where figures come from, and how well they did there."""
PRICED = ("prices", "links")
"""Tables whose `basis` says where a price comes from; of measurements it is shown in the answer."""
LONGEST = 16
"""Values of a list that are written out."""
DIGEST_CHARACTERS = 12
CHUNK_BYTES = 1 << 20


def plan_inputs(scenario: Scenario, plan: Plan, planner: str, data_dirs: Sequence[Path] = ()) -> PlanInputs:
    """Inputs that a plan was made from.

    Args:
        scenario: its question.
        plan: the plan, which names the software that its pools run on.
        planner: version of the planner.
        data_dirs: folders in which traces are looked for.
    """
    return PlanInputs(
        planner=planner,
        scenario=scenario_inputs(scenario),
        profiles=_profiles(scenario, plan),
        data=_data(scenario, data_dirs),
    )


def scenario_inputs(scenario: Scenario) -> Inputs:
    """Keys of a scenario that a plan may depend on; what a model's profile brings is left to the profile.

    >>> from planner.scenario import read_scenario
    >>> scenario_inputs(read_scenario("prfaas-paper"))["links.wan.tiers[0].usd_per_hour"]
    2.25
    """
    stated = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"measured", *STUDIES})
    own = {"measured": scenario.stated["measured"]} if "measured" in scenario.stated else {}
    return {dotted(key): value for key, value in _flat({**stated, **own}) if not _is_about_reports(key)}


def case_digest(scenario: Scenario, text: str, overrides: Sequence[str], data_dirs: Sequence[Path] = ()) -> str:
    """SHA-256 of what a report is made from: scenario, overrides, profiles of it and of its comparisons, and traces.

    Args:
        scenario: the question.
        text: its file.
        overrides: changes of it.
        data_dirs: folders in which traces are looked for.

    Raises:
        InputError: a comparison or a trace that does not hold.
    """
    asked = [scenario, *map(scenario.compared, scenario.comparisons)]
    profiles = [profile for each in asked for profile in (*_hardware(each).values(), *_models(each).values())]
    return inputs_digest([text, *overrides], profiles, (d for each in asked for d in _data(each, data_dirs).items()))


def inputs_digest(texts: Iterable[str], profiles: Iterable[StrictModel], data: Iterable[object] = ()) -> str:
    """SHA-256 of texts, profiles and digests of data, and of every stack profile there is.

    Values that a profile leaves at their defaults are left out: a new key changes nothing for those without it.
    """
    stacks = map(stack_profile, profile_names("stack"))
    records = {r.model_dump_json(by_alias=True, exclude_defaults=True) for r in (*profiles, *stacks)}
    parts = [list(texts), sorted(records), sorted({repr(item) for item in data})]
    return sha256(json.dumps(parts).encode()).hexdigest()


def _is_about_reports(key: KeyPath) -> bool:
    """True if a key says where a price comes from, or what runs a report shows."""
    return (key[0] in PRICED and key[-1] == "basis") or key[:2] == ("execution", "report")


def _profiles(scenario: Scenario, plan: Plan) -> dict[str, Inputs]:
    """Every profile in use by kind and name, in a settled order."""
    kinds: tuple[tuple[str, Mapping[str, StrictModel]], ...] = (
        ("hardware", _hardware(scenario)),
        ("model", _models(scenario)),
        ("stack", _stacks(scenario, plan)),
    )
    return {f"{kind} {name}": _figures(found[name]) for kind, found in kinds for name in sorted(found)}


def _hardware(scenario: Scenario) -> dict[str, HardwareProfile]:
    return {profile.name: profile for profile in map(scenario.hardware_of, scenario.pools.values())}


def _models(scenario: Scenario) -> dict[str, ModelProfile]:
    return {profile.name: profile for profile in map(scenario.profile_of, (None, *scenario.models))}


def _stacks(scenario: Scenario, plan: Plan) -> dict[str, StackProfile]:
    """Stack profiles behind the software of a plan's pools, which is named with its version; own files come first."""
    running = {pool.stack for pool in plan.pools if pool.stack is not None}
    running |= {scenario.stacks[name].like for name in running if name in scenario.stacks}
    files = {str(path) for kind, _, path in brought(scenario) if kind == "stack"}
    known = {profile.name: profile for profile in map(stack_profile, sorted(files))}
    known = {name: stack_profile(name) for name in profile_names("stack") if name not in known} | known
    running |= {stack_profile(located(name, scenario.directory)).name for name in running if is_path(name)}
    return {
        name: profile
        for name, profile in known.items()
        if any(stack == name or stack.startswith(f"{name}-") for stack in running)
    }


def _figures(profile: StrictModel) -> Inputs:
    found = profile.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    flat = {dotted(key): value for key, value in _flat(found)}
    return {key: value for key, value in flat.items() if not key.startswith(PROVENANCE)}


def _data(scenario: Scenario, data_dirs: Sequence[Path]) -> dict[str, str]:
    traces = [load.trace.path for _, load in scenario.workloads.values() if load.trace is not None]
    return {name: _file_digest(trace_path(name, scenario.directory, data_dirs)) for name in dict.fromkeys(traces)}


def _flat(value: Any, key: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Leaves of nested tables with their keys; a sourced figure is its value, a table without keys is one."""
    if isinstance(value, Mapping):
        if "value" in value and "source" in value:
            yield key, value["value"]
            return
        items = {name: item for name, item in value.items() if not _is_for_readers(name, item, key)}
        if key and not items:
            yield key, {}
        for name, item in items.items():
            yield from _flat(item, (*key, name))
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for i, item in enumerate(value):
            yield from _flat(item, (*key, i))
    else:
        yield key, _leaf(value)


def _is_for_readers(name: str, item: Any, key: KeyPath) -> bool:
    """True if an item is text for readers; pools and the like, which may be called anything, are tables."""
    if name in READING:
        return not isinstance(item, Mapping) or name == "sources"
    return not key and name in IDENTITY


def _leaf(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    if len(value) <= LONGEST:
        return list(value)
    return f"{len(value):,} values, sha256 {sha256(json.dumps(value).encode()).hexdigest()[:DIGEST_CHARACTERS]}"


def _file_digest(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()[:DIGEST_CHARACTERS]
