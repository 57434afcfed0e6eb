"""Random scenarios small enough to plan in about a second, as the data of a TOML file: all depends on the seed alone.

`one_site_data` asks about one stream of requests, decoded in one place: with prefill there, elsewhere, or both.
`network_data` asks about two or three sites, up to three periods, two models and three classes. Every instance is
measured, by curves drawn at random, so that whoever checks an answer needs no roofline. With `is_enumerable` lengths
are a handful and sizes small, so that every plan can be tried.
"""

from collections.abc import Mapping
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from planner.scenario import Scenario, load_scenario
from tests.builders import Draw

Data = dict[str, Any]

GPUS = 8
"""Accelerators of every instance."""
HARDWARE = ("h100-sxm", "h200-sxm", "h20-96gb", "mi300x")
MODELS = {"": "qwen3-32b", "other": "qwen3-next-80b"}
"""Profiles by the name under [models]; the first is the default."""
LONGEST_TOKENS = 131_072
"""What every measured curve reaches, so that every prompt fits every instance."""
OBJECTIVES = (*["max-throughput"] * 6, *["min-cost"] * 9, "min-ttft")
LAYOUTS = ("home", "split", "same-site", "remote", "three", "two-short")
"""Where prefill may be: at home for short prompts, in another pool or at another site for long ones, or only there."""


def toml_text(data: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """The data as TOML: plain values of a table first, then the tables in it."""
    plain = {key: value for key, value in data.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in data.items() if isinstance(value, dict)}
    lines = [f"[{'.'.join(map(_key, path))}]"] if path else []
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    return "\n".join([*lines, ""]) + "".join(toml_text(table, (*path, key)) for key, table in tables.items())


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() else f'"{key}"'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value.item() if isinstance(value, np.generic) else value)


def scenario_of(data: Data) -> Scenario:
    """The scenario that a file of this data states."""
    return load_scenario(toml_text(data), f"{data['name']}.toml", Path())


class Random(Draw):
    """Random parts of scenarios, in round numbers that a file can hold."""

    def chance(self, probability: float) -> bool:
        """Whether something of a probability happens."""
        return bool(self.rng.random() < probability)

    def between(self, low: float, high: float, digits: int = 4) -> float:
        """An even number between two, rounded to significant digits."""
        return float(f"{self.rng.uniform(low, high):.{digits}g}")

    def spread(self, low: float, high: float) -> float:
        """A number between two, even in its logarithm."""
        return float(f"{exp(self.rng.uniform(np.log(low), np.log(high))):.4g}")

    def count(self, low: int, high: int) -> int:
        """A whole number between two, both included."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, *options: Any) -> Any:
        """One of the options."""
        return options[int(self.rng.integers(len(options)))]

    def workload(self, is_enumerable: bool, n_lengths: int) -> Data:
        """Requests: a few lengths, or a log-normal; answers of one length; sometimes prefix hits."""
        output = {"kind": "constant", "tokens": self.count(100, 1200)}
        lengths: Data = {"kind": "empirical", "tokens": sorted({self.length() for _ in range(n_lengths)})}
        if self.chance(0.5):
            lengths["weights"] = [self.between(0.1, 1, 2) for _ in lengths["tokens"]]
        if not is_enumerable and self.chance(0.15):
            spread = {"mu": self.between(7, 9.5), "sigma": self.between(0.3, 1.4)}
            lengths = {"kind": "lognormal", **spread, "low_tokens": 128, "high_tokens": 65536}
        data: Data = {"lengths": lengths, "output_lengths": output}
        if self.chance(0.3):
            data["prefix_hits"] = {"kind": "constant", "fraction": self.between(0.1, 0.8, 2)}
        elif self.chance(0.2):
            fractions, weights = [0.0, self.between(0.2, 0.8, 2)], [self.between(0.2, 1, 2), self.between(0.2, 1, 2)]
            data["prefix_hits"] = {"kind": "discrete", "fractions": fractions, "weights": weights}
        return data

    def length(self) -> int:
        """A prompt's length [tokens]."""
        return round(self.spread(300, 40_000))

    def measured(self, hardware: str, model: str = "") -> Data:
        """An instance's curves: monotone, with an overhead, linear or cubic between the points."""
        tokens, base, rate = [64, 2048, 16_384, LONGEST_TOKENS], self.between(0.05, 0.4), self.spread(3e-5, 3e-4)
        bends = np.cumprod([1.0, self.between(0.7, 1.3), self.between(1, 1.6), self.between(1, 2.2)])
        seconds = base + np.cumsum([0.0, *(np.diff(tokens) * rate * bends[1:])])
        prefill: Data = {"tokens": tokens, "seconds": [float(f"{s:.6g}") for s in seconds]}
        prefill["interpolation"] = self.one_of("linear", "monotone-cubic")
        if self.chance(0.3):
            prefill["overhead_s"] = float(f"{0.8 * base:.4g}")
        state, per_token = self.spread(1e6, 2e8), self.spread(1e4, 2e5)
        kv = [float(f"{state + per_token * t:.6g}") for t in tokens]
        decode = {"batch": self.count(8, 64), "step_s": self.between(0.01, 0.045)}
        return {
            "hardware": hardware,
            "n_accelerators": GPUS,
            "precision": "bf16",
            "basis": "measured",
            "source": "drawn",
            **({"model": model} if model else {}),
            "prefill": prefill,
            "kv": {"tokens": tokens, "bytes": kv, "interpolation": "linear"},
            "decode": decode,
        }

    def price(self) -> Data:
        """What an accelerator costs."""
        return {"usd_per_accelerator_hour": self.spread(0.5, 6), "basis": "assumed", "source": "drawn"}

    def site(self, is_priced: bool) -> Data:
        """A site, its electricity perhaps priced, by use or not."""
        if not is_priced:
            return {}
        draw = self.between(0.6, 1.2, 2)
        data = {"usd_per_kwh": self.between(0.05, 1.5), "pue": self.between(1, 1.5, 3), "draw_fraction": draw}
        return (
            {**data, "idle_draw_fraction": float(f"{draw * self.rng.uniform(0, 1):.3g}")} if self.chance(0.7) else data
        )

    def link(self, origin: str, destination: str) -> Data:
        """A link of a fixed capacity, or of one or two port sizes; sometimes charged by volume."""
        data: Data = {"from": origin, "to": destination, "round_trip_ms": self.between(1, 60, 2)}
        data["destination_holds_prefix"] = self.chance(0.5)
        if self.chance(0.5):
            data |= {"capacity_gbps": self.spread(0.2, 50), "usd_per_hour": self.between(0, 30, 3)}
        else:
            sizes = sorted({self.spread(0.2, 50) for _ in range(self.count(1, 2))})
            data["tiers"] = [
                {"capacity_gbps": g, "usd_per_hour": float(f"{2 * g**0.7:.4g}"), "max_ports": self.count(1, 2)}
                for g in sizes
            ]
        return {**data, "usd_per_gb": self.one_of(0.002, 0.02)} if self.chance(0.3) else data


