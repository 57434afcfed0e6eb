"""Efficiencies are the published ones: each value again from the collection, with its arithmetic written out."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from planner.profiles import Efficiencies, Figure, HardwareProfile, hardware_profile, profile_names
from planner.profiles.efficiency import ALL_REDUCE_RANKS, WHOLES
from planner.profiles.efficiency_checks import BOUNDS, RANGES, SLACK
from planner.profiles.figure_units import figure_unit

HARDWARE = profile_names("hardware")
COLLECTED = {
    "a100-sxm-80gb": "NVIDIA-A100-SXM-80GB",
    "h100-sxm": "NVIDIA-H100-SXM",
    "h200-sxm": "NVIDIA-H200-SXM",
    "b200-sxm": "NVIDIA-B200-SXM",
    "b300-sxm": "NVIDIA-B300-SXM",
    "gb200": "NVIDIA-GB200",
    "gb300": "NVIDIA-GB300",
    "l40s": "NVIDIA-L40S",
}
"""Chips of which one collector timed every kernel."""

AS_PUBLISHED = {"attention_prefill_fraction": "prefill_attention_bf16_fraction"}
"""Key in the collection of each efficiency that it gives as a fraction, for the chips of one collector."""
CONDENSED = "kernels"
"""Source of figures that `planner profiles kernels` made; tests/test_kernels.py is of these."""

KDA, DEEP_GEMM, DEEP_EP = "KDA and GDN kernels", "DeepGEMM H800", "DeepEP"
COLLECTIVES, MAMF = "NVLink, PCIe and multi-node collectives", "MAMF matmul (ml-engineering)"
DEFAULTS, H20 = "published planner defaults", "NVIDIA-H20-96GB"

LINKS_GB_PER_S = {
    "a100-sxm-80gb": 300,
    **dict.fromkeys(("h100-sxm", "h200-sxm", "h20-96gb", "h20-141gb"), 450),
    "l40s": 32,
}
"""Scale-up links; 900 of the others that one collector timed."""

Entries = dict[str, dict[str, Any]]
Expected = dict[tuple[str, str], tuple[float, dict[str, Any]]]
"""Value and entry of the collection by chip and key."""


@pytest.fixture(scope="module")
def published(data_file: Callable[[str], Path]) -> Entries:
    """Published efficiencies by name, from the collection that lies beside the measured data."""
    found: Entries = json.loads(data_file("../reference/hardware.json").read_text(encoding="utf-8"))
    return {name.removeprefix("efficiency:"): entry for name, entry in found.items() if name.startswith("efficiency:")}


@pytest.fixture(scope="module")
def expected(published: Entries) -> Expected:
    """Everything that the catalogue should say."""
    measured = (collected, attention_tiles, h800, h20, recurrences, collectives, best_shapes)
    parts = (*measured, smaller_groups, wide_experts, planner_defaults)
    return {key: found for part in parts for key, found in part(published)}


Found = Iterator[tuple[tuple[str, str], tuple[float, dict[str, Any]]]]


def collected(published: Entries) -> Found:
    """Fractions as the collector's medians give them; a bus bandwidth is divided by the link."""
    for chip, name in COLLECTED.items():
        for key, other in AS_PUBLISHED.items():
            if other in published[name]:
                entry = published[name][other]
                yield (chip, key), (entry["value"], entry)
        entry = published[name]["nccl_all_reduce_busbw"]
        yield (chip, "all_reduce_fraction"), (entry["value"] / LINKS_GB_PER_S.get(chip, 900), entry)


ALL_REDUCES = {
    "a100-sxm-80gb": (193.0, 216.7),
    "l40s": (20.1, 5.16),
    "h100-sxm": (318.3, 350.2),
    "h200-sxm": (315.1, 348.4),
    "b200-sxm": (534.1, 633.7),
    "b300-sxm": (543.7, 638.5),
    "gb200": (529.8, 628.1),
    "gb300": (544.8, 634.9),
}
"""Bus bandwidth over 2 and 4 accelerators by chip [GB/s], 2 (n - 1) / n bytes / seconds of 512 MiB of half precision:
other rows of the tables that the published ones of 8 are from, comm/nccl in the wheel aiconfigurator-core 0.12.0."""


