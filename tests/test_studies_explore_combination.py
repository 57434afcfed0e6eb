"""What the page of `planner explore` makes of tables: sums, straight lines and waits, held against closed forms."""

from dataclasses import dataclass, field
from math import exp, inf, log
from typing import Any

import numpy as np
import pytest

from planner.results.explorer import ExactNodes, LinkTable, PathTable, PoolTable, Tables, WaitTable
from planner.studies.explore.combination import (
    Knobs,
    busy,
    capacities,
    combined,
    fleet_req_per_s,
    log_place,
    unit_limits,
    usd_per_hour,
    usd_per_million,
)
from tests.explore_reference import fleet_latency, is_node

FINE, NODES = (1000.0, 4000.0, 16_000.0), (1000.0, 16_000.0)
USE, SIZES, MULTIPLES = (0.2, 0.5, 0.8), (1, 2, 4), (0.0, 0.5, 2.0, 6.0)
KINDS, WEIGHTS = {"far": (3.0, 5.0), "near": (0.5, 1.5)}, (0.25, 0.75)
FAR, NEAR, DECODE = 0, 1, 2


def waits(wait_s: float, n_nodes: int, multiples: tuple[float, ...] = MULTIPLES) -> WaitTable:
    """Exponential waits of mean m / (1 - u) / n, met with the probability u; twice as long at the last node."""

    def table(value: Any) -> tuple[Any, ...]:
        return tuple(tuple(tuple(value(k, n, u) for u in USE) for n in SIZES) for k in range(n_nodes))

    return WaitTable(
        n_instances=SIZES,
        use=USE,
        log_waiting=table(lambda _, __, u: log(u)),
        log_idle_wait=table(lambda k, n, _: log(wait_s * (1 + k) / n)),
        log_survival=table(lambda *_: tuple(-x for x in multiples)),
    )


def pool(name: str, work_s: tuple[float, ...], taken: tuple[float, ...], **changes: Any) -> PoolTable:
    stated: dict[str, Any] = {
        "name": name,
        "size_key": f"pools.{name}.n_instances",
        "role": "prefill",
        "n_planned": 2,
        "accelerators_per_instance": 8,
        "usd_per_instance_hour": 10.0,
        "busy_usd_per_hour": 3.0,
        "taken_fraction": taken,
        "work_s": work_s,
        "waits": waits(0.4, 2),
    }
    return PoolTable(**{**stated, **changes})


def tables(**changes: Any) -> Tables:
    """Two pools that prefill, one for long prompts behind a link, and one that decodes."""
    long, short = (0.75, 0.5, 0.25), (0.25, 0.5, 0.75)
    decode = pool(
        "decode",
        (0.5, 0.5, 0.5),
        (1.0, 1.0, 1.0),
        role="decode",
        step_s=tuple(tuple(0.01 * (1 + u) * n for u in USE) for n in SIZES),
        waits=waits(0.2, 1),
    )
    stated: dict[str, Any] = {
        "fine_tokens": FINE,
        "node_tokens": NODES,
        "planned_tokens": 1000.0,
        "planned_req_per_s": 1.0,
        "is_split": True,
        "by_factor": False,
        "kind_weights": WEIGHTS,
        "wait_multiples": MULTIPLES,
        "pools": (pool("far", (1.6, 0.8, 0.4), long), pool("near", (0.2, 0.6, 1.0), short), decode),
        "offload_fraction": long,
        "paths": (
            PathTable(prefill=FAR, decode=DECODE, share=long, kinds_s=(KINDS["far"], (4.0, 6.0))),
            PathTable(prefill=NEAR, decode=DECODE, share=short, kinds_s=(KINDS["near"], (1.0, 2.5))),
        ),
        "links": (
            LinkTable(
                name="wan", capacity_gbps=40.0, gbps_per_req_per_s=(8.0, 6.0, 2.0), usd_per_hour=7.0, usd_per_gb=0.02
            ),
        ),
        "stocks": (),
        "promised_ttft_s": None,
        "promised_percentile": 90.0,
        "mean_total_tokens": 5000.0,
        "mean_output_tokens": 250.0,
        "exact": None,
        "fixed": (),
    }
    return Tables(**{**stated, **changes})


