"""Software stacks by name: factors, settings, and the error bands of their calibration."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from planner.errors import InputError, InputProblem, did_you_mean
from planner.profiles import HardwareProfile, ModelProfile, StackProfile, profile_names, stack_profile
from planner.profiles.instance_spec import OwnStack, StackCriteria
from planner.profiles.stack import Calibration, HarnessSettings, StackSettings, WideSettings
from planner.roofline.expert_traffic import ExpertTraffic
from planner.roofline.factors import DATASHEET, PRIOR, Factors
from planner.roofline.formats import ProductFormats
from planner.roofline.layout import Layout
from planner.units import MICRO, MILLI

DATASHEET_NAME = "datasheet"
VERSION = re.compile(r"[A-Za-z0-9_.+-]+")
"""Of a framework, as a name may have it."""
QUANTIZED = ("fp8", "int8", "int4", "fp4")
SERVER = 8
"""Accelerators of a server where nobody says."""


@dataclass(frozen=True)
class RunAs:
    """Settings of a framework, and what public benchmarks set otherwise."""

    settings: StackSettings
    harnesses: Mapping[str, HarnessSettings] = field(default_factory=dict)
    """What benchmarks set, by their names."""

    def source(self, name: str | None) -> str | None:
        """Harness of points that name it, or else the usual one."""
        return name or self.settings.usual_harness

    def harness(self, name: str | None) -> HarnessSettings | None:
        """Settings of a benchmark, or of the usual one where none is named; None: it sets nothing."""
        return self.harnesses.get(self.source(name) or "")

    def request_s(self, name: str | None) -> float:
        """Time that a benchmark counts into TTFT of every request beyond the framework's own overhead [s]."""
        harness = self.harness(name)
        return 0.0 if harness is None else MILLI * (harness.request_ms or 0.0)

    def by(self, name: str | None) -> StackSettings:
        """Settings under a benchmark.

        >>> run = RunAs(StackSettings(), {"bench": HarnessSettings(source="scripts", quantized_kv=True)})
        >>> run.by("bench").quantized_kv, run.by(None).quantized_kv
        (True, False)
        """
        harness = self.harness(name)
        own = {} if harness is None else {key: getattr(harness, key) for key in ("memory_fraction", "quantized_kv")}
        return self.settings.model_copy(update={key: value for key, value in own.items() if value is not None})


@dataclass(frozen=True, eq=False)
class Stack:
    """A framework, ready to time passes with."""

    name: str
    """Framework, and the version that somebody named, as `--stack` takes them."""
    factors: Factors
    """Its factors."""
    settings: StackSettings
    """How it is run."""
    derated: bool = True
    """Whether the accelerator's measured kernel fractions apply; not for the bare datasheet."""
    calibration: Calibration | None = None
    """What the factors were fitted to."""
    harnesses: Mapping[str, HarnessSettings] = field(default_factory=dict)
    """How public benchmarks run it."""
    version: str = ""
    """Version that somebody named, which has the factors of the framework."""

    @property
    def run_as(self) -> RunAs:
        """Its settings, and what benchmarks set otherwise."""
        return RunAs(self.settings, self.harnesses)

    def with_settings(self, settings: Mapping[str, object]) -> "Stack":
        """The stack with some settings stated, for wide expert parallelism too.

        Args:
            settings: by the keys of stack profiles; None leaves the stack's.

        >>> stack("vllm").with_settings({"memory_fraction": 0.95, "most_running": None}).settings.memory_fraction
        0.95
        """
        stated = {key: value for key, value in settings.items() if value is not None}
        if self.settings.wide_ep is not None:
            own = {key: value for key, value in stated.items() if key in WideSettings.model_fields}
            stated["wide_ep"] = self.settings.wide_ep.model_copy(update=own)
        return replace(self, settings=self.settings.model_copy(update=stated))

    def on_layout(self, layout: Layout, hardware: HardwareProfile) -> StackSettings:
        """Settings that it is run with on an instance; see `settings_on`."""
        return settings_on(self.settings, layout, hardware)

    def formats(self, kv_precision: str) -> ProductFormats:
        """Number formats of products beside a cache in a format."""
        return product_formats(self.settings, kv_precision)

    def kv_precision(self, model: ModelProfile, precision: str | None) -> str:
        """Cache format where nothing is said of it: as the weights are quantised, if the stack does so."""
        weights = precision or model.precision
        return "fp8" if self.settings.quantized_kv and weights in QUANTIZED else "bf16"


