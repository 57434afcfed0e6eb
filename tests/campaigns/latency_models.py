"""Latency under load against a simulation of prefill, link and decode in a row, over random configurations.

    python -m tests.campaigns.latency_models --seed 1 --count 200

prints the error of mean, P90 and P99 of: the time from the beginning of prefill to the last byte (link), the wait for a
place in a decode batch for the arrivals themselves and for what left the link (each over at least the mean time to
first token), and the time to first token through
all three in a row (tandem). Pools are 30 to 95 % busy, links 30 to 90 %, outputs constant to a squared variation of
20, gaps between arrivals 0.25 to 4. `latency_models.md` holds what it gave.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.queueing.processor_sharing import Senders, TransferSlowdown, alone_s, link_stretch
from planner.queueing.service import Service
from planner.queueing.streams import split_scv
from planner.queueing.ttft import Path, Ttft
from planner.queueing.wait import Wait
from planner.queueing.waits import gigc_wait
from tests.one_queue import place_wait
from tests.tandem_simulation import batches_run, tandem_run

Floats = NDArray[np.float64]
QUANTILES = (0.9, 0.99)
N_LAYERS = 61
N_KINDS = 1024
STEP_S = 0.01


@dataclass(frozen=True, eq=False)
class Configuration:
    """A fleet and its requests."""

    n_instances: NDArray[np.int64]
    gaps_s: Floats
    pool: NDArray[np.int64]
    service_s: Floats
    link_s: Floats
    n_tokens: NDArray[np.int64]
    step_s: Floats
    n_decoders: int
    arrival_scv: float
    link_load: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return 1 / float(self.gaps_s.mean())


def _lengths(rng: np.random.Generator, n: int) -> Floats:
    kind = rng.integers(3)
    if kind == 0:
        return np.ones(n)
    if kind == 1:
        return np.asarray(np.exp(rng.uniform(0.3, 1.3) * rng.standard_normal(n).clip(-3, 3)))
    return rng.uniform(0.3, 1.7, n)


def _outputs(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Output lengths, constant to a squared variation of about 20."""
    middle, sigma = rng.uniform(100, 600), rng.choice([0.0, rng.uniform(0.2, 1.0), rng.uniform(1.0, 1.85)])
    drawn = middle * np.exp(sigma * rng.standard_normal(n))
    return np.asarray(np.clip(np.rint(drawn), 2, 65536).astype(np.int64))


def drawn(seed: int, n: int) -> Configuration:
    """One configuration with requests."""
    rng = np.random.default_rng(seed)
    n_pools = 1 + int(rng.random() < 0.3)
    length, load = _lengths(rng, n), rng.uniform(0.3, 0.9)
    pool = (rng.random(n) < rng.uniform(0.2, 0.8)).astype(np.int64) * (n_pools - 1)
    base = rng.uniform(0.02, 0.5)
    link_s = (base + length) / float((base + length).mean())
    service_s, n_instances = np.empty(n), np.zeros(n_pools, np.int64)
    for p in range(n_pools):
        mine, power, ratio = pool == p, rng.uniform(0.8, 1.3), np.exp(rng.uniform(np.log(0.15), np.log(4)))
        seconds = rng.uniform(0, 0.3) + length[mine] ** power
        service_s[mine] = seconds / seconds.mean() * ratio * link_s[mine].mean()
        work = load * float(service_s[mine].sum()) / n
        n_instances[p] = max(1, int(np.ceil(work / rng.uniform(0.3, 0.93))))
    scv = float(rng.choice([1.0, 1.0, 1.0, rng.uniform(0.25, 1), rng.uniform(1, 4)]))
    n_tokens, limit, n_decoders = _outputs(rng, n), int(rng.integers(4, 65)), int(rng.integers(1, 5))
    slope = rng.choice([0.0, rng.uniform(0, 1)])
    step_s = 1 + slope * np.arange(limit + 1.0) / limit
    stay = rng.uniform(0.5, 0.95) * limit * n_decoders / load
    step_s = step_s / step_s[-1] * stay / float(n_tokens.mean())
    gaps = rng.standard_gamma(1 / scv, n) * scv / load
    return Configuration(n_instances, gaps, pool, service_s, link_s, n_tokens, step_s, n_decoders, scv, load)


@dataclass(frozen=True, eq=False)
class Simulated:
    """Times of every request [s]."""

    sojourn_s: Floats
    alone_s: Floats
    place_s: Floats
    ttft_s: Floats


