"""Experts as they are served: who computes what, how many copies of a token go where, and what of it is hidden."""

import random
from dataclasses import replace

import numpy as np
import pytest

from planner.errors import InputError
from planner.profiles import MixtureOfExperts, hardware_profile, model_profile
from planner.roofline import (
    Chip,
    Factors,
    InstanceModel,
    Layout,
    RankWork,
    Sequences,
    altered,
    operator_seconds,
    settings_on,
    stack,
)
from planner.roofline.expert_traffic import ExpertTraffic, exchange_s, parts_visited
from planner.roofline.factors import DATASHEET

MODEL = model_profile("deepseek-v3")
BARE = Chip(hardware_profile("h800-sxm"), derated=False)
WIDE = "tp=1,dp=32,ep=32"
VALUES = np.array(7168.0 * 4096)


def experts(model: str = "deepseek-v3", **changes: int) -> MixtureOfExperts:
    moe = model_profile(model).architecture.moe
    assert moe is not None
    return MixtureOfExperts.model_validate(moe.model_dump() | changes)


def work(layout: str, parts: list[Sequences] | None = None, traffic: ExpertTraffic | None = None) -> RankWork:
    served = InstanceModel(MODEL, BARE, Layout.parse(layout), DATASHEET, traffic=traffic or ExpertTraffic())
    return served.work(parts or [Sequences.prefill([4096.0], 0, served.n_places)])


def of(found: RankWork, name: str, column: str) -> float:
    values: float = (found.n_layers * getattr(found, column))[found.name == name].sum()
    return float(values)


def domain(n: int, chip: Chip = BARE) -> Chip:
    """The accelerator with a scale-up link that joins so many."""
    figures = chip.hardware.figures
    assert figures.scaleup_domain_accelerators is not None
    found = figures.scaleup_domain_accelerators.model_copy(update={"value": n})
    figures = figures.model_copy(update={"scaleup_domain_accelerators": found})
    return replace(chip, hardware=chip.hardware.model_copy(update={"figures": figures}))


def routed(moe: MixtureOfExperts, rng: random.Random) -> list[int]:
    """Experts of a token: groups first, then experts among those, each chosen independently."""
    size = moe.n_experts // moe.n_groups
    groups = rng.sample(range(moe.n_groups), moe.n_groups_per_token)
    return [rng.choice(groups) * size + rng.randrange(size) for _ in range(moe.n_experts_per_token)]


