"""Usual ranges of what scenarios and options state, and the unit that a value beyond them was probably meant in.

The schema's limits are what arithmetic can bear; these are what anybody asks for. A value beyond is used, and said.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from planner.notes import Note, note
from planner.units import exact_number

LONGEST_PROMPT = 4e6
HOURS_PER_MONTH, HOURS_PER_YEAR = 730.0, 8760.0
DEARER = 1.5
"""Times the rent that clouds are known to ask at most, beyond which a price is probably of something else."""
MOST_MEANT = 2
"""Units that a note names."""


class Usual(NamedTuple):
    """Values of a key that somebody may mean."""

    low: float
    high: float
    unit: str
    meant: Mapping[str, float]
    """Units in which a value beyond may have been meant, the likeliest first, with what one of them is in the key's."""
    hint: str = ""
    """Advice where no other unit explains a value."""


_S = {"ms": 1e-3, "us": 1e-6, "minutes": 60.0, "hours": 3600.0}
_MS = {"s": 1e3, "us": 1e-3}
_GBPS = {"Mbit/s": 1e-3, "bit/s": 1e-9, "bytes/s": 8e-9, "Tbit/s": 1e3, "GB/s": 8.0}
_PORT = {"USD per month": 1 / HOURS_PER_MONTH, "USD per year": 1 / HOURS_PER_YEAR, "US cents": 0.01}
_HOURS = {"minutes": 1 / 60, "s": 1 / 3600}
_GB = {"MB": 1e-3, "bytes": 1e-9, "TB": 1e3}
_PERCENT = {"percent": 0.01}
_THOUSANDS = {"thousand tokens": 1e3}
_FIRST_TOKEN = Usual(0.01, 60, "s", _S)
TOKEN_STEP = Usual(0.5, 1000, "ms", _MS)
_TOO_LONG = "more than any engine takes"
_PROMPT = Usual(4, LONGEST_PROMPT, "tokens", _THOUSANDS, _TOO_LONG)
_ANSWER = Usual(1, LONGEST_PROMPT, "tokens", {}, _TOO_LONG)
_MEAN_LOG = Usual(0, 15, "ln(tokens)", {}, "it is the mean of the logarithm, such as 7 for about 1,100 tokens")
_SPREAD_LOG = Usual(0.01, 4, "ln(tokens)", {}, "it is the standard deviation of the logarithm, such as 0.8")
_FACTOR = Usual(0.001, 50, "times the usual demand", _PERCENT)
_BANDWIDTH = Usual(0.1, 20_000, "Gbps", _GBPS)

