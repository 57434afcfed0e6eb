"""Every plan of a question about one stream, by the equations of docs/explanation alone: no code of the planner.

A request of total tokens n, of which c are cached, is long where n - c > t. With N_i instances, T_i the prefill seconds
and every pool of a part taking any share of it, a rate R [req/s] is served where for both parts

    R P(part) <= sum over its pools of min(N_i / E[T_i | part], link Gbps / (8e-9 E[bytes | part]))

and R o s / b <= N of decode, with o output tokens and a batch b whose step takes s. Under "mean-length" T_i of the mean
length stands for the mean of T_i. All sizes, ports and thresholds are tried, sizes as arrays.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

Data = Mapping[str, Any]
Floats = NDArray[np.float64]

TDP_W = {"h100-sxm": 700.0, "h200-sxm": 700.0, "h20-96gb": 400.0, "mi300x": 750.0}
"""As the makers' datasheets have it."""
BISECTIONS = 60


def curve(points: Data, key: str, tokens: Any) -> Floats:
    """Straight or shape-preserving cubic through the points, straight beyond the ends."""
    from scipy.interpolate import PchipInterpolator

    x, y = np.array(points["tokens"], float), np.array(points[key], float)
    at = np.asarray(tokens, float)
    if points["interpolation"] == "linear":
        inner, ends = np.interp(at, x, y), ((y[1] - y[0]) / (x[1] - x[0]), (y[-1] - y[-2]) / (x[-1] - x[-2]))
    else:
        cubic = PchipInterpolator(x, y)
        inner, ends = cubic(np.clip(at, x[0], x[-1])), tuple(cubic.derivative()([x[0], x[-1]]))
    return np.where(
        at < x[0], y[0] + ends[0] * (at - x[0]), np.where(at > x[-1], y[-1] + ends[1] * (at - x[-1]), inner)
    )


@dataclass(frozen=True)
class Requests:
    """Every request of a class, with its probability."""

    share: float
    total: Floats
    cached: Floats
    weights: Floats
    output_tokens: float

    @classmethod
    def of(cls, share: float, workload: Data) -> "Requests":
        """Lengths paired with hits."""
        lengths, hits = workload["lengths"], workload.get("prefix_hits", {"kind": "constant", "fraction": 0.0})
        tokens = np.array(lengths["tokens"], float)
        often = np.array(lengths.get("weights", [1.0] * tokens.size), float)
        fractions = np.array(hits.get("fractions", [hits.get("fraction")]), float)
        found = np.array(hits.get("weights", [1.0] * fractions.size), float)
        return cls(
            share,
            np.repeat(tokens, fractions.size),
            np.outer(tokens, fractions).ravel(),
            np.outer(often / often.sum(), found / found.sum()).ravel(),
            float(workload["output_lengths"]["tokens"]),
        )

    @property
    def uncached(self) -> Floats:
        """Tokens to be prefilled."""
        return self.total - self.cached

    def thresholds(self) -> list[float]:
        """Every threshold that differs in effect: all are long, and so on, until none is."""
        return [-1.0, *np.unique(self.uncached)]

    def is_long(self, threshold: float) -> NDArray[np.bool_]:
        """Which are longer, but for rounding of a threshold that equals a length."""
        return self.uncached > threshold * (1 + 1e-12)


def requests_of(data: Data) -> list[Requests]:
    """The classes of a question."""
    if "workload" in data:
        return [Requests.of(1.0, data["workload"])]
    return [Requests.of(c["share"], c["workload"]) for c in data["classes"].values()]


def prefill_s(instance: Data, total: Floats, cached: Floats) -> Floats:
    """T(total) - T(cached), at least the overhead; T(total) where nothing is cached."""
    points = instance["prefill"]
    full, floor = curve(points, "seconds", total), points.get("overhead_s", float(curve(points, "seconds", 0.0)))
    return np.where(cached == 0, full, np.maximum(full - curve(points, "seconds", cached), floor))


def wire_bytes(instance: Data, total: Floats, cached: Floats, is_held: bool) -> Floats:
    """S(total), less the blocks of the prefix that the destination holds; the state travels whole."""
    points = instance["kv"]
    held = curve(points, "bytes", cached) - curve(points, "bytes", 0.0) if is_held else 0.0
    return curve(points, "bytes", total) - held


@dataclass(frozen=True)
class Place:
    """A pool with what its instances cost and need."""

    name: str
    site: str
    hardware: str
    part: str
    instance: Data
    factor: float
    idle_usd: float
    busy_usd: float
    """Of one instance, the latter on top where it works [USD/h]."""


@dataclass(frozen=True)
class Port:
    """A choice of ports of the link."""

    gbps: float
    usd: float