def smaller_groups(published: Entries) -> Found:
    """Over the link, cited as the largest group is; H20's links are H200's. MI300X's pair is beside its eight."""
    for chip, both in (ALL_REDUCES | dict.fromkeys(("h20-96gb", "h20-141gb"), ALL_REDUCES["h200-sxm"])).items():
        entry = published[COLLECTED.get(chip, COLLECTED["h200-sxm"])]["nccl_all_reduce_busbw"]
        for n_ranks, gb_per_s in zip((2, 4), both, strict=True):
            yield (chip, f"all_reduce_{n_ranks}_fraction"), (gb_per_s / LINKS_GB_PER_S.get(chip, 900), entry)
    mi300x = published[COLLECTIVES]["MI300X_8gpu_allreduce_busbw"]
    assert "2 GPUs 47.7" in mi300x["note"]
    yield ("mi300x", "all_reduce_2_fraction"), (47.7 / 448, mi300x)


TILES = {
    "a100-sxm-80gb": (413, 0.50 * 108, "a100_sxm/attention/vllm/0.14.0"),
    "l40s": (283, 0.20 * 142, "l40s/attention/vllm/0.24.0"),
    "h100-sxm": (829, 0.21 * 132, "h100_sxm/attention/vllm/0.24.0"),
    "h200-sxm": (786, 0.17 * 132, "h200_sxm/attention/vllm/0.24.0"),
    "b200-sxm": (974, 1.12 * 148, "b200_sxm/attention/vllm/0.24.0"),
    "b300-sxm": (983, 0.99 * 148, "b300_sxm/attention/vllm/0.24.0"),
    "gb200": (1000, 1.13 * 152, "gb200/attention/vllm/0.24.0"),
    "gb300": (1095, 1.14 * 152, "gb300/attention/vllm/0.24.0"),
}
"""By chip, from the timings of the wheel aiconfigurator-core 0.12.0: half length, tail in tiles of one multiprocessor
times multiprocessors, folder. Robust least squares on the logarithm of seconds = L + T / f (1 + n / tokens + a 256 N /
(heads prompts tokens)) over 256 to 16,384 tokens, 4 to 96 query heads, grouped, dimension 128, bf16."""


def attention_tiles(_: Entries) -> Found:
    """What attention's tiles lose; H20's by `h20_tiles`."""
    half, tail = h20_tiles()
    h200 = TILES["h200-sxm"][2]
    for chip, (tokens, tiles, folder) in (TILES | dict.fromkeys(("h20-96gb", "h20-141gb"), (half, tail, h200))).items():
        cited = {"source": f"{folder}, as of 2026-11-24"}
        yield (chip, "attention_half_tokens"), (tokens, cited)
        yield (chip, "attention_tail_tiles"), (round(tiles), cited)


WIDE = {
    "h100-sxm": (821 / 1979, (1020 + 1424) / 2 / 1979, 0.73),
    "h200-sxm": (938 / 1979, (1089 + 1391) / 2 / 1979, 0.73),
    "b200-sxm": (1241 / 4500, 1559 / 4500, None),
    "gb200": (1304 / 5000, 1647 / 5000, None),
}
"""By chip, from the same wheel: DeepGEMM's grouped products at 256 rows of each expert and at 4096 to 8192, less
copying and activation where tokens lie side by side; and DeepEP's dispatch on 8 GPUs over the link."""


def wide_experts(published: Entries) -> Found:
    """Experts of wide expert parallelism as SGLang runs them, and as DeepSeek states them of the H800."""
    for chip, (masked, side_by_side, dispatched) in WIDE.items():
        folder, exchange = chip.replace("-", "_"), "" if dispatched is None else " and comm/sglang/0.5.6.post2"
        cited = {"source": f"systems/data/{folder}, moe/sglang/0.5.10{exchange}"}
        yield (chip, "grouped_fp8_m256_fraction"), (masked, cited)
        yield (chip, "grouped_fp8_m4096_fraction"), (side_by_side, cited)
        if dispatched is not None:
            yield (chip, "all_to_all_fraction"), (dispatched, cited)
    for key, name in (("m256", "fp8_grouped_masked_256_per_expert"), ("m4096", "fp8_grouped_contiguous")):
        entry = published[DEEP_GEMM][name]
        yield ("h800-sxm", f"grouped_fp8_{key}_fraction"), (sum(entry["value"]) / 2 / 1979, entry)


