"""Comparison of predictions with measured serving points."""

from typing import Literal

from pydantic import ConfigDict, Field

from planner.notes import Note
from planner.schema import StrictModel


class LatencyError(StrictModel):
    """Errors of one latency as fractions of the measured value; None where nothing was measured."""

    mean_abs_error: float | None = None
    """Mean absolute error."""
    median_abs_error: float | None = None
    """Median absolute error."""
    bias: float | None = None
    """Median signed error: above 0, predictions are too slow."""


class FidelityGroup(StrictModel):
    """Points of one model on one accelerator under one framework."""

    model: str
    """Model profile."""
    hardware: str
    """Hardware profile."""
    framework: str
    """Framework as the points name it."""
    mode: str
    """agg or disagg."""
    n: int
    """Points."""
    n_predicted: int
    """Of these, predicted."""
    ttft: LatencyError
    """Errors of TTFT."""
    tpot: LatencyError
    """Errors of TPOT."""
    throughput: LatencyError = LatencyError()
    """Errors of tokens generated per second and accelerator: above 0, predictions are too fast."""


class RefusedPoints(StrictModel):
    """Points that could not be predicted, or that are doubtful, and why."""

    model: str
    """Model as the points name it."""
    hardware: str
    """Accelerator as the points name it."""
    reason: str
    """Why."""
    n: int
    """Points."""


class PredictedPoint(StrictModel):
    """One point beside its prediction."""

    index: int
    """Position among the points of all files, from 0."""
    model: str
    """Model profile; as written, where there is none."""
    hardware: str
    """Hardware profile; as written, where there is none."""
    framework: str
    """Framework and version as written."""
    stack: str | None
    """Stack that predicted it."""
    label: str
    """Precision, layout, lengths and load in short."""
    ttft_s: float | None
    """Measured TTFT [s]."""
    tpot_s: float | None
    """Measured TPOT [s]."""
    predicted_ttft_s: float | None
    """Predicted TTFT [s]; None: refused."""
    predicted_tpot_s: float | None
    """Predicted TPOT [s]; None: refused."""
    tokens_per_s: float | None = None
    """Measured tokens generated per second and accelerator [tokens/s]."""
    predicted_tokens_per_s: float | None = None
    """The same as predicted; None: refused, or no closed loop [tokens/s]."""
    reason: str | None = None
    """Why it was refused."""
    doubt: str | None = None
    """What in it contradicts physics or its load."""

    @property
    def ttft_error(self) -> float | None:
        """Signed error of TTFT as a fraction of the measured one."""
        return _error(self.predicted_ttft_s, self.ttft_s)

    @property
    def tpot_error(self) -> float | None:
        """Signed error of TPOT as a fraction of the measured one."""
        return _error(self.predicted_tpot_s, self.tpot_s)

    @property
    def throughput_error(self) -> float | None:
        """Signed error of the throughput as a fraction of the measured one."""
        return _error(self.predicted_tokens_per_s, self.tokens_per_s)


class Fidelity(StrictModel):
    """Errors over all points, by group, and what was refused."""

    model_config = ConfigDict(populate_by_name=True)

    schema_id: Literal["planner.fidelity/1"] = Field(default="planner.fidelity/1", alias="schema")
    """Format of the answer."""
    n_points: int
    """Points."""
    n_predicted: int
    """Of these, predicted."""
    ttft: LatencyError
    """Errors of TTFT over all points."""
    tpot: LatencyError
    """Errors of TPOT over all points."""
    throughput: LatencyError = LatencyError()
    """Errors of tokens generated per second and accelerator, over the points that state them: above 0, predictions are
    too fast."""
    groups: tuple[FidelityGroup, ...]
    """By model, accelerator, framework and mode."""
    refused: tuple[RefusedPoints, ...]
    """What was not predicted."""
    doubtful: tuple[RefusedPoints, ...] = ()
    """What contradicts physics or its load; predicted all the same."""
    sound_ttft: LatencyError = LatencyError()
    """Errors of TTFT without what is doubtful."""
    sound_tpot: LatencyError = LatencyError()
    """Errors of TPOT without what is doubtful."""
    notes: tuple[Note, ...] = ()
    """What is to be known of how rows were read, such as a precision that only the model's name states."""
    points: tuple[PredictedPoint, ...] = Field(default=(), exclude=True)
    """Every point beside its prediction, in the order of the files; not part of the JSON."""

    @property
    def answered_fraction(self) -> float:
        """Predicted points over all."""
        return self.n_predicted / self.n_points


def _error(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or not measured else predicted / measured - 1.0
