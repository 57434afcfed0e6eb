"""A hardware profile to fill in: what the gate needs as placeholders that it reports, all else as comments."""

import textwrap
from collections.abc import Iterator

from planner.documented import field_texts
from planner.profiles.architectures import GENERATIONS
from planner.profiles.hardware import Figures
from planner.profiles.toml_text import toml_value

NEEDED = ("bf16_tflops", "memory_gb", "memory_bandwidth_tb_per_s")
"""Figures without which the gate lets no profile pass, any one peak for all; the others are worth having."""
WIDTH = 110
GENERATION = """The family that it belongs to, of which the gate knows the ranges and how peaks hang together:
{known}; or "other"."""
SOURCES = """Whatever is cited, by a short id: its address with https://; for your own measurements (basis "measured")
who, when and how, such as bench = "measured by us, 2026-11-20, nvbandwidth 0.7"; for a document that is not public
its name, its day and that it is internal or under NDA, such as spec = "Chip X specification, 2026-11-20, internal"."""
FIGURES = """Each figure is of one accelerator, in the unit that its key ends in; peaks are dense, without sparsity,
and not derated. basis: datasheet (the vendor's, also as repeated by others), measured (read off a device), derived
(arithmetic on sourced figures), inferred (from related facts), announced (the vendor's before sale), quoted (by a
third party, such as a price), assumed (chosen where sources disagree)."""
OTHERS = "Worth having, as far as they are known: take away the # and fill in."
EFFICIENCY = """What kernels reach of the peaks, where it was measured, goes into a table [efficiency]: planner
profiles show h200-sxm has one, and planner profiles schema hardware lists its keys."""


def new_hardware_profile(name: str) -> str:
    """The text of a hardware profile to fill in.

    Args:
        name: name of the profile, and of its file.

    Returns:
        TOML that parses; `planner profiles check` reports every placeholder until it is filled in.

    >>> print(new_hardware_profile("my-chip").splitlines()[0])
    # An accelerator: planner profiles check my-chip.toml names what is left to fill in.
    """
    return "\n".join((*_head(name), *_figures(), ""))


def _head(name: str) -> Iterator[str]:
    yield f"# An accelerator: planner profiles check {name}.toml names what is left to fill in."
    yield 'schema = "planner.hardware/1"'
    yield f"name = {toml_value(name)}  # that of the file"
    yield f"title = {toml_value(name)}  # as people write it"
    yield 'vendor = ""'
    yield 'status = "available"  # or "announced", where nobody can have it yet'
    yield from _comment(GENERATION.format(known=", ".join(known for known in GENERATIONS if known != "other")))
    yield 'generation = "other"'
    yield "\n[sources]"
    yield from _comment(SOURCES)
    yield 'datasheet = ""'


def _figures() -> Iterator[str]:
    yield "\n[figures]"
    yield from _comment(FIGURES)
    yield from map(_figure, NEEDED)
    yield ""
    yield from _comment(OTHERS)
    yield from (f"# {_figure(key)}" for key in Figures.model_fields if key not in NEEDED)
    yield ""
    yield from _comment(EFFICIENCY)


def _comment(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="# ")


def _figure(key: str) -> str:
    meaning = " ".join(field_texts(Figures).get(key, "").split())
    return f'{key} = {{ value = 0, source = "datasheet", basis = "datasheet" }}  # {meaning}'