USUAL: Mapping[tuple[str, ...], Usual] = {
    ("demand_req_per_s",): Usual(
        0.002,
        10_000,
        "requests/s",
        {"a minute": 1 / 60, "an hour": 1 / 3600, "a day": 1 / 86_400},
        "the rate of all users together, and not that of each",
    ),
    ("users",): Usual(1, 1e6, "users", _THOUSANDS),
    ("think_s",): Usual(0, 3600, "s", _S),
    ("budget_usd_per_hour",): Usual(0.2, 100_000, "USD/h", _PORT),
    ("growth_fraction_per_month",): Usual(-0.5, 1, "of the demand", _PERCENT),
    ("context_limit_tokens",): Usual(500, 20e6, "tokens", _THOUSANDS),
    ("slo", "ttft_s"): _FIRST_TOKEN,
    ("slo", "ttft_percentile"): Usual(10, 99.9999, "%", {"parts of 1": 100.0}),
    ("slo", "tpot_ms"): TOKEN_STEP,
    ("pools", "*", "tpot_ms"): TOKEN_STEP,
    **{(table, key): _PROMPT for table in ("lengths", "new_tokens") for key in ("tokens", "edges", "high_tokens")},
    **{("output_lengths", key): _ANSWER for key in ("tokens", "edges", "high_tokens")},
    **{(table, "mu"): _MEAN_LOG for table in ("lengths", "output_lengths", "new_tokens")},
    **{(table, "sigma"): _SPREAD_LOG for table in ("lengths", "output_lengths", "new_tokens")},
    ("periods", "*", "hours"): Usual(0.01, 744, "hours", _HOURS),
    ("periods", "*", "demand"): _FACTOR,
    ("periods", "*", "by_site", "*"): _FACTOR,
    ("periods", "*", "by_class", "*"): _FACTOR,
    ("routing", "threshold_tokens"): Usual(16, LONGEST_PROMPT, "tokens", _THOUSANDS),
    ("accelerators", "*"): Usual(1, 1e6, "accelerators", {}, "more than anybody has at one site"),
    ("usd_per_kwh",): Usual(0.004, 1.5, "USD/kWh", {"USD per MWh": 1e-3, "US cents per kWh": 0.01}),
    ("fabric_gbps",): Usual(1, 60_000, "Gbps", _GBPS),
    ("least_time_up_h",): Usual(0.01, 744, "hours", _HOURS),
    ("start_up_s",): Usual(5, 14_400, "s", {"minutes": 60.0, "ms": 1e-3, "hours": 3600.0}),
    ("tokens_per_pass",): Usual(64, 1e6, "tokens", _THOUSANDS),
    ("time_factor",): Usual(0.05, 20, "times the known time", _PERCENT),
    ("links", "*", "capacity_gbps"): _BANDWIDTH,
    ("links", "*", "usd_per_hour"): Usual(0.005, 300, "USD/h", _PORT),
    ("links", "*", "usd_per_gb"): Usual(1e-4, 0.5, "USD/GB", {"USD per TB": 1e-3, "US cents per GB": 0.01}),
    ("links", "*", "round_trip_ms"): Usual(0.05, 1000, "ms", _MS),
    ("tiers", "capacity_gbps"): _BANDWIDTH,
    ("tiers", "usd_per_hour"): Usual(0.005, 300, "USD/h", _PORT),
    ("usd_per_accelerator_hour",): Usual(
        0.02,
        20,
        "USD/h",
        {
            "USD of a server with 8": 1 / 8,
            "USD per month": 1 / HOURS_PER_MONTH,
            "USD per year": 1 / HOURS_PER_YEAR,
            "US cents": 0.01,
            "USD per minute": 60.0,
            "USD per second": 3600.0,
        },
    ),
    ("purchase_usd",): Usual(
        300, 300_000, "USD", {"thousand USD": 1e3, "USD of a server with 8": 1 / 8, "cents": 0.01}
    ),
    ("amortized_years",): Usual(0.5, 20, "years", {"months": 1 / 12, "days": 1 / 365}),
    ("stacks", "*", "chunk_tokens"): Usual(64, 1e6, "tokens", _THOUSANDS),
    ("stacks", "*", "memory_fraction"): Usual(0.2, 1, "of the memory", {}),
    ("stacks", "*", "runtime_gb"): Usual(0.01, 60, "GB", _GB),
    ("execution", "chunk_tokens"): Usual(64, 1e6, "tokens", _THOUSANDS),
    ("execution", "priority_tokens"): Usual(16, LONGEST_PROMPT, "tokens", _THOUSANDS),
    ("arrivals", "mean_calm_s"): Usual(0.05, 1e6, "s", _S),
    ("arrivals", "mean_burst_s"): Usual(0.05, 1e6, "s", _S),
    ("arrivals", "rate_factor"): Usual(1, 1000, "times the calm rate", _PERCENT),
    ("arrivals", "period_s"): Usual(60, 3.2e7, "s", {"hours": 3600.0, "minutes": 60.0, "days": 86_400.0, "ms": 1e-3}),
    ("sessions", "mean_gap_s"): Usual(0.05, 1e6, "s", _S),
    ("sessions", "max_tokens"): Usual(500, 20e6, "tokens", _THOUSANDS),
    ("interval_s",): Usual(0.02, 1e5, "s", _S),
    ("doubling_s",): Usual(0.02, 3600, "s", _S),
    ("wait_tolerance_s",): Usual(0.001, 600, "s", _S),
    ("warm_up_s",): Usual(0.1, 14_400, "s", {"minutes": 60.0, "ms": 1e-3}),
    ("capacity_gb", "*"): Usual(0.01, 1e7, "GB", _GB),
    ("faults", "duration_s"): Usual(0.01, 1e6, "s", _S),
    ("faults", "slowdown"): Usual(0.01, 1000, "times the time", _PERCENT),
    ("background_gbps",): Usual(0.001, 20_000, "Gbps", _GBPS),
    ("connection_gbps",): Usual(0.001, 2_000, "Gbps", _GBPS),
    ("spare_gbps",): Usual(0.001, 20_000, "Gbps", _GBPS),
    ("mean_days_between_crashes",): Usual(0.02, 10_000, "days", {"hours": 1 / 24, "s": 1 / 86_400, "years": 365.0}),
    ("restart_s",): Usual(1, 86_400, "s", {"minutes": 60.0, "ms": 1e-3}),
    ("memory_gb",): Usual(0.2, 20_000, "GB", _GB),
    ("observed", "ttft_mean_s"): Usual(0.005, 600, "s", _S),
    ("observed", "ttft_p50_s"): Usual(0.005, 600, "s", _S),
    ("observed", "ttft_p90_s"): Usual(0.005, 600, "s", _S),
    ("observed", "ttft_p99_s"): Usual(0.005, 600, "s", _S),
    ("observed", "tpot_mean_s"): Usual(0.0005, 2, "s", _S),
}
"""By the end of a key, names left out as `*`: what is usual there."""


