"""Tables of the catalogue."""

from typing import Any

from pydantic import BaseModel
from rich.table import Table

from planner.profiles import HardwareProfile, MeasuredInstance, ModelProfile, StackProfile
from planner.report.fitted import FittedTable
from planner.units import number


def summary(item: HardwareProfile | ModelProfile | StackProfile) -> dict[str, Any]:
    """Names and title of a profile, for JSON."""
    return {"name": item.name, "title": item.title, "aliases": list(item.aliases)}


def titled_table(title: str, *columns: str) -> Table:
    """An empty table whose first column is never broken."""
    table = FittedTable(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column == columns[0])
    return table


def hardware_table(profiles: list[HardwareProfile]) -> Table:
    """One row per accelerator."""
    headings = ("status", "generation", "bf16 TFLOP/s", "fp8 TFLOP/s", "memory GB", "memory TB/s", "NIC Gbps")
    table = titled_table("Hardware", "name", *headings)
    for column in table.columns[:3]:
        column.no_wrap = True
    for item in profiles:
        figures = item.figures
        shown = (figures.bf16_tflops, figures.fp8_tflops, figures.memory_gb, figures.memory_bandwidth_tb_per_s)
        numbers = [number(figure.value if figure else None, 4) for figure in (*shown, figures.nic_gbps)]
        table.add_row(item.name, item.status, item.generation, *numbers)
    return table


def models_table(profiles: list[ModelProfile]) -> Table:
    """One row per model."""
    table = titled_table("Models", "name", "precision", "parameters 1e9", "active 1e9", "attention layers", "measured")
    for item in profiles:
        counts = (item.published.total_parameters, item.published.active_parameters)
        billions = [number(count.value / 1e9 if count else None, 4) for count in counts]
        table.add_row(item.name, item.precision, *billions, _layers(item), ", ".join(item.measured))
    return table


def _layers(item: ModelProfile) -> str:
    return " + ".join(f"{group.n_layers} {group.kind}" for group in item.architecture.attention)


def figures_tables(item: HardwareProfile) -> list[Table]:
    """Every figure of an accelerator with its source, then what kernels reach of its peaks where that is known."""
    tables = [_figures_table("Figures", item.figures), _figures_table("Efficiency", item.efficiency)]
    return [table for table in tables if table.row_count]


def _figures_table(title: str, figures: BaseModel) -> Table:
    table = titled_table(title, "figure", "value", "basis", "source", "note")
    for key, figure in figures:
        if figure is not None:
            table.add_row(key, f"{figure.value:.10g}", figure.basis, figure.source, figure.note or "")
    return table


def sources_table(sources: dict[str, str]) -> Table:
    """Source ids and what they stand for."""
    table = titled_table("Sources", "id", "source")
    for key, text in sources.items():
        table.add_row(key, text)
    return table


def shapes_table(item: ModelProfile) -> Table:
    """Parameter counts and shapes of a model."""
    table = titled_table(f"Shapes ({item.architecture.basis})", "key", "value")
    table.add_row("precision", item.precision)
    for part in (item.checkpoint, item.published, item.architecture):
        for key, text in _rows(part) if part else ():
            table.add_row(key, text)
    return table


def _rows(record: BaseModel) -> list[tuple[str, str]]:
    """Keys and values of a record and of the records in it; what is unknown is left out."""
    rows: list[tuple[str, str]] = []
    for key, value in record:
        if isinstance(value, BaseModel):
            rows += [(f"{key}.{inner}", text) for inner, text in _rows(value)]
        elif isinstance(value, tuple):
            rows += [(key, _described(part) if isinstance(part, BaseModel) else str(part)) for part in value]
        elif value is not None:
            rows.append((key, str(value)))
    return rows


def _described(group: BaseModel) -> str:
    return ", ".join(f"{key} = {text}" for key, text in _rows(group))


def measured_tables(item: ModelProfile) -> list[Table]:
    """One table per measured instance of a model."""
    return [_measured_table(name, instance) for name, instance in item.measured.items()]


def _measured_table(name: str, instance: MeasuredInstance) -> Table:
    where = f"{instance.n_accelerators} x {instance.hardware}, {instance.precision}, {instance.basis}"
    table = titled_table(f"Measured {name}: {where}", "key", "value")
    for key in ("stack", "source", "how", "note"):
        if text := getattr(instance, key):
            table.add_row(key, text)
    for key, curve in (("prefill", instance.prefill), ("kv", instance.kv), ("decode", instance.decode)):
        for field, value in curve or ():
            if value is not None:
                table.add_row(f"{key}.{field}", ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return table
