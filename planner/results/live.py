"""What a live run on this machine showed: predicted, executed and measured side by side."""

from typing import Any, Literal

from planner.schema import StrictModel

TORCH_ONLY = ("torch", "device", "device_memory_bytes")
"""Of a machine: stated where torch computed, and left out of the answer where NumPy did."""


class LiveMachine(StrictModel):
    """The machine, and how much of it the run had."""

    processor: str
    system: str
    python: str
    numpy: str
    n_cores: int
    """Cores that could be used."""
    memory_bytes: int
    """Physical memory [B]."""
    torch: str | None = None
    """Version of torch, where it computed; None: NumPy did."""
    device: str | None = None
    """Device that torch computed on, shared by the workers; None: the cores did."""
    device_memory_bytes: int | None = None
    """Memory of that device [B]."""
    workers: dict[str, int | None]
    """Core of each worker; None where it was not pinned."""
    gemm_flop_per_s: dict[str, float]
    """fp32 products of one core by rows, all workers busy [FLOP/s]."""
    memory_bytes_per_s: float
    """Memory bandwidth of one core, all workers busy [B/s]."""
    call_s: float
    """One call of NumPy or torch on one value [s]."""
    loopback_bytes_per_s: float
    """TCP over 127.0.0.1 [B/s]."""
    busy_before_fraction: float
    """Share of the time that workers had their cores for while they were measured without a pause; the rest went to
    other programs."""
    stretch: float | None = None
    """Seconds on the wall of prefills with pauses between them, just before the run, over busy seconds of the same
    without: latencies under load are predicted for a machine as busy as that."""
    busy_fraction: float | None
    """The same while the served model was timed and prefilled what was served."""
    steal_before_fraction: float | None = None
    """Share of the time of the cores that the hypervisor gave to others while they were measured; None where the system
    does not tell."""
    steal_fraction: float | None = None
    """The same while requests were served."""
    load_average: float | None = None
    """Processes that wanted a core in the minute before the start, this program's none among them."""


class LiveCheck(StrictModel):
    """One metric."""

    metric: str
    """Name, with what it was asked at."""
    unit: str
    """s, B, req/s or a fraction."""
    predicted: float | None
    """By roofline and queueing, before the run."""
    executed: float | None
    """By the request-level executor; None where it was not asked."""
    measured: float | None
    """On this machine."""
    ci_low: float | None
    """Low end of where the measured value lay from try to try, or of the 95 % interval of its mean."""
    ci_high: float | None
    """High end."""
    spread: float | None = None
    """Largest less smallest of the repeats over their mean, the same asked each time; None without repeats."""
    relative_error: float | None
    """Predicted over measured, less 1; 0 where both are 0."""
    tolerance: float
    """Largest absolute error that holds."""
    holds: bool
    """Whether it does."""


class LivePass(StrictModel):
    """Passes of the served model at one length or batch, in seconds that the worker ran."""

    kind: Literal["prefill", "decode"]
    size: int
    """Tokens of the prompt, or requests of the batch."""
    context_tokens: int | None
    """Tokens that a step attends to; None for prefill."""
    predicted_s: float
    executed_s: float | None
    rounds_s: tuple[float, ...]
    """Median over workers, round by round."""


class LiveLine(StrictModel):
    """What the roofline says between the lengths or batches that were timed."""

    kind: Literal["prefill", "decode"]
    sizes: tuple[int, ...]
    predicted_s: tuple[float, ...]


class LiveTtft(StrictModel):
    """Times to first token, ascending."""

    fractions: tuple[float, ...]
    """Of requests, for which `predicted_s` is the quantile."""
    predicted_s: tuple[float, ...]
    executed_s: tuple[float, ...]
    """Of every request."""
    measured_s: tuple[tuple[float, ...], ...]
    """Of every finished request, repeat by repeat."""


class LiveRepeat(StrictModel):
    """The same requests served once."""

    n_finished: int
    n_dropped: int
    served_s: float
    ttft_mean_s: float
    ttft_p90_s: float
    tpot_mean_s: float | None
    throughput_req_per_s: float
    link_fraction: float
    busy_fraction: float | None
    """Share of the time between start and end of prefills that workers ran."""


class Live(StrictModel):
    """The answer of `planner live`."""

    scenario: str
    """Model that was served."""
    machine: LiveMachine
    measured_on: str | None = None
    """Day of the run."""
    seed: int
    """Of weights, prompts and arrivals."""
    threshold_tokens: float
    """Requests with more uncached tokens went over the link."""
    link_bytes_per_s: float
    """Rate that the link was limited to [B/s]."""
    offered_req_per_s: float
    """Rate of arrivals [req/s]."""
    n_requests: int
    """Requests of the run, those of every repeat."""
    n_finished: int
    """Of these, finished."""
    n_dropped: int
    """Of these, dropped, each with a reason in the records."""
    n_foreign: int = 0
    """Connections to workers that carried something else than frames of this run, and were dropped."""
    served_s: float
    """Length of the run, all repeats together [s]."""
    checks: tuple[LiveCheck, ...]
    passes: tuple[LivePass, ...] = ()
    lines: tuple[LiveLine, ...] = ()
    ttft: LiveTtft | None = None
    repeats: tuple[LiveRepeat, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every check does."""
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
