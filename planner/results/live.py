"""What a live run on this machine showed: predicted, executed and measured side by side."""

from typing import Any

from planner.schema import StrictModel


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
    workers: dict[str, int | None]
    """Core of each worker; None where it was not pinned."""
    gemm_flop_per_s: dict[str, float]
    """fp32 products of one core by rows, all workers busy [FLOP/s]."""
    memory_bytes_per_s: float
    """Memory bandwidth of one core, all workers busy [B/s]."""
    call_s: float
    """One NumPy call on one value [s]."""
    loopback_bytes_per_s: float
    """TCP over 127.0.0.1 [B/s]."""
    busy_before_fraction: float
    """Share of the time that workers had their cores for while they were measured; the rest went to other programs.
    Latencies under load are predicted for a machine that busy."""
    busy_fraction: float | None
    """The same of what was measured afterwards and of the prefills that were served."""


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
    relative_error: float | None
    """Predicted over measured, less 1."""
    tolerance: float
    """Largest absolute error that holds."""
    holds: bool
    """Whether it does."""


class Live(StrictModel):
    """The answer of `planner live`."""

    scenario: str
    """Model that was served."""
    machine: LiveMachine
    seed: int
    """Of weights, prompts and arrivals."""
    threshold_tokens: float
    """Requests with more uncached tokens went over the link."""
    link_bytes_per_s: float
    """Rate that the link was limited to [B/s]."""
    offered_req_per_s: float
    """Rate of arrivals [req/s]."""
    n_requests: int
    """Requests of the run."""
    n_finished: int
    """Of these, finished."""
    n_dropped: int
    """Of these, dropped, each with a reason in the records."""
    served_s: float
    """Length of the run [s]."""
    checks: tuple[LiveCheck, ...]

    @property
    def holds(self) -> bool:
        """Whether every check does."""
        return all(check.holds for check in self.checks)

    def answer(self) -> dict[str, Any]:
        """The answer as the contract writes it."""
        content = self.model_dump(mode="json")
        head = {"schema": "planner.live/1", "scenario": content.pop("scenario"), "machine": content.pop("machine")}
        return {**head, "holds": self.holds, **content}
