"""The gate finds what is wrong with an accelerator's figures: units, ranges, contradictions, sources and marks."""

import re
from pathlib import Path

import pytest

from planner.profiles import Efficiencies, Figure, check_profiles, hardware_profile, profile_names
from planner.profiles.architectures import GENERAL, GENERATIONS, Generation, Range
from planner.profiles.catalogue import read_profile
from planner.profiles.consistency import relations
from planner.profiles.figure_units import figure_unit
from tests.planted import Planted, assert_found_alone, shipped_text, written

HARDWARE = profile_names("hardware")


def table_of(key: str) -> str:
    """Table of a hardware profile that a figure stands in."""
    return "efficiency" if key in Efficiencies.model_fields else "figures"


def figures_of(chip: str) -> list[tuple[str, Figure]]:
    """Every figure of a chip by key, of either table."""
    found = hardware_profile(chip)
    return [(key, figure) for table in (found.figures, found.efficiency) for key, figure in table if figure]


def value_of(chip: str, key: str, new: str, says: str) -> Planted:
    """A chip with another value of a figure."""
    (old,) = re.findall(rf"^{key} = {{ value = [^,]+,", shipped_text(chip), flags=re.MULTILINE)
    return Planted(chip, old, f"{key} = {{ value = {new},", f"{table_of(key)}.{key}.value", says)


def basis_of(chip: str, key: str, old: str, new: str, says: str) -> Planted:
    """A chip with another basis of a figure."""
    (line,) = re.findall(rf"^{key} = .*$", shipped_text(chip), flags=re.MULTILINE)
    changed = line.replace(f'basis = "{old}"', f'basis = "{new}"')
    return Planted(chip, line, changed, f"{table_of(key)}.{key}.basis", says)


def without(chip: str, key: str, reported: str, says: str) -> Planted:
    """A chip without a figure; what is absent is reported at the table."""
    (line,) = re.findall(rf"^{key} = .*\n", shipped_text(chip), flags=re.MULTILINE)
    return Planted(chip, line, "", reported, says, at="[figures]")