def h800(published: Entries) -> Found:
    """DeepSeek's own kernels: a median it states, the middle of a range, and the best bandwidth."""
    dense = published[DEEP_GEMM]["fp8_dense_M4096"]
    assert "median ~1147 = 58%" in dense["note"]
    yield ("h800-sxm", "gemm_fp8_block_m4096_fraction"), (1147 / 1979, dense)
    grouped = published[DEEP_GEMM]["fp8_grouped_contiguous"]
    assert grouped["value"] == [1214, 1346]
    yield ("h800-sxm", "moe_fp8_m4096_fraction"), ((1214 + 1346) / 2 / 1979, grouped)
    decode = published["FlashMLA"]["H800_dense_decode_memory"]
    yield ("h800-sxm", "attention_decode_fraction"), (decode["value"] / 3350, decode)


def h20(published: Entries) -> Found:
    """TFLOP/s over 148; the part with 141 GB has the same multiprocessors.

    Products are the middle of three sizes. Attention was measured at 2k tokens, on other accelerators at 8k to 16k of
    some 32 heads: with the half length n, queries of k keys reach 1 / (1 + n / 2k) of what endless ones do.
    """
    link = published[COLLECTED["h200-sxm"]]["nccl_all_reduce_busbw"]
    for chip in ("h20-96gb", "h20-141gb"):
        yield (chip, "all_reduce_fraction"), (link["value"] / 450, link)
        product = published[H20]["bf16_gemm_max"]
        assert "138.6 at 8192^3, 133 at 4096^3" in product["note"]
        yield (chip, "gemm_bf16_m4096_fraction"), (138.6 / 148, product)
        causal, whole = (published[H20][f"fa3_fwd_{mask}_hd128_2k"] for mask in ("causal", "noncausal"))
        half, tail = h20_tiles()
        long = 1 + (half + 2 * 128 * tail / 32) / 11_600
        found = (causal["value"] * (1 + half / 2048) + whole["value"] * (1 + half / 4096)) / 2 / 148 / long
        yield (chip, "attention_prefill_fraction"), (round(found, 4), causal)
        entry = published[H20]["kda_prefill_T8192_H96_ms"]
        assert entry["value"] == published[KDA]["KDA_prefill_8192tok_H96_ms"]["value"]["H20"]
        yield (chip, "recurrence_fraction"), (recurrence_fraction(8192, entry["value"], 148), entry)


def h20_tiles() -> tuple[float, float]:
    """Half length and tail of H20: on the line through A100 and H200 by the peak of a multiprocessor; as many of H20's
    multiprocessors run dry as of H200's."""
    a100, h20, h200 = (peak / n for peak, n in ((312, 108), (148, 78), (989, 132)))
    half = 413 + (786 - 413) * (h20 - a100) / (h200 - a100)
    return round(half), round(0.17 * 78)


def recurrence_fraction(n_tokens: int, milliseconds: float, bf16_tflops: float) -> float:
    """Part of the peak at which 96 heads of 128 are brought up to date, in chunks of 64."""
    d, chunk, n_heads = 128, 64, 96
    flop_per_token_and_head = 6 * d**2 + 5 * chunk * d + chunk**2
    assert flop_per_token_and_head == 143_360
    return n_tokens * n_heads * flop_per_token_and_head / (milliseconds * 1e-3) / (bf16_tflops * 1e12)


def recurrences(published: Entries) -> Found:
    """Prefill of 96 heads, of which B300 and GB300 have only the longer; chunks of 12; states read and written."""
    entries = published[KDA]
    short, long = entries["KDA_prefill_8192tok_H96_ms"], entries["KDA_prefill_32768tok_H96_ms"]
    few, decode = entries["KDA_prefill_8192tok_H12_ms"], entries["KDA_decode_b256_H96_ms"]
    for name, chip, bf16_tflops, n_tokens, prefill in (
        ("H100", "h100-sxm", 989, 8192, short),
        ("H200", "h200-sxm", 989, 8192, short),
        ("B200", "b200-sxm", 2250, 8192, short),
        ("GB200", "gb200", 2500, 8192, short),
        ("B300", "b300-sxm", 2250, 32768, long),
        ("GB300", "gb300", 2500, 32768, long),
    ):
        yield (
            (chip, "recurrence_fraction"),
            (recurrence_fraction(n_tokens, prefill["value"][name], bf16_tflops), prefill),
        )
        if name in few["value"]:
            yield (chip, "recurrence_chunk_us"), (few["value"][name] * 1e3 / (8192 / 64), few)
    state_bytes_per_sequence = 96 * 128 * 128 * 4
    printed = {"H100": 0.86, "H200": 0.84, "B200": 0.72, "GB200": 0.75, "GB300": 0.76}
    assert "/".join(map(str, printed.values())) in decode["note"]
    for name, chip, tb_per_s in (
        ("H100", "h100-sxm", 3.35),
        ("H200", "h200-sxm", 4.8),
        ("B200", "b200-sxm", 8.0),
        ("GB200", "gb200", 8.0),
        ("GB300", "gb300", 8.0),
    ):
        found = 256 * 2 * state_bytes_per_sequence / (decode["value"][name] * 1e-3) / (tb_per_s * 1e12)
        assert found == pytest.approx(printed[name], abs=0.006)
        yield (chip, "recurrence_decode_fraction"), (found, decode)


