"""Words for what binds: the gain, saving, cost or time of more of something."""

from planner.report.formats import figure, seconds
from planner.results.plan import Plan
from planner.results.plan_parts import Bottleneck, PlannedAgain
from planner.units import number, usd

SAME = 0.02
"""Relative distance of two figures that are told as one."""
NOTHING_GAINED = 1e-3
"""USD per hour, requests per second or seconds that nobody would notice."""
SMALLEST_IN_CENTS = 0.1
"""USD per hour from which on cents are enough."""


def bottleneck(item: Bottleneck) -> str:
    """The gain, saving, extra cost or shorter time of more of a constraint, in words.

    In whole instances where that was planned again; the price of a linear program, in which instances have fractions,
    only where it was not.
    """
    gained, _, what = item.unit.partition(" per ")
    again, is_linear = item.planned_again, item.basis == "linear-program"
    if is_linear and again is not None:
        return f"{_more(again.n_more, what)}{_whose(item.constraint)} would {_gains(item, gained, again)}"
    text = f"{_more(1, what)}{_whose(item.constraint)} would {_each(item, gained)}"
    if again is not None and again.n_more != 1:
        return f"{text}; {number(again.n_more)} more would {_gains(item, gained, again)}"
    return text + ("; planning again was not done in the time" if is_linear else "")


def _each(item: Bottleneck, gained: str) -> str:
    return gain_phrase(gained, item.shadow_price) if item.shadow_price else "change nothing at these thresholds"


def _more(n: float, what: str) -> str:
    """So many more of something.

    >>> _more(1, "instance"), _more(8, "accelerator"), _more(2, "port of 10 Gbps"), _more(600, "ms")
    ('one more instance', '8 more accelerators', '2 more ports of 10 Gbps', '600 more ms')
    """
    noun, *rest = what.split(" ", 1)
    several = f"{noun}s" if n != 1 and noun in ("accelerator", "instance", "port") else noun
    return " ".join(("one" if n == 1 else number(n), "more", several, *rest))


def _whose(constraint: str) -> str:
    """Owner of what there is one more of, as words after it.

    >>> _whose("pools.near.n_instances"), _whose("links.wan.capacity_gbps"), _whose("sites.east.accelerators.h20-96gb")
    (' of near', ' on wan', ' of h20-96gb at east')
    """
    table, name, *rest = constraint.split(".") if "." in constraint else (constraint, "")
    if table in ("pools", "links"):
        return f" {'of' if table == 'pools' else 'on'} {name}"
    if table == "sites":
        return f" of {'.'.join(rest[1:])} at {name}"
    return {"demand_req_per_s": "", "budget_usd_per_hour": " of budget"}.get(constraint, f" of {constraint}")


def gain_phrase(unit: str, value: float) -> str:
    """A gain as a verb with its figure.

    >>> gain_phrase("USD/h", -3.0), gain_phrase("req/s", 0.25), gain_phrase("s", 0.32)
    ('cost 3.00 USD/h', 'add 0.250 req/s to the highest rate', 'take 0.320 s off the TTFT')
    """
    if unit == "s":
        return f"take {seconds(value)} off the TTFT"
    if unit == "USD/h":
        return f"{'save' if value > 0 else 'cost'} {_small_usd(abs(value))} USD/h"
    return f"add {figure(value)} {unit} to the highest rate"


def _small_usd(value: float) -> str:
    """Money that may be less than cents: the price of a millisecond."""
    return usd(value) if value >= SMALLEST_IN_CENTS else figure(value)


def _gains(item: Bottleneck, unit: str, again: PlannedAgain) -> str:
    """A gain that is known between two figures."""
    low, high = sorted((again.least, again.most), key=abs)
    if abs(high) < NOTHING_GAINED:
        return "cost nothing more" if item.constraint == "demand_req_per_s" else "change nothing"
    if abs(high - low) <= SAME * abs(high):
        return gain_phrase(unit, high)
    verb, most = gain_phrase(unit, high).split(" ", 1)
    if abs(low) < NOTHING_GAINED:
        return f"{verb} {most} at most"
    least = gain_phrase(unit, low).split(" ", 1)[1]
    for end in (" to the highest rate", f" {unit}", " off the TTFT"):
        least = least.removesuffix(end)
    return f"{verb} {least} to {most}"


def nothing_binds(plan: Plan) -> str:
    """Said in place of an empty list of bottlenecks."""
    if plan.objective == "min-ttft":
        return "no single instance or Gbps more is known to bring the first token sooner"
    return "no single instance or Gbps more would raise the rate: several limits bind at once"
