"""Fronts and sensitivities as tables for a terminal of a hundred columns."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from planner.report import formats
from planner.report.table import Table
from planner.report.terminal import printed, remarks
from planner.results.studies import SERVED, Front, InputSensitivity, Sensitivity
from planner.units import DASH, number, percent, usd

if TYPE_CHECKING:
    from rich.console import RenderableType


def front_tables(front: Front) -> list["RenderableType"]:
    """A front for people, cheapest first."""
    parts = (printed(front_table(front)), remarks("notes on the front", map(formats.sentence, front.notes)))
    return [part for part in parts if part is not None]


def front_table(front: Front) -> Table:
    """Cost against what it buys, cheapest first."""
    pools = list(front.points[0].n_instances) if front.points else []
    headings = (">USD/h", f">{value_heading(front)}", "instances", ">threshold")
    rows = (
        (usd(p.usd_per_hour), formats.figure(p.value, 4), sizes_text(p.n_instances), number(p.threshold_tokens))
        for p in front.points
    )
    text = f"instances: {' / '.join(pools)}; threshold in uncached tokens; nothing cheaper does as well"
    return Table.of(f"cost against {front.against}", headings, rows, text)


def value_heading(front: Front) -> str:
    """Heading of a front's values, with their unit."""
    if front.against == "ttft":
        return f"TTFT P{front.percentile:g} [s]"
    return f"{front.against} [req/s]"


def sizes_text(n_instances: Mapping[str, int] | None) -> str:
    """Instances by pool; a dash where there is no plan."""
    return DASH if n_instances is None else " / ".join(str(n) for n in n_instances.values())


def sensitivity_tables(found: Sensitivity) -> list["RenderableType"]:
    """A sensitivity for people, one row per change, what matters most first."""
    table = sensitivity_table(found, found.inputs)
    parts = (printed(table), remarks("notes on the sensitivity", map(formats.sentence, found.notes)))
    return [part for part in parts if part is not None]


def sensitivity_table(found: Sensitivity, inputs: Iterable[InputSensitivity]) -> Table:
    """The plan with these inputs off, a row for each change."""
    stated = f"{formats.objective(found.stated, found.unit)} {found.unit}"
    title = f"sensitivity: {sizes_text(found.n_instances)} at {stated} as stated"
    headings = ("input", ">change", "best sizes", f">{found.unit}", ">differs", ">kept", ">retuned")
    pools = " / ".join(found.n_instances)
    text = "share of the demand that the stated plan serves then, as it is (kept) or with new thresholds (retuned)"
    rows = (row for item in inputs for row in _variation_rows(item, found.unit))
    return Table.of(title, headings, rows, f"sizes: {pools}, = as stated; {text}")


def _variation_rows(item: InputSensitivity, unit: str) -> Iterator[tuple[str, ...]]:
    """One input, a row for each change; the objective is in a unit."""
    for i, variation in enumerate(item.variations):
        yield (
            item.title if i == 0 else "",
            variation.label,
            "=" if variation.n_instances and not variation.changes_fleet else sizes_text(variation.n_instances),
            formats.objective(variation.objective, unit),
            formats.signed_percent(variation.objective_change),
            served_share(variation.kept_fraction),
            served_share(variation.retuned_fraction),
        )


def served_share(fraction: float | None) -> str:
    """Share of the demand that is served; a dash where that is unknown.

    >>> served_share(1.0), served_share(0.9342), served_share(None)
    ('all', '93.4 %', '–')
    """
    return "all" if fraction is not None and fraction >= SERVED else percent(fraction)
