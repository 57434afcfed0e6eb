"""Results of a live run on this machine: predicted, executed and measured side by side."""

from collections.abc import Iterator
from math import isclose
from typing import Any, Literal, Self

from pydantic import model_validator

from planner.ranges import Counted, Quantity, Seed, Signed
from planner.schema import FieldError, StrictModel, raise_faults

ROUNDING = 1e-6
"""Digits that a file may have lost."""
TORCH_ONLY = ("torch", "device", "device_memory_bytes")
"""Of a machine: stated where torch computed, and left out of the answer where NumPy did."""


class LiveMachine(StrictModel):
    """The machine, and how much of it the run had."""

    processor: str
    system: str
    python: str
    numpy: str
    n_cores: Counted
    """Cores that could be used."""
    memory_bytes: Counted
    """Physical memory [B]."""
    torch: str | None = None
    """Version of torch, where it computed; None: NumPy did."""
    device: str | None = None
    """Device that torch computed on, shared by the workers; None: the cores did."""
    device_memory_bytes: Counted | None = None
    """Memory of that device [B]."""
    workers: dict[str, Counted | None]
    """Core of each worker; None where it was not pinned."""
    gemm_flop_per_s: dict[str, Quantity]
    """fp32 products of one core by rows, all workers busy [FLOP/s]."""
    memory_bytes_per_s: Quantity
    """Memory bandwidth of one core, all workers busy [B/s]."""
    call_s: Quantity
    """One call of NumPy or torch on one value [s]."""
    loopback_bytes_per_s: Quantity
    """TCP over 127.0.0.1 [B/s]."""
    busy_before_fraction: Quantity
    """Share of the time that workers had their cores for while they were measured without a pause; the rest went to
    other programs."""
    stretch: Quantity | None = None
    """Seconds on the wall of prefills with pauses between them, just before the run, over busy seconds of the same
    without: latencies under load are predicted for a machine as busy as that."""
    busy_fraction: Quantity | None
    """The same while the served model was timed and prefilled what was served."""
    steal_before_fraction: Quantity | None = None
    """Share of the time of the cores that the hypervisor gave to others while they were measured; None where the system
    does not tell."""
    steal_fraction: Quantity | None = None
    """The same while requests were served."""
    load_average: Quantity | None = None
    """Processes that wanted a core in the minute before the start, this program's none among them."""


class LiveCheck(StrictModel):
    """One metric."""

    metric: str
    """Name, with what it was asked at."""
    unit: str
    """s, B, req/s or a fraction."""
    predicted: Quantity | None
    """By roofline and queueing, before the run."""
    executed: Quantity | None
    """By the request-level executor; None where it was not asked."""
    measured: Quantity | None
    """On this machine."""
    ci_low: Signed | None
    """Low end of where the measured value lay from try to try, or of the 95 % interval of its mean."""
    ci_high: Signed | None
    """High end."""
    spread: Quantity | None = None
    """Largest less smallest of the repeats over their mean, the same asked each time; None without repeats."""
    relative_error: Signed | None
    """Predicted over measured, less 1; 0 where both are 0."""
    tolerance: Quantity
    """Largest absolute error that holds."""
    holds: bool
    """Whether it does."""

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        raise_faults(self._faults())
        return self

    def _faults(self) -> Iterator[FieldError]:
        error = self.error_of(self.predicted, self.measured)
        if (error is None) != (self.relative_error is None) or not isclose(
            error or 0.0, self.relative_error or 0.0, rel_tol=ROUNDING, abs_tol=ROUNDING
        ):
            what = "nothing" if self.relative_error is None else f"{self.relative_error:g}"
            said = "unknown" if error is None else f"{error:g}"
            yield FieldError(("relative_error",), f"is {what} ({said}, as predicted over measured, less 1)")
        elif self.holds != (error is not None and abs(error) <= self.tolerance):
            yield FieldError(
                ("holds",), f"is {str(self.holds).lower()} (whether the error is within {self.tolerance:g})"
            )
        if self.ci_low is not None and self.ci_high is not None and self.ci_low > self.ci_high:
            yield FieldError(("ci_low",), f"is {self.ci_low:g} (at most ci_high, {self.ci_high:g})")

    @staticmethod
    def error_of(predicted: float | None, measured: float | None) -> float | None:
        """Predicted over measured, less 1; 0 where both are 0, None where it is unknown."""
        if predicted is None or measured is None:
            return None
        if measured:
            return predicted / measured - 1
        return 0.0 if predicted == measured else None