def one_site_data(
    seed: int, is_enumerable: bool = False, objective: str | None = None, promises: bool = True, n_classes: int = 0
) -> Data:
    """A question about one stream: an objective, a rule, limits of every kind, and sometimes a promise.

    Args:
        seed: what everything depends on.
        is_enumerable: whether every plan can be tried: a few lengths, small pools, limits on all of them.
        objective: which; by default any.
        promises: whether TTFT may be promised.
        n_classes: how many; by default one, sometimes two.
    """
    draw = Random(np.random.default_rng([1, seed]))
    layout = draw.one_of(*LAYOUTS)
    data: Data = {"schema": "planner.scenario/1", "name": f"one-{seed}"}
    data["objective"] = objective or draw.one_of(*OBJECTIVES)
    data["capacity_rule"] = draw.one_of("expected-work", "expected-work", "mean-length")
    data["model"] = {"profile": MODELS[""], "precision": "bf16"}
    n_classes = n_classes or (2 if draw.chance(0.25) and data["objective"] != "min-ttft" else 1)
    _requests(draw, data, n_classes, is_enumerable)
    _places(draw, data, layout)
    data["measured"] = {f"m-{kind}": draw.measured(kind) for kind in data["prices"]}
    for pool in data["pools"].values():
        if draw.chance(0.08):
            pool["time_factor"] = draw.between(0.7, 1.4, 2)
    _demand(draw, data)
    _limits(draw, data, is_enumerable)
    if promises and n_classes == 1 and draw.chance(0.4):
        data["slo"] = _promise(draw, data)
    return data


def _requests(draw: Random, data: Data, n_classes: int, is_enumerable: bool) -> None:
    """One workload, or classes with workloads of their own."""
    if n_classes == 1:
        data["workload"] = draw.workload(is_enumerable, draw.count(1, 7))
        return
    shares = draw.rng.dirichlet(np.full(n_classes, 3.0)).round(3)
    shares[-1] = 1 - shares[:-1].sum()
    data["classes"] = {
        f"c{i}": {"share": float(share), "workload": draw.workload(is_enumerable, draw.count(1, 4))}
        for i, share in enumerate(shares.clip(0.01).round(3) / shares.clip(0.01).round(3).sum())
    }