def collectives(published: Entries) -> Found:
    """Microseconds as published; GB/s over one direction of the link."""
    small = published[COLLECTIVES]["custom_allreduce_8gpu_8192elem_us"]
    for name, chip in (("H100", "h100-sxm"), ("H200", "h200-sxm"), ("B200", "b200-sxm")):
        yield (chip, "all_reduce_latency_us"), (small["value"][name], small)
    h800_reduce = published[COLLECTIVES]["H800_8gpu_allreduce_busbw"]
    yield ("h800-sxm", "all_reduce_fraction"), (h800_reduce["value"] / 200, h800_reduce)
    mi300x = published[COLLECTIVES]["MI300X_8gpu_allreduce_busbw"]
    yield ("mi300x", "all_reduce_fraction"), (mi300x["value"] / 448, mi300x)
    dispatch = published[DEEP_EP]["H800_intranode_dispatch_EP8"]
    yield ("h800-sxm", "all_to_all_fraction"), (dispatch["value"] / 200, dispatch)
    blackwell = published[DEEP_EP]["V2_SM100_EP8_NVLink"]
    yield ("b200-sxm", "all_to_all_fraction"), (blackwell["value"][0] / 900, blackwell)


def best_shapes(published: Entries) -> Found:
    """TFLOP/s of the best shape over the peak of the profile, which for AMD is not the page's."""
    for chip, name, precision, peak_tflops in (
        ("mi300x", "MI300X bf16", "bf16", 1307.4),
        ("mi325x", "MI325X bf16", "bf16", 1307.4),
        ("mi355x", "MI355X bf16", "bf16", 2516.6),
        ("gaudi3", "Gaudi3 bf16", "bf16", 1677),
        ("gaudi3", "Gaudi3 fp8", "fp8", 1677),
    ):
        entry = published[MAMF][name]
        yield (chip, f"gemm_{precision}_m4096_fraction"), (entry["value"] / peak_tflops, entry)


def planner_defaults(published: Entries) -> Found:
    """One default for all computation, one for all memory traffic, one for all communication."""
    for chip, family, wide in (
        ("ascend-910b2", "A2_A3", False),
        ("ascend-910c", "A2_A3", False),
        ("ascend-950pr", "A5_950", True),
    ):
        compute = published[DEFAULTS][f"ascend_{family}_compute_efficiency"]
        memory = published[DEFAULTS][f"ascend_{family}_memory_efficiency"]
        link = published[DEFAULTS]["ascend_comm_efficiency"]
        keys = ["gemm_bf16_m4096", "attention_prefill", *(("gemm_fp8_m4096", "gemm_fp4_m4096") if wide else ())]
        yield from (((chip, f"{key}_fraction"), (compute["value"], compute)) for key in keys)
        keys = ["weight_read_bf16", "attention_decode", *(("weight_read_fp8",) if wide else ())]
        yield from (((chip, f"{key}_fraction"), (memory["value"], memory)) for key in keys)
        yield (chip, "all_reduce_fraction"), (link["value"], link)


def efficiencies(chip: HardwareProfile) -> dict[str, Figure]:
    return {key: figure for key, figure in chip.efficiency if figure is not None}


def stated(name: str) -> dict[str, Figure]:
    """Efficiencies that somebody published, and no timings of kernels were condensed to."""
    found = efficiencies(hardware_profile(name))
    return {key: figure for key, figure in found.items() if figure.source != CONDENSED}


MEASURED = [name for name in HARDWARE if efficiencies(hardware_profile(name))]