class Enumerated:
    """All plans of a question, or of one with some things settled.

    Args:
        data: the question.
        sizes: instances by pool, where they are settled.
        gbps: bandwidth of the link, where it is settled.
        offload: share of long prompts, where it is settled.
    """

    def __init__(
        self,
        data: Data,
        sizes: Mapping[str, int] | None = None,
        gbps: float | None = None,
        offload: float | None = None,
    ) -> None:
        self.data, self.classes, self.offload = data, requests_of(data), offload
        self.places = list(_places(data))
        self.link: Data = next(iter(data.get("links", {}).values()), {})
        self.ports = [p for p in _ports(self.link) if gbps is None or abs(p.gbps - gbps) <= 1e-6 * max(gbps, 1)]
        self.sizes = (
            _sizes(data, self.places) if sizes is None else np.array([[sizes.get(p.name, 0) for p in self.places]])
        )
        self.is_mean = data.get("capacity_rule") == "mean-length"

    @property
    def is_covered(self) -> bool:
        """Whether the documents settle what a plan of it serves."""
        several = any(sum(p.part == part for p in self.places) > 1 for part in ("long", "short"))
        hits = any(c.cached.any() for c in self.classes)
        if self.is_mean and (hits or len(self.classes) > 1):
            return False
        return not (several and len(self.classes) > 1)

    @property
    def has_many_thresholds(self) -> bool:
        """Whether several pools of a part might each have a threshold of its own."""
        return any(sum(p.part == part for p in self.places) > 1 for part in ("long", "short"))

    def thresholds(self) -> Iterator[tuple[float, ...]]:
        """Every combination of thresholds, or the stated one, or those under which a share of the requests is long."""
        fixed = self.data.get("routing", {}).get("threshold_tokens", "free")
        parts = {p.part for p in self.places}
        if "long" not in parts or "short" not in parts:
            yield (-1.0 if "long" in parts else inf,) * len(self.classes)
            return
        for chosen in product(*([float(fixed)] if fixed != "free" else c.thresholds() for c in self.classes)):
            both = zip(self.classes, chosen, strict=True)
            long = sum(c.share * c.weights[c.is_long(t)].sum() for c, t in both)
            if self.offload is None or abs(long - self.offload) <= 1e-9:
                yield chosen

    def _work(self, place: Place, thresholds: tuple[float, ...]) -> tuple[float, float]:
        """Instance-seconds and bytes per request of the mix, where a pool takes its whole part."""
        seconds, sent = 0.0, 0.0
        for c, t in zip(self.classes, thresholds, strict=True):
            if place.part == "decode":
                decode = place.instance["decode"]
                seconds += c.share * place.factor * decode["step_s"] * c.output_tokens / decode["batch"]
                continue
            mine = c.is_long(t) == (place.part == "long")
            total, cached, weights = c.total[mine], c.cached[mine], c.weights[mine]
            if not mine.any():
                continue
            if self.is_mean:
                total, cached = np.array([weights @ total / weights.sum()]), np.zeros(1)
                weights = np.array([weights.sum()])
            seconds += c.share * place.factor * float(weights @ prefill_s(place.instance, total, cached))
            if place.site != "home":
                is_held = self.link.get("destination_holds_prefix", True)
                sent += c.share * float(weights @ wire_bytes(place.instance, total, cached, is_held))
        return seconds, sent

    def _options(self) -> Iterator[tuple[float, list[list[tuple[Floats, float]]]]]:
        """Rent of the ports, and by part the pools: most of the rate they take by size, and what a request costs."""
        per_gb = self.link.get("usd_per_gb", 0.0)
        for thresholds in self.thresholds():
            works = [self._work(place, thresholds) for place in self.places]
            for port in self.ports:
                parts: dict[str, list[tuple[Floats, float]]] = {}
                for column, (place, (seconds, sent)) in enumerate(zip(self.places, works, strict=True)):
                    if seconds == 0:
                        continue
                    most = self.sizes[:, column] / seconds
                    if sent > 0:
                        most = np.minimum(most, port.gbps / (8e-9 * sent))
                    usd = seconds * place.busy_usd + sent * 3600 / 1e9 * per_gb
                    parts.setdefault(place.part, []).append((most, usd))
                yield port.usd, [sorted(part, key=lambda item: item[1]) for part in parts.values()]

    def _rent(self) -> Floats:
        return self.sizes @ np.array([p.idle_usd for p in self.places])

    def _bill(self, rent: Floats, parts: list[list[tuple[Floats, float]]], rate: Any) -> Floats:
        """What it costs to serve a rate, the cheapest pool of every part first."""
        bill = rent.copy()
        for part in parts:
            left = np.broadcast_to(np.asarray(rate, float), rent.shape).copy()
            for most, usd in part:
                taken = np.minimum(left, most)
                bill, left = bill + usd * taken, left - taken
        return bill

    def cheapest(self, rate: float) -> float:
        """Least bill of all plans that serve a rate, whatever the budget [USD/h]; inf where none does."""
        best, rent = inf, self._rent()
        for usd, parts in self._options():
            most = np.min([sum(m for m, _ in part) for part in parts], axis=0)
            bills = self._bill(rent + usd, parts, rate)[most >= rate * (1 - 1e-9)]
            best = min(best, float(bills.min(initial=inf)))
        return best

    def highest(self, budget: float = inf) -> float:
        """Highest rate of all plans within a budget [req/s]."""
        best, rent = 0.0, self._rent()
        for usd, parts in self._options():
            most = np.min([sum(m for m, _ in part) for part in parts], axis=0)
            if budget < inf:
                most = np.where(rent + usd <= budget * (1 + 1e-12), most, 0.0)
                most = self._afforded(rent + usd, parts, most, budget)
            best = max(best, float(most.max(initial=0.0)))
        return best

    def _afforded(self, rent: Floats, parts: list[list[tuple[Floats, float]]], most: Floats, budget: float) -> Floats:
        """Highest rate up to `most` whose bill is within the budget, by bisection."""
        if (self._bill(rent, parts, most) <= budget).all():
            return most
        low, high = np.zeros_like(most), most
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            fits = self._bill(rent, parts, middle) <= budget
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return np.where(self._bill(rent, parts, most) <= budget, most, low)


