"""Experts dealt out over ranks: what a token's copies weigh, where they go, and how much of that is hidden."""

from dataclasses import dataclass
from math import comb

import numpy as np

from planner.profiles import MixtureOfExperts
from planner.roofline.chip import Chip
from planner.roofline.kv_cache import BYTES_PER_VALUE
from planner.roofline.layout import Layout
from planner.roofline.operator import FloatArray

VALUES_PER_SCALE = 128
"""Activations sent in 8 bits or fewer have a scale of 4 bytes per so many."""
SCALE_BYTES = 4.0


@dataclass(frozen=True)
class ExpertTraffic:
    """Settings of a stack for experts that are dealt out to ranks."""

    dispatch_precision: str = "bf16"
    """Number format of activations on their way to the experts."""
    combine_precision: str = "bf16"
    """Number format of the experts' sums on their way back."""
    overlap_efficiency: float = 0.0
    """Part of the exchange that two micro-batches hide behind each other's computation; 0: there is one batch."""
    imbalance: float = 1.0
    """Visits of the busiest rank's experts over the mean."""
    redundant_experts: int = 0
    """Copies of experts held beside the model's own, in every layer, to even out the ranks."""
    is_grouped: bool = False
    """Whether it lays an expert's tokens side by side for grouped products; else kernels sort them."""


EVEN_TRAFFIC = ExpertTraffic()
"""One batch, bf16 each way, experts as likely as one another."""


def sent_bytes_per_value(precision: str) -> float:
    """Bytes of an activation on the wire, with its share of a scale.

    >>> sent_bytes_per_value("bf16"), sent_bytes_per_value("fp8")
    (2.0, 1.03125)
    """
    width = BYTES_PER_VALUE[precision]
    return width if width >= BYTES_PER_VALUE["bf16"] else width + SCALE_BYTES / VALUES_PER_SCALE


def sent_values_bytes(traffic: ExpertTraffic) -> float:
    """Bytes of an activation on its way out and of its sum on its way back.

    >>> sent_values_bytes(ExpertTraffic(dispatch_precision="fp8"))
    3.03125
    """
    return sent_bytes_per_value(traffic.dispatch_precision) + sent_bytes_per_value(traffic.combine_precision)


def parts_visited(moe: MixtureOfExperts, n_parts: int) -> float:
    """Expected number of equal parts of the ranks, such as nodes, that hold an expert of a token.

    Equation:
        n (1 - E[(1 - J / t)^k]): a token takes t of G groups of experts and k experts among those; of the groups of a
        part J are among the t. Where parts are smaller than groups, n t / G of them hold the t groups, and each has
        an equal chance of every expert

    Args:
        moe: the experts; without groups, one group holds all.
        n_parts: parts n that the experts are dealt out to in order.

    Returns:
        Parts, from 1 to n.

    Valid:
        Groups and experts as likely as one another; experts chosen independently.

    Source:
        Hypergeometric distribution; node-limited routing: DeepSeek-V3 (2024), section 2.1.2.

    >>> from planner.profiles import model_profile
    >>> moe = model_profile("deepseek-v3").architecture.moe
    >>> [round(parts_visited(moe, n), 2) for n in (1, 2, 4, 8, 32)]
    [1.0, 1.92, 2.91, 3.6, 6.45]
    """
    groups, taken, k = moe.n_groups, moe.n_groups_per_token, moe.n_experts_per_token
    if n_parts >= groups:
        reached = n_parts * taken / groups
        return reached * (1 - (1 - 1 / reached) ** k)
    mine = groups / n_parts
    few = int(mine)
    share = mine - few  # parts that hold one group more than others
    return n_parts * ((1 - share) * _visited(groups, taken, k, few) + share * _visited(groups, taken, k, few + 1))


def _visited(groups: int, taken: int, k: int, mine: int) -> float:
    """Chance that a part with some of the groups holds an expert of a token."""
    ways = comb(groups, taken)
    among = range(max(0, taken - (groups - mine)), min(mine, taken) + 1)
    return 1 - sum(comb(mine, j) * comb(groups - mine, taken - j) / ways * (1 - j / taken) ** k for j in among)


def exchange_s(
    moe: MixtureOfExperts,
    chip: Chip,
    layout: Layout,
    traffic: ExpertTraffic,
    values: FloatArray,
    *,
    is_decode: bool = False,
) -> FloatArray:
    """Seconds to send a rank's activations to their experts and to get the sums back.

    Equation:
        values (b_out + b_back) max(c (1 - 1 / d) / B_link, m (1 - 1 / M) / B_nic): c copies of a token, one per rank
        with an expert of it, over the scale-up link of d ranks; m over the network, one per node with an expert of
        it, where there are M nodes; the two go on at once. In decode m is one per expert: kernels of low latency
        send every copy straight to its rank

    Args:
        moe: the experts.
        chip: rates of the accelerator, and how many its scale-up link joins.
        layout: parallel sizes; the ranks of a stage exchange.
        traffic: number formats each way.
        values: activations of the tokens that a rank sends, any shape.
        is_decode: whether the pass only decodes, so that a graph replays it with kernels of low latency.

    Returns:
        Seconds [s], the shape of values, without what an exchange of nothing takes.

    Raises:
        InputError: a figure of the accelerator is unknown.

    Valid:
        Nodes as full as one another; ranks of a group each take all of an expert's tokens.

    Source:
        DeepEP (2025), README: normal kernels send a token once per node and hand it on over NVLink there; kernels of
        low latency send it once per expert.

    >>> from planner.profiles import hardware_profile, model_profile
    >>> moe, chip = model_profile("deepseek-v3").architecture.moe, Chip(hardware_profile("h800-sxm"), derated=False)
    >>> fp8 = ExpertTraffic(dispatch_precision="fp8")
    >>> wide = Layout(dp_size=32, ep_size=32)
    >>> [float(exchange_s(moe, chip, wide, t, np.array(7168.0 * 4096)).round(4)) for t in (ExpertTraffic(), fp8)]
    [0.0051, 0.0039]

    In decode 8 copies in bf16 each way, 3 of 4 to another node, at 50 GB/s.

    >>> 7168 * 4096 * (2 + 2) * 8 * 3 / 4 / 50e9
    0.01409286144
    >>> float(exchange_s(moe, chip, wide, ExpertTraffic(), np.array(7168.0 * 4096), is_decode=True).round(11))
    0.01409286144
    """
    n = layout.stage_size
    inside = min(chip.hardware.n_scaleup_domain_accelerators or n, n)
    nodes = -(-n // inside)
    n_bytes = values * sent_values_bytes(traffic)
    copies = parts_visited(moe, layout.ep_size) * n / layout.ep_size
    link_s = n_bytes * copies * (1 - 1 / inside) / chip.dispatch_bytes_per_s(inside)
    if nodes == 1:
        return np.asarray(link_s)
    sent = moe.n_experts_per_token if is_decode else parts_visited(moe, nodes)
    return np.maximum(link_s, n_bytes * sent * (1 - 1 / nodes) / chip.dispatch_bytes_per_s(n))
