"""Contents of a roofline figure: an accelerator's ceilings, and operators of a prefill and a decode step."""

from typing import Literal

from planner.schema import StrictModel


class OperatorPoint(StrictModel):
    """One operator of a pass, over all its layers, on one rank."""

    name: str
    flop: float
    """Operations [FLOP]."""
    moved_bytes: float
    """Bytes of memory read and written [B]."""
    seconds: float
    """Its time, kernel latency included [s]."""
    share: float
    """Its part of the pass [-]."""

    @property
    def intensity_flop_per_byte(self) -> float:
        """Operations per byte of memory [FLOP/B]."""
        return self.flop / self.moved_bytes

    @property
    def flop_per_s(self) -> float:
        """Operations per second reached [FLOP/s]."""
        return self.flop / self.seconds


class RooflinePass(StrictModel):
    """Operators of one pass."""

    phase: Literal["prefill", "decode"]
    title: str
    """What is computed."""
    seconds: float
    """All of it [s]."""
    points: tuple[OperatorPoint, ...]
    """Operators that compute something, the longest first; collectives, moving of data and the host do not."""


class RooflineSurvey(StrictModel):
    """A model under an accelerator's roofline."""

    title: str
    """Model and instance."""
    subtitle: str
    """Layout and stack."""
    memory_bytes_per_s: float
    """Peak memory bandwidth of one accelerator [B/s]."""
    peaks_flop_per_s: dict[str, float]
    """Dense peak by number format that products run at [FLOP/s]."""
    passes: tuple[RooflinePass, ...]
