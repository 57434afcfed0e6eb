"""Tables of stack profiles: every figure of the profile in its row, and counts of what it was fitted to."""

import pytest
from rich.table import Table

from planner.cli.stack_tables import stack_tables, stacks_table
from planner.profiles import StackProfile, stack_profile
from planner.units import percent

STACKS = ("vllm", "sglang", "trtllm")


def rows(table: Table) -> list[tuple[str, ...]]:
    return [*zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)]


def table_of(item: StackProfile, title: str) -> list[tuple[str, ...]]:
    found = [table for table in stack_tables(item) if str(table.title).startswith(title)]
    return rows(found[0]) if found else []


@pytest.mark.parametrize("name", STACKS)
def test_factors_have_their_value_spread_basis_source_and_note(name: str) -> None:
    item = stack_profile(name)
    assert table_of(item, "Factors") == [
        (key, f"{one.value:.10g}", percent(one.spread_fraction), one.basis, one.source, one.note or "")
        for key, one in item.factors.stated.items()
    ]


@pytest.mark.parametrize("name", STACKS)
def test_settings_and_harnesses_have_a_row_for_each(name: str) -> None:
    item = stack_profile(name)
    assert {row[0] for row in table_of(item, "As benchmarks")} <= {*item.harnesses}
    assert [row[0] for row in table_of(item, "Settings")] == [key for key, _ in item.settings]


def test_a_row_of_a_stack_counts_factors_by_basis_and_what_they_were_fitted_to() -> None:
    items = [stack_profile(name) for name in STACKS]
    for item, (name, bases, coverage, error, held_out) in zip(items, rows(stacks_table(items)), strict=True):
        assert name == item.name
        stated = [one.basis for one in item.factors.stated.values()]
        assert dict(reversed(line.split()) for line in bases.splitlines()) == {  # type: ignore[misc]
            basis: str(stated.count(basis)) for basis in stated
        }
        fit = item.calibration
        if fit is None:
            assert (coverage, error, held_out) == ("–", "–", "–")
            continue
        lines = coverage.replace(",", "").splitlines()
        assert lines == [
            f"{len(fit.models)} models",
            f"{len(fit.hardware)} accelerators",
            f"{sum(file.n_used for file in fit.points)} points",
        ]
        assert f"TTFT {percent(fit.in_sample.ttft.mean_abs)}" in error