def _places(data: Data) -> Iterator[Place]:
    decoding = {p["site"] for p in data["pools"].values() if p["role"] == "decode"}
    for name, pool in data["pools"].items():
        if pool.get("n_instances", pool.get("max_instances")) == 0:  # as if it was not stated
            continue
        site, kind = data["sites"][pool["site"]], pool["hardware"]
        instance = next(
            m for m in data["measured"].values() if m["hardware"] == kind and m.get("model") == pool.get("model")
        )
        part = pool.get("prompts") or ("short" if pool["site"] in decoding else "long")
        busy = site.get("draw_fraction", 1.0)
        idle = site.get("idle_draw_fraction", busy)
        kwh = TDP_W[kind] / 1000 * site.get("pue", 1.0) * site.get("usd_per_kwh", 0.0)
        n = pool.get("accelerators_per_instance", 8)
        yield Place(
            name,
            pool["site"],
            kind,
            "decode" if pool["role"] == "decode" else part,
            instance,
            pool.get("time_factor", 1.0),
            n * (data["prices"][kind]["usd_per_accelerator_hour"] + idle * kwh),
            n * (busy - idle) * kwh,
        )


def _ports(link: Data) -> Iterator[Port]:
    if "capacity_gbps" in link:
        tiers = [{"capacity_gbps": link["capacity_gbps"], "usd_per_hour": link["usd_per_hour"], "max_ports": 1}]
    else:
        tiers = link.get("tiers", [])
    for counts in product(*(range(tier.get("max_ports", 1) + 1) for tier in tiers)):
        rented = list(zip(counts, tiers, strict=True))
        yield Port(sum(n * t["capacity_gbps"] for n, t in rented), sum(n * t["usd_per_hour"] for n, t in rented))


def _sizes(data: Data, places: list[Place]) -> NDArray[np.int64]:
    """Instances of every pool within its limits, the stock and the ratio, one row each."""
    ranges = []
    for place in places:
        pool = data["pools"][place.name]
        stock = data["sites"][place.site].get("accelerators", {}).get(place.hardware)
        most = stock // 8 if stock is not None else pool["max_instances"]
        low, high = pool.get("min_instances", 0), pool.get("max_instances", most)
        if "n_instances" in pool:
            low = high = pool["n_instances"]
        ranges.append(range(low, min(high, most) + 1))
    rows = np.array(list(product(*ranges)), dtype=np.int64).reshape(-1, len(places))
    for site, limits in ((name, s.get("accelerators", {})) for name, s in data["sites"].items()):
        for kind, stock in limits.items():
            mine = [i for i, p in enumerate(places) if (p.site, p.hardware) == (site, kind)]
            rows = rows[8 * rows[:, mine].sum(axis=1) <= stock]
    ratio = data.get("routing", {}).get("prefill_to_decode")
    if ratio:
        a, b = map(int, ratio.split(":"))
        short, decode = ([i for i, p in enumerate(places) if p.part == part] for part in ("short", "decode"))
        rows = rows[rows[:, short].sum(axis=1) * b == rows[:, decode].sum(axis=1) * a]
    return rows
