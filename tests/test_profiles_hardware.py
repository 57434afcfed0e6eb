"""The shipped accelerators carry the published figures, and peaks that follow from their clocks."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.profiles import hardware_profile, profile_names
from planner.profiles.architectures import GENERAL, GENERATIONS

PUBLISHED = {
    "h200-sxm": "NVIDIA-H200-SXM",
    "h20-96gb": "NVIDIA-H20-96GB",
    "h20-141gb": "NVIDIA-H20-141GB",
    "h100-sxm": "NVIDIA-H100-SXM",
    "h800-sxm": "NVIDIA-H800-SXM",
    "a100-sxm-80gb": "NVIDIA-A100-SXM-80GB",
    "l40s": "NVIDIA-L40S",
    "l20": "NVIDIA-L20",
    "b200-sxm": "NVIDIA-B200-SXM",
    "b300-sxm": "NVIDIA-B300-SXM",
    "gb200": "NVIDIA-GB200",
    "gb300": "NVIDIA-GB300",
    "rubin-vr200": "NVIDIA-Rubin-VR200",
    "rubin-cpx": "NVIDIA-Rubin-CPX",
    "groq-lpu-v1": "Groq-LPU-v1 (GroqChip1)",
    "groq-lp30": "NVIDIA-Groq-3-LPU (LP30)",
    "mi300x": "AMD-MI300X",
    "mi325x": "AMD-MI325X",
    "mi355x": "AMD-MI355X",
    "gaudi3": "Intel-Gaudi3",
    "tpu-v5e": "Google-TPU-v5e",
    "tpu-v5p": "Google-TPU-v5p",
    "tpu-v6e": "Google-TPU-v6e",
    "tpu-v7": "Google-TPU-v7-Ironwood",
    "trainium2": "AWS-Trainium2",
    "trainium3": "AWS-Trainium3",
    "ascend-910b2": "Huawei-Ascend-910B1/B2 (A2 376T)",
    "ascend-910c": "Huawei-Ascend-910C",
    "ascend-950pr": "Huawei-Ascend-950PR",
}
"""Name of each promised profile in the collection of published figures."""

PUBLISHED_KEYS = {
    **{key: key for key in ("bf16_tflops", "fp8_tflops", "fp4_tflops", "int8_tops", "boost_clock_mhz", "tdp_w")},
    "memory_gb": "mem_gb",
    "memory_bandwidth_tb_per_s": "mem_bw_tbs",
    "n_sm": "sm_count",
    "scaleup_gb_per_s": "scaleup_bw_gbs_unidir",
    "scaleup_domain_accelerators": "scaleup_domain",
    "nic_gbps": "nic_gbps_per_accel",
    "pcie_gb_per_s": "pcie_bw_gbs_unidir",
    "accelerators_per_node": "accels_per_node",
    "release_year": "release_year",
    "card_price_usd": "price_card_usd",
    "rent_low_usd_per_hour": "price_cloud_usd_per_hr_low",
    "rent_high_usd_per_hour": "price_cloud_usd_per_hr_high",
}

KEY_FIGURES = {  # bf16 and fp8 TFLOP/s, memory GB, memory TB/s, scale-up GB/s, as published
    "h200-sxm": (989, 1979, 141, 4.8, 450),
    "h20-96gb": (148, 296, 96, 4.0, 450),
    "h20-141gb": (148, 296, 141, 4.8, 450),
    "h100-sxm": (989, 1979, 80, 3.35, 450),
    "h800-sxm": (989, 1979, 80, 3.35, 200),
    "a100-sxm-80gb": (312, None, 80, 2.039, 300),
    "l40s": (362.05, 733, 48, 0.864, 32),
    "l20": (119.5, 239, 48, 0.864, None),
    "b200-sxm": (2250, 4500, 180, 8.0, 900),
    "b300-sxm": (2250, 4500, 288, 8.0, 900),
    "gb200": (2500, 5000, 186, 8.0, 900),
    "gb300": (2500, 5000, 288, 8.0, 900),
    "rubin-vr200": (4000, 17500, 288, 22, 1800),
    "rubin-cpx": (None, None, 128, 2.0, None),
    "groq-lpu-v1": (188, None, 0.23, 80, None),
    "groq-lp30": (None, 1230, 0.5, 150, 1250),
    "mi300x": (1307.4, 2614.9, 192, 5.3, 448),
    "mi325x": (1307.4, 2610, 256, 6.0, 448),
    "mi355x": (2516.6, 5000, 288, 8.0, 535.5),
    "gaudi3": (1677, 1677, 128, 3.7, 525),
    "tpu-v5e": (197, None, 16, 0.819, 200),
    "tpu-v5p": (459, 459, 95, 2.765, 540),
    "tpu-v6e": (918, 918, 32, 1.638, 400),
    "tpu-v7": (2307, 4614, 192, 7.37, 600),
    "trainium2": (667, 1299, 96, 2.9, 512),
    "trainium3": (671, 2517, 144, 4.9, 1280),
    "ascend-910b2": (353.9, None, 64, 1.6, 196),
    "ascend-910c": (707.8, None, 128, 3.2, 392),
    "ascend-950pr": (432, 865, 128, 1.6, 1008),
}

Published = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def published(data_file: Callable[[str], Path]) -> Published:
    """The collection of published figures, which lies beside the measured data."""
    found: Published = json.loads(data_file("../reference/hardware.json").read_text(encoding="utf-8"))
    return found


def test_every_promised_accelerator_is_shipped_and_no_other() -> None:
    assert set(profile_names("hardware")) == set(PUBLISHED) == set(KEY_FIGURES)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_figure_is_the_published_one_and_unknown_ones_are_absent(name: str, published: Published) -> None:
    entry = published[PUBLISHED[name]]
    shipped = {key: figure.value for key, figure in hardware_profile(name).figures if figure is not None}
    reported = shipped.pop("reported_memory_mib", None)
    noted = re.search(r"([\d,]+) MiB", entry["mem_gb"].get("note", ""))
    if noted:
        assert reported == float(noted[1].replace(",", ""))
    assert shipped == {key: entry[other]["value"] for key, other in PUBLISHED_KEYS.items() if other in entry}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_a_lead_or_announced_there_is_so_here(name: str, published: Published) -> None:
    entry, chip = published[PUBLISHED[name]], hardware_profile(name)
    leads = {key for key, other in PUBLISHED_KEYS.items() if entry.get(other, {}).get("trust") == "lead"}
    assert {key for key, figure in chip.figures if figure is not None and figure.basis == "lead"} == leads
    assert entry["status"]["value"].startswith("announced") == (chip.status == "announced")
    assert entry["vendor"]["value"] == chip.vendor


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_figure_cites_the_page_it_was_published_on(name: str, published: Published) -> None:
    entry, chip = published[PUBLISHED[name]], hardware_profile(name)
    for key, figure in chip.figures:
        if figure is not None and figure.basis != "lead" and key != "reported_memory_mib":
            page = entry[PUBLISHED_KEYS.get(key, "mem_gb")]["source"].split(" ")[0]
            assert page in chip.sources[figure.source]


@pytest.mark.parametrize("name", KEY_FIGURES)
def test_the_figures_that_plans_rest_on_stay_as_published(name: str) -> None:
    figures = hardware_profile(name).figures
    found = (figures.bf16_tflops, figures.fp8_tflops, figures.memory_gb)
    found = (*found, figures.memory_bandwidth_tb_per_s, figures.scaleup_gb_per_s)
    assert tuple(figure and figure.value for figure in found) == KEY_FIGURES[name]


PCIE_GB_PER_S = {"4": 31.5, "5": 63.0, "6": 124.5}
"""One direction of sixteen lanes by generation, of the sixth the middle of 121 with overhead and 128 without."""
NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
NOTED: dict[str, Callable[..., float]] = {
    "^[^;]*?N GB/s both directions together": lambda both: both / 2,
    "^[^;]*?N TB/s both directions together": lambda both: both * 1e3 / 2,
    "^N PFLOP/s (?:dense )?of a rack by N": lambda rack, n: rack * 1e3 / n,
    "^N TB/s of a rack by N": lambda rack, n: rack / n,
    "^2 dies of N": lambda die: 2 * die,
    "^half of N": lambda whole: whole / 2,
    r"\$N/h for N": lambda rent, n: rent / n,
    "N x N Gbps for N": lambda n_ports, rate, n: n_ports * rate / n,
    ": N Gbps for N": lambda rate, n: rate / n,
}
"""Figures in a note, and the value that they make."""


def noted(key: str, note: str) -> float | None:
    """The value that a note makes of its figures; None: it has none."""
    if key == "pcie_gb_per_s" and (found := re.match(r"PCIe (\d) x16", note)):
        return PCIE_GB_PER_S[found[1]]
    for pattern, value in NOTED.items():
        if found := re.search(pattern.replace("N", NUMBER), note):
            return value(*(float(text.replace(",", "")) for text in found.groups()))
    return None


def test_a_figure_is_what_its_note_makes_it() -> None:
    told = {
        (name, key): (figure.value, value)
        for name in PUBLISHED
        for key, figure in hardware_profile(name).figures
        if figure is not None and (value := noted(key, figure.note or "")) is not None
    }
    assert len(told) >= 25
    assert {at: pair for at, pair in told.items() if pair[0] != pytest.approx(pair[1], rel=0.03)} == {}


@pytest.mark.parametrize(
    ("name", "n_sm", "clock_mhz", "flop"),
    [
        ("a100-sxm-80gb", 108, 1410, 2048),
        ("h100-sxm", 132, 1830, 4096),
        ("h200-sxm", 132, 1830, 4096),
        ("h800-sxm", 132, 1830, 4096),
        ("mi300x", 304, 2100, 2048),
        ("mi325x", 304, 2100, 2048),
        ("mi355x", 256, 2400, 4096),
        ("gaudi3", 8, 1600, 2 * 256 * 256),
    ],
)
def test_a_peak_is_units_times_clock_times_flop_per_clock(name: str, n_sm: int, clock_mhz: int, flop: int) -> None:
    chip = hardware_profile(name)
    assert (chip.n_sm, chip.boost_clock_hz) == (n_sm, clock_mhz * 1e6)
    assert GENERATIONS[chip.generation].bf16_flop_per_clock_per_sm == flop
    assert chip.peak_flop_per_s("bf16") == pytest.approx(n_sm * clock_mhz * 1e6 * flop, rel=0.002)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_points_files_spelling_finds_the_accelerator(name: str) -> None:
    assert hardware_profile(name.replace("-", "_")).name == name


def test_every_figure_has_a_general_range() -> None:
    assert {key for key, _ in hardware_profile("h200-sxm").figures} == set(GENERAL)