@pytest.mark.parametrize("name", HARDWARE)
def test_every_efficiency_is_the_published_one_and_unmeasured_ones_are_absent(name: str, expected: Expected) -> None:
    shipped = {key: figure.value for key, figure in stated(name).items()}
    assert shipped == {key: float(f"{value:.4g}") for (chip, key), (value, _) in expected.items() if chip == name}


NUMBER = r"([\d.]+)"
OF_WHOLE = " of N (?:TFLOP|GB)/s"
BARE = {"attention_decode_fraction", "attention_half_tokens", "all_reduce_latency_us"}
"""Efficiencies that may be published as they are, without the figures that they come from."""


def numbers(pattern: str, note: str) -> list[float] | None:
    """Numbers of a note in the places of N in a pattern."""
    found = re.search(pattern.replace("N", NUMBER), note)
    return None if found is None else [float(number) for number in found.groups()]


def noted(whole: float, bf16_tflops: float, note: str) -> tuple[float, float] | None:
    """Least and largest efficiency that the figures of its note allow; None: it has none."""
    if found := numbers("range N-N", note):
        return found[0], found[1]
    exact = None
    if found := numbers("N and N, of which this is the mean", note):
        exact = fmean(found)
    elif found := numbers(rf"^the middle of N(?: \(.*?\))? (?:and|to) N(?: \(.*?\))?{OF_WHOLE}", note):
        exact = fmean(found[:2]) / found[2]
        assert found[2] == whole
    elif found := numbers(f"^(?:about )?N{OF_WHOLE}", note):
        exact = found[0] / found[1]
        assert found[1] == whole
    elif found := numbers(": N TFLOP/s$", note):
        exact = found[0] / whole
    elif found := numbers("N tokens of 96 heads in N ms", note):
        exact = recurrence_fraction(int(found[0]), found[1], bf16_tflops)
    elif found := numbers("N tokens of 12 heads, N chunks, in N ms", note):
        exact = found[2] * 1e3 / found[1]
    elif found := numbers("N sequences of 96 heads in N ms", note):
        exact = found[0] * 2 * 96 * 128 * 128 * 4 / (found[1] * 1e-3) / (whole * 1e9)
    elif found := numbers("N of the longest tile on one of N multiprocessors", note):
        exact = found[0] * found[1]
    return None if exact is None else (exact, exact)


def rounding(value: float) -> float:
    """Half of the last digit of a figure, and of the second behind the point at most unless it is whole."""
    return 0.5 if value.is_integer() else min(0.5 * 10.0 ** -len(f"{value}".partition(".")[2]), 0.005)


@pytest.mark.parametrize("name", MEASURED)
def test_an_efficiency_is_what_the_figures_of_its_own_note_make_it(name: str) -> None:
    chip = hardware_profile(name)
    figures = {key: figure.value for key, figure in chip.figures if figure is not None}
    for key, figure in efficiencies(chip).items():
        whole = figures.get(WHOLES.get(key, ""), 0.0) * (1e3 if WHOLES.get(key, "").endswith("_tb_per_s") else 1)
        note = figure.note or ""
        allowed = noted(whole, figures["bf16_tflops"], note)
        if allowed is None:
            assert key in BARE or "a planner's default" in note, (key, note)
        else:
            low, high = allowed
            assert low - rounding(figure.value) <= figure.value <= high + rounding(figure.value), (key, note)


def test_every_efficiency_cites_the_page_it_was_published_on(expected: Expected) -> None:
    cited = {
        (chip.name, key): chip.sources[figure.source].endswith(expected[chip.name, key][1]["source"])
        for chip in map(hardware_profile, HARDWARE)
        for key, figure in stated(chip.name).items()
    }
    assert cited == dict.fromkeys(expected, True)


@pytest.mark.parametrize("name", MEASURED)
def test_an_efficiency_says_how_it_is_known(name: str) -> None:
    found = efficiencies(hardware_profile(name))
    assert found
    of_other_chips = ("attention_half_tokens", "attention_tail_tiles", *ALL_REDUCE_RANKS)
    wanted = {"h20-141gb": "inferred"} | dict.fromkeys(("ascend-910b2", "ascend-910c", "ascend-950pr"), "quoted")
    for key, figure in found.items():
        usual = "measured" if key == "all_reduce_latency_us" else "derived"
        usual = "inferred" if name == "h20-96gb" and key in of_other_chips else usual
        assert figure.basis == wanted.get(name, usual)
        assert figure.note


