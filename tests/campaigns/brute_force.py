"""Plans of random questions against every plan there is: `optimize` judged by what it prints.

What is looked for: a bound that some plan beats, a plan dearer than need be among those as fast, a question with a plan
called infeasible, a plan that is none (it cannot serve what it says, or costs something else), an answer better than
every plan. Run from the root of a checkout:

    python -m tests.campaigns.brute_force --seed 1 --count 300 --networks 60
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, islice
from math import inf, isclose

from planner.results.plan import Plan
from tests.campaigns.optimizer_laws import features, guarded
from tests.campaigns.random_scenarios import Data, network_data, one_site_data
from tests.enumerated_plans import Enumerated
from tests.metamorphic import Answer
from tests.network_program import NetworkProgram

SLACK = 1e-6
"""Of comparisons with a bound, and of figures that a plan prints."""
DEARER = 1e-4
"""By how much a bill may be above the least for the rate: the gap that a proven plan may be left with."""


def one_site_faults(data: Data, answer: Answer) -> Iterator[str]:
    """What is wrong with an answer about one stream."""
    every = Enumerated(data)
    budget, demand = data.get("budget_usd_per_hour", inf), data.get("demand_req_per_s")
    if demand is None:
        best = every.highest(budget)
        has_plan = best > 0
    else:
        best = every.cheapest(demand)
        has_plan = best < inf and best <= budget * (1 + 1e-12)
    if answer.kind == "infeasible" and has_plan:
        yield f"called infeasible: a plan reaches {best:.6g}"
    if answer.kind != "plan":
        return
    plan = answer.planned
    if not has_plan:
        yield f"infeasible plan: {answer.objective:.6g} where nothing does"
        return
    may_be_better = every.has_many_thresholds
    yield from _judged(answer, best, may_be_better)
    if demand is None:
        yield from _needlessly_dear(answer, every.cheapest(plan.throughput_req_per_s * (1 - SLACK)))
    if not may_be_better:
        yield from _printed_faults(data, plan)


def _judged(answer: Answer, best: float, may_be_better: bool = False) -> Iterator[str]:
    """Objective and bound against the best of all plans."""
    plan, value = answer.planned, answer.objective
    if plan.objective == "max-throughput":
        if best > plan.bound * (1 + SLACK):
            yield f"bound beaten: {best:.9g} req/s above the bound {plan.bound:.9g}"
        if value > best * (1 + SLACK) and not may_be_better:
            yield f"better than every plan: {value:.9g} req/s, at best {best:.9g}"
    else:
        if best < plan.bound * (1 - SLACK):
            yield f"bound beaten: {best:.9g} USD/h below the bound {plan.bound:.9g}"
        if value < best * (1 - SLACK) and not may_be_better:
            yield f"better than every plan: {value:.9g} USD/h, at best {best:.9g}"


def _needlessly_dear(answer: Answer, least: float) -> Iterator[str]:
    paid = answer.planned.cost.usd_per_hour
    if paid is not None and paid > least * (1 + DEARER):
        yield f"dearer than need be: {paid:.6g} USD/h, {paid / least:.3g} times the {least:.6g} that serve as much"


def _printed_faults(data: Data, plan: Plan) -> Iterator[str]:
    """A plan's own rate and bill against its sizes, ports and threshold."""
    sizes = {pool.name: pool.n_instances for pool in plan.pools}
    gbps = plan.links[0].capacity_gbps if plan.links else 0.0
    same = Enumerated(data, sizes, gbps, plan.offload_fraction)
    rate = same.highest()
    if plan.max_throughput_req_per_s > rate * (1 + SLACK):
        yield f"infeasible plan: says {plan.max_throughput_req_per_s:.9g} req/s, its fleet serves {rate:.9g}"
    bill, paid = same.cheapest(plan.throughput_req_per_s * (1 - 1e-9)), plan.cost.usd_per_hour
    if paid is not None and bill < inf and not isclose(bill, paid, rel_tol=SLACK):
        yield f"infeasible plan: says {paid:.9g} USD/h, its fleet costs {bill:.9g}"


def network_faults(data: Data, answer: Answer) -> Iterator[str]:
    """What is wrong with an answer about a network."""
    program, budget = NetworkProgram(data), data.get("budget_usd_per_hour", inf)
    is_rate = data["objective"] == "max-throughput"
    best = program.highest() if is_rate else program.cheapest(1.0)
    has_plan = best > 0 if is_rate else best < inf and best <= budget
    if answer.kind == "infeasible" and has_plan:
        yield f"called infeasible: a plan reaches {best:.6g}"
    if answer.kind == "plan" and not has_plan:
        yield f"infeasible plan: {answer.objective:.6g} where nothing does"
    elif answer.kind == "plan":
        yield from _judged(answer, best)
        if is_rate:
            scale = answer.planned.throughput_req_per_s / program.mean_req_per_s
            yield from _needlessly_dear(answer, program.cheapest(scale * (1 - SLACK)))


def covered_one_site(seed: int) -> Iterator[Data]:
    """Questions from a seed on whose plans the documents settle."""
    for number in count(seed):
        data = one_site_data(number, is_enumerable=True, promises=False)
        if data["objective"] != "min-ttft" and Enumerated(data).is_covered:
            yield data


def networks(seed: int) -> Iterator[Data]:
    """Networks without a promise, from a seed on."""
    yield from map(network_data, count(seed))


Faults = Callable[[Data, Answer], Iterator[str]]


def judged(
    questions: Iterator[Data], faults: Faults, number: int, limit_s: float
) -> Iterator[tuple[Data, Answer, str]]:
    """Every question with its answer and the first fault, empty where there is none."""
    for data in islice(questions, number):
        answer = guarded(data, limit_s)
        yield data, answer, next(faults(data, answer), "")


def main() -> None:
    """Run the campaign and print its summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--networks", type=int, default=60)
    parser.add_argument("--limit", type=float, default=20.0)
    asked = parser.parse_args()
    first = 10_000 * asked.seed
    print(
        "| questions | number | plans | infeasible | undecided | faults | CPU s |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    found: list[str] = []
    kinds = (
        ("one stream", covered_one_site, one_site_faults, asked.count),
        ("network", networks, network_faults, asked.networks),
    )
    for title, questions, faults, number in kinds:
        start, seen, n_faults = time.process_time(), Counter[str](), 0
        for data, answer, fault in judged(questions(first), faults, number, asked.limit):
            seen[answer.kind] += 1
            n_faults += bool(fault) or answer.kind == "fault"
            if fault or answer.kind in ("refused", "fault"):
                found.append(f"- {data['name']} ({features(data)}): {fault or answer.words.splitlines()[0]}")
                print(found[-1], flush=True)
        row = [str(number), *(str(seen[k]) for k in ("plan", "infeasible", "undecided")), str(n_faults)]
        print(f"| {title} | {' | '.join(row)} | {time.process_time() - start:.0f} |", flush=True)


if __name__ == "__main__":
    main()