def usual_at(path: tuple[str, ...]) -> Usual | None:
    """Usual values at a key without its list indexes; None where any number that the schema takes may be meant.

    >>> usual_at(("classes", "chat", "slo", "ttft_s")).high, usual_at(("routing", "n_candidates"))
    (60, None)
    """
    return next((usual for end, usual in USUAL.items() if _ends(path, end)), None)


def _ends(path: tuple[str, ...], end: tuple[str, ...]) -> bool:
    last = path[len(path) - len(end) :]
    return len(path) >= len(end) and all(want in ("*", got) for got, want in zip(last, end, strict=True))


def usual_rent(known_usd_per_hour: float | None) -> Usual:
    """Usual rent of an accelerator by the most that clouds are known to ask for it; None: that is not known.

    >>> usual_rent(1.84).high
    2.76
    """
    usual = USUAL["usd_per_accelerator_hour",]
    return usual if known_usd_per_hour is None else usual._replace(high=round(DEARER * known_usd_per_hour, 2))


def unusual(key: str, value: float, usual: Usual) -> Iterator[Note]:
    """A note on a value beyond what is usual; none on others, and on 0, which means none of it.

    >>> list(unusual("slo.ttft_s", 2000, USUAL["slo", "ttft_s"]))
    ['slo.ttft_s = 2,000 s is beyond the usual 0.01 to 60 s: likely 2,000 ms, that is 2 s (note: value-beyond-usual)']
    >>> list(unusual("slo.ttft_s", 2, USUAL["slo", "ttft_s"]))
    []
    """
    if not value or usual.low <= value <= usual.high:
        return
    likely = [
        f"{exact_number(value)} {unit}, that is {exact_number(float(f'{value * factor:.4g}'))} {usual.unit}"
        for unit, factor in usual.meant.items()
        if usual.low <= value * factor <= usual.high
    ]
    said = f": likely {' or '.join(likely[:MOST_MEANT])}" if likely else f": {usual.hint}" if usual.hint else ""
    range_ = f"{exact_number(usual.low)} to {exact_number(usual.high)} {usual.unit}"
    yield note("value-beyond-usual", f"{key} = {exact_number(value)} {usual.unit} is beyond the usual {range_}{said}")


def numbers_in(value: Any, key: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], float]]:
    """Every number of nested tables and lists, with its key."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from numbers_in(item, (*key, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from numbers_in(item, (*key, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield key, float(value)