@pytest.mark.parametrize("n_parts", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("groups", [(1, 1), (8, 4), (8, 8), (4, 1)])
def test_parts_with_an_expert_of_a_token_are_as_many_as_routing_at_random_finds(
    n_parts: int, groups: tuple[int, int]
) -> None:
    moe, rng = experts(n_groups=groups[0], n_groups_per_token=groups[1]), random.Random(n_parts)
    size = moe.n_experts // n_parts
    counts = [len({expert // size for expert in routed(moe, rng)}) for _ in range(4000)]
    assert parts_visited(moe, n_parts) == pytest.approx(sum(counts) / len(counts), rel=0.02)


def test_limited_routing_reaches_at_most_as_many_nodes_as_groups_are_taken() -> None:
    limited, free = experts(), experts(n_groups=1, n_groups_per_token=1)
    for nodes in (2, 4, 8):
        assert parts_visited(limited, nodes) <= limited.n_groups_per_token
        assert parts_visited(limited, nodes) < parts_visited(free, nodes)


@pytest.mark.parametrize("layout", ["tp=1,dp=8,ep=8", WIDE])
def test_an_exchange_takes_its_bytes_both_ways(layout: str) -> None:
    sizes, moe = Layout.parse(layout), experts()
    seconds = {
        (out, back): float(exchange_s(moe, BARE, sizes, ExpertTraffic(out, back), VALUES))
        for out in ("bf16", "fp8")
        for back in ("bf16", "fp8")
    }
    eight_bits = 1 + 4 / 128
    assert seconds["fp8", "bf16"] / seconds["bf16", "bf16"] == pytest.approx((eight_bits + 2) / 4)
    assert seconds["fp8", "fp8"] / seconds["bf16", "bf16"] == pytest.approx(eight_bits / 2)


def test_a_token_crosses_the_network_once_per_node_and_never_inside_the_scaleup_domain() -> None:
    sizes, moe = Layout.parse(WIDE), experts()
    nodes = parts_visited(moe, 4) * 3 / 4
    across = float(exchange_s(moe, BARE, sizes, ExpertTraffic(), VALUES))
    assert across == pytest.approx(nodes * float(VALUES) * 4 / 50e9)
    inside = float(exchange_s(moe, domain(72), sizes, ExpertTraffic(), VALUES))
    copies = parts_visited(moe, 32) * 31 / 32
    assert inside == pytest.approx(copies * float(VALUES) * 4 / BARE.dispatch_bytes_per_s(8))
    assert inside < across


def test_replicas_compute_dense_layers_and_shared_experts_for_their_own_tokens_without_a_collective() -> None:
    found, alone = work(WIDE), work("tp=1", [Sequences.prefill([4096.0])])
    for name in ("gate_up_proj", "down_proj", "shared_gate_up_proj", "shared_down_proj", "router"):
        assert of(found, name, "flop") == pytest.approx(of(alone, name, "flop"))
        assert of(found, name, "weight_s") == pytest.approx(of(alone, name, "weight_s"))
    assert not {"all_reduce_mlp", "all_reduce_attention", "replicas", "all_reduce_experts"} & set(found.name)


@pytest.mark.parametrize("dense_tp", [1, 2, 4, 8])
def test_a_stated_dense_tp_shares_weights_but_not_less_work(dense_tp: int) -> None:
    usual, found = work("tp=2,dp=4,ep=8"), work(f"tp=2,dp=4,ep=8,dense_tp={dense_tp}")
    for name in ("gate_up_proj", "shared_down_proj"):
        assert of(found, name, "flop") == pytest.approx(of(usual, name, "flop"))
        assert of(found, name, "weight_s") == pytest.approx(of(usual, name, "weight_s") * 2 / dense_tp)
    assert ("all_reduce_mlp" in found.name) == (dense_tp > 1)
    assert ("replicas" in found.name) == (dense_tp > 2)


@pytest.mark.parametrize("dense_tp", ["0", "3", "16", "8"])
def test_dense_ranks_that_no_replicas_make_up_are_refused(dense_tp: str) -> None:
    with pytest.raises(InputError, match=r"dense_tp: is .* \(a divisor of tp, or a multiple"):
        Layout.parse(f"tp=2,dp=2,ep=4,dense_tp={dense_tp}")


def test_a_layout_reads_back_with_its_dense_ranks() -> None:
    for text in ("tp=2,ep=8,dp=4,pp=1", "tp=2,ep=8,dp=4,pp=1,dense_tp=1"):
        assert str(Layout.parse(text)) == text


@pytest.mark.parametrize("imbalance", [1.0, 1.3, 4.0])
def test_the_busiest_rank_decides_where_experts_are_dealt_out(imbalance: float) -> None:
    traffic = ExpertTraffic(imbalance=imbalance)
    for layout, factor in ((WIDE, imbalance), ("tp=8,ep=8", imbalance), ("tp=8", 1.0)):
        even, found = work(layout), work(layout, traffic=traffic)
        assert of(found, "experts_down", "flop") == pytest.approx(factor * of(even, "experts_down", "flop"))
        assert of(found, "shared_down_proj", "flop") == pytest.approx(of(even, "shared_down_proj", "flop"))


@pytest.mark.parametrize("tokens", [16.0, 512.0, 4096.0])
@pytest.mark.parametrize("overlap", [0.3, 0.9])
def test_two_micro_batches_hide_no_more_than_the_exchange_and_never_cost_time(tokens: float, overlap: float) -> None:
    seconds = []
    for part in (0.0, overlap):
        traffic = ExpertTraffic(overlap_efficiency=part)
        served = InstanceModel(
            MODEL, Chip(hardware_profile("h800-sxm")), Layout.parse(WIDE), Factors(), traffic=traffic
        )
        seconds.append(served.prefill_time([tokens], n_prompts=32))
    one, two = seconds
    assert np.all(two.total_s <= one.total_s)
    assert np.all(two.network_s >= (1 - overlap) * one.network_s)


def test_a_long_prefill_hides_its_exchange_as_far_as_it_is_efficient() -> None:
    wide = Layout.parse(WIDE)
    bare = [
        InstanceModel(
            MODEL, BARE, wide, DATASHEET, chunk_tokens=1 << 20, traffic=ExpertTraffic(overlap_efficiency=part)
        )
        for part in (0.0, 0.8)
    ]
    one, two = (served.prefill_time([65536.0], n_prompts=32) for served in bare)
    assert float(two.network_s[0]) == pytest.approx(0.2 * float(one.network_s[0]), rel=0.05)


def test_redundant_experts_take_their_memory() -> None:
    sizes = Layout.parse(WIDE)
    own, more = (
        InstanceModel(MODEL, BARE, sizes, DATASHEET, traffic=ExpertTraffic(redundant_experts=n)).memory.weights_bytes
        for n in (0, 32)
    )
    one_expert = 58 * 3 * 7168 * 2048
    assert more - own == pytest.approx(32 * one_expert / 32, rel=0.01)


def test_replicas_hold_dense_layers_and_shared_experts_whole() -> None:
    dealt, split = (
        InstanceModel(MODEL, BARE, Layout.parse(f"tp=1,dp=32,ep=32{more}"), DATASHEET).memory.weights_bytes
        for more in ("", ",dense_tp=32")
    )
    dense, shared = 3 * 3 * 7168 * 18432, 58 * 3 * 7168 * 2048
    assert dealt - split == pytest.approx((dense + shared) * 31 / 32, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_groups": 7}, "a divisor of n_experts"),
        ({"n_groups_per_token": 9}, "at most n_groups"),
        ({"n_groups": 256, "n_groups_per_token": 4}, "fewer than n_experts_per_token"),
    ],
)
def test_groups_that_no_router_can_have_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        experts(**changes)


LOW_LATENCY_US = {16: (118, 195), 32: (155, 273), 64: (173, 314), 128: (192, 369), 256: (194, 360)}
"""Dispatch in fp8 and combine in bf16 of 128 tokens per rank on H800 by ranks: DeepEP, docs/legacy.md."""
NORMAL_GB_PER_S = {16: (43, 43), 32: (58, 57), 64: (51, 50)}
"""The same of 4096 tokens with normal kernels, by bytes that count copies on a token's own node: DeepEP,
docs/legacy.md. Its test takes 4 groups of experts, one per node from 4 nodes on."""


def exchange_of(moe: MixtureOfExperts, n_ranks: int, phase: str, tokens: float) -> float:
    """Seconds of one layer's exchange."""
    chip, fp8 = Chip(hardware_profile("h800-sxm")), ExpertTraffic("fp8", "bf16", is_grouped=True)
    architecture = MODEL.architecture.model_copy(update={"moe": moe})
    model = MODEL.model_copy(update={"architecture": architecture})
    served = InstanceModel(model, chip, Layout(dp_size=n_ranks, ep_size=n_ranks), DATASHEET, traffic=fp8)
    count = tokens * n_ranks
    parts = [Sequences.decode([count], 4096) if phase == "decode" else Sequences.prefill([1.0], 0, count)]
    found = served.work(parts)
    (seconds,) = (found.transfer_s + found.latency_s)[found.name == "expert_exchange"]
    return float(seconds)


@pytest.mark.parametrize("n_ranks", LOW_LATENCY_US)
def test_a_decode_step_exchanges_as_fast_as_deepep_states_of_its_kernels_of_low_latency(n_ranks: int) -> None:
    assert exchange_of(experts(), n_ranks, "decode", 128) == pytest.approx(1e-6 * sum(LOW_LATENCY_US[n_ranks]), rel=0.1)


@pytest.mark.parametrize("n_ranks", NORMAL_GB_PER_S)
def test_a_prefill_exchanges_as_fast_as_deepep_states_of_its_normal_kernels(n_ranks: int) -> None:
    groups = {16: (2, 2), 32: (4, 4), 64: (8, 4)}[n_ranks]
    moe = experts(n_groups=groups[0], n_groups_per_token=groups[1])
    copies, values = parts_visited(moe, n_ranks // 8), 4096 * 7168
    out, back = NORMAL_GB_PER_S[n_ranks]
    stated_s = copies * values * (1.03125 / out + 2 / back) / 1e9
    assert exchange_of(moe, n_ranks, "prefill", 4096) == pytest.approx(stated_s, rel=0.12)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_tokens_laid_side_by_side_are_copied_in_prompts_alone_and_no_fused_kernel_slows_their_products(
    phase: str,
) -> None:
    part = Sequences.decode([4096.0], 4096) if phase == "decode" else Sequences.prefill([4096.0], 0, 32)
    found = {grouped: work(WIDE, [part], ExpertTraffic(is_grouped=grouped)) for grouped in (False, True)}
    assert "experts_permutation" not in found[False].name
    assert ("experts_permutation" in found[True].name) == (phase == "prefill")
    slow = Factors(moe_efficiency=0.5)
    for is_grouped, each in found.items():
        slower, usual = (
            operator_seconds(each, factors)[0][each.name == "experts_down"] for factors in (slow, Factors())
        )
        assert slower == pytest.approx((1 if is_grouped else 2) * usual)


def test_settings_of_wide_expert_parallelism_hold_beyond_a_server_alone() -> None:
    usual, hardware = stack("sglang").settings, hardware_profile("h100-sxm")
    assert usual.wide_ep is not None
    for text in ("tp=16", "tp=1,dp=16", "tp=1,dp=8,ep=8", "tp=8,ep=8"):
        assert settings_on(usual, Layout.parse(text), hardware).dispatch_precision is None
    wide = settings_on(usual, Layout.parse("tp=1,dp=16,ep=16"), hardware)
    assert (wide.dispatch_precision, wide.chunk_tokens) == ("fp8", usual.wide_ep.chunk_tokens)
    stated = altered(stack("sglang"), "own", {}, {"overlap_efficiency": 0.1, "chunk_tokens": 4096})
    own = settings_on(stated.settings, Layout.parse("tp=1,dp=16,ep=16"), hardware)
    assert (own.overlap_efficiency, own.chunk_tokens, own.dispatch_precision) == (0.1, 4096, "fp8")
