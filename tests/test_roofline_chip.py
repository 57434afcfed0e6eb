"""Rates of one accelerator: own figures first, typical ones where it has none, and no unit it does not have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from planner.errors import InputError
from planner.profiles import HardwareProfile, hardware_profile, profile_names
from planner.profiles.efficiency import ALL_REDUCE_RANKS
from planner.roofline import Chip
from planner.roofline.chip import KernelRate
from planner.roofline.kernel_rates import TYPICAL_BALANCE_FLOP_PER_BYTE, TYPICAL_FRACTION, TYPICAL_GEMM
from planner.units import GB, MIB


def changed(name: str, **figures: float | None) -> HardwareProfile:
    """A profile with other values of some figures; None takes a figure away."""
    found = hardware_profile(name)
    new = {}
    for key, value in figures.items():
        figure = getattr(found.figures, key)
        new[key] = None if value is None else figure.model_copy(update={"value": value})
    return found.model_copy(update={"figures": found.figures.model_copy(update=new)})


@pytest.mark.parametrize(
    ("hardware", "weights", "products"),
    [
        ("h100-sxm", "fp4", "fp8"),
        ("h100-sxm", "fp8", "fp8"),
        ("h100-sxm", "int4", "bf16"),
        ("a100-sxm-80gb", "fp8", "bf16"),
        ("a100-sxm-80gb", "fp4", "bf16"),
        ("a100-sxm-80gb", "int8", "int8"),
        ("b200-sxm", "fp4", "fp4"),
        ("b200-sxm", "bf16", "bf16"),
    ],
)
def test_products_run_at_the_weights_format_or_the_next_wider_that_there_is(
    hardware: str, weights: str, products: str
) -> None:
    assert Chip(hardware_profile(hardware)).product_format(weights) == products


def test_bf16_products_never_run_on_a_narrower_unit() -> None:
    with pytest.raises(InputError, match="has no peak for bf16 products"):
        Chip(changed("h100-sxm", bf16_tflops=None)).product_format("bf16")


@pytest.mark.parametrize("key", ["memory_gb", "memory_bandwidth_tb_per_s"])
def test_a_figure_that_is_needed_and_unknown_is_named(key: str) -> None:
    chip = Chip(changed("h100-sxm", **{key: None, "reported_memory_mib": None}))
    with pytest.raises(InputError, match=f"figures.{key}: is unknown"):
        _ = chip.memory_bytes if key == "memory_gb" else chip.memory_bytes_per_s


@pytest.mark.parametrize("name", profile_names("hardware"))
def test_memory_is_what_a_device_reports_and_what_is_sold_where_it_is_not_known(name: str) -> None:
    figures = hardware_profile(name).figures
    reported, sold = figures.reported_memory_mib, figures.memory_gb
    assert sold is not None
    assert Chip(hardware_profile(name)).memory_bytes == (reported.value * MIB if reported else sold.value * GB)
    if reported:
        assert Chip(changed(name, reported_memory_mib=None)).memory_bytes == sold.value * GB
        twice = Chip(changed(name, reported_memory_mib=reported.value * 2)).memory_bytes
        assert twice == 2 * Chip(hardware_profile(name)).memory_bytes


def reached(rate: KernelRate, chip: Chip) -> NDArray[np.float64]:
    """Fraction of the peak that remains of products which the peak would do in a second."""
    fixed_s, divided_s = rate.seconds(np.ones(()), chip.ceiling)
    return np.asarray(1 / (fixed_s + divided_s))


def test_measured_fractions_are_taken_as_they_are_and_between_heights_in_the_logarithm() -> None:
    own = hardware_profile("h100-sxm").efficiency
    low, high = own.gemm_bf16_m256_fraction, own.gemm_bf16_m1536_fraction
    assert low is not None
    assert high is not None
    chip = Chip(hardware_profile("h100-sxm"))
    rate = chip.gemm_rate("bf16", [1, 256, float(np.sqrt(256 * 1536)), 1536])
    expected = [low.value, low.value, (low.value + high.value) / 2, high.value]
    assert rate.fraction.tolist() == pytest.approx(expected)
    assert reached(rate, chip).tolist() == pytest.approx(expected)
    assert chip.is_measured


def test_an_accelerator_of_usual_balance_that_nobody_measured_has_the_typical_fractions() -> None:
    bandwidth = 4.0
    peak = bandwidth * TYPICAL_BALANCE_FLOP_PER_BYTE
    chip = Chip(changed("tpu-v6e", bf16_tflops=peak, memory_bandwidth_tb_per_s=bandwidth))
    assert not chip.is_measured
    rate = chip.gemm_rate("bf16", [256, 1536, 4096])
    assert reached(rate, chip).tolist() == pytest.approx(list(TYPICAL_GEMM["bf16"]))
    attention = chip.kernel_rate("attention_prefill")
    assert reached(attention, chip) == pytest.approx(TYPICAL_FRACTION["attention_prefill"])


@given(st.floats(1.0, 20.0))
def test_more_peak_on_the_same_memory_reaches_less_of_it_but_never_less_in_all(times: float) -> None:
    few, many = (Chip(changed("tpu-v6e", bf16_tflops=peak)) for peak in (500.0, 500.0 * times))
    for rows in (256, 4096):
        usual, lower = (float(reached(chip.gemm_rate("bf16", rows), chip)) for chip in (few, many))
        assert lower <= usual * (1 + 1e-9)
        assert usual <= few.ceiling
        assert lower * times >= usual * (1 - 1e-9)


def test_streaming_fractions_do_not_depend_on_the_compute_peak() -> None:
    few, many = (Chip(changed("tpu-v6e", bf16_tflops=peak)) for peak in (500.0, 5000.0))
    for name in ("attention_decode", "recurrence_decode"):
        assert few.read_fraction(name) == many.read_fraction(name) == TYPICAL_FRACTION[name]


@pytest.mark.parametrize("hardware", profile_names("hardware"))
def test_every_fraction_of_every_accelerator_is_one(hardware: str) -> None:
    chip = Chip(hardware_profile(hardware))
    assert all(0 < chip.read_fraction(name) <= 1 for name in ("attention_decode", "recurrence_decode"))
    rates = [chip.kernel_rate(name) for name in ("attention_prefill", "recurrence")]
    for product_format in ("bf16", "fp8", "fp4", "int8"):
        rates.append(chip.gemm_rate(product_format, [1, 64, 1024, 10**6]))
        rates.append(chip.moe_rate(product_format, product_format, [1, 64, 1024, 10**6]))
        assert all(0 < chip.weight_fraction(product_format, of_experts=moe) <= 1 for moe in (True, False))
    for rate in rates:
        assert ((reached(rate, chip) > 0) & (reached(rate, chip) <= chip.ceiling)).all()


def test_the_bare_datasheet_loses_nothing() -> None:
    chip = Chip(hardware_profile("h100-sxm"), derated=False)
    for rate in (chip.gemm_rate("fp8", [1, 4096]), chip.moe_rate("fp8", "fp8", 9), chip.kernel_rate("recurrence")):
        assert (reached(rate, chip) == 1).all()
    assert chip.read_fraction("attention_decode") == 1
    assert chip.weight_fraction("fp8", of_experts=True) == chip.weight_fraction("fp8", of_experts=False) == 1
    assert chip.recurrence_chunk_s == chip.collective_latency_s(8) == chip.collective_latency_s(16) == 0
    assert chip.collective_bytes_per_s(8) == 450e9


def test_collectives_leave_the_scale_up_link_where_its_domain_ends() -> None:
    chip = Chip(hardware_profile("h100-sxm"), derated=False)
    assert (chip.collective_bytes_per_s(8), chip.collective_bytes_per_s(16)) == (450e9, 8 * 400e9 / 8)
    assert (chip.hand_over_bytes_per_s(8, 4), chip.hand_over_bytes_per_s(16, 4)) == (450e9, 4 * 400e9 / 8)
    rack = Chip(hardware_profile("gb200"), derated=False)
    assert rack.collective_bytes_per_s(72) == rack.collective_bytes_per_s(8)


@pytest.mark.parametrize(
    ("name", "two", "four", "eight"), [("l40s", 20.1, 5.16, 1.45), ("h200-sxm", 315.1, 348.4, 460.5)]
)
def test_an_all_reduce_has_the_bandwidth_of_the_smallest_group_measured_that_holds_its_ranks(
    name: str, two: float, four: float, eight: float
) -> None:
    """GB/s of NCCL, as in the notes of the profiles."""
    found = [Chip(hardware_profile(name)).collective_bytes_per_s(n) for n in (2, 3, 4, 5, 8)]
    assert found == pytest.approx([two * GB, four * GB, four * GB, eight * GB, eight * GB], rel=1e-3)
    gb_per_s = dict(zip(ALL_REDUCE_RANKS, (two, four, eight), strict=True))
    for absent, n_ranks, larger in (
        (["all_reduce_2_fraction"], 2, four),
        (["all_reduce_4_fraction"], 4, eight),
        (["all_reduce_2_fraction", "all_reduce_4_fraction"], 2, eight),
    ):
        profile = hardware_profile(name)
        efficiency = profile.efficiency.model_copy(update=dict.fromkeys(absent))
        without = Chip(profile.model_copy(update={"efficiency": efficiency}))
        assert without.collective_bytes_per_s(n_ranks) == pytest.approx(larger * GB, rel=1e-3)
        assert gb_per_s[str(without.all_reduce_key(n_ranks))] == larger


def test_an_all_reduce_that_nobody_measured_reaches_the_typical_part_of_its_link() -> None:
    chip = Chip(hardware_profile("mi325x"))
    assert [chip.all_reduce_key(n) for n in (2, 8)] == [None, None]
    assert chip.collective_bytes_per_s(2) == chip.collective_bytes_per_s(8) == TYPICAL_FRACTION["all_reduce"] * 448e9


def test_pairs_of_links_of_their_own_are_joined_over_hosts_at_what_was_measured_there() -> None:
    """Two of eight have a bridge of 448 GB/s; all eight reach 31 over PCIe whatever their NICs would carry."""
    pairs = changed("mi300x", scaleup_domain_accelerators=2)
    slow = pairs.efficiency.all_reduce_fraction
    assert slow is not None
    efficiency = pairs.efficiency.model_copy(update={"all_reduce_fraction": slow.model_copy(update={"value": 0.07})})
    chip = Chip(pairs.model_copy(update={"efficiency": efficiency}))
    found = [chip.collective_bytes_per_s(n) for n in (2, 4, 8)]
    assert found == pytest.approx([47.7 * GB, 31.36 * GB, 31.36 * GB], rel=1e-3)


def test_without_any_link_a_collective_cannot_be_timed() -> None:
    with pytest.raises(InputError, match="nic_gbps: is unknown"):
        Chip(hardware_profile("l20")).collective_bytes_per_s(2)


def test_what_a_format_loses_does_not_depend_on_the_peak_of_another() -> None:
    slow, fast = (Chip(changed("rubin-vr200", bf16_tflops=peak)) for peak in (1000.0, 8000.0))
    experts = [chip.moe_rate("fp8", "fp8", 256).relative_balance for chip in (slow, fast)]
    # 17,500 TFLOP/s at 22 TB/s, against twice 250 FLOP per byte.
    assert experts == pytest.approx([17500 / 22 / 500] * 2)
    assert fast.kernel_rate("attention_prefill").relative_balance == pytest.approx(8000 / 22 / 250)


def test_few_rows_take_what_was_measured_of_them_and_other_accelerators_are_as_before() -> None:
    """Between measured heights the time of reading weights stays one time: powers of the height."""
    plain = hardware_profile("h200-sxm")
    data = plain.model_dump(by_alias=True, exclude_none=True)
    measured = {1: 0.05, 2: 0.04, 4: 0.08, 16: 0.32, 64: 0.5}
    source = data["efficiency"]["gemm_bf16_m256_fraction"]
    data["efficiency"] |= {f"gemm_bf16_m{m}_fraction": source | {"value": value} for m, value in measured.items()}
    chip, before = Chip(type(plain).model_validate(data)), Chip(plain)
    found = chip.gemm_rate("bf16", [1, 2, 4, 8, 16, 64, 256, 2000]).fraction
    assert found[:3] == pytest.approx([0.05, 0.04, 0.08])
    assert found[3] == pytest.approx(0.16), "twice the rows in the same time"
    assert found[4:6] == pytest.approx([0.32, 0.5])
    assert found[6:] == pytest.approx(before.gemm_rate("bf16", [256, 2000]).fraction)
    moe, usual = (each.moe_rate("bf16", "bf16", [4, 256, 5000]).fraction for each in (chip, before))
    assert moe == pytest.approx([min(usual[0], usual[1] * 0.08 / found[6]), *usual[1:]])
    assert Chip(chip.hardware, derated=False).moe_rate("bf16", "bf16", [4.0]).fraction.tolist() == [1.0]