PLANTED = {
    # Units
    "memory in bytes": value_of("h200-sxm", "memory_gb", "141e9", "memory_gb is in GB: 1.41e+11 bytes are 141"),
    "memory in MB": value_of("b200-sxm", "memory_gb", "180000", "memory_gb is in GB: 180000 MB are 180"),
    "memory in TB": value_of("gb300", "memory_gb", "0.288", "memory_gb is in GB: 0.288 TB are 288"),
    "bandwidth in GB/s": value_of("h100-sxm", "memory_bandwidth_tb_per_s", "3350", "is in TB/s: 3350 GB/s are 3.35"),
    "bandwidth in bytes/s": value_of("mi300x", "memory_bandwidth_tb_per_s", "5.3e12", "5.3e+12 bytes/s are 5.3"),
    "peak in FLOP/s": value_of("a100-sxm-80gb", "bf16_tflops", "312e12", "is in TFLOP/s: 3.12e+14 FLOP/s are 312"),
    "peak in PFLOP/s": value_of("b200-sxm", "fp4_tflops", "9.0", "fp4_tflops is in TFLOP/s: 9 PFLOP/s are 9000"),
    "peak in GFLOP/s": value_of("h20-96gb", "bf16_tflops", "148000", "is in TFLOP/s: 148000 GFLOP/s are 148"),
    "int8 in POP/s": value_of("l40s", "int8_tops", "0.733", "int8_tops is in TOP/s: 0.733 POP/s are 733"),
    "clock in GHz": value_of("h200-sxm", "boost_clock_mhz", "1.83", "boost_clock_mhz is in MHz: 1.83 GHz are 1830"),
    "clock in Hz": value_of("mi355x", "boost_clock_mhz", "2.4e9", "boost_clock_mhz is in MHz: 2400000000 Hz are 2400"),
    "link both ways": value_of("h100-sxm", "scaleup_gb_per_s", "900", "900 GB/s of both directions together are 450"),
    "link in Gbps": value_of("tpu-v5e", "scaleup_gb_per_s", "1600", "is in GB/s: 1600 Gbps are 200"),
    "link in TB/s": value_of("rubin-vr200", "scaleup_gb_per_s", "1.8", "is in GB/s: 1.8 TB/s are 1800"),
    "network in Mbps": value_of("gb200", "nic_gbps", "800000", "nic_gbps is in Gbps: 800000 Mbps are 800"),
    "network in GB/s": value_of("h200-sxm", "nic_gbps", "50", "nic_gbps is in Gbps: 50 GB/s are 400"),
    "network of a whole server": value_of(
        "h200-sxm", "nic_gbps", "3200", "is 3200 (100 to 400 Gbps in generation hopper"
    ),
    "host link in MB/s": value_of("mi325x", "pcie_gb_per_s", "63000", "is in GB/s: 63000 MB/s are 63"),
    "power in kW": value_of("gb300", "tdp_w", "1.4", "tdp_w is in W: 1.4 kW are 1400"),
    "power of a whole rack": value_of("gb200", "tdp_w", "120000", "tdp_w is in W"),
    "rent in cents": value_of("a100-sxm-80gb", "rent_high_usd_per_hour", "300", "is in USD/h: 300 US cents/h are 3"),
    "rent by the month": value_of("b200-sxm", "rent_high_usd_per_hour", "10395.2", "10395.2 USD per month are 14.24"),
    "price in thousands": value_of("h100-sxm", "card_price_usd", "33.6", "card_price_usd is in USD: 33.6 thousand USD"),
    # Ranges
    "peak with sparsity": value_of("h200-sxm", "bf16_tflops", "1979", "1979 TFLOP/s with sparsity are 989.5"),
    "memory of a pair": value_of("h100-sxm", "memory_gb", "160", "64 to 144 GB in generation hopper"),
    "reported memory in GiB": value_of("h100-sxm", "reported_memory_mib", "79.6", "is in MiB: 79.6 GiB are 81510.4"),
    "reported memory of a slice": value_of(
        "h200-sxm", "reported_memory_mib", "71424", "74.89 GB beside memory_gb = 141 (0.9 to 1.08 of what is sold;"
    ),
    "bandwidth of another generation": value_of("h200-sxm", "memory_bandwidth_tb_per_s", "8.0", "2 to 4.9 TB/s"),
    "too many units": value_of("mi300x", "n_sm", "1216", "80 to 304 in generation cdna3"),
    "clock of a processor": value_of("a100-sxm-80gb", "boost_clock_mhz", "3900", "1000 to 1900 MHz"),
    "power of a phone": value_of("tpu-v6e", "tdp_w", "90", "200 to 500 W in generation tpu-v6e"),
    "release before its generation": value_of("h100-sxm", "release_year", "2012", "2022 to 2025 in generation hopper"),
    "release far ahead": value_of("rubin-vr200", "release_year", "2062", "2026 to 2027"),
    "rent of a penny": value_of("mi355x", "rent_low_usd_per_hour", "0.01", "0.05 to 50 USD/h"),
    "rent of a server": value_of("h200-sxm", "rent_high_usd_per_hour", "63.296", "0.05 to 50 USD/h"),
    "price of a server": value_of("mi300x", "card_price_usd", "1500000", "500 to 200000 USD"),
    "a node of hundreds": value_of("h200-sxm", "accelerators_per_node", "800", "1 to 128"),
    "a domain of millions": value_of("tpu-v7", "scaleup_domain_accelerators", "9216000", "1 to 20000"),
    # Contradictions
    "bf16 off the clock and fp8": value_of("h200-sxm", "bf16_tflops", "898", "is not 2 x bf16_tflops = 898"),
    "fp8 not twice": value_of("h100-sxm", "fp8_tflops", "1513", "fp8_tflops = 1513 is not 2 x bf16_tflops = 989"),
    "int8 not twice": value_of("mi300x", "int8_tops", "5229.8", "int8_tops = 5229.8 is not 2 x bf16_tflops = 1307.4"),
    "fp4 not four times": value_of("gb200", "fp4_tflops", "20000", "fp4_tflops = 20000 is not 4 x bf16_tflops = 2500"),
    "fp8 that gains nothing there": value_of("gaudi3", "fp8_tflops", "3354", "is not 1 x bf16_tflops = 1677"),
    "fp4 below fp8": value_of("rubin-vr200", "fp4_tflops", "17000", "less than fp8_tflops = 17500"),
    "rent upside down": value_of("tpu-v6e", "rent_high_usd_per_hour", "0.27", "less than rent_low_usd_per_hour = 1.35"),
    "fp4 without a unit": Planted(
        "h200-sxm",
        "int8_tops = {",
        'fp4_tflops = { value = 3958.0, source = "epoch", basis = "datasheet" }\nint8_tops = {',
        "figures.fp4_tflops.value",
        "generation hopper has no unit for it",
        at="fp4_tflops",
    ),
    "fp8 without a unit": Planted(
        "a100-sxm-80gb",
        "int8_tops = {",
        'fp8_tflops = { value = 624.0, source = "epoch", basis = "datasheet" }\nint8_tops = {',
        "figures.fp8_tflops.value",
        "generation ampere has no unit for it",
        at="fp8_tflops",
    ),
    "domain not of whole servers": value_of(
        "gb200", "scaleup_domain_accelerators", "70", "beside accelerators_per_node = 4"
    ),
    "a link that joins nothing": value_of("h200-sxm", "scaleup_domain_accelerators", "1", "but scaleup_gb_per_s = 450"),
    "a link below the network": value_of("a100-sxm-80gb", "scaleup_gb_per_s", "20", "nic_gbps = 200 or 25 GB/s"),
    # Completeness, generation and vendor
    "no memory": without("l20", "memory_gb", "figures.memory_gb", "is required"),
    "no bandwidth": without("gaudi3", "memory_bandwidth_tb_per_s", "figures.memory_bandwidth_tb_per_s", "is required"),
    "no peak": without("groq-lp30", "fp8_tflops", "figures", "has no peak"),
    "a domain without a link": without("mi355x", "scaleup_gb_per_s", "figures.scaleup_gb_per_s", "is required"),
    "generation mistyped": Planted(
        "h200-sxm", 'generation = "hopper"', 'generation = "hoper"', "generation", "did you mean 'hopper'?"
    ),
    "generation unheard of": Planted("l40s", '"ada"', '"lovelace-next"', "generation", "'other' for a part of none"),
    "generation of another chip": Planted(
        "h200-sxm", '"hopper"', '"tpu-v5e"', "generation", "most figures lie outside its ranges"
    ),
    "vendor of another generation": Planted(
        "mi300x", 'vendor = "AMD"', 'vendor = "NVIDIA"', "vendor", "generation cdna3 is sold by AMD"
    ),
    # Efficiencies
    "efficiency in percent": value_of(
        "h200-sxm", "gemm_bf16_m1536_fraction", "78.0", "is in parts of 1: 78 % are 0.78"
    ),
    "efficiency above the peak": value_of("b200-sxm", "gemm_fp4_m4096_fraction", "1.04", "is 1.04 (0.05 to 1 parts"),
    "efficiency of next to nothing": value_of("h100-sxm", "recurrence_fraction", "0.0001", "0.01 to 1 parts of 1"),
    "bandwidth in GB/s for its fraction": value_of("a100-sxm-80gb", "all_reduce_fraction", "222.3", "0.02 to 1.1"),
    "an all-reduce far above its link": value_of("h800-sxm", "all_reduce_fraction", "1.2", "0.02 to 1.1 parts of 1"),
    "a pair above its link": value_of("h200-sxm", "all_reduce_2_fraction", "1.02", "0.02 to 1 parts of 1"),
    "a pair faster than four behind a switch": value_of(
        "h100-sxm", "all_reduce_2_fraction", "0.93", "more than 1.15 x all_reduce_4_fraction = 0.7782"
    ),
    "eight faster than four over PCIe": value_of(
        "l40s", "all_reduce_fraction", "0.2", "more than 1.15 x all_reduce_4_fraction = 0.1613"
    ),
    "latency in ns": value_of("h100-sxm", "all_reduce_latency_us", "5200", "is in us: 5200 ns are 5.2"),
    "latency in ms": value_of("b200-sxm", "all_reduce_latency_us", "0.0081", "is in us: 0.0081 ms are 8.1"),
    "seconds of all chunks for one": value_of("gb200", "recurrence_chunk_us", "511", "0.5 to 100 us"),
    "few rows better than many": value_of(
        "h200-sxm", "gemm_bf16_m256_fraction", "0.95", "is 0.95, more than 1.15 x gemm_bf16_m"
    ),
    "many rows worse than few": value_of(
        "l40s", "gemm_fp8_m4096_fraction", "0.2", "gemm_fp8_m256_fraction = 0.32 is more than 1.15 times that"
    ),
    "fp8 better used than bf16": value_of(
        "gaudi3", "gemm_fp8_m4096_fraction", "0.95", "more than 1.15 x gemm_bf16_m4096_fraction = 0.7412"
    ),
    "fp4 better used than fp8": value_of(
        "b300-sxm", "gemm_fp4_m4096_fraction", "0.7", "more than 1.15 x gemm_fp8_m4096_fraction = 0.516"
    ),
    "weights that hardly move": value_of("a100-sxm-80gb", "weight_read_bf16_fraction", "0.08", "0.1 to 1 parts of 1"),
    "attention better than a product": value_of(
        "gb200", "attention_prefill_fraction", "0.8", "more than 1.15 x gemm_bf16_m4096_fraction = 0.681"
    ),
    "a product worse than all of its kind": value_of(
        "a100-sxm-80gb", "gemm_bf16_m4096_fraction", "0.28", "is 0.28, and gemm_bf16_m256_fraction = 0.677 is more"
    ),
    "experts better than a product": value_of(
        "gb200", "moe_fp4_m4096_fraction", "0.5", "more than 1.15 x gemm_fp4_m4096_fraction = 0.406"
    ),
    "fp8 weights read faster than bf16": value_of(
        "h100-sxm", "weight_read_fp8_fraction", "0.99", "more than 1.15 x weight_read_bf16_fraction = 0.86"
    ),
    "a fraction of no peak": Planted(
        "mi300x",
        "all_reduce_fraction = {",
        'gemm_fp4_m4096_fraction = { value = 0.4, source = "ml-engineering", basis = "derived", note = "n" }\n'
        "all_reduce_fraction = {",
        "efficiency.gemm_fp4_m4096_fraction",
        "is a fraction of fp4_tflops, which has no figure",
        at="gemm_fp4",
    ),
    "a fraction of no link": Planted(
        "l20",
        shipped_text("l20").splitlines()[-1] + "\n",
        shipped_text("l20").splitlines()[-1]
        + '\n\n[efficiency]\nall_to_all_fraction = { value = 0.4, source = "epoch", basis = "measured" }\n',
        "efficiency.all_to_all_fraction",
        "is a fraction of scaleup_gb_per_s",
        at="all_to_all",
    ),
    "a vendor's efficiency": basis_of("gb300", "attention_decode_fraction", "derived", "datasheet", "is 'datasheet'"),
    "an efficiency before sale": basis_of(
        "gb300", "weight_read_bf16_fraction", "derived", "announced", "a vendor gives"
    ),
    "an efficiency measured before sale": Planted(
        "rubin-vr200",
        shipped_text("rubin-vr200").splitlines()[-1] + "\n",
        shipped_text("rubin-vr200").splitlines()[-1]
        + '\n\n[efficiency]\nall_reduce_fraction = { value = 0.8, source = "ml-engineering", basis = "measured" }\n',
        "efficiency.all_reduce_fraction.basis",
        "where status is 'announced'",
        at="all_reduce",
    ),
    "an efficiency derived from nothing said": Planted(
        "gaudi3",
        ', note = "1243 of 1677 TFLOP/s, best shape of any size"',
        "",
        "efficiency.gemm_bf16_m4096_fraction.note",
        "beside an efficiency that is 'derived': from what",
        at="gemm_bf16_m4096",
    ),
    "an efficiency given out as a lead": basis_of(
        "h200-sxm", "moe_fp8_m4096_fraction", "derived", "lead", "whose id ends in -lead"
    ),
    "an efficiency mistyped": Planted(
        "l40s",
        "attention_decode_fraction =",
        "attention_decoding_fraction =",
        "efficiency.attention_decoding_fraction",
        "did you mean 'attention_decode_fraction'?",
    ),
    # Sources and marks
    "source that nothing cites": Planted(
        "h20-96gb",
        "[sources]\n",
        '[sources]\nblog = "A blog, https://example.org/h20"\n',
        "sources.blog",
        "is cited by no figure",
        at="blog =",
    ),
    "source without address": Planted(
        "mi300x",
        shipped_text("mi300x").split("gpu-blog = ")[1].split("\n")[0],
        '"GPU.blog"',
        "sources.gpu-blog",
        "gives no address",
    ),
    "lead given out as a quote": basis_of(
        "h200-sxm", "rent_high_usd_per_hour", "lead", "quoted", "whose id ends in -lead"
    ),
    "quote marked as a lead": basis_of("h200-sxm", "rent_low_usd_per_hour", "quoted", "lead", "only for those"),
    "available part given out as announced": Planted(
        "b200-sxm", 'status = "available"', 'status = "announced"', "status", "figures are 'datasheet'"
    ),
    "announced part given out as available": Planted(
        "rubin-vr200", 'status = "announced"', 'status = "available"', "status", "figures are 'announced'"
    ),
    "datasheet of an announced part": basis_of(
        "rubin-vr200", "memory_gb", "announced", "datasheet", "no figure is 'datasheet' or 'measured'"
    ),
    "claim about an available part": basis_of(
        "mi355x", "fp4_tflops", "datasheet", "announced", "no figure is 'announced' where status is 'available'"
    ),
}


