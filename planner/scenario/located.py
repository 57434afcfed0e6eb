"""Profiles that a scenario names, from its own folder, with what was measured of its model."""

import os
from pathlib import Path
from typing import Any

from planner.profiles import ModelProfile, model_profile
from planner.scenario.overrides import merged_tables


def with_profile_measurements(data: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The data with the default model's measured instances under its own of that model, which win key by key."""
    choice, own = data.get("model"), data.get("measured", {})
    name = choice.get("profile") if isinstance(choice, dict) else None
    if not isinstance(name, str) or not isinstance(own, dict):
        return data
    profile = model_profile(located(name, directory))
    theirs = {key: item.model_dump(exclude_none=True) for key, item in profile.measured.items()}
    further = {key for key, item in own.items() if isinstance(item, dict) and "model" in item}
    joined = {
        **merged_tables(theirs, {key: item for key, item in own.items() if key not in further}),
        **{key: own[key] for key in further},
    }
    # The scenario's own come first: of two measurements of one instance the first counts.
    return {**data, "measured": {name: joined[name] for name in (*own, *(n for n in joined if n not in own))}}


def with_experts_per_token(profile: ModelProfile, n: int) -> ModelProfile:
    """The profile with another number of experts per token; what was measured of it no longer holds."""
    moe = profile.architecture.moe
    if moe is None:
        return profile
    architecture = profile.architecture.model_copy(update={"moe": moe.model_copy(update={"n_experts_per_token": n})})
    return profile.model_copy(update={"architecture": architecture, "measured": {}})


def located(profile: str, directory: Path) -> str:
    """A profile path as seen from the scenario's folder, which need not be there yet; a name stays a name."""
    return os.path.normpath(directory / profile) if is_path(profile) else profile


def is_path(profile: str) -> bool:
    """True if a profile is given by path, and not by a name of the catalogue."""
    return profile.endswith(".toml")


def seen_from(directory: Path, profile: str) -> str:
    """A profile's name, or its path from the current folder as a scenario in another folder states it."""
    if not is_path(profile):
        return profile
    return Path(os.path.relpath(Path(profile).resolve(), directory.resolve())).as_posix()
