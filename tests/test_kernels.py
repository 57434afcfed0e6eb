"""Figures of kernels: what made the timings is found again, and the profile has it with source and date."""

import datetime
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import InputError
from planner.profiles import hardware_profile
from planner.roofline import Chip
from planner.studies.kernels import KernelFigure, installed_timings, kernel_figures, with_figures
from tests.kernel_tables import MOE_RATE, MOE_READ, MOE_START_S, RATE, READ, experts, kernel_tables, write

CHIP = hardware_profile("h100-sxm")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kernel_tables(tmp_path_factory.mktemp("tables"), CHIP)


def test_what_made_the_timings_is_found_again_and_the_start_is_apart_from_it(tables: Path) -> None:
    found = {figure.key: figure.value for figure in kernel_figures(CHIP, tables)}
    expected = {f"gemm_bf16_m{rows}_fraction": rate for rows, rate in RATE.items()}
    expected |= {f"moe_bf16_m{rows}_fraction": rate for rows, rate in MOE_RATE.items()}
    expected |= {"weight_read_bf16_fraction": READ, "moe_weight_read_bf16_fraction": MOE_READ}
    expected |= {"moe_bf16_start_us": MOE_START_S * 1e6}
    assert found == {key: pytest.approx(value, rel=1e-6) for key, value in expected.items()}


def test_of_several_frameworks_it_is_the_median_and_the_note_has_the_range(tmp_path: Path) -> None:
    columns = {"m": [256, 256, 256, 1, 2, 4], "n": [8192] * 6, "k": [4096, 8192, 16384] * 2}
    for framework, slower in (("sglang/1", 1.0), ("trtllm/1", 2.0), ("vllm/1", 4.0)):
        latency = [slower * times * long for times in (0.2, 0.05) for long in (0.5, 1.0, 2.0)]
        write(tmp_path, "gemm", "gemm_perf", {**columns, "latency": latency, "gemm_dtype": ["bfloat16"] * 6}, framework)
    found = {figure.key: figure for figure in kernel_figures(CHIP, tmp_path)}["gemm_bf16_m256_fraction"]
    assert (found.low, found.high) == (pytest.approx(found.value / 2, rel=0.1), pytest.approx(found.value * 2, rel=0.1))
    assert found.of == ("sglang 1 (3)", "trtllm 1 (3)", "vllm 1 (3)")


def test_the_newest_version_is_read_by_its_numbers_and_two_formats_of_one_name_both_count(tmp_path: Path) -> None:
    columns = {"m": [256, 256, 256, 1, 2, 4], "n": [8192] * 6, "k": [4096, 8192, 16384] * 2}
    latency = [times * long for times in (0.2, 0.05) for long in (0.5, 1.0, 2.0)]
    for version, slower in (("0.5.6", 2.0), ("0.5.14", 1.0)):
        timed = {**columns, "latency": [slower * ms for ms in latency], "gemm_dtype": ["bfloat16"] * 6}
        write(tmp_path, "gemm", "gemm_perf", timed, f"sglang/{version}")
    assert {figure.of for figure in kernel_figures(CHIP, tmp_path)} == {("sglang 0.5.14 (3)",)}
    both = tmp_path / "both"
    moe = experts(*(value or 0.0 for value in (CHIP.peak_flop_per_s("bf16"), CHIP.memory_bytes_per_s)))
    dtypes = ("int4_wo", "w4a16_mxfp4")
    twice = {name: values * 2 for name, values in moe.items()}
    write(both, "moe", "moe_perf", {**twice, "moe_dtype": [name for name in dtypes for _ in moe["latency"]]})
    start = {figure.key: figure for figure in kernel_figures(CHIP, both)}["moe_w4a16_start_us"]
    assert len(start.of) == 2


def test_the_command_writes_a_profile_that_holds_with_the_source_and_its_date(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "h100-sxm.toml"
    asked = ["profiles", "kernels", str(tables), "--out", str(out), "--format", "json"]
    answer = json.loads(CliRunner().invoke(app, asked).stdout)
    assert answer["figures"]["moe_bf16_start_us"] == pytest.approx(30.0)
    own = hardware_profile(str(out))
    figure = own.efficiency.moe_bf16_m64_fraction
    assert figure is not None
    assert (figure.value, figure.basis) == (MOE_RATE[64], "derived")
    assert datetime.date.today().isoformat() in own.sources[figure.source]
    assert own.figures == CHIP.figures
    assert own.efficiency.all_reduce_fraction == CHIP.efficiency.all_reduce_fraction, "nothing else is touched"
    assert float(Chip(own).moe_rate("bf16", "bf16", 64).fraction) == pytest.approx(MOE_RATE[64])
    assert isinstance(CliRunner().invoke(app, asked).exception, InputError), "an existing file needs --force"


def test_figures_of_a_profile_without_any_get_a_table_of_their_own() -> None:
    text = with_figures('name = "x"\n\n[sources]\na = "b"\n', [KernelFigure("k", 0.5, 0.4, 0.6, ("f (3)",))], "c")
    assert text.count("[sources]") == text.count("[efficiency]") == 1
    assert text.splitlines()[2:5] == ["[sources]", 'a = "b"', 'kernels = "c"']


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{empty}", "--out", "{here}/h100-sxm.toml"], "has no kernel timings"),
        (["--out", "{here}/nobody.toml"], "is no hardware profile"),
        (["{here}/absent", "--out", "{here}/h100-sxm.toml"], "has no kernel timings"),
    ],
)
def test_what_cannot_be_condensed_is_said_and_nothing_is_written(
    arguments: list[str], says: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    filled = [part.format(empty=tmp_path / "empty", here=tmp_path) for part in arguments]
    found = CliRunner().invoke(app, ["profiles", "kernels", *filled])
    assert isinstance(found.exception, InputError)
    assert says in str(found.exception)
    assert [*tmp_path.glob("*.toml")] == []


def test_a_table_that_lacks_a_column_is_named_with_it(tmp_path: Path) -> None:
    write(tmp_path, "gemm", "gemm_perf", {"m": [1], "n": [2]})
    with pytest.raises(InputError, match=r"gemm_perf\.parquet: has no column k"):
        kernel_figures(CHIP, tmp_path)


def test_an_accelerator_of_which_the_wheel_knows_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.studies.kernels.find_spec", lambda _: None)
    with pytest.raises(InputError, match="aiconfigurator_core is not installed"):
        installed_timings(CHIP)