def test_eighty_kinds_of_fault_are_planted() -> None:
    assert len(PLANTED) >= 80


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_fault_is_found_alone_at_its_line(planted: Planted, tmp_path: Path) -> None:
    assert_found_alone(planted, tmp_path)


@pytest.mark.parametrize(
    ("chip", "key", "new", "others"),
    [
        ("h200-sxm", "n_sm", "123", {"boost_clock_mhz"}),
        ("mi300x", "boost_clock_mhz", "1900.0", {"n_sm"}),
        ("tpu-v7", "fp8_tflops", "2307.0", {"bf16_tflops"}),
        ("groq-lpu-v1", "int8_tops", "376.0", {"bf16_tflops"}),
    ],
)
def test_figures_that_nothing_else_clears_are_reported_together(
    chip: str, key: str, new: str, others: set[str], tmp_path: Path
) -> None:
    planted = value_of(chip, key, new, "")
    found = check_profiles([written(tmp_path, chip, planted.text())]).problems
    assert {problem.key for problem in found} == {f"figures.{name}.value" for name in {key, *others}}
    assert planted.line() in {problem.line for problem in found}
    assert len({problem.message for problem in found}) == 1


@pytest.mark.parametrize("chip", HARDWARE)
def test_a_factor_of_a_thousand_or_of_a_trillion_anywhere_is_found_and_the_unit_named(
    chip: str, tmp_path: Path
) -> None:
    for key, figure in figures_of(chip):
        unit = figure_unit(key)
        for factor in (1e3, 1e-3, 1e12, 1e-12) if unit else ():
            assert_found_alone(value_of(chip, key, repr(figure.value * factor), f"{key} is in {unit}"), tmp_path)