def simulated(case: Configuration) -> Simulated:
    """What happens, without the first tenth."""
    arrive, begin, _, there = tandem_run(
        case.n_instances, case.gaps_s, case.pool, case.service_s, case.link_s, N_LAYERS
    )
    order, place = np.argsort(there, kind="stable"), np.empty(len(there))
    place[order] = batches_run(case.n_decoders, there[order], case.n_tokens[order], case.step_s)
    alone = batches_run(case.n_decoders, arrive, case.n_tokens, case.step_s)
    late = slice(len(there) // 10, None)
    return Simulated((there - begin)[late], alone[late], place[late], (there - arrive + place)[late])


def _senders(case: Configuration) -> list[Senders]:
    """Pools with at most N_KINDS kinds of request each, of the work and bytes of all."""
    found = []
    for p, n in enumerate(case.n_instances):
        mine = np.flatnonzero(case.pool == p)
        order = mine[np.argsort(case.service_s[mine], kind="stable")]
        parts = [part for part in np.array_split(order, N_KINDS) if part.size]
        weights = np.array([part.size for part in parts]) / len(mine)
        service_s, link_s = (np.array([x[part].mean() for part in parts]) for x in (case.service_s, case.link_s))
        found.append(Senders(int(n), case.rate * len(mine) / len(case.pool), service_s, link_s, weights))
    return found


def predicted(case: Configuration) -> tuple[Ttft, Wait, Ttft] | None:
    """Distributions of sojourn, wait for a place and TTFT; None without a steady state."""
    senders, total = _senders(case), case.rate
    busy = [s.mean_busy / s.n_instances for s in senders]
    load = total * float(case.link_s.mean())
    decode = total * float(case.n_tokens.mean() * case.step_s[-1]) / case.n_decoders / (len(case.step_s) - 1)
    if max(*busy, load, decode) > 0.97:
        return None
    stretch = link_stretch(senders, [N_LAYERS] * len(senders), case.arrival_scv)
    lengths, counts = np.unique(case.n_tokens, return_counts=True)
    outputs = Service.of(lengths.astype(np.float64), counts.astype(np.float64))
    place = place_wait(total, outputs, case.step_s[1:], case.n_decoders, case.arrival_scv)
    none = Wait(0.0, 0.0, 1.0, np.array([1.0, 0.0]), 1.0)
    sojourn = Ttft.of([_path(s, stretch, s.req_per_s / total, none, none) for s in senders])
    waits = [
        gigc_wait(s.n_instances, s.req_per_s, Service.of(s.service_s, s.weights), split_scv(case.arrival_scv, share))
        for s in senders
        for share in [min(s.req_per_s / total, 1.0)]
    ]
    paths = [_path(s, stretch, s.req_per_s / total, w, place) for s, w in zip(senders, waits, strict=True)]
    return sojourn, place, Ttft.of(paths)


def _path(senders: Senders, stretch: TransferSlowdown, share: float, wait: Wait, place: Wait) -> Path:
    alone = alone_s(senders.service_s, senders.link_s, N_LAYERS)
    factors, levels = stretch.levels(alone)
    late_s = np.maximum(factors * alone[:, None] - senders.service_s[:, None], senders.link_s[:, None] / N_LAYERS)
    kind = np.repeat(np.arange(len(alone)), len(levels))
    weights = senders.weights[kind] * np.tile(levels, len(alone))
    return Path.of(min(share, 1.0), senders.service_s[kind], weights, wait, late_s.ravel(), place)


def errors(case: Configuration) -> dict[str, Floats] | None:
    """Signed relative errors of mean, P90 and P99 of every time; the decode wait's are over the mean TTFT."""
    found = predicted(case)
    if found is None:
        return None
    seen = simulated(case)
    rows = {}
    pairs: tuple[tuple[str, Ttft | Wait, Floats], ...] = (
        ("link", found[0], seen.sojourn_s),
        ("decode alone", found[1], seen.alone_s),
        ("decode after the link", found[1], seen.place_s),
        ("tandem", found[2], seen.ttft_s),
    )
    for name, model, times in pairs:
        said = np.array([model.mean_s, *(model.quantile_s(q) for q in QUANTILES)])
        true = np.array([times.mean(), *np.quantile(times, QUANTILES)])
        over = np.maximum(true, seen.ttft_s.mean()) if name.startswith("decode") else true
        rows[name] = (said - true) / over
    return rows


def table(seed: int, count: int, n_requests: int) -> dict[str, dict[str, Floats]]:
    """Absolute errors by group of configurations and time."""
    groups: dict[str, dict[str, list[Floats]]] = {}
    for i in range(count):
        case = drawn(1000 * seed + i, n_requests)
        found = errors(case)
        if found is None:
            continue
        for group in ("all", "Poisson arrivals" if case.arrival_scv == 1 else "other arrivals"):
            for name, row in found.items():
                groups.setdefault(group, {}).setdefault(name, []).append(np.abs(row))
    return {group: {name: np.array(rows) for name, rows in of.items()} for group, of in groups.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--requests", type=int, default=400_000)
    asked = parser.parse_args()
    print("| arrivals | time | n | mean: median, 95 % | P90: median, 95 % | P99: median, 95 % |")
    print("|---|---|--:|--:|--:|--:|")
    for group, of in table(asked.seed, asked.count, asked.requests).items():
        for name, rows in of.items():
            cells = [f"{100 * np.median(x):.1f} %, {100 * np.quantile(x, 0.95):.0f} %" for x in rows.T]
            print(f"| {group} | {name} | {len(rows)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