def _places(draw: Random, data: Data, layout: str) -> None:
    """Sites, pools, links and prices of a layout."""
    home, fast, third = draw.rng.permutation(HARDWARE)[:3].tolist()
    dear = draw.chance(0.35)
    data["sites"] = {"home": draw.site(dear)}
    decode, near = home, home if draw.chance(0.6) else third
    pools: Data = {"near": {"site": "home", "hardware": near, "role": "prefill"}}
    if layout in ("split", "remote", "three"):
        data["sites"]["far"] = draw.site(dear)
        pools["fast"] = {"site": "far", "hardware": fast, "role": "prefill"}
        data["links"] = {"wan": draw.link("far", "home")}
    if layout == "same-site":
        pools["fast"] = {"site": "home", "hardware": fast, "role": "prefill", "prompts": "long"}
    if layout == "three":
        pools["also"] = {"site": "home", "hardware": third, "role": "prefill", "prompts": "long"}
    if layout == "two-short":
        pools["also"] = {"site": "home", "hardware": fast, "role": "prefill", "prompts": "short"}
    if layout == "remote":
        del pools["near"]
    pools["dec"] = {"site": "home", "hardware": decode, "role": "decode"}
    data["pools"] = pools
    data["prices"] = {kind: draw.price() for kind in dict.fromkeys(p["hardware"] for p in pools.values())}


def _demand(draw: Random, data: Data) -> None:
    """A demand that about one instance of the slower role serves, where the objective has one."""
    if data["objective"] == "max-throughput":
        return
    decode = data["measured"][f"m-{data['pools']['dec']['hardware']}"]["decode"]
    outputs = [w["output_lengths"]["tokens"] for w in _workloads(data)]
    decoded = decode["batch"] / (decode["step_s"] * max(outputs))
    prefilled = 1 / max(_prefill_s(data, _typical_tokens(w)) for w in _workloads(data))
    data["demand_req_per_s"] = float(f"{min(decoded, prefilled) * draw.rng.uniform(0.1, 2):.4g}")


def _typical_tokens(workload: Data) -> float:
    """A length that few prompts of a workload exceed, or the mean of a few."""
    lengths = workload["lengths"]
    return float(np.mean(lengths["tokens"])) if "tokens" in lengths else exp(lengths["mu"] + lengths["sigma"])


def _prefill_s(data: Data, tokens: float) -> float:
    """Seconds that the quickest prefill pool needs for a prompt."""
    curves = [
        data["measured"][f"m-{p['hardware']}"]["prefill"] for p in data["pools"].values() if p["role"] == "prefill"
    ]
    return min(float(np.interp(tokens, c["tokens"], c["seconds"])) for c in curves)


def _workloads(data: Data) -> list[Data]:
    return [data["workload"]] if "workload" in data else [c["workload"] for c in data["classes"].values()]


def _limits(draw: Random, data: Data, is_enumerable: bool) -> None:
    """Stock of every kind where nothing else bounds the fleet; sizes, thresholds, ratios and budgets now and then."""
    if is_enumerable or data["objective"] != "min-cost" or draw.chance(0.5):
        for pool in data["pools"].values():
            stock = data["sites"][pool["site"]].setdefault("accelerators", {})
            stock.setdefault(pool["hardware"], draw.count(2 * GPUS, 5 * GPUS + 4))
    for name, pool in data["pools"].items():
        if draw.chance(0.1):
            pool["n_instances"] = draw.count(0 if name != "dec" else 1, 3)
        elif draw.chance(0.12):
            pool["min_instances"] = draw.count(0, 2)
            pool["max_instances"] = pool["min_instances"] + draw.count(0, 2)
    routing: Data = {}
    if draw.chance(0.2):
        routing["threshold_tokens"] = draw.length()
    if draw.chance(0.12) and "near" in data["pools"]:
        routing["prefill_to_decode"] = f"{draw.count(1, 3)}:{draw.count(1, 3)}"
    if routing:
        data["routing"] = routing
    if draw.chance(0.2):
        data["budget_usd_per_hour"] = draw.between(40, 400)


def _promise(draw: Random, data: Data) -> Data:
    """A promise that some fleets keep: of a few services of a prompt that is longer than most."""
    lengths = data["workload"]["lengths"]
    seconds = _prefill_s(data, max(lengths.get("tokens", [_typical_tokens(data["workload"])])))
    slo: Data = {"ttft_percentile": draw.one_of(50.0, 90.0)}
    if data["objective"] != "min-ttft":
        slo = {"ttft_s": float(f"{seconds * draw.rng.uniform(0.7, 6):.4g}"), **slo}
    if draw.chance(0.2):
        slo["tpot_ms"] = draw.between(20, 60, 3)
    return slo