def product_formats(settings: StackSettings, kv_precision: str) -> ProductFormats:
    """Number formats of products beside a cache in a format, where the weights' does not say."""
    is_fp8 = settings.quantized_attention and kv_precision == "fp8"
    return ProductFormats("fp8" if is_fp8 else "bf16", settings.weight_only_products or "bf16")


def settings_on(settings: StackSettings, layout: Layout, hardware: HardwareProfile) -> StackSettings:
    """Settings of an instance: those of wide expert parallelism where its experts are dealt out beyond a server.

    Args:
        settings: the stack's.
        layout: parallel sizes of the instance.
        hardware: its accelerators, and how many a server has.

    Returns:
        Settings whose chunk_tokens are those of one attention replica.

    >>> from planner.profiles import hardware_profile, stack_profile
    >>> usual, h100 = stack_profile("sglang").settings, hardware_profile("h100-sxm")
    >>> [settings_on(usual, Layout(dp_size=n, ep_size=n), h100).dispatch_precision for n in (8, 16)]
    [None, 'fp8']
    """
    tokens = shared_tokens(settings.chunk_tokens, settings, layout)
    shared = settings if tokens == settings.chunk_tokens else settings.model_copy(update={"chunk_tokens": tokens})
    server = hardware.n_accelerators_per_node or SERVER
    if settings.wide_ep is None or not layout.deals_out_experts or layout.stage_size <= server:
        return shared
    return shared.model_copy(update=settings.wide_ep.model_dump(exclude_none=True))


