"""Scenarios of many sites, kinds, models and hours, drawn from a seed: for the scale benchmark and its tests."""

from math import cos, exp, pi
from pathlib import Path

import numpy as np

from planner.scenario import Scenario, load_scenario

KINDS = {"h200-sxm": 3.2, "h20-96gb": 1.3, "h100-sxm": 2.5, "b200-sxm": 5.2, "mi300x": 2.1}
"""Accelerators and about what an hour of one costs [USD]."""
MODELS = {"kimi": "kimi-linear-48b", "next": "qwen3-next-80b", "mimo": "mimo-v2-flash"}
SITES = ("oregon", "virginia", "dublin", "tokyo")
ZONE_H = (0, 3, 8, 17)
N_BINS = 32
SHORTEST, LONGEST = 128, 131_072
"""Prompts [tokens]."""


def scale_scenario(
    seed: int,
    n_hours: int = 24,
    n_sites: int = 4,
    n_kinds: int = 5,
    n_models: int = 3,
    conversion: bool = False,
    is_spread: bool = False,
) -> Scenario:
    """A day of demand at several sites, with a promise and a demand per model and site.

    Prompts of a bin have one length, or are spread over it.
    """
    rng = np.random.default_rng(seed)
    sites, kinds, models = SITES[:n_sites], list(KINDS)[:n_kinds], list(MODELS)[:n_models]
    lines = ['schema = "planner.scenario/1"', f'name = "scale-{seed}"', 'objective = "min-cost"']
    lines += [
        f"demand_req_per_s = {n_models * n_sites * rng.uniform(50, 80):.1f}",
        "[routing]",
        'thresholds = "per-model"',
    ]
    lines += [f"role_conversion = {str(conversion).lower()}"]
    lines += ["[model]", f'profile = "{MODELS[models[0]]}"']
    for name in models[1:]:
        lines += [f"[models.{name}]", f'profile = "{MODELS[name]}"']
    for kind in kinds:
        lines += [f"[prices.{kind}]", f"usd_per_accelerator_hour = {KINDS[kind] * rng.uniform(0.85, 1.15):.3f}"]
        lines += ['basis = "assumed"', 'source = "drawn"']
    for site in sites:
        stock = ", ".join(f"{kind} = {8 * int(rng.integers(20, 90))}" for kind in kinds)
        lines += [f"[sites.{site}]", f"accelerators = {{ {stock} }}", f"usd_per_kwh = {rng.uniform(0.05, 0.2):.3f}"]
    lines += _pools(sites, kinds, models) + _links(sites, rng) + _classes(sites, models, rng, is_spread)
    for hour in range(n_hours):
        factors = [1 + 0.5 * cos(2 * pi * (hour - 14 + zone) / 24) + 0.05 * rng.uniform(-1, 1) for zone in ZONE_H]
        by_site = ", ".join(f"{site} = {f:.4f}" for site, f in zip(sites, factors, strict=False))
        lines += [f"[periods.h{hour:02}]", f"by_site = {{ {by_site} }}"]
    return load_scenario("\n".join(lines), f"scale-{seed}.toml", Path(), ())


def _pools(sites: tuple[str, ...], kinds: list[str], models: list[str]) -> list[str]:
    lines = []
    for site in sites:
        for kind in kinds:
            for m, model in enumerate(models):
                for role in ("prefill", "decode"):
                    lines += [f"[pools.{site}-{kind}-{model}-{role}]", f'site = "{site}"', f'hardware = "{kind}"']
                    lines += [f'role = "{role}"', 'service_times = "roofline"', *([f'model = "{model}"'] if m else [])]
    return lines


def _links(sites: tuple[str, ...], rng: np.random.Generator) -> list[str]:
    lines = []
    for a in sites:
        for b in sites:
            if a != b:
                lines += [
                    f"[links.{a}-{b}]",
                    f'from = "{a}"',
                    f'to = "{b}"',
                    f"round_trip_ms = {rng.uniform(60, 180):.0f}",
                ]
                lines += ['source = "drawn"', "tiers = ["]
                lines += [
                    f"{{ capacity_gbps = {g}, usd_per_hour = {usd}, max_ports = 8 }},"
                    for g, usd in ((10, 2.25), (100, 22.5))
                ]
                lines += ["]"]
    return lines


def _classes(sites: tuple[str, ...], models: list[str], rng: np.random.Generator, is_spread: bool) -> list[str]:
    lines, shares = [], rng.dirichlet(np.full(len(models) * len(sites), 4.0)).round(4)
    shares[-1] = 1 - shares[:-1].sum()
    for m, model in enumerate(models):
        edges, weights = _length_bins(exp(rng.uniform(7.5, 9.5)), rng.uniform(0.9, 1.4))
        where, at = ("edges", edges) if is_spread else ("tokens", np.sqrt(edges[1:] * edges[:-1]))
        kind, tokens = "histogram" if is_spread else "empirical", ", ".join(f"{t:.0f}" for t in at)
        lengths = f'kind = "{kind}", {where} = [{tokens}], weights = [{", ".join(f"{w:.5f}" for w in weights)}]'
        for s, site in enumerate(sites):
            lines += [
                f"[classes.{model}-{site}]",
                f"share = {shares[m * len(sites) + s]:.4f}",
                *([f'model = "{model}"'] if m else []),
            ]
            lines += [
                f"sites = {{ {site} = 1.0 }}",
                f"[classes.{model}-{site}.slo]",
                f"ttft_s = {rng.uniform(3, 9):.2f}",
                "tpot_ms = 40",
            ]
            lines += [
                f"[classes.{model}-{site}.workload]",
                f"lengths = {{ {lengths} }}",
            ]
            lines += ['output_lengths = { kind = "constant", tokens = 512 }']
    return lines


def _length_bins(median_tokens: float, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Edges and weights of bins of equal width in log(length), of a log-normal law up to the context window."""
    from scipy.stats import norm

    low, high = max(SHORTEST, median_tokens * exp(-3 * sigma)), min(LONGEST, median_tokens * exp(3 * sigma))
    edges = np.geomspace(low, high, N_BINS + 1)
    mass = np.diff(norm.cdf(np.log(edges / median_tokens) / sigma))
    return edges, mass / mass.sum()