@pytest.mark.parametrize("chip", HARDWARE)
def test_every_figure_without_its_source_or_of_an_unknown_one_is_found(chip: str, tmp_path: Path) -> None:
    for key, _ in figures_of(chip):
        for new in ("", 'source = "hearsay", '):
            (line,) = re.findall(rf"^{key} = .*$", shipped_text(chip), flags=re.MULTILINE)
            text = shipped_text(chip).replace(line, re.sub(r'source = "[^"]*", ', new, line))
            (problem,) = check_profiles([written(tmp_path, chip, text)]).problems
            assert (problem.key, problem.line) == (
                f"{table_of(key)}.{key}.source",
                1 + text[: text.index(f"\n{key} = ")].count("\n") + 1,
            )


def test_faults_of_schema_and_of_sense_are_reported_together(tmp_path: Path) -> None:
    text = shipped_text("h200-sxm").replace('"available"', '"rumoured"').replace("value = 141.0", "value = 141e9")
    found = check_profiles([written(tmp_path, "h200-sxm", text)]).problems
    assert [problem.key for problem in found] == ["status", "figures.memory_gb.value"]


@pytest.mark.parametrize("odd", ["true", "[]", "{}", "[1]", '""', '"x"', "-1", "nan", "-inf", "9" * 400, "1979-05-27"])
def test_whatever_stands_for_a_value_is_a_problem_and_never_a_crash(odd: str, tmp_path: Path) -> None:
    lines = shipped_text("h200-sxm").splitlines()
    for number, line in enumerate(lines, start=1):
        key, equals, _ = line.partition(" = ")
        inside = re.sub(r"(value|source|basis) = [^,}]+", rf"\1 = {odd}", line, count=1)
        for changed in {f"{key} = {odd}", inside} - {line} if equals else ():
            text = "\n".join([*lines[: number - 1], changed, *lines[number:]])
            found = check_profiles([written(tmp_path, "h200-sxm", text)])
            assert found.n_files == 1
            assert all(problem.line for problem in found.problems)