AT_NODE = Knobs((2, 1, 4), 1000.0, 0.5)
HALFWAY = AT_NODE._replace(threshold_tokens=2000.0)
"""By logarithms, between the first two thresholds."""
CASES = [(AT_NODE, (1.6, 0.2, 0.5), (0.75, 0.25, 1.0), 8.0), (HALFWAY, (1.2, 0.4, 0.5), (0.625, 0.375, 1.0), 7.0)]


@pytest.mark.parametrize(("knobs", "work_s", "taken", "gbps"), CASES)
def test_rates_follow_from_work_sizes_and_bandwidth(
    knobs: Knobs, work_s: tuple[float, ...], taken: tuple[float, ...], gbps: float
) -> None:
    of, sizes = tables(), knobs.n_instances
    alone = {name: n / work for name, n, work in zip(("far", "near", "decode"), sizes, work_s, strict=True)}
    assert busy(of, knobs) == pytest.approx([0.5 * work / n for n, work in zip(sizes, work_s, strict=True)])
    assert unit_limits(of, knobs) == pytest.approx(alone | {"wan": 40.0 / gbps})
    assert fleet_req_per_s(of, knobs) == pytest.approx(min(*alone.values(), 40.0 / gbps))
    expected = [n * part / work for n, part, work in zip(sizes, taken, work_s, strict=True)]
    assert capacities(of, knobs) == pytest.approx(expected)


@pytest.mark.parametrize(("knobs", "work_s", "taken", "gbps"), CASES)
def test_cost_is_rent_the_work_done_and_what_a_link_carries(
    knobs: Knobs, work_s: tuple[float, ...], taken: tuple[float, ...], gbps: float
) -> None:
    of = tables()
    rate = knobs.req_per_s
    usd = 10.0 * 7 + 3.0 * rate * sum(work_s) + 7.0 + 0.02 * rate * gbps / 8 * 3600
    assert usd_per_hour(of, knobs) == pytest.approx(usd)
    hourly = rate * 3600
    assert usd_per_million(of, knobs) == pytest.approx((1e6 * usd / (5000 * hourly), 1e6 * usd / (250 * hourly)))
    assert usd_per_million(tables(mean_output_tokens=0.0), knobs)[1] is None
    assert len(taken) == len(of.pools)


def test_a_pool_that_takes_nothing_limits_nothing_and_one_without_instances_serves_nothing() -> None:
    idle = pool("far", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    of = tables(pools=(idle, *tables().pools[1:]))
    assert (busy(of, AT_NODE)[FAR], capacities(of, AT_NODE)[FAR], unit_limits(of, AT_NODE)["far"]) == (0.0, None, inf)
    none = AT_NODE._replace(n_instances=(0, 0, 4))
    assert busy(of, none)[:2] == [0.0, inf]
    assert unit_limits(of, none)["near"] == 0.0


def test_a_missing_price_leaves_the_bill_unknown_but_for_a_pool_that_is_not_rented() -> None:
    unpriced = pool("far", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), usd_per_instance_hour=None)
    of = tables(pools=(unpriced, *tables().pools[1:]))
    assert usd_per_hour(of, AT_NODE) is None
    assert usd_per_million(of, AT_NODE) == (None, None)
    assert usd_per_hour(of, AT_NODE._replace(n_instances=(0, 1, 4))) is not None
    link = tables().links[0].model_copy(update={"usd_per_hour": None})
    assert usd_per_hour(tables(links=(link,)), AT_NODE) is None


