"""What is asked of a size, and the requests that it means."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path

import numpy as np

from planner.errors import InputError, Problem, did_you_mean
from planner.profiles import HardwareProfile, ModelProfile, Speculation, hardware_profile, missing_shapes, model_profile
from planner.roofline import RequestKinds, Stack, best_stack, stack, strata
from planner.roofline.chip import FORMATS
from planner.scenario import Price
from planner.studies.drafts import NO_DRAFTS, AskedDrafts
from planner.workload import RequestMix, Workload
from planner.workload.requests import recorded_trace, request_mix

COMMAND = "planner size"
MOST_RATE = 1e6
N_KINDS = 256
"""Prompt lengths that stand for all."""


@dataclass(frozen=True)
class SizeQuestion:
    """A model, accelerators to choose from, a demand and promises."""

    model: str
    hardware: tuple[str, ...]
    rate_req_per_s: float
    workload: Workload
    prices: Mapping[str, Price]
    """By the name of the accelerator's profile."""
    directory: Path = Path()
    """Folder that a trace's path starts from."""
    ttft_s: float | None = None
    tpot_s: float | None = None
    percentile: float = 90.0
    """Of the requests that promises are kept for."""
    precision: str | None = None
    kv_precision: str = "bf16"
    stack: str | None = None
    drafts: AskedDrafts = NO_DRAFTS
    """Tokens that are drafted in every decode step."""
    data_dirs: Sequence[Path] = field(default=())

    def problems(self) -> Iterator[Problem]:
        """Everything that cannot be asked."""
        positive = (
            ("--rate", self.rate_req_per_s, MOST_RATE, "requests per second"),
            ("--ttft-ms", self.ttft_s, 1e6, "milliseconds"),
            ("--tpot-ms", self.tpot_s, 1e6, "milliseconds"),
        )
        for option, value, most, unit in positive:
            if value is not None and not (isfinite(value) and 0 < value <= most):
                yield Problem(COMMAND, option, f"is {value:g}", f"{unit} above 0, and not beyond any use")
        if not 0 < self.percentile < 100:
            yield Problem(COMMAND, "--percentile", f"is {self.percentile:g}", "between 0 and 100")
        for option, name in (("--precision", self.precision), ("--kv-precision", self.kv_precision)):
            if name is not None and name not in FORMATS:
                yield Problem(COMMAND, option, f"{name!r} is no number format", did_you_mean(name, FORMATS))
        yield from self.drafts.problems(COMMAND)
        if not self.hardware:
            yield Problem(COMMAND, "HARDWARE", "is empty", "names of hardware profiles with commas")

    @cached_property
    def profile(self) -> ModelProfile:
        """The model. Raises InputError."""
        found = model_profile(self.model)
        if missing := missing_shapes(found.architecture):
            what = f"lacks {', '.join(missing)}, which passes are timed from"
            raise InputError(Problem(COMMAND, "MODEL", f"{found.name} {what}", "a model whose shapes are published"))
        return found

    @cached_property
    def chips(self) -> tuple[HardwareProfile, ...]:
        """The accelerators, each once. Raises InputError."""
        found = [hardware_profile(name) for name in self.hardware]
        return tuple({chip.name: chip for chip in found}.values())

    @cached_property
    def software(self) -> Stack:
        """One stack for all. Raises InputError."""
        if self.stack is not None:
            return stack(self.stack)
        return best_stack(self.profile.name, *(chip.name for chip in self.chips))

    @cached_property
    def speculation(self) -> Speculation | None:
        """What drafts; None: nothing does. Raises InputError."""
        return self.drafts.speculation

    @cached_property
    def requests(self) -> RequestKinds:
        """The requests. Raises InputError."""
        mix = self._mix
        atoms, outputs = mix.atoms(N_KINDS), mix.outputs
        tokens, weights = strata(atoms.total_tokens, atoms.weights, N_KINDS)
        mean = mix.mean_output_tokens
        square = self._recorded_square() if outputs is None else float(outputs.tokens**2 @ outputs.weights)
        return RequestKinds(tokens, weights, mean, max(square, mean**2))

    @cached_property
    def longest_tokens(self) -> float:
        """The longest prompt. Raises InputError."""
        return float(self._mix.longest_tokens())

    @cached_property
    def _mix(self) -> RequestMix:
        return request_mix(self.workload, self.directory, self.data_dirs)

    def _recorded_square(self) -> float:
        """Mean square of a trace's answers; 0 without a trace."""
        if self.workload.trace is None:
            return 0.0
        trace = recorded_trace(self.workload.trace, self.directory, self.data_dirs)
        return float(np.mean(np.square(trace.output_tokens.astype(float))))

    def usd_per_hour(self, chip: HardwareProfile) -> float:
        """Rent of one accelerator."""
        return self.prices[chip.name].hourly_usd