def test_loading_leaves_sense_to_the_gate(tmp_path: Path) -> None:
    text = shipped_text("h200-sxm").replace('"hopper"', '"my-own"').replace("value = 141.0", "value = 1410.0")
    assert read_profile(written(tmp_path, "h200-sxm", text)).name == "h200-sxm"


def test_a_chip_of_no_known_generation_is_held_to_the_general_ranges(tmp_path: Path) -> None:
    text = shipped_text("h200-sxm").replace('"hopper"', '"other"').replace('"NVIDIA"', '"Somebody"')
    assert check_profiles([written(tmp_path, "h200-sxm", text.replace("value = 1979.0", "value = 1500.0"))]).holds
    (problem,) = check_profiles([written(tmp_path, "h200-sxm", text.replace("= 700.0", "= 7000.0"))]).problems
    assert "50 to 3000 W; tdp_w is in W" in str(problem)


def test_peaks_must_not_fall_with_precision_in_any_generation(tmp_path: Path) -> None:
    text = shipped_text("h200-sxm").replace('"hopper"', '"other"')
    planted = text.replace("fp8_tflops = { value = 1979.0", "fp8_tflops = { value = 197.9")
    (problem,) = check_profiles([written(tmp_path, "h200-sxm", planted)]).problems
    assert problem.key == "figures.fp8_tflops.value"
    assert "less than bf16_tflops = 989 (fp8_tflops >= bf16_tflops)" in str(problem)