def network_data(
    seed: int, objective: str | None = None, promises: bool = False, n_sites: int = 0, n_periods: int = 0
) -> Data:
    """A question about two or three sites, one to three periods, one or two models and one to three classes."""
    draw = Random(np.random.default_rng([2, seed]))
    data: Data = {"schema": "planner.scenario/1", "name": f"net-{seed}"}
    data["objective"] = objective or draw.one_of("max-throughput", "min-cost", "min-cost")
    data["model"] = {"profile": MODELS[""], "precision": "bf16"}
    models = ["", "other"] if draw.chance(0.3) else [""]
    if len(models) > 1:
        data["models"] = {"other": {"profile": MODELS["other"], "precision": "bf16"}}
    sites = ["east", "west", "north"][: n_sites or draw.count(2, 3)]
    decoding = sites[: draw.count(1, 2)]
    dear = draw.chance(0.3)
    data["sites"] = {site: draw.site(dear) for site in sites}
    kinds = draw.rng.permutation(HARDWARE)[:2].tolist()
    data["prices"] = {kind: draw.price() for kind in kinds}
    data["pools"] = _network_pools(draw, sites, decoding, kinds, models)
    data["measured"] = {f"m-{k}{m}": draw.measured(k, m) for k in kinds for m in models}
    _network_links(draw, data, sites, decoding)
    _network_classes(draw, data, decoding, models, promises)
    _periods(draw, data, n_periods or draw.count(1, 3))
    _network_demand(draw, data, kinds[0])
    for pool in data["pools"].values():
        stock = data["sites"][pool["site"]].setdefault("accelerators", {})
        stock.setdefault(pool["hardware"], GPUS * draw.count(2, 5))
    return data


def _network_pools(draw: Random, sites: list[str], decoding: list[str], kinds: list[str], models: list[str]) -> Data:
    """Prefill at every site, decode at some; perhaps one that takes short prompts alone, or long ones."""
    pools: Data = {}
    for site in sites:
        for model in models:
            of = {"model": model} if model else {}
            name, kind = f"{site}-{model or 'main'}", kinds[0] if site in decoding else kinds[1]
            pools[f"{name}-p"] = {"site": site, "hardware": kind, "role": "prefill", **of}
            if site in decoding:
                pools[f"{name}-d"] = {"site": site, "hardware": kind, "role": "decode", **of}
                if draw.chance(0.3):
                    pools[f"{name}-p"]["prompts"] = draw.one_of("short", "long")
    return pools


def _network_links(draw: Random, data: Data, sites: list[str], decoding: list[str]) -> None:
    """A link from every site that prefills only to one or all that decode, and between those that decode."""
    links: Data = {}
    for origin in sites:
        for destination in decoding:
            if origin != destination and (origin not in decoding or draw.chance(0.6)):
                links[f"{origin}-{destination}"] = draw.link(origin, destination)
    if links:
        data["links"] = links


def _network_classes(draw: Random, data: Data, decoding: list[str], models: list[str], promises: bool) -> None:
    """One to three classes, each of one model, arriving at one site, divided over those that decode, or anywhere."""
    n = max(draw.count(1, 3), len(models))
    shares = [0.5, 0.3, 0.2][:n]
    data["classes"] = {}
    for i in range(n):
        one: Data = {"share": shares[i] / sum(shares)}
        if model := models[i % len(models)]:
            one["model"] = model
        one["workload"] = draw.workload(True, draw.count(1, 3))
        if draw.chance(0.7):
            one["sites"] = {draw.one_of(*decoding): 1.0}
        elif len(decoding) > 1 and draw.chance(0.6):
            one["sites"] = {decoding[0]: 0.6, decoding[1]: 0.4}
        if promises:
            one["slo"] = {"ttft_s": draw.between(1.5, 15), "ttft_percentile": draw.one_of(50.0, 90.0, 95.0)}
        data["classes"][f"c{i}"] = one


def _periods(draw: Random, data: Data, n: int) -> None:
    """A constant day, or parts of it with factors."""
    data["periods"] = {"all": {"hours": 1.0}}
    if n > 1:
        data["periods"] = {
            f"p{i}": {"hours": draw.between(2, 12, 2), "demand": draw.between(0.3, 1, 2)} for i in range(n)
        }
        for period in data["periods"].values():
            if draw.chance(0.3):
                period["by_class"] = {"c0": draw.between(0.2, 1.2, 2)}


def _network_demand(draw: Random, data: Data, kind: str) -> None:
    """What one to three instances of the kind that decodes serve."""
    decode = data["measured"][f"m-{kind}"]["decode"]
    output = max(c["workload"]["output_lengths"]["tokens"] for c in data["classes"].values())
    if data["objective"] != "max-throughput":
        one = decode["batch"] / (decode["step_s"] * output)
        data["demand_req_per_s"] = float(f"{one * draw.rng.uniform(0.1, 1.6):.4g}")
