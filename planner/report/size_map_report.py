"""A map of sizes as a folder of Markdown and a figure."""

from collections.abc import Iterator
from pathlib import Path

from planner.report.chart_size_map import gain_text, size_map_chart
from planner.report.figures import Chart
from planner.report.folder import REPORT, check_folder, with_inputs, write_folder
from planner.report.markdown_template import escaped_record, plain_record, rendered
from planner.report.phrases import layout
from planner.report.table import Table
from planner.results.plan import Plan
from planner.results.size_map import SizeMap, SizeMapCell
from planner.units import DASH, MILLI, number, usd

TEMPLATE = "size_map.md.jinja"
FIGURE = "gain"


def write_size_map(found: SizeMap, out_dir: Path, inputs: str = "") -> None:
    """Write report.md and figures/gain.png into a folder; raises InputError where it cannot be written."""
    write_folder(out_dir, {REPORT: with_inputs(size_map_markdown(found), inputs)}, size_map_charts(found))


def check_size_map(found: SizeMap, out_dir: Path, inputs: str = "") -> list[str]:
    """Differences of a folder from what `write_size_map` would leave, a line each."""
    return check_folder(out_dir, {REPORT: with_inputs(size_map_markdown(found), inputs)}, size_map_charts(found))


def size_map_charts(found: SizeMap) -> dict[str, Chart]:
    """Contents of the figure, by file name without suffix."""
    return {FIGURE: size_map_chart(plain_record(found))}


def size_map_markdown(found: SizeMap) -> str:
    """The report, which refers to `figures/gain.png`; Markdown that ends in one newline, the same for the same map."""
    found = escaped_record(found)
    kinds = dict.fromkeys((cell.model, cell.hardware) for cell in found.cells)
    return rendered(
        TEMPLATE,
        map=found,
        percentile=number(found.percentile),
        prices=", ".join(f"{name} {usd(value)}" for name, value in found.usd_per_accelerator_hour.items()),
        counts=_counts(found),
        parts=[(f"{m} on {h}", _cells(found, m, h)) for m, h in kinds],
    )


def _counts(found: SizeMap) -> Table:
    """Table of how often which way is the better one, by model and accelerator."""
    rows = []
    for model, hardware in dict.fromkeys((cell.model, cell.hardware) for cell in found.cells):
        mine = [c for c in found.cells if (c.model, c.hardware) == (model, hardware)]
        both = [c for c in mine if c.gain is not None]
        gains = [c.gain for c in both if c.is_kept and c.gain is not None]
        alone = [c for c in mine if c.gain is None]
        rows.append(
            [
                model,
                hardware,
                str(sum(gain > 0 for gain in gains)),
                str(sum(gain < 0 for gain in gains)),
                str(sum(gain == 0 for gain in gains)),
                str(len(both) - len(gains)),
                str(sum(c.disaggregated is not None for c in alone)),
                str(sum(c.colocated is not None for c in alone)),
                str(sum(c.failure is not None for c in alone)),
            ]
        )
    compared = [">apart cheaper", ">together cheaper", ">same cost", ">not shown"]
    return Table.untitled(["model", "accelerator", *compared, ">only apart", ">only together", ">neither"], rows)


def _cells(found: SizeMap, model: str, hardware: str) -> Table:
    """Every demand of a model on an accelerator."""
    headings = ["traffic", ">prompt", ">TPOT limit", ">TTFT limit", "together", ">USD/h", "apart", ">USD/h", ">gain"]
    rows = (list(_row(c)) for c in found.cells if (c.model, c.hardware) == (model, hardware))
    return Table.untitled(headings, rows)


def _row(cell: SizeMapCell) -> Iterator[str]:
    yield cell.traffic
    yield f"{cell.input_tokens:,.0f}"
    yield f"{number(cell.tpot_s / MILLI)} ms"
    yield f"{number(cell.ttft_s)} s"
    for fleet in (cell.colocated, cell.disaggregated):
        yield _fleet(fleet)
        yield DASH if fleet is None or fleet.cost.usd_per_hour is None else usd(fleet.cost.usd_per_hour)
    yield gain_text(cell)


def _fleet(fleet: Plan | None) -> str:
    """Instances and layouts, prefill before decode."""
    if fleet is None:
        return DASH
    used = (pool for pool in fleet.pools if pool.n_instances)
    return " + ".join(f"{pool.n_instances} x {layout(pool.layout or DASH)}" for pool in used)