def test_the_h20_of_141_gb_has_what_was_measured_on_that_of_96() -> None:
    small, large = (efficiencies(hardware_profile(name)) for name in ("h20-96gb", "h20-141gb"))
    assert {key: figure.value for key, figure in small.items()} == {key: f.value for key, f in large.items()}
    assert all("same SMs" in (figure.note or "") for figure in large.values())


@pytest.mark.parametrize("name", HARDWARE)
def test_an_efficiency_is_a_fraction_of_a_figure_that_the_profile_has(name: str) -> None:
    chip = hardware_profile(name)
    known = {key for key, figure in chip.figures if figure is not None}
    assert {WHOLES[key] for key in efficiencies(chip) if key in WHOLES} <= known


def test_what_each_efficiency_is_a_fraction_of() -> None:
    wholes: dict[str, set[str]] = {}
    for key, whole in WHOLES.items():
        wholes.setdefault(whole, set()).add(key.removesuffix("_fraction"))
    few, sizes = ("m1", "m2", "m4", "m16", "m64"), ("m256", "m1536", "m4096")
    grouped = ("grouped_fp8_m256", "grouped_fp8_m4096")
    moe = {
        of: {f"moe_{name}_m{rows}" for name in names for rows in (16, 64, 256, 1024, 4096)}
        for of, names in (("bf16", ("bf16", "w4a16")), ("fp8", ("fp8", "w4a8")), ("fp4", ("fp4",)))
    }
    reads = {f"weight_read_{name}" for name in ("bf16", "fp8", "fp8_block", "fp4")}
    reads |= {f"moe_weight_read_{name}" for name in ("bf16", "fp8", "fp4", "w4a16", "w4a8")}
    assert wholes == {
        "bf16_tflops": {
            *(f"gemm_bf16_{size}" for size in (*few, *sizes)),
            *("attention_prefill", "recurrence", *moe["bf16"]),
        },
        "fp8_tflops": {*(f"gemm_fp8_{kind}{size}" for kind in ("", "block_") for size in sizes), *moe["fp8"], *grouped},
        "fp4_tflops": {*(f"gemm_fp4_{size}" for size in sizes), *moe["fp4"]},
        "memory_bandwidth_tb_per_s": {*reads, "attention_decode", "recurrence_decode"},
        "scaleup_gb_per_s": {"all_reduce", "all_reduce_2", "all_reduce_4", "all_to_all"},
    }


def test_every_efficiency_has_a_range_and_a_unit_that_its_name_ends_in() -> None:
    assert set(RANGES) == set(Efficiencies.model_fields)
    assert {key for pair in BOUNDS for key in pair} <= set(RANGES)
    units = {key: figure_unit(key) for key in Efficiencies.model_fields}
    assert {key for key, unit in units.items() if unit != "parts of 1"} == set(RANGES) - set(WHOLES)
    assert set(units.values()) == {"us", "tokens", "tiles", "parts of 1"}
    assert all(allowed.high <= 1.1 for key, allowed in RANGES.items() if key in WHOLES)


def test_no_shipped_efficiency_exceeds_what_bounds_it() -> None:
    values = {
        name: {key: figure.value for key, figure in efficiencies(hardware_profile(name)).items()} for name in HARDWARE
    }
    pairs = {
        (name, low, high): values[name]
        for name in HARDWARE
        for low, high in BOUNDS
        if {low, high} <= values[name].keys()
    }
    assert {name for name, _, _ in pairs} >= COLLECTED.keys()
    assert [pair for pair, of in pairs.items() if of[pair[1]] > SLACK * of[pair[2]]] == []


def test_kernels_of_every_chip_that_one_collector_timed_are_condensed_and_cited_with_their_date() -> None:
    for name in HARDWARE:
        chip = hardware_profile(name)
        condensed = {key for key, figure in efficiencies(chip).items() if figure.source == CONDENSED}
        assert bool(condensed) == (name in COLLECTED)
        if condensed:
            assert {"gemm_bf16_m4096_fraction", "moe_bf16_m64_fraction", "moe_bf16_start_us"} <= condensed
            assert re.search(r"aiconfigurator-core 0\.12\.0 .*as of 2026-", chip.sources[CONDENSED])


def test_a_chip_nobody_measured_has_an_empty_table() -> None:
    assert hardware_profile("l20").efficiency == Efficiencies()
    assert efficiencies(hardware_profile("l20")) == {}