def test_the_highest_clock_of_a_device_need_not_give_its_peak(tmp_path: Path) -> None:
    text = shipped_text("h200-sxm").replace("value = 1830.0", "value = 1980.0")
    assert not check_profiles([written(tmp_path, "h200-sxm", text)]).holds
    text = text.replace('basis = "derived", note = "the clock', 'basis = "measured", note = "the clock')
    assert check_profiles([written(tmp_path, "h200-sxm", text)]).holds


def test_a_label_of_a_neighbour_that_is_not_checked_along_is_taken(tmp_path: Path) -> None:
    written(tmp_path, "h100-sxm", shipped_text("h100-sxm"))
    own = shipped_text("h200-sxm").replace('aliases = ["h200_sxm", "h200"]', 'aliases = ["H100"]')
    (problem,) = check_profiles([written(tmp_path, "h200-sxm", own)]).problems
    assert (problem.key, problem.message) == ("aliases[0]", "'H100' already names h100-sxm")


def test_hardware_in_the_folder_beside_is_known_to_a_model_checked_alone(tmp_path: Path) -> None:
    for folder in ("hardware_profiles", "model_profiles"):
        (tmp_path / folder).mkdir()
    chip = shipped_text("h200-sxm").replace('name = "h200-sxm"', 'name = "my-chip"')
    written(tmp_path / "hardware_profiles", "my-chip", chip)
    model = shipped_text("kimi-linear-48b").replace('"h200-sxm"', '"my-chip"')
    assert check_profiles([written(tmp_path / "model_profiles", "kimi-linear-48b", model)]).holds


