"""Tables of the stack profiles."""

from collections import Counter
from itertools import chain

from rich.table import Table

from planner.cli.catalogue_tables import titled_table
from planner.profiles import StackProfile
from planner.profiles.stack import Bands, Calibration, Errors, StackFactors
from planner.units import DASH, number, percent


def stacks_table(profiles: list[StackProfile]) -> Table:
    """One row per stack: what it was fitted to, and its mean absolute errors in sample and on models held out."""
    headings = ("factors", "calibrated on", "error", "models held out")
    table = titled_table("Stacks", "name", *headings)
    table.columns[1].no_wrap = True
    for item in profiles:
        found = item.calibration
        errors = (found.in_sample, found.held_out_models) if found else (None, None)
        shown = (_bases(item.factors), _coverage(found), *map(_mean_errors, errors))
        table.add_row(item.name, *shown)
    return table


def _bases(factors: StackFactors) -> str:
    counts = Counter(factor.basis for factor in factors.stated.values())
    return "\n".join(f"{n} {basis}" for basis, n in counts.most_common())


def _coverage(found: Calibration | None) -> str:
    """Number of models, accelerators and points that a calibration used."""
    if found is None:
        return DASH
    n_used = sum(file.n_used for file in found.points)
    return f"{len(found.models)} models\n{len(found.hardware)} accelerators\n{number(n_used)} points"


def _mean_errors(errors: Errors | None) -> str:
    found = (("TTFT", errors.ttft), ("TPOT", errors.tpot)) if errors else ()
    return "\n".join(f"{name} {percent(summed.mean_abs)}" for name, summed in found if summed) or DASH


def stack_tables(item: StackProfile) -> list[Table]:
    """Settings and factors of a stack, then what they were fitted to and how well they do."""
    tables = [_settings_table(item), _harnesses_table(item), _factors_table(item.factors)]
    if item.calibration:
        found = item.calibration
        tables += [_calibration_table(found), _errors_table(found), _bands_table(found), _groups_table(found)]
    return [table for table in tables if table.row_count]


def _settings_table(item: StackProfile) -> Table:
    table = titled_table(f"Settings of {item.framework}", "key", "value")
    for key, value in item.settings:
        table.add_row(key, str(value))
    return table


def _harnesses_table(item: StackProfile) -> Table:
    table = titled_table("As benchmarks run it", "harness", "key", "value")
    for name, run in item.harnesses.items():
        for key, value in run:
            if value is not None and value != ():
                table.add_row(name, key, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return table


def _factors_table(factors: StackFactors) -> Table:
    table = titled_table("Factors", "factor", "value", "spread", "basis", "source", "note")
    for key, factor in factors.stated.items():
        spread = percent(factor.spread_fraction)
        table.add_row(key, f"{factor.value:.10g}", spread, factor.basis, factor.source, factor.note or "")
    return table


def _calibration_table(found: Calibration) -> Table:
    table = titled_table(f"Calibration of {found.date}", "key", "value")
    table.add_row("source", found.source)
    for file in found.points:
        table.add_row("points", f"{file.name}: {file.n_used} of {file.n_points} points used, sha256 {file.sha256[:12]}")
    table.add_row("models", ", ".join(found.models))
    table.add_row("hardware", ", ".join(found.hardware))
    for key in ("input_tokens", "context_tokens", "batch", "n_accelerators"):
        low, high = getattr(found, key)
        table.add_row(key, f"{low:,} to {high:,}")
    return table


def _errors_table(found: Calibration) -> Table:
    table = titled_table("Errors", "points", "latency", "n", "mean absolute", "median absolute", "bias")
    parts = {
        "in sample": found.in_sample,
        "models held out": found.held_out_models,
        "accelerators held out": found.held_out_hardware,
    }
    for name, errors in parts.items():
        for key, summed in errors or ():
            if summed is not None:
                shown = (percent(value) for value in (summed.mean_abs, summed.median_abs, summed.bias))
                table.add_row(name, key, number(summed.n), *shown)
    return table


def _bands_table(found: Calibration) -> Table:
    table = titled_table("Measured over predicted, in nine of ten cases", "bands", "latency", "low", "high", "n")
    bands: dict[str, Bands] = {"models": found.model_bands, "accelerators": found.hardware_bands}
    for name, key, band in chain.from_iterable(((name, *item) for item in part) for name, part in bands.items()):
        if band is not None:
            table.add_row(name, key, f"{band.low:.4g}", f"{band.high:.4g}", number(band.n))
    return table


def _groups_table(found: Calibration) -> Table:
    table = titled_table("Mean absolute errors in sample", "model", "hardware", "points", "TTFT", "TPOT")
    for group in found.groups:
        errors = (percent(group.ttft_mean_abs), percent(group.tpot_mean_abs))
        table.add_row(group.model, group.hardware, number(group.n_points), *errors)
    return table