def shared_tokens(tokens: int, settings: StackSettings, layout: Layout) -> int:
    """Tokens of a pass on one attention replica, of those that the stack is told.

    >>> shared_tokens(8192, StackSettings(divides_pass=True), Layout(dp_size=8))
    1024
    """
    return max(tokens // layout.dp_size, 1) if settings.divides_pass else tokens


def expert_traffic(settings: StackSettings) -> ExpertTraffic:
    """Settings of a stack for experts that are dealt out."""
    return ExpertTraffic(
        settings.dispatch_precision or "bf16",
        settings.combine_precision or "bf16",
        settings.overlap_efficiency or 0.0,
        settings.expert_imbalance or 1.0,
        settings.redundant_experts or 0,
        settings.grouped_experts or False,
    )


UNITS = {"_us": MICRO, "_ms": MILLI}


def factors_of(profile: StackProfile) -> Factors:
    """Factors of a stack profile in SI units; what it does not state is as expected of any framework."""
    return replace(PRIOR, **_si({name: factor.value for name, factor in profile.factors.stated.items()}))


def _si(values: Mapping[str, float]) -> dict[str, float]:
    """Factors under the keys of profiles as the roofline calls them, in SI units."""
    found: dict[str, float] = {}
    for name, value in values.items():
        stem, suffix = (name[:-3], name[-3:]) if name[-3:] in UNITS else (name, "")
        found[f"{stem}_s" if suffix else stem] = value * UNITS.get(suffix, 1.0)
    return found


def altered(base: Stack, name: str, factors: Mapping[str, float], settings: Mapping[str, float | int | None]) -> Stack:
    """A stack with some factors and settings replaced; it was fitted to nothing.

    Args:
        base: what everything else is taken from.
        name: what answers call it.
        factors: by the keys of stack profiles, in their units.
        settings: by the keys of stack profiles; None leaves the base's.

    Returns:
        The stack. Kernels reach the accelerator's own fractions of its peaks, unless nothing differs from the bare
        datasheet.

    >>> own = altered(stack("datasheet"), "own", {"kernel_latency_us": 0.5}, {"runtime_gb": 0.02})
    >>> own.factors.kernel_latency_s, own.settings.runtime_gb, own.derated
    (5e-07, 0.02, True)
    """
    return Stack(
        name,
        replace(base.factors, **_si(factors)),
        base.with_settings(settings).settings,
        derated=base.derated or bool(factors),
    )


def stack(name: str) -> Stack:
    """The stack of a name: datasheet, a framework, a framework and a version of it, or a path to a profile.

    A version has the factors of its framework: those of one are no closer to what was measured of it on models and
    accelerators that no fit has seen.

    Args:
        name: such as vllm, vllm-0.18, sglang-0.5.9 or datasheet.

    Returns:
        The stack.

    Raises:
        InputError: no such framework.

    >>> stack("datasheet").factors.kernel_latency_s, stack("vllm-0.18").name
    (0.0, 'vllm-0.18')
    """
    if name.casefold() == DATASHEET_NAME:
        return Stack(DATASHEET_NAME, DATASHEET, StackSettings(), derated=False)
    if name.endswith(".toml"):
        return stack_of_profile(stack_profile(name))
    frameworks = profile_names("stack")
    for framework in sorted(frameworks, key=len, reverse=True):
        if name.casefold() == framework or name.casefold().startswith(f"{framework}-"):
            version = name[len(framework) + 1 :]
            if version and not VERSION.fullmatch(version):
                raise InputError(InputProblem("stack", "", f"{name!r} names no version", "letters, digits and . _ + -"))
            found = stack_of_profile(stack_profile(framework))
            return replace(found, name=f"{framework}-{version}", version=version) if version else found
    hint = did_you_mean(name, (*frameworks, DATASHEET_NAME))
    raise InputError(InputProblem("stack", "", f"{name!r} is no known framework", hint))


def stack_of_profile(profile: StackProfile) -> Stack:
    """A profile, ready to time passes with; its name is one by which `stack` finds the same."""
    return Stack(profile.name, factors_of(profile), profile.settings, True, profile.calibration, profile.harnesses)


def best_stack(model: str, *hardware: str) -> Stack:
    """The stack calibrated best for a model on an accelerator, or on several that are to run the same software.

    On one accelerator, those that measured both come first, by their error there; then those that measured the
    accelerator, then the model, then any: of these the ones that know TTFT and TPOT both, by their error on models held
    out. On several, the accelerator that a stack knows least decides, then the next; then the mean of the errors.

    Args:
        model: name of a model profile.
        hardware: names of hardware profiles, in any order.

    Returns:
        The stack.

    Raises:
        InputError: no stack profile is shipped.

    >>> best_stack("qwen3-235b", "h20-141gb", "h200-sxm").name == best_stack("qwen3-235b", "h200-sxm", "h20-141gb").name
    True
    """
    profiles = [stack_profile(name) for name in profile_names("stack")]
    if not profiles:
        raise InputError(InputProblem("stack", "", "no stack profile is installed", "or --stack datasheet"))
    return stack_of_profile(min(profiles, key=lambda profile: _distance(profile, model, hardware)))


def chosen_stack(asked: StackCriteria, own: Mapping[str, OwnStack]) -> Stack:
    """The stack that is stated; else the one that others were measured under; else the one calibrated best for all.

    Args:
        own: stacks that a scenario brings, by name; they come before the shipped ones.

    Returns:
        The stack. Measurements decide where they name one stack and it is known.

    Raises:
        InputError: no such framework.
    """
    if asked.stated is not None:
        return _own_or_shipped(asked.stated, own)
    if len(asked.ran_under) == 1 and (known := _known(asked.ran_under[0])) is not None:
        return known
    return best_stack(asked.model, *asked.hardware)


def _own_or_shipped(name: str, own: Mapping[str, OwnStack]) -> Stack:
    found = own.get(name)
    if found is None:
        return stack(name)
    if found.points:
        allowed = "factors, as `planner optimize` fits them to the points before it plans"
        raise InputError(InputProblem(f"stacks.{name}", "points", "are not fitted yet", allowed))
    return altered(stack(found.like), name, found.factors, found.settings)


def _known(name: str) -> Stack | None:
    """The stack of a name that somebody wrote beside a measurement; None where it is none of ours."""
    try:
        return stack(name)
    except InputError:
        return None


def _distance(profile: StackProfile, model: str, hardware: Collection[str]) -> tuple[tuple[int, ...], int, float, str]:
    """Distance of a stack's points from a model on some accelerators: what they know least first, then errors."""
    found = [_evidence(profile, model, name) for name in hardware]
    ranks = tuple(sorted((rank for rank, _, _ in found), reverse=True))
    error = sum(error for _, _, error in found) / max(len(found), 1)
    return ranks, sum(lack for _, lack, _ in found), error, profile.name


def _evidence(profile: StackProfile, model: str, hardware: str) -> tuple[int, int, float]:
    """Evidence of a stack's points for a model on an accelerator: how far they are, what they lack, and their error."""
    found = profile.calibration
    if found is None:
        return 4, 0, 0.0
    for group in found.groups:
        if (group.model, group.hardware) == (model, hardware):
            errors = [error for error in (group.ttft_mean_abs, group.tpot_mean_abs) if error is not None]
            return 0, 0, sum(errors) / len(errors)
    held_out = found.held_out_models or found.in_sample
    overall = [summary.mean_abs for summary in (held_out.ttft, held_out.tpot) if summary is not None]
    rank = 1 if hardware in found.hardware else 2 if model in found.models else 3
    return rank, -len(overall), sum(overall) / max(len(overall), 1)
