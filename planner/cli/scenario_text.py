"""The text of a new scenario: what its options say, what a trace tells, rents that are known, and what is chosen."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from planner.cli.common import data_dirs
from planner.cli.observed_text import observed_facts, observed_notes, planned_req_per_s, request_lengths
from planner.cli.trace_options import read_notes, trace_keys
from planner.errors import InputError, InputProblem, UsageError
from planner.notes import Note, note
from planner.profiles import HardwareProfile, ModelProfile, hardware_profile, missing_shapes, model_profile
from planner.roofline.layouts import largest_instance
from planner.scenario import is_path, seen_from
from planner.studies.instance_size import RequestLengths, accelerators_per_instance
from planner.workload.observed import Observed, observed
from planner.workload.observed.request_table import parsed_columns
from planner.workload.requests import trace_path
from planner.workload.spec import MOST_SQUARED_CV
from planner.workload.trace_arrivals import Dispersion, dispersion, limit_notes, rate_req_per_s, squared_cv
from planner.workload.traces import AS_FOUND, Trace, TraceReading, trace_read


class Rent(NamedTuple):
    """Rent of an accelerator, as a scenario states it."""

    usd_per_accelerator_hour: str
    basis: str
    source: str


PRICES = {
    "h200-sxm": Rent("2.50", "quoted", "low end of cloud offers, May 2026"),
    "h20-141gb": Rent("1.25", "assumed", "half an H200"),
}
UNPRICED = Rent("1.00", "assumed", "not known: at 1 USD each the bill counts accelerators")


def rent_of(hardware: str, stated: str | None) -> Rent:
    """Rent of an accelerator; `UNPRICED` where nothing is known of it.

    Args:
        hardware: name of its profile; empty of a file of one's own, whose name may be that of another accelerator.
        stated: what `--price` says of it; None: nothing.

    >>> rent_of("h200-sxm", None).usd_per_accelerator_hour, rent_of("l40s", "0.9").usd_per_accelerator_hour
    ('2.50', '0.9')
    >>> rent_of("l40s", None) is UNPRICED
    True
    """
    if stated is not None:
        return Rent(stated, "assumed", "as stated by --price")
    return PRICES.get(hardware, UNPRICED)


COMMAND = "planner scenario new"
TWO_SITES = ("prfaas-1t", "h20-141gb")
"""Model and local accelerators of a scenario about which nothing is said,"""
ONE_SITE = ("llama-3.1-70b", "h100-sxm")
"""the same with one site,"""
REMOTE = "h200-sxm"
"""and the accelerators of its remote site."""
MEASURED_PRECISION = {"prfaas-1t": "fp8"}
"""Number formats in which models were measured whose checkpoint has another."""
INVENTORY, REMOTE_INVENTORY = 64, 32
"""Accelerators at the local and the remote site where no demand sizes them."""
A_DEMAND = 1.0
"""Rate of one site about which nothing is said [req/s]."""
P90_SIGMAS = 1.2816
"""Standard deviations from the median of a normal distribution to its P90."""


@dataclass(frozen=True)
class LogNormal:
    """Prompts of a scenario about which nothing is said."""

    mu: float
    low: int
    high: int
    output: int

    @property
    def lengths(self) -> RequestLengths:
        """Mean, P90 and longest prompt with a sigma of 1, cut off where they end."""
        return RequestLengths(
            min(exp(self.mu + 0.5), self.high), min(exp(self.mu + P90_SIGMAS), self.high), self.high, self.output
        )


DOCUMENTS, CHAT = LogNormal(9.9, 128, 131072, 1024), LogNormal(7.0, 16, 32768, 256)


@dataclass(frozen=True)
class Wanted:
    """Options that the command was given, by their names."""

    path: Path
    trace: Path | None = None
    columns: str | None = None
    reading: TraceReading = AS_FOUND
    one_site: bool = False
    model: str | None = None
    hardware: str | None = None
    remote_hardware: str | None = None
    precision: str | None = None
    demand: float | None = None
    slo_ttft: float | None = None
    percentile: float | None = None
    slo_tpot_ms: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    accelerators: int | None = None
    per_instance: int | None = None
    price: float | None = None

    def check(self) -> None:
        """Raises UsageError where options contradict each other."""
        if self.one_site and self.remote_hardware is not None:
            raise UsageError("--remote-hardware: is about a second site, and --one-site has none")
        if self.percentile is not None and self.slo_ttft is None:
            raise UsageError("--percentile: is about --slo-ttft, which is not given")
        if self.columns is not None and self.trace is None:
            raise UsageError("--columns: is about --from, which is not given")
        for option, value in (("--input", self.input_tokens), ("--output", self.output_tokens)):
            if value is not None and self.trace is not None:
                raise UsageError(f"{option}: a trace brings its own lengths (this, or --from)")


@dataclass
class _Draft:
    """A scenario in the making, and what its reader should hear of."""

    wanted: Wanted
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        wanted = self.wanted
        names = ONE_SITE if wanted.one_site else TWO_SITES
        self.model = wanted.model or names[0]
        self.profile: ModelProfile = _profile_of(model_profile, self.model, "--model")
        self.precision = wanted.precision or MEASURED_PRECISION.get(self.profile.name)
        self.local = wanted.hardware or names[1]
        self.seen: Observed | None = None
        self.trace: tuple[Path, Trace] | None = None
        if wanted.trace is not None:
            self.seen, self.trace = _read(wanted.trace, wanted.columns, wanted.reading)
        self.unstated = CHAT if wanted.one_site else DOCUMENTS

    def text(self) -> str:
        demand, why = self._demand()
        if demand and not self.wanted.slo_ttft:
            self.notes.append(
                note("no-promise", "no --slo-ttft: the cheapest fleet may be nearly saturated, with long waits")
            )
        prices = [self._price(self.local, "--hardware")]
        remote = None
        if not self.wanted.one_site:
            other = self.wanted.remote_hardware or REMOTE
            remote = {**self._chip(other, "--remote-hardware"), "inventory": None if demand else REMOTE_INVENTORY}
            prices += [price for price in [self._price(other, "--remote-hardware")] if price["key"] != prices[0]["key"]]
        facts = {
            "name": short_name(self.wanted.path),
            "file": shlex.quote(self.wanted.path.name),
            "objective": "min-cost" if demand else "max-throughput",
            "demand": demand and _figure(demand),
            "demand_note": why,
            "model": json.dumps(self._name_from(self.model)),
            "precision": self.precision,
            "is_measured": bool(self.profile.measured),
            "slo": self._slo(),
            "trace": self.trace and self._trace_facts(*self.trace),
            "seen": self.seen and self._seen_facts(self.seen),
            "constant": self._constant(),
            "lognormal": self.unstated,
            "local": self._chip(self.local, "--hardware"),
            "remote": remote,
            "inventory": self.wanted.accelerators or (None if demand else INVENTORY),
            "prices": prices,
        }
        return _rendered("one-site.toml.jinja" if self.wanted.one_site else "scenario.toml.jinja", facts)

    def _demand(self) -> tuple[float | None, str]:
        """Rate to serve, and where it comes from: as stated, as recorded, or of one site without any limit."""
        recorded, why = None, "as recorded: one over the mean gap between arrivals"
        if self.seen is not None:
            recorded, why = planned_req_per_s(self.seen)
        elif self.trace is not None:
            recorded = rate_req_per_s(self.trace[1].arrival_s)
        if self.wanted.demand is not None:
            return self.wanted.demand, ""
        if recorded is not None:
            return recorded, why
        if self.wanted.one_site and self.wanted.accelerators is None:
            self.notes.append(note("demand-to-edit", f"no --demand: {A_DEMAND:g} req/s is written, to be edited"))
            return A_DEMAND, "not stated: edit it"
        return None, ""

    def _slo(self) -> dict[str, str | float | None] | None:
        stated = {"ttft_s": self.wanted.slo_ttft, "tpot_ms": self.wanted.slo_tpot_ms}
        known = {key: value and _figure(value) for key, value in stated.items()}
        return {**known, "percentile": _figure(self.wanted.percentile or 90.0)} if any(known.values()) else None

    def _constant(self) -> dict[str, str] | None:
        """Lengths where either is stated; the other is that of the requests nothing is said of."""
        wanted, mean = self.wanted, round(self.unstated.lengths.mean)
        if wanted.input_tokens is None and wanted.output_tokens is None:
            return None
        return {
            "input": _figure(wanted.input_tokens or mean),
            "output": _figure(wanted.output_tokens or self.unstated.output),
        }

    def _lengths(self) -> RequestLengths:
        if self.seen is not None:
            return request_lengths(self.seen)
        if self.trace is not None:
            tokens, output = self.trace[1].total_tokens, self.trace[1].output_tokens
            p90 = float(np.percentile(tokens, 90))
            return RequestLengths(float(tokens.mean()), p90, float(tokens.max()), float(output.mean()))
        if (constant := self._constant()) is not None:
            n = float(constant["input"])
            return RequestLengths(n, n, n, float(constant["output"]))
        return self.unstated.lengths

    def _chip(self, name: str, option: str) -> dict[str, Any]:
        """Accelerators of a site and how many of them make an instance; not how many where the planner may choose.

        Where nobody measured them and the roofline can, passes with prompts and decoding sequences are timed too.
        """
        chip: HardwareProfile = _profile_of(hardware_profile, name, option)
        n, why, is_open = self.wanted.per_instance, "as stated", False
        is_measured = any(one.hardware in (chip.name, *chip.aliases) for one in self.profile.measured.values())
        is_timed = not is_measured and not missing_shapes(self.profile.architecture)
        if n is None:
            wanted = self.wanted
            n = accelerators_per_instance(self.model, name, self.precision, self._lengths(), wanted.slo_ttft)
            why = "as measured" if is_measured else "holds the model and its requests; more make prefill faster"
            is_open = is_timed and n <= largest_instance(chip)
        seen = {"key": _toml_key(self._name_from(name)), "toml": json.dumps(self._name_from(name))}
        return {"name": chip.name, **seen, "n_accelerators": n, "why": why, "is_open": is_open, "is_timed": is_timed}

    def _price(self, name: str, option: str) -> dict[str, str]:
        chip: HardwareProfile = _profile_of(hardware_profile, name, option)
        is_stated = option == "--hardware" and self.wanted.price is not None
        rent = rent_of("" if is_path(name) else chip.name, _figure(self.wanted.price or 0.0) if is_stated else None)
        if rent is UNPRICED:
            low, high = chip.rent_low_usd_per_hour, chip.rent_high_usd_per_hour
            rents = (
                f" (its profile has rents of {low:g} to {high:g} USD an hour: --price chooses)" if low and high else ""
            )
            said = f"no price of {chip.name} is stated{rents}: 1 USD an hour is written, so that cost counts them"
            self.notes.append(note("price-to-edit", said))
        usd, basis, source = rent
        return {"key": _toml_key(self._name_from(name)), "usd": usd, "basis": basis, "source": source}

    def _name_from(self, profile: str) -> str:
        """A profile's name, or its path as the scenario's folder sees it."""
        return seen_from(self.wanted.path.resolve().parent, profile)

    def _seen_facts(self, seen: Observed) -> dict[str, Any]:
        """Observations, as the workload states them."""
        self.notes += [*observed_notes(seen), *limit_notes(seen.dispersion)]
        name = "" if self.wanted.trace is None else self.wanted.trace.name
        return {**observed_facts(seen, name), "squared_cv": None, **(_burst(seen.dispersion) or {})}

    def _trace_facts(self, path: Path, trace: Trace) -> dict[str, Any]:
        """Facts that a first read of a trace tells: lengths, rate, and how bursty it is."""
        self.notes += read_notes(trace)
        rate, found = rate_req_per_s(trace.arrival_s), dispersion(trace.arrival_s)
        self.notes += limit_notes(found)
        keys = trace_keys(_from_folder(self.wanted.path, path), trace, self.wanted.reading)
        return {
            "table": ", ".join(f"{key} = {json.dumps(value)}" for key, value in keys.items()),
            "n_requests": trace.n_requests,
            "mean_tokens": round(float(trace.total_tokens.mean())),
            "req_per_s": rate and _figure(rate),
            "has_blocks": trace.blocks is not None,
            "dispersion": None,
            **(_burst(found) or {}),
        }


def short_name(path: Path) -> str:
    """A file's name as scenarios may be called: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", path.name.removesuffix(".toml").lower()).strip("-")


