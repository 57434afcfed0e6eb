"""Prefix hits: quadrature against closed forms, and the ideal cache against a cache played request by request."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from planner.workload.hits import hit_nodes, hit_quantile, ideal_hits
from planner.workload.prefixes import BetaHits, ConstantHits, DiscreteHits
from planner.workload.traces import Blocks, read_trace

BETA = BetaHits(kind="beta", alpha=0.5, beta=0.8)
FEW = DiscreteHits(kind="discrete", fractions=(0.5, 0.0), weights=(1.0, 3.0))


def ragged(rows):
    offsets = np.cumsum([0, *map(len, rows)])
    return Blocks(np.array([x for row in rows for x in row], dtype=np.int64), offsets)


def cache_played(totals, rows):
    seen, cached = set(), []
    for total, row in zip(totals, rows, strict=True):
        n_hit = next((i for i, block in enumerate(row) if block not in seen), len(row))
        seen.update(row)
        cached.append(min(512 * n_hit, total))
    return cached


def test_the_first_request_finds_nothing_and_its_repetition_everything():
    assert ideal_hits([700, 700], ragged([[1, 2], [1, 2]])).tolist() == [0, 700]


def test_only_leading_blocks_of_earlier_requests_count():
    rows = [[1, 2, 3], [1, 9, 3], [8, 2, 3], [1, 9]]
    assert ideal_hits([1536, 1536, 1536, 1024], ragged(rows)).tolist() == [0, 512, 0, 1024]


def test_a_block_twice_in_its_own_prompt_is_not_a_hit():
    assert ideal_hits([1024], ragged([[1, 1]])).tolist() == [0]


@given(rows=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), min_size=1, max_size=20))
def test_ideal_hits_are_those_of_an_unlimited_cache_played_in_order(rows):
    totals = [512 * len(row) - 100 for row in rows]
    assert ideal_hits(totals, ragged(rows)).tolist() == cache_played(totals, rows)


def test_a_trace_of_conversations_has_its_known_ideal_hit(mooncake):
    trace = read_trace(mooncake.path)
    cached = ideal_hits(trace.total_tokens, trace.blocks)
    assert cached.sum() / trace.total_tokens.sum() == pytest.approx(mooncake.ideal_hit_fraction, abs=0.001)
    assert (cached <= trace.total_tokens).all()


@pytest.mark.parametrize("order", range(8))
def test_beta_nodes_have_the_moments_of_the_beta_distribution(order):
    fractions, weights = hit_nodes(BETA)
    assert weights @ fractions**order == pytest.approx(stats.beta(0.5, 0.8).moment(order) if order else 1.0, rel=1e-12)
    assert ((fractions > 0) & (fractions < 1)).all()


def test_discrete_and_constant_hits_are_their_own_nodes():
    assert [x.tolist() for x in hit_nodes(FEW)] == [[0.5, 0.0], [0.25, 0.75]]
    assert [x.tolist() for x in hit_nodes(ConstantHits(kind="constant", fraction=0.3))] == [[0.3], [1.0]]


def test_hit_quantiles_invert_the_distribution():
    q = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    assert hit_quantile(BETA, q) == pytest.approx(stats.beta(0.5, 0.8).ppf(q))
    assert hit_quantile(FEW, q).tolist() == [0.0, 0.0, 0.0, 0.5, 0.5]