@pytest.mark.parametrize(
    ("old", "new", "key", "says"),
    [
        ("seconds = [0.44, 0.72, 1.84, 7.40]", "seconds = [440, 720, 1840, 7400]", "prefill.seconds[0]", "in s and"),
        ("seconds = [0.44, 0.72, 1.84, 7.40]", "seconds = [44e-5, 72e-5, 184e-5, 74e-4]", "prefill.seconds[0]", "in s"),
        (
            "tokens = [1024, 8192, 32000, 130000]\nseconds",
            "tokens = [1, 8, 32, 130]\nseconds",
            "prefill.seconds[0]",
            "",
        ),
    ],
)
def test_measured_seconds_of_another_unit_are_found(old: str, new: str, key: str, says: str, tmp_path: Path) -> None:
    text = shipped_text("prfaas-1t")
    assert text.count(old) == 1
    found = check_profiles([written(tmp_path, "prfaas-1t", text.replace(old, new))]).problems
    assert [problem.key for problem in found] == [f"measured.table-5.{key}"]
    assert says in str(found[0])


# The table of generations

CORE = "cpu-core"
"""One core of a processor: what `planner live` measures, no part that is sold, and slower than any accelerator."""


@pytest.mark.parametrize("name", [name for name in GENERATIONS if name != CORE])
def test_a_generation_narrows_the_general_ranges_and_cites_its_ratios(name: str) -> None:
    generation = GENERATIONS[name]
    for key, own in generation.ranges.items():
        assert own.low in GENERAL[key]
        assert own.high in GENERAL[key]
        assert own.low <= own.high
    assert not set(generation.lacks) & {*generation.peaks_per_bf16, *generation.ranges}
    known = (generation.peaks_per_bf16, generation.lacks, generation.bf16_flop_per_clock_per_sm)
    assert bool(generation.source) == any(known)


def test_every_generation_but_other_has_a_shipped_part() -> None:
    used = {hardware_profile(name).generation for name in HARDWARE}
    variants = {variant for generation in GENERATIONS.values() for variant in generation.variants}
    assert used == set(GENERATIONS) - {"other", CORE} - variants


def test_a_core_is_slower_than_any_accelerator() -> None:
    core = GENERATIONS[CORE].ranges["bf16_tflops"]
    accelerators = [found.ranges for name, found in GENERATIONS.items() if name != CORE]
    assert core.low < GENERAL["bf16_tflops"].low
    assert core.high < min(ranges["bf16_tflops"].low for ranges in accelerators if "bf16_tflops" in ranges)


def test_no_range_is_so_wide_that_a_wrong_unit_could_hide_in_it() -> None:
    for generation in GENERATIONS.values():
        assert all(own.high / own.low < 1000 for own in generation.ranges.values())


def test_an_equation_needs_all_its_figures() -> None:
    hopper = Generation(("NVIDIA",), {}, {"fp8_tflops": 2.0}, (), 4096, "a test")
    values = {"bf16_tflops": 989.0, "n_sm": 132.0, "boost_clock_mhz": 1830.0, "fp8_tflops": 1979.0}
    assert [found.holds for found in relations(hopper, values)] == [True, True]
    assert [found.holds for found in relations(hopper, values, clock_is_the_peaks=False)] == [True]
    assert relations(hopper, {"bf16_tflops": 989.0, "n_sm": 132.0}) == []


def test_a_range_includes_its_ends() -> None:
    assert 1.0 in Range(1, 2)
    assert 2.0 in Range(1, 2)
    assert 2.1 not in Range(1, 2)
    assert (str(Range(0.2, 2_000)), str(Range(8, 8))) == ("0.2 to 2000", "8")