@dataclass
class Drawn:
    """First tokens as a sample of many requests: kinds by weight, and waits drawn from their exponentials."""

    n: int = 200_000
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def wait_s(self, use: float, mean_s: float) -> np.ndarray:
        waits = self.rng.random(self.n) < use
        return np.asarray(np.where(waits, self.rng.exponential(mean_s, self.n), 0.0))

    def ttft_s(self, kinds: tuple[float, ...], prefill: tuple[float, float], decode: tuple[float, float]) -> np.ndarray:
        drawn: np.ndarray = self.rng.choice(kinds, self.n, p=WEIGHTS)
        drawn += self.wait_s(*prefill) + self.wait_s(*decode)
        return drawn


def test_times_are_those_of_requests_that_wait_twice_and_are_of_several_kinds() -> None:
    """Uses of 0.5, 0.2 and 0.5 are columns of the tables, and so are the sizes: nothing is interpolated."""
    knobs = Knobs((4, 1, 1), 1000.0, 1.0)
    pools = (
        pool("far", (2.0, 2.0, 2.0), (0.75, 0.5, 0.25)),
        pool("near", (0.2, 0.2, 0.2), (0.25, 0.5, 0.75)),
        tables().pools[DECODE],
    )
    found = combined(tables(pools=pools), knobs)
    assert found is not None
    drawn, decode = Drawn(), (0.5, 0.2 / 0.5)
    far = drawn.ttft_s(KINDS["far"], (0.5, 0.4 / 4 / 0.5), decode)
    near = drawn.ttft_s(KINDS["near"], (0.2, 0.4 / 0.8), decode)
    both, weights = np.concatenate([far, near]), np.repeat([0.75, 0.25], drawn.n)
    means = [kinds[0] * 0.25 + kinds[1] * 0.75 for kinds in (KINDS["far"], KINDS["near"])]
    mean_s = 0.75 * (means[0] + 0.5 * 0.2) + 0.25 * (means[1] + 0.2 * 0.5) + 0.5 * 0.4
    assert found["ttft_mean_s"] == pytest.approx(mean_s)
    order = np.argsort(both)
    passed = np.cumsum(weights[order]) / weights.sum()
    for name, q in (("ttft_p50_s", 0.5), ("ttft_p90_s", 0.9), ("ttft_p99_s", 0.99)):
        assert found[name] == pytest.approx(both[order][np.searchsorted(passed, q)], rel=0.015), name
    assert found["tpot_mean_s"] == pytest.approx(0.01 * 1.5)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_a_quantile_of_one_queue_is_where_its_survival_ends(q: float) -> None:
    """One kind of requests of 1 s, half of which wait for 3 s in the mean: P(W > x) = exp(-x / 3) / 2."""
    short = (0.0, 0.5, 2.0)
    of = tables(
        wait_multiples=short,
        kind_weights=(1.0,),
        pools=(
            pool("far", (0.5, 0.5, 0.5), (1.0, 1.0, 1.0), waits=waits(1.5, 2, short)),
            tables().pools[DECODE].model_copy(update={"work_s": (0.0, 0.0, 0.0), "waits": waits(0.2, 1, short)}),
        ),
        paths=(PathTable(prefill=0, decode=1, share=(1.0, 1.0, 1.0), kinds_s=((1.0,), (1.0,))),),
    )
    found = combined(of, Knobs((1, 1), 1000.0, 1.0))
    assert found is not None
    expected = 1.0 + (0.0 if q <= 0.5 else 3.0 * log(0.5 / (1 - q)))
    assert found[f"ttft_p{100 * q:.0f}_s"] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_below_the_least_use_of_a_table_fewer_wait_in_proportion_and_between_nodes_logarithms_are_straight() -> None:
    of = tables(
        kind_weights=(1.0,),
        pools=(
            pool("far", (0.1, 0.1, 0.1), (1.0, 1.0, 1.0)),
            tables().pools[DECODE].model_copy(update={"work_s": (0.0, 0.0, 0.0)}),
        ),
        paths=(PathTable(prefill=0, decode=1, share=(1.0, 1.0, 1.0), kinds_s=((1.0,), (3.0,))),),
    )
    for threshold, wait_s, service_s in ((1000.0, 0.4, 1.0), (16_000.0, 0.8, 3.0), (4000.0, (0.4 * 0.8) ** 0.5, 2.0)):
        found = combined(of, Knobs((1, 1), threshold, 1.0))
        assert found is not None
        assert found["ttft_mean_s"] == pytest.approx(service_s + 0.1 * wait_s / 0.9)
    middle = combined(of, Knobs((1, 1), 1000.0, 3.5))
    assert middle is not None
    assert middle["ttft_mean_s"] == pytest.approx(1.0 + exp((log(0.2) + log(0.5)) / 2) * 0.4 / 0.65)


