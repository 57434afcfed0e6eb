"""What is asked of a size, and the requests that it means."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path

import numpy as np

from planner.errors import InputError, Problem, did_you_mean
from planner.notes import Note, note
from planner.profiles import (
    HardwareProfile,
    Kind,
    ModelProfile,
    Speculation,
    hardware_profile,
    missing_shapes,
    model_profile,
    namesake_note,
)
from planner.roofline import RequestKinds, Stack, best_stack, stack, strata
from planner.roofline.chip import FORMATS
from planner.scenario import Price
from planner.scenario.usual import OPTIONS, unusual, usual_rent
from planner.studies.drafts import NO_DRAFTS, AskedDrafts
from planner.units import MILLI, number, rounded
from planner.workload import RequestMix, Trace, Workload
from planner.workload.requests import recorded_trace, request_mix
from planner.workload.trace_arrivals import dispersion, limit_notes, rate_req_per_s

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
    unpriced: tuple[str, ...] = ()
    """Accelerators whose price stands for one that nobody knows."""
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
        found: dict[str, HardwareProfile] = {}
        for stated in self.hardware:
            chip = hardware_profile(stated)
            if found.setdefault(chip.name, chip) != chip:
                what = f"{stated} and {self.reference_of(found[chip.name])} are two profiles of the name {chip.name}"
                raise InputError(Problem(COMMAND, "HARDWARE", what, "names of their own"))
        return tuple(found.values())

    def reference_of(self, chip: HardwareProfile) -> str:
        """Name or path by which an accelerator was asked for."""
        return next(stated for stated in self.hardware if hardware_profile(stated).name == chip.name)

    def unusual_values(self) -> Iterator[Note]:
        """Options that were probably meant in another unit. Raises InputError."""
        values: list[tuple[str, float | None]] = [
            ("--rate", self.rate_req_per_s),
            ("--ttft-ms", self.ttft_s and self.ttft_s / MILLI),
            ("--tpot-ms", self.tpot_s and self.tpot_s / MILLI),
            ("--percentile", self.percentile),
        ]
        if self.workload.trace is None:
            values += [("--input", self.requests.mean_tokens), ("--output", self.requests.output_tokens)]
        for option, value in values:
            if value is not None:
                yield from unusual(option, rounded(value, 6), OPTIONS[option])
        for chip in self.chips:
            usd = self.prices[chip.name].hourly_usd
            yield from unusual("--price", rounded(usd, 6), usual_rent(chip.rent_high_usd_per_hour))

    def price_notes(self) -> Iterator[Note]:
        """What cost means where no price is known. Raises InputError."""
        known = [chip.name for chip in self.chips if chip.name not in self.unpriced]
        if not self.unpriced:
            return
        text = f"no price of {', '.join(self.unpriced)} is known: 1 USD an hour stands for it"
        mixed = f"; beside the price of {', '.join(known)} it does not tell which accelerator is cheaper: state --price"
        yield note("price-unknown", text + (mixed if known else ", so that cost counts accelerators"))

    def arrival_notes(self) -> Iterator[Note]:
        """How a trace's requests arrive in the runs, and that predictions are of others. Raises InputError."""
        if self.recorded is None:
            return
        found = dispersion(self.recorded.arrival_s)
        known = "" if found is None else f" (variance over mean in windows of {number(found.window_s)} s: "
        known += "" if found is None else f"{number(found.value)}; of independent users: 1)"
        yield note(
            "bursts-in-runs-alone",
            f"runs take the trace's own arrivals{known}; what is predicted of a colocated pool is of independent users",
        )
        yield from limit_notes(found)

    def profile_notes(self) -> Iterator[Note]:
        """Profiles given by path that have names of the catalogue. Raises InputError."""
        asked: list[tuple[str | None, Kind]] = [(self.model, "model"), *((name, "hardware") for name in self.hardware)]
        for name, kind in (*asked, (self.stack, "stack"), (self.drafts.draft_model, "model")):
            if name is not None:
                yield from namesake_note(name, kind)

    def software(self, *chips: HardwareProfile) -> Stack:
        """The stack of a fleet: the one asked for, else the one that a scenario of such pools has by default.

        It depends on the fleet's own accelerators alone, and not on others to choose from.

        Args:
            chips: accelerators of the fleet.

        Raises:
            InputError: no such framework.
        """
        model = self.profile.name
        if self.stack is not None:
            return stack(self.stack).on(model)
        return best_stack(model, *dict.fromkeys(chip.name for chip in chips)).on(model)

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
        found = self.trace
        return 0.0 if found is None else float(np.mean(np.square(found.output_tokens.astype(float))))

    @cached_property
    def trace(self) -> Trace | None:
        """The recorded requests that it is about; None where lengths are stated. Raises InputError."""
        if self.workload.trace is None:
            return None
        return recorded_trace(self.workload.trace, self.directory, self.data_dirs)

    @property
    def recorded(self) -> Trace | None:
        """The trace whose times runs follow; None where independent users are asked for, or it is of one moment."""
        found = self.trace
        return None if found is None or rate_req_per_s(found.arrival_s) is None else found

    @property
    def promises_something(self) -> bool:
        """Whether there is anything that a run could keep or break."""
        return self.ttft_s is not None or self.tpot_s is not None

    def usd_per_hour(self, chip: HardwareProfile) -> float:
        """Rent of one accelerator."""
        return self.prices[chip.name].hourly_usd
