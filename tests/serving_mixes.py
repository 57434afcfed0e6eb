"""Small questions of every mix of sites, serving, requests, periods and promises; and a pairwise cover of them."""

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from math import log, pi, sin
from pathlib import Path
from typing import Any, NamedTuple

from planner.scenario import Scenario
from planner.scenario.question import checked
from planner.schema import TomlFile
from tests.campaigns.random_scenarios import toml_text

LAYOUT = {"layout": "tp=2,ep=1,dp=1,pp=1", "accelerators_per_instance": 2, "service_times": "roofline"}
SITES = ("home", "east", "west")


class Mix(NamedTuple):
    """A mix."""

    n_sites: int
    serving: str
    requests: str
    periods: str
    promise: str


AXES: Mapping[str, tuple[Any, ...]] = {
    "n_sites": (1, 2, 3),
    "serving": ("separate", "colocated", "both"),
    "requests": ("one", "three", "models"),
    "periods": ("always", "day", "rent"),
    "promise": ("none", "ttft", "both"),
}


def every_mix() -> Iterator[Mix]:
    """All of them."""
    yield from (Mix(*values) for values in product(*AXES.values()))


def pairwise() -> list[Mix]:
    """A few in which every two values of two axes meet: at each step the one that adds most."""
    missing = {
        ((a, x), (b, y)) for a, b in combinations(range(5), 2) for x in [*AXES.values()][a] for y in [*AXES.values()][b]
    }
    found: list[Mix] = []
    while missing:
        best = max(every_mix(), key=lambda mix: len(missing & pairs(mix)))
        found.append(best)
        missing -= pairs(best)
    return found


def pairs(mix: Mix) -> set[tuple[tuple[int, Any], tuple[int, Any]]]:
    """Every two of its values."""
    return {((a, mix[a]), (b, mix[b])) for a, b in combinations(range(5), 2)}


def asked(mix: Mix) -> Scenario:
    """The question of a mix."""
    data = stated(mix)
    return checked(TomlFile(f"{data['name']}.toml", ""), data, Path())


def written(mix: Mix) -> str:
    """Its file."""
    return toml_text(stated(mix))


def stated(mix: Mix) -> dict[str, Any]:
    """Its keys."""
    models = (None, "other") if mix.requests == "models" else (None,)
    data: dict[str, Any] = {
        "schema": "planner.scenario/1",
        "name": "-".join(map(str, mix)),
        "objective": "min-cost",
        "demand_req_per_s": 24.0,
        "model": {"profile": "llama-3.1-8b"},
        "models": {name: {"profile": "qwen3-32b"} for name in models if name},
        "sites": {site: {} for site in SITES[: mix.n_sites]},
        "pools": {},
        "links": {},
        "prices": {chip: {"usd_per_accelerator_hour": usd} for chip, usd in (("h100-sxm", 2.0), ("h200-sxm", 3.0))},
    }
    data |= _requests(mix, models)
    for site, model in product(SITES[: mix.n_sites], models):
        data["pools"] |= _pools(mix, site, model)
    for first, second in combinations(SITES[: mix.n_sites], 2):
        for one, other in ((first, second), (second, first)):
            data["links"][f"{one}-{other}"] = {
                "from": one, "to": other, "capacity_gbps": 100, "usd_per_hour": 1.0, "round_trip_ms": 10,
            }  # fmt: skip
    if mix.periods != "always":
        waves = {name: [_wave(hour + 5 * i) for hour in range(24)] for i, name in enumerate(data["classes"])}
        data["periods"] = {
            f"h{hour}": {"by_class": {name: wave[hour] for name, wave in waves.items()}} for hour in range(24)
        }
    return data


def _requests(mix: Mix, models: tuple[str | None, ...]) -> dict[str, Any]:
    """Classes, or one workload, with what is promised."""
    kinds = {"chat": (700, 250, 0.6), "code": (4000, 120, 0.3), "docs": (12000, 400, 0.1)}
    named = {"one": ["code"], "three": [*kinds], "models": ["chat", "code"]}[mix.requests]
    slo = {"none": None, "ttft": {"ttft_s": 3.0, "ttft_percentile": 90}}.get(
        mix.promise, {"ttft_s": 3.0, "ttft_percentile": 90, "tpot_ms": 40.0}
    )
    total = sum(kinds[name][2] for name in named)
    classes = {}
    for i, name in enumerate(named):
        tokens, output, share = kinds[name]
        classes[name] = {
            "share": share / total,
            "workload": {"lengths": _lengths(tokens, 30000), "output_lengths": _lengths(output, 2000)},
        } | ({"model": models[i % len(models)]} if models[i % len(models)] else {})
        if slo:
            classes[name]["slo"] = slo
    return {"classes": classes}


def _wave(hour: int) -> float:
    return 1 + 0.5 * sin(2 * pi * hour / 24)


def _lengths(median: int, most: int) -> dict[str, Any]:
    return {"kind": "lognormal", "mu": log(median), "sigma": 0.7, "low_tokens": 16, "high_tokens": most}


def _pools(mix: Mix, site: str, model: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    rent = {"rent": "by-period"} if mix.periods == "rent" else {}
    of = {"model": model} if model else {}
    roles = {"separate": ("prefill", "decode"), "colocated": ("colocated",), "both": ("prefill", "decode", "colocated")}
    for role in roles[mix.serving]:
        yield "-".join(filter(None, (site, model, role))), {
            "site": site, "hardware": "h100-sxm", "role": role, **of, **LAYOUT, **rent,
        }  # fmt: skip
    if site == "east" and mix.serving != "separate":  # long prompts on other accelerators, for batches elsewhere
        yield "-".join(filter(None, (site, model, "long"))), {
            "site": site, "hardware": "h200-sxm", "role": "prefill", "prompts": "long", **of, **LAYOUT, **rent,
        }  # fmt: skip
