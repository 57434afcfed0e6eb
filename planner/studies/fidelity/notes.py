"""Notes of a report on measured points beyond their numbers: whose they are, and which contradict others."""

from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from planner.profiles.points import ServingPoint
from planner.ranges import NonNegative
from planner.results import Peer
from planner.schema import StrictModel, TomlFile, is_file

NOTES = "notes.toml"
Span = tuple[NonNegative, NonNegative]


class FileNote(StrictModel):
    """Whose a file is."""

    name: str
    """File name, without folders."""
    what: str
    """What was measured."""
    source: str
    """Publisher and licence."""


class DoubtNote(StrictModel):
    """Points that contradict others; what is absent restricts nothing."""

    what: str
    """Which points."""
    why: str
    """What speaks against them."""
    model: str | None = None
    """Model profile."""
    hardware: str | None = None
    """Hardware profile."""
    framework: str | None = None
    """Serving framework."""
    input_tokens: Span | None = None
    """Shortest and longest prompt [tokens]."""
    output_tokens: Span | None = None
    """Shortest and longest answer [tokens]."""
    concurrency: Span | None = None
    """Fewest and most requests in flight."""
    ttft_above_s: NonNegative | None = None
    """TTFT that they exceed [s]."""
    unversioned: bool = False
    """Whether only those that name no version of the framework."""

    def holds(self, point: ServingPoint, model: str, hardware: str) -> bool:
        """True if a point is one of them.

        Args:
            point: the point.
            model: its model profile.
            hardware: its hardware profile.
        """
        names = ((self.model, model), (self.hardware, hardware), (self.framework, point.framework.casefold()))
        spans = (
            (self.input_tokens, point.input_tokens),
            (self.output_tokens, point.output_tokens),
            (self.concurrency, point.concurrency),
        )
        return (
            all(wanted is None or wanted == name for wanted, name in names)
            and all(_within(span, value) for span, value in spans)
            and not (self.unversioned and point.framework_version)
            and (self.ttft_above_s is None or (point.ttft_s or 0.0) > self.ttft_above_s)
        )


def _within(span: Span | None, value: float | None) -> bool:
    return span is None or (value is not None and span[0] <= value <= span[1])


class FidelityNotes(StrictModel):
    """`notes.toml` beside a report of fidelity."""

    model_config = ConfigDict(populate_by_name=True)

    schema_id: Literal["planner.fidelity-notes/1"] = Field(default="planner.fidelity-notes/1", alias="schema")
    """Format of the file."""
    title: str = "Predictions against measurements"
    """Headline."""
    notes: str = ""
    """Further paragraphs in Markdown."""
    files: tuple[FileNote, ...] = ()
    """Whose the files are."""
    doubts: tuple[DoubtNote, ...] = ()
    """Known contradictions."""
    peers: tuple[Peer, ...] = ()
    """What others are said to reach."""


def read_notes(folder: Path) -> FidelityNotes:
    """Notes of a report's folder; those of nobody where it has none.

    Raises:
        InputError: the file does not hold.
    """
    path = folder / NOTES
    return TomlFile.read(path).record(FidelityNotes) if is_file(path) else FidelityNotes()