def scenario_text(wanted: Wanted) -> tuple[str, list[Note]]:
    """The scenario that was asked for, and notes on what was chosen.

    Raises:
        UsageError: options contradict each other.
        InputError: a profile or the trace is not there, or the trace is broken.
    """
    wanted.check()
    draft = _Draft(wanted)
    return draft.text(), draft.notes


def _profile_of(find: Any, name: str, option: str) -> Any:
    """A profile; one that is not there is told as the option's fault."""
    try:
        return find(name)
    except InputError as error:
        raise InputError(list(_of_option(error, name, option))) from None


def _of_option(error: InputError, name: str, option: str) -> Iterator[InputProblem]:
    for problem in error.problems:
        is_inside = problem.key or problem.line
        yield problem if is_inside else InputProblem(COMMAND, option, f"{name!r} {problem.message}", problem.allowed)


def _burst(found: Dispersion | None) -> dict[str, Any] | None:
    """Burstiness of arrivals, and what gaps can state of it."""
    if found is None:
        return None
    return {
        "dispersion": _figure(found.value, 3),
        "squared_cv": _figure(squared_cv(found), 3),
        "most_squared_cv": _figure(MOST_SQUARED_CV) if found.value > MOST_SQUARED_CV else None,
        "window_s": _figure(found.window_s, 3),
        "n_windows": found.n_windows,
    }


def _read(file: Path, columns: str | None, reading: TraceReading) -> tuple[Observed | None, tuple[Path, Trace] | None]:
    """Demand that a file tells of, or the trace that it is."""
    named = None if columns is None else parsed_columns(columns)
    path = file if file.exists() else trace_path(str(file), Path.cwd(), data_dirs())
    seen = observed(path, named, reading)
    return seen, None if seen is not None else (path, trace_read(path, reading))


def _from_folder(scenario: Path, other: Path) -> str:
    return Path(os.path.relpath(other.resolve(), scenario.resolve().parent)).as_posix()


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _figure(value: float, digits: int = 6) -> str:
    """A number as TOML writes it."""
    return f"{value:.{digits}g}"


def _rendered(template: str, facts: dict[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("planner.cli", "templates")
    environment = Environment(
        loader=loader, undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, autoescape=False
    )
    return environment.get_template(template).render(facts)
