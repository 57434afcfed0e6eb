"""A network without a promise as one small mixed-integer program, by docs/explanation alone: no code of the planner.

Streams q are the requests of a class that are decoded at a site. In every period p a stream has one threshold t, out of
all that differ in effect, chosen by binaries y_qpt; its long and short prompts take any share of the prefill pools that
they may go to, x_qpt,part,i, and it is decoded by any share of the pools of its site, d_qpi. All in requests of the
class [req/s], with R the scale of the demand (1 where it must be served):

    sum over the streams of a demand of r_qp = R demand_p          r_qp = sum over t of r_qpt, r_qpt <= most y_qpt
    sum over i of x_qpt,part,i = r_qpt                              where a part has any prompts under t
    sum of x_qpt,part,i E[T_i; part] <= N_i,    sum of d_qpi o s / b <= N_i,    sum of x E[bytes; part] 8e-9 <= Gbps

and the bill: rent, ports, and what busy instances and traffic cost on top, as a mean over the hours. A ratio a : b adds
b sum of N that take short prompts = a sum of N that decode; under "mean-length" T_i of the mean length of a part stands
for the mean of T_i, without prefixes. Solved by `scipy.optimize.milp`; `tests/test_optimizer_every_plan.py` holds it
against trying all sizes one by one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any

import numpy as np

from tests.enumerated_plans import TDP_W, Requests, prefill_s, wire_bytes

Data = Mapping[str, Any]
Terms = list[tuple[int, float]]

MOST_SCALE = 1.01
"""Of what all instances could decode: kept small, because a solver takes 1e-6 of it for nothing."""


@dataclass(frozen=True)
class Stream:
    """Requests of a class that are decoded at a site."""

    name: str
    site: str
    requests: Requests


class Columns:
    """Columns and rows of a program, as they are added."""

    def __init__(self) -> None:
        self.low: list[float] = []
        self.high: list[float] = []
        self.whole: list[int] = []
        self.cost: list[float] = []
        self.rows: list[tuple[Terms, float, float]] = []

    def add(self, high: float = inf, low: float = 0.0, is_whole: bool = False, cost: float = 0.0) -> int:
        """A new column."""
        self.low.append(low)
        self.high.append(high)
        self.whole.append(int(is_whole))
        self.cost.append(cost)
        return len(self.low) - 1

    def row(self, terms: Terms, low: float = -inf, high: float = inf) -> None:
        """A new row."""
        self.rows.append((terms, low, high))

    def solved(self, objective: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Least value of an objective and where it is; None where nothing fits."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array

        at = [(r, column, x) for r, (terms, _, _) in enumerate(self.rows) for column, x in terms]
        r, c, x = (np.array(part) for part in zip(*at, strict=True))
        matrix = coo_array((x, (r, c)), shape=(len(self.rows), len(self.low))).tocsr()
        limits = LinearConstraint(matrix, [low for _, low, _ in self.rows], [high for _, _, high in self.rows])
        found = milp(
            objective,
            integrality=np.array(self.whole),
            bounds=Bounds(self.low, self.high),
            constraints=limits,
            options={"mip_rel_gap": 0.0, "time_limit": 60.0},
        )
        if found.status == 2:
            return None
        if found.status != 0:
            raise TimeoutError(found.message)
        return float(found.fun), found.x


class NetworkProgram:
    """All plans of a network.

    Args:
        data: the question.
        sizes: instances by pool, where they are settled.
        ports: ports of every tier by link, where they are settled.
    """

    def __init__(
        self, data: Data, sizes: Mapping[str, int] | None = None, ports: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        self.data, self.columns = data, Columns()
        self.periods = data.get("periods") or {"all": {}}
        hours = np.array([p.get("hours", 1.0) for p in self.periods.values()])
        self.weights = dict(zip(self.periods, hours / hours.sum(), strict=True))
        self.n = {name: self._size(pool, (sizes or {}).get(name)) for name, pool in data["pools"].items()}
        self.ports = {name: self._ports(link, (ports or {}).get(name)) for name, link in data.get("links", {}).items()}
        self._stock()
        self._ratio()
        self.most_scale = max(1.0, MOST_SCALE * self._decoded_scale())
        self.scale = self.columns.add(self.most_scale)
        self.loads: dict[tuple[str, str], Terms] = {}
        self.traffic: dict[tuple[str, str], Terms] = {}
        for period in self.periods:
            self._period(period)
        self._capacities()

    @property
    def mean_req_per_s(self) -> float:
        """Demand at a scale of 1, over all classes and the hours [req/s]."""
        return sum(self.weights[p] * self.demand(c, s, p) for p in self.periods for c, s in self._demands())

    def demand(self, name: str, home: str | None, period: str) -> float:
        """Rate of a class that arrives somewhere in a period, at a scale of 1 [req/s]."""
        one, when = self._classes()[name], self.periods[period]
        rate = self.data.get("demand_req_per_s", 1.0) * one["share"] * when.get("demand", 1.0)
        rate *= when.get("by_class", {}).get(name, 1.0)
        return rate * (one["sites"][home] * when.get("by_site", {}).get(home, 1.0) if home is not None else 1.0)

    def _classes(self) -> dict[str, Any]:
        return self.data.get("classes") or {"all": {"share": 1.0, "workload": self.data["workload"]}}

    def _demands(self) -> Iterator[tuple[str, str | None]]:
        for name, one in self._classes().items():
            yield from ((name, home) for home in one.get("sites") or [None])

    def _size(self, pool: Data, settled: int | None) -> int:
        stock = self.data["sites"][pool["site"]]["accelerators"][pool["hardware"]]
        low, high = pool.get("min_instances", 0), min(pool.get("max_instances", stock), stock // 8)
        if "n_instances" in pool:
            low = high = pool["n_instances"]
        if settled is not None:
            low = high = settled
        site, kind = self.data["sites"][pool["site"]], pool["hardware"]
        idle = site.get("idle_draw_fraction", site.get("draw_fraction", 1.0))
        usd = self.data["prices"][kind]["usd_per_accelerator_hour"] + idle * _kwh_usd(site, kind)
        return self.columns.add(high, low, True, 8 * usd)

    def _ports(self, link: Data, settled: tuple[int, ...] | None) -> list[tuple[int, float]]:
        tiers = link.get("tiers") or [{"capacity_gbps": link["capacity_gbps"], "usd_per_hour": link["usd_per_hour"]}]
        found = []
        for i, tier in enumerate(tiers):
            low, high = (0, tier.get("max_ports", 1)) if settled is None else (settled[i], settled[i])
            found.append((self.columns.add(high, low, True, tier["usd_per_hour"]), tier["capacity_gbps"]))
        return found

    def _stock(self) -> None:
        for site, place in self.data["sites"].items():
            for kind, stock in place.get("accelerators", {}).items():
                mine = [n for name, n in self.n.items() if self._at(name) == (site, kind)]
                if mine:
                    self.columns.row([(n, 8.0) for n in mine], high=stock)

    def _ratio(self) -> None:
        """b instances that prefill short prompts for every a that decode, where a ratio a : b is stated."""
        stated = self.data.get("routing", {}).get("prefill_to_decode")
        if stated:
            a, b = map(float, stated.split(":"))
            pools = self.data["pools"]
            short = [n for key, n in self.n.items() if "short" in self._takes(pools[key])]
            decode = [n for key, n in self.n.items() if pools[key]["role"] == "decode"]
            self.columns.row([*((n, b) for n in short), *((n, -a) for n in decode)], 0, 0)

    def _at(self, pool: str) -> tuple[str, str]:
        return self.data["pools"][pool]["site"], self.data["pools"][pool]["hardware"]

    def _streams(self, name: str, home: str | None) -> Iterator[str]:
        """Sites that decode the requests of a class that arrive somewhere."""
        for site in dict.fromkeys(self.data["pools"][p]["site"] for p in self._serving(name, "decode")):
            if home in (None, site):
                yield site

    def _serving(self, name: str, role: str) -> list[str]:
        """Pools of a role that serve a class."""
        model = self._classes()[name].get("model")
        return [
            key
            for key, pool in self.data["pools"].items()
            if pool["role"] == role and pool.get("model") == model and name in pool.get("classes", [name])
        ]

    def _period(self, period: str) -> None:
        rates: dict[tuple[str, str], Terms] = {}
        for name, home in self._demands():
            terms: Terms = []
            for site in self._streams(name, home):
                column = self.columns.add()
                terms.append((column, 1.0))
                rates.setdefault((name, site), []).append((column, -1.0))
            self.columns.row([*terms, (self.scale, -self.demand(name, home, period))], 0, 0)
        for (name, site), terms in rates.items():
            self._stream(period, Stream(name, site, Requests.of(1.0, self._classes()[name]["workload"])), terms)

    def _stream(self, period: str, stream: Stream, rate: Terms) -> None:
        """Thresholds and ways of a stream in a period, and where it is decoded."""
        fixed = self.data.get("routing", {}).get("threshold_tokens", "free")
        thresholds = stream.requests.thresholds() if fixed == "free" else [float(fixed)]
        most = self.most_scale * max(self.demand(stream.name, None, p) for p in self.periods)
        chosen, routed = [], []
        for threshold in thresholds:
            y, r = self.columns.add(1, is_whole=True), self.columns.add()
            self.columns.row([(r, 1.0), (y, -most)], high=0)
            chosen.append((y, 1.0))
            routed.append((r, 1.0))
            for part in ("long", "short"):
                self._part(period, stream, threshold, part, r)
        self.columns.row(chosen, high=1)
        self.columns.row([*rate, *routed], 0, 0)
        decoding = []
        for key in self._serving(stream.name, "decode"):
            if self.data["pools"][key]["site"] == stream.site:
                decode = self._instance(key)["decode"]
                seconds = decode["step_s"] * stream.requests.output_tokens / decode["batch"]
                column = self.columns.add(cost=self._use(period, key, seconds))
                self.loads.setdefault((key, period), []).append((column, seconds))
                decoding.append((column, 1.0))
        self.columns.row([*decoding, *rate], 0, 0)

    def _part(self, period: str, stream: Stream, threshold: float, part: str, rate: int) -> None:
        requests = stream.requests
        mine = requests.is_long(threshold) == (part == "long")
        if not mine.any():
            return
        total, cached, weights = requests.total[mine], requests.cached[mine], requests.weights[mine]
        if self.data.get("capacity_rule") == "mean-length":
            whole = weights.sum()
            total, cached, weights = np.array([weights @ total / whole]), np.zeros(1), np.array([whole])
        ways: Terms = []
        for key, link in self._ways(stream, part):
            instance = self._instance(key)
            seconds = float(weights @ prefill_s(instance, total, cached))
            cost, sent = self._use(period, key, seconds), 0.0
            if link is not None:
                spec = self.data["links"][link]
                sent = float(weights @ wire_bytes(instance, total, cached, spec.get("destination_holds_prefix", True)))
                cost += self.weights[period] * sent * 3600 / 1e9 * spec.get("usd_per_gb", 0.0)
            column = self.columns.add(cost=cost)
            self.loads.setdefault((key, period), []).append((column, seconds))
            if link is not None:
                self.traffic.setdefault((link, period), []).append((column, 8e-9 * sent))
            ways.append((column, 1.0))
        self.columns.row([*ways, (rate, -1.0)], 0, 0)

    def _ways(self, stream: Stream, part: str) -> Iterator[tuple[str, str | None]]:
        """Pools that take a part of a stream, and the link from there."""
        for key in self._serving(stream.name, "prefill"):
            pool = self.data["pools"][key]
            if part not in self._takes(pool):
                continue
            if pool["site"] == stream.site:
                yield key, None
            elif part == "long" or "prompts" in pool:
                ends = pool["site"], stream.site
                yield from ((key, n) for n, k in self.data.get("links", {}).items() if (k["from"], k["to"]) == ends)

    def _takes(self, pool: Data) -> tuple[str, ...]:
        """Which prompts a pool takes: as stated; else both where its site decodes and has a link to another."""
        if pool["role"] == "decode":
            return ()
        if "prompts" in pool:
            return (pool["prompts"],)
        others = self.data["pools"].values()
        decodes = any(
            p["role"] == "decode" and p["site"] == pool["site"] and p.get("model") == pool.get("model") for p in others
        )
        leaves = any(link["from"] == pool["site"] for link in self.data.get("links", {}).values())
        return ("long", "short") if decodes and leaves else ("short",) if decodes else ("long",)

    def _instance(self, key: str) -> Data:
        pool = self.data["pools"][key]
        found = (m for m in self.data["measured"].values() if m.get("model") == pool.get("model"))
        return next(m for m in found if m["hardware"] == pool["hardware"])

    def _use(self, period: str, key: str, seconds: float) -> float:
        """What working for a request costs beyond rent, as a mean over the hours [USD/h per req/s]."""
        pool = self.data["pools"][key]
        site = self.data["sites"][pool["site"]]
        busy = site.get("draw_fraction", 1.0)
        more = busy - site.get("idle_draw_fraction", busy)
        return self.weights[period] * 8 * more * _kwh_usd(site, pool["hardware"]) * seconds

    def _decoded_scale(self) -> float:
        """Scale of the demand at which every instance there may be would decode the shortest answers."""
        outputs = [one["workload"]["output_lengths"]["tokens"] for one in self._classes().values()]
        points = [
            (self.n[k], self._instance(k)["decode"]) for k, p in self.data["pools"].items() if p["role"] == "decode"
        ]
        most = sum(self.columns.high[n] * d["batch"] / (d["step_s"] * min(outputs)) for n, d in points)
        return most / max(sum(self.demand(c, s, p) for c, s in self._demands()) for p in self.periods)

    def _capacities(self) -> None:
        for (key, _), terms in self.loads.items():
            self.columns.row([*terms, (self.n[key], -1.0)], high=0)
        for (link, _), terms in self.traffic.items():
            self.columns.row([*terms, *((m, -gbps) for m, gbps in self.ports[link])], high=0)

    def cheapest(self, scale: float) -> float:
        """Least bill of all plans that serve the demand at a scale [USD/h]; inf where none does."""
        self.columns.low[self.scale] = self.columns.high[self.scale] = scale
        found = self.columns.solved(np.array(self.columns.cost))
        self.columns.low[self.scale], self.columns.high[self.scale] = 0.0, self.most_scale
        return inf if found is None else found[0]

    def highest(self) -> float:
        """Highest mean rate over the hours that any plan serves [req/s]."""
        objective = np.zeros(len(self.columns.low))
        objective[self.scale] = -1.0
        found = self.columns.solved(objective)
        return 0.0 if found is None else -found[0] * self.mean_req_per_s


def settled_programs(data: Data) -> Iterator[tuple[float, NetworkProgram]]:
    """Every choice of sizes and ports within the limits, each a program of its own with them settled, and its rent."""
    free = NetworkProgram(data)
    ranges = [range(int(free.columns.low[n]), int(free.columns.high[n]) + 1) for n in free.n.values()]
    tiers = [(name, len(columns)) for name, columns in free.ports.items()]
    counts = [range(int(free.columns.high[m]) + 1) for columns in free.ports.values() for m, _ in columns]
    for sizes in product(*ranges):
        for flat in product(*counts):
            rest, ports = list(flat), {}
            for name, n in tiers:
                ports[name], rest = tuple(rest[:n]), rest[n:]
            chosen = dict(zip(free.n, sizes, strict=True))
            rent = sum(free.columns.cost[free.n[name]] * n for name, n in chosen.items())
            yield rent, NetworkProgram(data, chosen, ports)


def _kwh_usd(site: Data, kind: str) -> float:
    """Electricity of an accelerator at its full draw [USD/h]."""
    return float(TDP_W[kind] / 1000 * site.get("pue", 1.0) * site.get("usd_per_kwh", 0.0))
