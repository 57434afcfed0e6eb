"""The shipped profiles say what was published: oracles are closed forms, hand counts and the paper's printed cells."""

from math import erf, exp, log, sqrt

import pytest

from planner.profiles import (
    GqaLayers,
    HardwareProfile,
    KdaLayers,
    MeasuredInstance,
    MlaLayers,
    ModelProfile,
    PrefillCurve,
    check_profiles,
    hardware_profile,
    model_profile,
    profile_names,
)
from planner.profiles.folders import KINDS
from planner.profiles.model import ParameterCount
from planner.units import gbps

BF16_BYTES, FP32_BYTES = 2, 4
HARDWARE = (
    *("h200-sxm", "h20-96gb", "h20-141gb", "h100-sxm", "h800-sxm", "a100-sxm-80gb", "l40s", "l20"),
    *("b200-sxm", "b300-sxm", "gb200", "gb300", "rubin-vr200", "rubin-cpx", "groq-lpu-v1", "groq-lp30"),
    *("mi300x", "mi325x", "mi355x", "gaudi3", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7"),
    *("trainium2", "trainium3", "ascend-910b2", "ascend-910c", "ascend-950pr"),
)
MODELS = ("prfaas-1t", "kimi-linear-48b", "qwen3-235b", "minimax-m2.5")


def logical_kv_bytes(model: ModelProfile, n_tokens: int) -> int:
    """One copy: attention KV in bf16, recurrent state in fp32, convolution taps in bf16."""
    total = 0
    for group in model.architecture.attention:
        match group:
            case GqaLayers():
                total += group.n_layers * n_tokens * 2 * group.n_kv_heads * group.head_dim * BF16_BYTES
            case MlaLayers():
                total += group.n_layers * n_tokens * (group.kv_lora_rank + group.qk_rope_head_dim) * BF16_BYTES
            case KdaLayers():
                width = group.n_heads * group.head_dim
                taps = (group.conv_kernel - 1) * 3 * width
                total += group.n_layers * (width * group.head_dim * FP32_BYTES + taps * BF16_BYTES)
    return total


def attention_parameters(group: GqaLayers | MlaLayers | KdaLayers, hidden: int) -> int:
    """Parameters of one layer's attention, with its norms and biases."""
    match group:
        case GqaLayers():
            return 2 * hidden * (group.n_heads + group.n_kv_heads) * group.head_dim
        case MlaLayers(n_heads=int(n), qk_nope_head_dim=int(nope), v_head_dim=int(v), q_lora_rank=None):
            rank, rope = group.kv_lora_rank, group.qk_rope_head_dim
            return hidden * n * (nope + rope) + hidden * (rank + rope) + rank + rank * n * (nope + v) + n * v * hidden
        case KdaLayers():
            n, d = group.n_heads, group.head_dim
            width = n * d
            projections = 4 * hidden * width + 2 * (hidden * d + d * width) + hidden * n
            return projections + 3 * width * group.conv_kernel + width + n + d
    raise AssertionError(group)


def total_parameters(model: ModelProfile, router_bias: bool) -> int:
    """All parameters of a mixture of experts, counted from its shapes."""
    shapes = model.architecture
    hidden, vocab, moe = shapes.hidden_size, shapes.vocab_size, shapes.moe
    assert hidden
    assert vocab
    assert moe
    assert not shapes.tie_word_embeddings
    expert = 3 * hidden * moe.expert_intermediate_size
    sparse = (moe.n_experts + moe.n_shared_experts) * expert + moe.n_experts * (hidden + router_bias)
    dense = 3 * hidden * (shapes.intermediate_size or 0)
    attention = sum(group.n_layers * attention_parameters(group, hidden) for group in shapes.attention)
    n_sparse = shapes.n_layers - moe.n_dense_first_layers
    norms = (2 * shapes.n_layers + 1) * hidden
    return 2 * vocab * hidden + attention + n_sparse * sparse + moe.n_dense_first_layers * dense + norms


def active_parameters(model: ModelProfile) -> int:
    """Parameters a token is multiplied by: not the experts it does not visit, nor the input embedding, a look-up."""
    shapes = model.architecture
    assert shapes.moe
    assert shapes.hidden_size
    assert shapes.vocab_size
    idle = shapes.moe.n_experts - shapes.moe.n_experts_per_token
    n_sparse = shapes.n_layers - shapes.moe.n_dense_first_layers
    expert = 3 * shapes.hidden_size * shapes.moe.expert_intermediate_size
    looked_up = shapes.vocab_size * shapes.hidden_size
    return total_parameters(model, router_bias=False) - n_sparse * idle * expert - looked_up


def prefill(model: str, name: str) -> tuple[MeasuredInstance, PrefillCurve]:
    instance = model_profile(model).measured[name]
    assert instance.prefill is not None
    return instance, instance.prefill


def test_every_shipped_profile_holds() -> None:
    found = check_profiles()
    assert found.problems == ()
    assert found.n_files == sum(len(profile_names(kind)) for kind in KINDS)


def test_the_promised_names_are_shipped() -> None:
    assert set(HARDWARE) <= set(profile_names("hardware"))
    assert set(MODELS) <= set(profile_names("model"))


# Models


def test_table_5_cache_sizes_follow_from_the_inferred_shapes_within_a_thousandth() -> None:
    model = model_profile("prfaas-1t")
    curve = model.measured["table-5"].kv
    assert curve is not None
    for tokens, printed_mib in zip(curve.tokens, (190.8, 308.9, 701.3, 2316.3), strict=True):
        assert logical_kv_bytes(model, tokens) == pytest.approx(printed_mib * 2**20, rel=1e-3)
    assert curve.bytes == pytest.approx([mib * 2**20 for mib in (190.8, 308.9, 701.3, 2316.3)], rel=1e-12)


def test_prfaas_state_is_what_was_derived_by_hand() -> None:
    model = model_profile("prfaas-1t")
    assert logical_kv_bytes(model, 0) == 182_353_920
    assert logical_kv_bytes(model, 1) - logical_kv_bytes(model, 0) == 17_280


def test_table_5_throughput_is_the_printed_one_within_its_rounding() -> None:
    instance, curve = prefill("prfaas-1t", "table-5")
    assert instance.kv is not None
    assert instance.kv.tokens == curve.tokens
    for n_bytes, seconds, printed in zip(instance.kv.bytes, curve.seconds, (3.61, 3.59, 3.19, 2.62), strict=True):
        rounding = 0.005 / seconds + 0.005 / printed
        assert gbps(n_bytes / seconds) == pytest.approx(printed, rel=rounding)


@pytest.mark.parametrize(
    ("name", "printed"),
    [("kimi-linear-48b", (1.19, 2.29, 3.87, 4.88)), ("minimax-m2.5", (4.94, 32.87, 59.93, 47.82))],
)
def test_table_3_throughput_is_the_printed_one_to_every_digit(name: str, printed: tuple[float, ...]) -> None:
    model = model_profile(name)
    _, curve = prefill(name, "table-3")
    assert curve.tokens == (1024, 8192, 32768, 131072)
    found = [gbps(logical_kv_bytes(model, n) / s) for n, s in zip(curve.tokens, curve.seconds, strict=True)]
    assert tuple(round(value, 2) for value in found) == printed


def test_h20_points_give_back_the_capacities_of_table_6() -> None:
    instance, curve = prefill("prfaas-1t", "table-6-h20")
    assert instance.basis == "inferred"
    assert 3 / curve.seconds[0] == pytest.approx(1.64, rel=1e-6)
    assert 9 / curve.seconds[1] == pytest.approx(2.11, rel=1e-6)
    assert curve.seconds[2] == 9.73
    assert instance.decode is not None
    assert instance.decode.batch / instance.decode.step_s / 1024 == pytest.approx(3.91 / 5, rel=2e-3)


def test_h20_token_counts_are_moments_of_the_papers_lengths() -> None:
    mu, sigma, low, high = 9.90, 1.00, 128.0, 131072.0

    def normal(x: float) -> float:
        return 0.5 * (1 + erf(x / sqrt(2)))

    def cdf(length: float, shift: float = 0.0) -> float:
        return normal((log(length) - mu) / sigma - shift)

    def mean_up_to(length: float) -> float:
        partial = cdf(length, sigma) - cdf(low, sigma)
        return exp(mu + sigma**2 / 2) * partial / (cdf(length) - cdf(low))

    _, curve = prefill("prfaas-1t", "table-6-h20")
    assert curve.tokens[0] == pytest.approx(mean_up_to(19_400), abs=1)
    assert curve.tokens[1] == pytest.approx(mean_up_to(high), abs=1)
    assert (cdf(curve.tokens[2]) - cdf(low)) / (cdf(high) - cdf(low)) == pytest.approx(0.9, abs=1e-5)


@pytest.mark.parametrize("name", [name for name in MODELS if model_profile(name).measured])
def test_measured_curves_have_one_value_per_token_count(name: str) -> None:
    for instance in model_profile(name).measured.values():
        if instance.prefill:
            assert len(instance.prefill.tokens) == len(instance.prefill.seconds) >= 2
        if instance.kv:
            assert len(instance.kv.tokens) == len(instance.kv.bytes) >= 2
        assert hardware_profile(instance.hardware).n_accelerators_per_node == instance.n_accelerators


def test_kimi_linear_has_exactly_the_parameters_its_weights_declare() -> None:
    model = model_profile("kimi-linear-48b")
    assert model.published.total_parameters.digits == "exact"
    assert model.published.total_parameters.value == 49_122_681_728
    assert total_parameters(model, router_bias=True) == 49_122_681_728


@pytest.mark.parametrize("name", ["qwen3-235b", "minimax-m2.5"])
def test_shapes_give_the_published_parameters_within_their_rounding(name: str) -> None:
    model = model_profile(name)
    total = model.published.total_parameters
    assert abs(total_parameters(model, router_bias=False) - total.value) <= total.half_unit


@pytest.mark.parametrize("name", ["kimi-linear-48b", "qwen3-235b", "minimax-m2.5"])
def test_shapes_give_the_published_active_parameters_within_their_rounding(name: str) -> None:
    model = model_profile(name)
    active = model.published.active_parameters
    assert active is not None
    assert abs(active_parameters(model) - active.value) <= active.half_unit


def test_a_parameter_count_knows_its_rounding() -> None:
    def half_unit(value: int, digits: int) -> float:
        return ParameterCount(value=value, digits=digits, source="s").half_unit

    assert half_unit(235_000_000_000, 3) == 0.5e9
    assert half_unit(22_000_000_000, 2) == 0.5e9
    assert half_unit(3_000_000_000, 1) == 0.5e9
    assert half_unit(1_000_000_000_000, 1) == 0.5e12
    assert ParameterCount(value=49_122_681_728, digits="exact", source="s").half_unit == 0


def test_unpublished_shapes_of_the_papers_model_stay_unknown() -> None:
    model = model_profile("prfaas-1t")
    shapes = model.architecture
    assert shapes.basis == "inferred"
    assert shapes.how
    assert (shapes.hidden_size, shapes.vocab_size, shapes.moe, shapes.intermediate_size) == (None,) * 4
    assert model.published.active_parameters is None


def test_hybrid_models_keep_the_published_ratio_of_layers() -> None:
    def layers(name: str) -> dict[str, int]:
        return {group.kind: group.n_layers for group in model_profile(name).architecture.attention}

    assert layers("prfaas-1t") == {"kda": 42, "mla": 15}
    assert layers("kimi-linear-48b") == {"kda": 20, "mla": 7}


def test_qwen_has_no_measured_instance() -> None:
    assert model_profile("qwen3-235b").measured == {}


# Hardware


@pytest.mark.parametrize("name", ["h200-sxm", "h100-sxm"])
def test_hopper_peak_is_dense_as_its_clock_and_tensor_cores_give(name: str) -> None:
    chip = hardware_profile(name)
    assert chip.n_sm is not None
    assert chip.boost_clock_hz is not None
    flop_per_clock_and_sm = 4096
    dense = chip.n_sm * chip.boost_clock_hz * flop_per_clock_and_sm
    assert chip.peak_flop_per_s("bf16") == pytest.approx(dense, rel=1e-3)
    assert chip.peak_flop_per_s("fp8") == pytest.approx(2 * dense, rel=1e-3)


def test_si_accessors_convert_every_unit() -> None:
    chip = hardware_profile("h200-sxm")
    assert chip.peak_flop_per_s("bf16") == 989e12
    assert chip.peak_flop_per_s("int8") == 1979e12
    assert chip.memory_bytes == 143_771 * 2**20
    assert chip.memory_bytes_per_s == pytest.approx(4.8e12)
    assert chip.scaleup_bytes_per_s == 450e9
    assert chip.nic_bytes_per_s == 50e9
    assert chip.pcie_bytes_per_s == 63e9
    assert chip.boost_clock_hz == 1.83e9
    assert (chip.tdp_w, chip.n_sm, chip.n_scaleup_domain_accelerators, chip.n_accelerators_per_node) == (700, 132, 8, 8)
    assert (chip.rent_low_usd_per_hour, chip.rent_high_usd_per_hour, chip.card_price_usd) == (2.5, 7.91, None)


def test_an_unpublished_figure_is_none_and_never_zero() -> None:
    cpx = hardware_profile("rubin-cpx")
    assert cpx.peak_flop_per_s("bf16") is None
    assert cpx.peak_flop_per_s("fp4") == 20e15
    assert (cpx.nic_bytes_per_s, cpx.tdp_w, cpx.rent_low_usd_per_hour) == (None, None, None)
    assert cpx.n_accelerators_per_node is None
    assert hardware_profile("h200-sxm").peak_flop_per_s("int4") is None


@pytest.mark.parametrize("name", ["h20-96gb", "h20-141gb"])
def test_h20_is_weak_in_compute_and_has_no_quoted_rent(name: str) -> None:
    chip = hardware_profile(name)
    assert chip.peak_flop_per_s("bf16") == 148e12
    assert chip.rent_low_usd_per_hour is None
    assert chip.rent_high_usd_per_hour is None


def test_only_the_141_gb_h20_holds_the_1t_model_in_fp8() -> None:
    weights_bytes = model_profile("prfaas-1t").published.total_parameters.value
    memory = {name: 8 * (hardware_profile(name).memory_bytes or 0) for name in ("h20-96gb", "h20-141gb")}
    assert memory["h20-96gb"] < weights_bytes < memory["h20-141gb"] < 2 * weights_bytes


def test_announced_parts_say_so() -> None:
    announced = {name for name in HARDWARE if hardware_profile(name).status == "announced"}
    assert announced == {"rubin-vr200", "rubin-cpx", "groq-lp30"}


def figures(chip: HardwareProfile) -> list[tuple[str, str]]:
    tables = (chip.figures, chip.efficiency)
    return [(figure.source, figure.basis) for table in tables for _, figure in table if figure is not None]


@pytest.mark.parametrize("name", HARDWARE)
def test_an_unattributed_price_stays_a_lead(name: str) -> None:
    for source, basis in figures(hardware_profile(name)):
        assert (basis == "lead") == source.endswith("-lead")


@pytest.mark.parametrize("name", HARDWARE)
def test_no_listed_source_goes_uncited(name: str) -> None:
    chip = hardware_profile(name)
    assert {source for source, _ in figures(chip)} == set(chip.sources)