def test_without_a_steady_state_there_are_no_times_and_without_waits_none_of_them_is_known() -> None:
    assert combined(tables(), Knobs((2, 1, 4), 1000.0, 1.25)) is None
    assert combined(tables(), Knobs((2, 1, 4), 1000.0, 1.24)) is not None
    narrow = tables().links[0].model_copy(update={"capacity_gbps": 8.0})
    assert combined(tables(links=(narrow,)), Knobs((2, 1, 4), 1000.0, 1.1)) is None
    unknown = tuple(one.model_copy(update={"waits": None}) for one in tables().pools)
    found = combined(tables(pools=unknown), AT_NODE)
    assert found is not None
    assert set(found.values()) == {None}


def test_through_exact_nodes_times_are_theirs_and_between_them_what_the_known_ones_differ_by() -> None:
    """Exact times are some part longer: between nodes by the mean part of those around, the nearer weighing more."""
    names, rates = ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "tpot_mean_s"), (0.4, 0.6)
    ratios = ((1.1, 1.2), (1.4, None))
    at_once = tables().pools[DECODE].model_copy(update={"work_s": (0.0, 0.0, 0.0)})
    pools = (*tables().pools[:DECODE], at_once)
    plain = tables(pools=pools)
    sizes = tuple(one.n_planned for one in plain.pools)

    def at(threshold: float, rate: float) -> dict[str, float]:
        found = combined(plain, Knobs(sizes, threshold, rate))
        assert found is not None
        return {name: value or 0.0 for name, value in found.items()}

    nodes = [[at(t, rate) for rate in rates] for t in NODES]
    figures = {
        name: tuple(
            tuple(r and r * one[name] for r, one in zip(of_t, row, strict=True))
            for of_t, row in zip(ratios, nodes, strict=True)
        )
        for name in names
    }
    of = tables(pools=pools, exact=ExactNodes(req_per_s=rates, figures=figures))
    quarter = (0.75 * (0.75 * 1.1 + 0.25 * 1.2) + 0.25 * 0.75 * 1.4) / (1 - 0.25 * 0.25)
    for threshold, rate, ratio in ((1000.0, 0.45, 1.125), (2000.0, 0.45, quarter)):
        found = fleet_latency(of, Knobs(sizes, threshold, rate))
        assert found == pytest.approx({name: ratio * value for name, value in at(threshold, rate).items()})
    beyond = fleet_latency(of, Knobs(sizes, 16_000.0, 0.7))
    assert beyond == pytest.approx(at(16_000.0, 0.7)), "no exact node around has a steady state"
    for threshold, rate in ((1000.0, 0.4), (4000.0, 0.4), (16_000.0, 0.6), (16_000.0, 0.5)):
        assert is_node(of, Knobs(sizes, threshold, rate)) == (threshold in NODES and rate in rates)
    others = (3, *sizes[1:])
    assert fleet_latency(of, Knobs(others, 1000.0, 0.4)) == combined(plain, Knobs(others, 1000.0, 0.4))
    assert not is_node(of, Knobs(others, 1000.0, 0.4))


def test_a_place_on_a_logarithmic_scale_is_as_far_as_the_logarithm() -> None:
    assert tuple(log_place((1.0, 10.0, 1000.0), 100.0)) == pytest.approx((1, 0.5))
    assert tuple(log_place((1.0, 10.0, 1000.0), 10.0)) == (1, 0.0)
    assert tuple(log_place((0.0, 1.0), 1e-6)) == pytest.approx((0, 0.5))
