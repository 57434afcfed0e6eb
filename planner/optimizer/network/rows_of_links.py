"""Rows of a network's program about links: their bandwidth, and the least bandwidth of a link in use."""

from __future__ import annotations

from planner.optimizer.network.program import MixedIntegerProgram
from planner.units import BITS_PER_BYTE, BITS_PER_GBIT

GBIT_PER_BYTE = BITS_PER_BYTE / BITS_PER_GBIT


def bound_link_bytes(program: MixedIntegerProgram) -> None:
    """Mean traffic fits the ports of a link.

    Equation:
        sum over q, k and arcs a of x_qska S_qka <= u sum over tiers j of m_lj B_lj, for every situation s; S traffic of
        a request of the part [Gbit], in bounds also of prompts between the ends of a cell, B a tier [Gbps], u the
        greatest mean use of a link: `NetworkLoads.most_link_busy`

    Args:
        program: the program.
    """
    sent: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for (_, s, _, _, arc), column, _, sent_bytes in program.prefill_uses:
        if arc.link is not None:
            sent.setdefault((arc.link, s), []).append((column, GBIT_PER_BYTE * sent_bytes))
    busy = program.spec.loads.most_link_busy()
    for (index, s), terms in sent.items():
        tiers = zip(program.ports[index], program.problem.links[index].tiers, strict=True)
        ports = [(m, -busy * tier.capacity_gbps) for m, tier in tiers]
        program.shared_rows.append(program.rows.row(f"bound_link_bytes_{index}_{s}", [*terms, *ports], high=0))


def open_used_links(program: MixedIntegerProgram) -> None:
    """The ports of a link in use have a least bandwidth b_l.

    Equation:
        sum of m_lj B_lj >= b_l o_l and x_qska <= most o_l for every arc over the link, o_l binary: the link is in use

    Args:
        program: the program.
    """
    least_gbps = program.spec.loads.opened_gbps
    for index, link in enumerate(program.problem.links if least_gbps else ()):
        used = program.rows.column(f"use_{index}", 0, 1, is_integer=True)
        program.link_choices.append(used)
        ports = [(m, tier.capacity_gbps) for m, tier in zip(program.ports[index], link.tiers, strict=True)]
        program.rows.row(f"open_used_links_{index}", [*ports, (used, -least_gbps[index])], low=0)
        for (q, s, k, part, arc), column in program.part_rates.items():
            if arc.link == index:
                most = program.rows.highs[program.scale] * program.problem.peak_req_per_s[q]
                program.rows.row(f"use_link_{q}_{s}_{k}_{part}_{arc.pool}", [(column, 1.0), (used, -most)], high=0)
