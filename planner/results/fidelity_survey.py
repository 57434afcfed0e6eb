"""Predictions against measurements with everything a report holds them against."""

from planner.results.fidelity import Fidelity, LatencyError
from planner.schema import StrictModel


class Scored(StrictModel):
    """Errors over some points."""

    n: int
    """Points."""
    ttft: LatencyError
    """Errors of TTFT."""
    tpot: LatencyError
    """Errors of TPOT."""


class MeasuredFile(StrictModel):
    """One file of measured points."""

    name: str
    """File name, without folders."""
    sha256: str
    """Digest of the file."""
    what: str | None
    """What was measured."""
    source: str | None
    """Whose it is."""
    models: tuple[str, ...]
    """Models among its points."""
    hardware: tuple[str, ...]
    """Accelerators among its points."""
    frameworks: tuple[str, ...]
    """Serving frameworks among its points."""
    n_predicted: int
    """Points that were predicted."""
    scored: Scored
    """Errors over its points."""


class HardwareScore(StrictModel):
    """Errors on one accelerator."""

    hardware: str
    """Hardware profile."""
    n_predicted: int
    """Points that were predicted."""
    scored: Scored
    """Errors over its points."""
    cleared: Scored | None
    """Errors over those of its points that are in no known contradiction; None where there is none."""


class StackScore(StrictModel):
    """Scores of one stack profile, as its calibration found them."""

    stack: str
    """Stack profile."""
    models: tuple[str, ...]
    """Models it was fitted to."""
    hardware: tuple[str, ...]
    """Accelerators it was fitted to."""
    in_sample: Scored
    """On the points fitted to."""
    held_out_models: Scored | None
    """On each model by a fit without it."""
    held_out_hardware: Scored | None
    """On each accelerator by a fit without it."""


class CurvePoint(StrictModel):
    """Prefill of one prompt length."""

    tokens: float
    """Prompt length [tokens]."""
    measured_s: float
    """Measured seconds [s]."""
    predicted_s: float
    """Predicted seconds [s]."""

    @property
    def error(self) -> float:
        """Predicted over measured less 1."""
        return self.predicted_s / self.measured_s - 1.0


class ScoredCurve(StrictModel):
    """Bare prefills of one model on one instance."""

    model: str
    """Model profile whose shapes predict it."""
    hardware: str
    """Hardware profile."""
    n_accelerators: int
    """Accelerators of the instance."""
    precision: str
    """Number format of the weights."""
    stack: str
    """Stack that predicted it."""
    origin: str
    """Where it was published, or the file it is from."""
    is_fitted: bool
    """Whether the stack was fitted to it."""
    is_published: bool
    """Whether its figures stand in a model profile, and so may be printed."""
    note: str | None = None
    """What a reader must know."""
    points: tuple[CurvePoint, ...]
    """By length."""


class Doubt(StrictModel):
    """Points that contradict others, and what they cost."""

    what: str
    """Which points."""
    why: str
    """What speaks against them."""
    own: Scored
    """Errors over these points."""
    others: Scored
    """Errors over all points of these files but these."""


class Peer(StrictModel):
    """Stated errors of another tool."""

    what: str
    """Which points, and whose word it is."""
    ttft: str
    """Its error of TTFT."""
    tpot: str
    """Its error of TPOT."""
    answered: str
    """How many points it answers."""


class FidelitySurvey(StrictModel):
    """Everything in the report of predictions against measurements."""

    title: str
    """Headline."""
    notes: str
    """Further paragraphs in Markdown; empty for none."""
    fidelity: Fidelity
    """All points of all files, scored."""
    files: tuple[MeasuredFile, ...]
    """What was measured."""
    by_hardware: tuple[HardwareScore, ...]
    """Errors on each accelerator, over points with decode."""
    stacks: tuple[StackScore, ...]
    """Shipped stack profiles that were fitted to points."""
    curves: tuple[ScoredCurve, ...]
    """Bare prefills: of the files and of the model profiles."""
    doubts: tuple[Doubt, ...]
    """Known contradictions."""
    without_doubts: Scored | None
    """Errors over all points that are in no contradiction; None where there is none."""
    peers: tuple[Peer, ...]
    """What others are said to reach."""