class LivePass(StrictModel):
    """Passes of the served model at one length or batch, in seconds that the worker ran."""

    kind: Literal["prefill", "decode"]
    size: Counted
    """Tokens of the prompt, or requests of the batch."""
    context_tokens: Counted | None
    """Tokens that a step attends to; None for prefill."""
    predicted_s: Quantity
    executed_s: Quantity | None
    rounds_s: tuple[Quantity, ...]
    """Median over workers, round by round."""


class LiveLine(StrictModel):
    """Times by the roofline between the lengths or batches that were timed."""

    kind: Literal["prefill", "decode"]
    sizes: tuple[Counted, ...]
    predicted_s: tuple[Quantity, ...]


class LiveTtft(StrictModel):
    """Times to first token, ascending."""

    fractions: tuple[Quantity, ...]
    """Of requests, for which `predicted_s` is the quantile."""
    predicted_s: tuple[Quantity, ...]
    executed_s: tuple[Quantity, ...]
    """Of every request."""
    measured_s: tuple[tuple[Quantity, ...], ...]
    """Of every finished request, repeat by repeat."""


class LiveRepeat(StrictModel):
    """The same requests served once."""

    n_finished: Counted
    n_dropped: Counted
    served_s: Quantity
    ttft_mean_s: Quantity
    ttft_p90_s: Quantity
    tpot_mean_s: Quantity | None
    throughput_req_per_s: Quantity
    link_fraction: Quantity
    busy_fraction: Quantity | None
    """Share of the time between start and end of prefills that workers ran."""


class Live(StrictModel):
    """The answer of `planner live`."""

    scenario: str
    """Model that was served."""
    machine: LiveMachine
    measured_on: str | None = None
    """Day of the run."""
    seed: Seed
    """Of weights, prompts and arrivals."""
    threshold_tokens: Quantity
    """Requests with more uncached tokens went over the link."""
    link_bytes_per_s: Quantity
    """Rate that the link was limited to [B/s]."""
    offered_req_per_s: Quantity
    """Rate of arrivals [req/s]."""
    n_requests: Counted
    """Requests of the run, those of every repeat."""
    n_finished: Counted
    """Of these, finished."""
    n_dropped: Counted
    """Of these, dropped, each with a reason in the records."""
    n_foreign: Counted = 0
    """Connections to workers that carried something else than frames of this run, and were dropped."""
    served_s: Quantity
    """Length of the run, all repeats together [s]."""
    checks: tuple[LiveCheck, ...]
    passes: tuple[LivePass, ...] = ()
    lines: tuple[LiveLine, ...] = ()
    ttft: LiveTtft | None = None
    repeats: tuple[LiveRepeat, ...] = ()

    @model_validator(mode="after")
    def _counts_its_requests(self) -> Self:
        if self.n_finished + self.n_dropped > self.n_requests:
            raise ValueError(f"n_finished and n_dropped are more than n_requests = {self.n_requests}")
        return self

    @property
    def holds(self) -> bool:
        """True if every check holds."""
        return all(check.holds for check in self.checks)

    def answer(self) -> dict[str, Any]:
        """The answer as the contract writes it."""
        content = self.model_dump(mode="json")
        if self.machine.torch is None:
            for name in TORCH_ONLY:
                del content["machine"][name]
        if not self.n_foreign:
            del content["n_foreign"]
        head = {"schema": "planner.live/1", "scenario": content.pop("scenario"), "machine": content.pop("machine")}
        return {**head, "holds": self.holds, **content}
