"""Assumptions of a scenario where nobody published a figure, and the values over which the decision is looked at."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from planner.errors import did_you_mean
from planner.profiles import Efficiencies, Figures, HardwareProfile, StackFactors, too_steep, zero_rates
from planner.ranges import NonNegative, Positive, Share, Title, Whole
from planner.schema import FieldError, StrictModel, raise_faults

OWN = "scenario"
"""Id under which a completed profile cites the scenario."""
VERDICT = "verdict"
"""What a break-even is about unless it names a comparison."""
WHOLE = ("n_sm", "scaleup_domain_accelerators", "accelerators_per_node", "release_year")
"""Figures that are counts."""


class Assumption(StrictModel):
    """A figure that a hardware profile lacks, chosen so that a plan can be made."""

    value: Positive
    """The figure, in the unit its key ends in."""
    source: Annotated[str, Field(min_length=1)]
    """Why this value and no other."""


class AssumedStack(StrictModel):
    """A software stack of the scenario: another one with some factors replaced, or fitted to points of its own."""

    like: str = "datasheet"
    """Stack that everything not stated here is taken from: datasheet, or a framework as `predict --stack` takes it."""
    factors: dict[str, NonNegative] = {}
    """Factors that differ, under the keys of stack profiles, such as kernel_latency_us."""
    chunk_tokens: Whole | None = None
    """Most tokens of one pass; absent: as `like`."""
    memory_fraction: Share | None = None
    """Part of an accelerator's memory that serving uses; absent: as `like`."""
    runtime_gb: NonNegative | None = None
    """Memory of one accelerator that the serving process itself takes; absent: as `like`."""
    points: tuple[str, ...] = ()
    """Files of measured points of the same software, such as results of a benchmark of your own server at three loads:
    factors are fitted to them, from those of `like` and those above."""
    rests_on: str = ""
    """What factors were fitted to, in words: notes on the plan say it."""
    source: Annotated[str, Field(min_length=1)]
    """Why these values and no others."""

    @property
    def settings(self) -> dict[str, float | int | None]:
        """Settings of the stack; None: as `like`."""
        return {
            "chunk_tokens": self.chunk_tokens,
            "memory_fraction": self.memory_fraction,
            "runtime_gb": self.runtime_gb,
        }

    @model_validator(mode="after")
    def _names_factors(self) -> Self:
        raise_faults(self._faults())
        return self

    def _faults(self) -> Iterator[FieldError]:
        known = StackFactors.model_fields
        for name in self.factors:
            if name not in known:
                yield FieldError(("factors", name), f"is no factor of a stack ({did_you_mean(name, known)})")
        for name, message in zero_rates(self.factors):
            yield FieldError(("factors", name), message)


class BreakEven(StrictModel):
    """An input that nobody knows well, and the span in which to look for the value that turns the decision."""

    key: Annotated[str, Field(min_length=1)]
    """Key of the scenario, as `--set` takes it; its value must be a number."""
    title: Annotated[Title, Field(min_length=1)]
    """The input in words, with its unit."""
    low: NonNegative
    """Least value looked at."""
    high: Positive
    """Greatest value looked at."""
    decides: str = VERDICT
    """"verdict": whether prefill elsewhere is worth it; or a comparison that the plan is held against by its bill, or
    by its highest rate where the fleet is given."""

    @model_validator(mode="after")
    def _spans_something(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}")
        return self


def completed(profile: HardwareProfile, assumed: Mapping[str, Assumption]) -> HardwareProfile:
    """A hardware profile with what it lacks taken from a scenario.

    Args:
        assumed: figures and efficiencies by key, such that `assumption_faults` finds nothing.

    Returns:
        The profile with those figures, each of basis "assumed".

    >>> from planner.profiles import hardware_profile
    >>> lpu = completed(hardware_profile("groq-lp30"), {"tdp_w": Assumption(value=400.0, source="a guess")})
    >>> lpu.tdp_w, lpu.figures.tdp_w.basis
    (400.0, 'assumed')
    """
    if not assumed:
        return profile
    data = profile.model_dump(by_alias=True, exclude_none=True)
    for key, item in assumed.items():
        table = "figures" if key in Figures.model_fields else "efficiency"
        value = int(item.value) if key in WHOLE else item.value
        data[table][key] = {"value": value, "source": OWN, "basis": "assumed", "note": item.source}
    data["sources"] = {**data["sources"], OWN: "assumed in the scenario"}
    return HardwareProfile.model_validate(data)


def assumption_faults(profile: HardwareProfile, assumed: Mapping[str, Assumption]) -> Iterator[tuple[str, str, str]]:
    """Faults of assumptions about an accelerator: key, what it is, what is allowed."""
    known = (*Figures.model_fields, *Efficiencies.model_fields)
    for key, item in assumed.items():
        if key not in known:
            yield key, "is no figure of an accelerator", did_you_mean(key, known)
            continue
        found = getattr(profile.figures, key, None) or getattr(profile.efficiency, key, None)
        if found is not None:
            what = f"is known: the profile of {profile.name} says {found.value:g} ({found.basis})"
            yield key, what, "only what a profile lacks may be assumed"
        elif key in WHOLE and item.value != int(item.value):
            yield key, f"is {item.value:g}", "a whole number"
        elif key.endswith("_fraction") and item.value > 1:
            yield key, f"is {item.value:g}", "a fraction of at most 1"
    figures = {key: figure.value for key, figure in profile.figures if figure is not None}
    for wider, key, what, allowed in too_steep(figures | {key: item.value for key, item in assumed.items()}):
        if key in assumed or wider in assumed:
            yield key if key in assumed else wider, what, allowed
