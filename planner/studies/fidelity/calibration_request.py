"""The framework that a calibration is asked for, held against the points at hand, and its shipped profile."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from planner.errors import InputError, InputProblem
from planner.profiles import profile_names, stack_profile
from planner.profiles.points import ServingPoint
from planner.profiles.stack import HarnessSettings, StackSettings
from planner.roofline import Factors
from planner.roofline.stack import factors_of
from planner.studies.fidelity.cases import frameworks

NAMED = "--stack"


def wanted_framework(name: str, points: Sequence[ServingPoint]) -> str:
    """Framework of points that a name means, such as vllm, or vllm-0.19.0.

    Args:
        name: a framework of the points, alone or with a version.
        points: measured points.

    Raises:
        InputError: the points are of other frameworks.
    """
    found = frameworks(points)
    wanted = name.casefold()
    matching = [framework for framework in found if wanted == framework or wanted.startswith(f"{framework}-")]
    if not matching:
        raise InputError(InputProblem(NAMED, "", f"no point is of {name}", f"frameworks found: {', '.join(found)}"))
    return max(matching, key=len)


@dataclass(frozen=True)
class Conventions:
    """Ways in which benchmarks run a framework, and who says so of them and of its settings."""

    harnesses: Mapping[str, HarnessSettings] = field(default_factory=dict)
    settings_sources: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    """What those two cite."""


def shipped_conventions(framework: str, changed: Collection[str] = ()) -> Conventions:
    """Ways in which benchmarks run a framework, by the profile that is shipped of it.

    Args:
        framework: its name.
        changed: settings that are somebody's own, and not those of the profile.

    >>> sorted(shipped_conventions("sglang").harnesses)
    ['inferencex', 'prfaas']
    """
    if framework not in profile_names("stack"):
        return Conventions()
    profile = stack_profile(framework)
    settings = {key: source for key, source in profile.settings_sources.items() if key not in changed}
    cited = {run.source for run in profile.harnesses.values()} | {*settings.values()}
    sources = {name: text for name, text in profile.sources.items() if name in cited}
    return Conventions(profile.harnesses, settings, sources)


def shipped_settings(framework: str) -> StackSettings:
    """Settings of a framework, by the profile that is shipped of it; the defaults where there is none.

    >>> shipped_settings("trtllm").reserves_output
    True
    """
    return stack_profile(framework).settings if framework in profile_names("stack") else StackSettings()


def shipped_factors(framework: str) -> Factors | None:
    """Factors of the profile that is shipped of a framework; None where there is none.

    >>> shipped_factors("nobody") is None
    True
    """
    return factors_of(stack_profile(framework)) if framework in profile_names("stack") else None
