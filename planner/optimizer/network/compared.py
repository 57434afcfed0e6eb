"""What a planned network is compared with: sites on their own, and a fleet without spare; and the verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import monotonic

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.at_hand import Variant, at_hand, is_same_fleet
from planner.optimizer.evaluation import Evaluation
from planner.optimizer.network.quickest import ANY_PLAN
from planner.optimizer.network.search import network_search
from planner.optimizer.one_site import WORTHWHILE, adoption, one_site_verdict, worth_listing
from planner.optimizer.problem import Problem
from planner.optimizer.resolution import planning_problem
from planner.optimizer.solution import Solution
from planner.results import (
    Baseline,
    Fleet,
    Verdict,
)
from planner.scenario import Scenario, Spare
from planner.units import number, percent, usd

FEW_POOLS = 6
"""Pools up to which a network without links is planned on other accelerators as well."""


def baselines_of(problem: Problem, plan: Fleet, time_limit_s: float) -> tuple[tuple[Baseline, ...], list[str], bool]:
    """The fleet without links between sites; why there is none, and whether that is known. Without links: what else is
    at hand for the pools."""
    if not problem.links:
        others = worth_listing(problem.scenario, [*_at_hand(problem, plan, time_limit_s)])
        return others, [*adoption(problem.scenario, plan, others)], True
    name, title = "local-prefill", "every prompt prefilled at the site that decodes it; what that costs"
    deadline = monotonic() + time_limit_s
    scenario = problem.scenario.model_copy(update={"links": {}})
    try:
        other = _without_links(problem, scenario)
        solution = network_search(other, deadline - monotonic()) if other else None
    except UndecidedError:
        return (), [f"{name} was not found in the time"], False
    if other is None or solution is None:
        return (), [f"{name}: no fleet without links between sites serves this demand as promised"], True
    found = _baseline(other, solution, plan, Variant(name, title, scenario))
    if is_same_fleet(plan, found):
        return (), [f"compared with {name} nothing differs: that is the plan itself"], True
    return (found,), [], True


def _baseline(problem: Problem, solution: Solution, plan: Fleet, variant: Variant) -> Baseline:
    fields = Evaluation(problem, solution).fleet()
    ratio = plan.most_req_per_s / Fleet(**fields).most_req_per_s
    return Baseline(**fields, name=variant.name, title=variant.title, changes=variant.changes, ratio=ratio)


def _at_hand(problem: Problem, plan: Fleet, time_limit_s: float) -> Iterator[Baseline]:
    """Small networks without links on other layouts and kinds of accelerators."""
    if len(problem.pools) > FEW_POOLS or problem.scenario.objective == "min-ttft":
        return
    deadline = monotonic() + time_limit_s
    requests = {c.name: (c.share, c.mix) for c in problem.classes}
    for variant in at_hand(problem.scenario, requests, per_pool=1):
        try:
            other = planning_problem(variant.scenario, classes=problem.classes)
            solution = network_search(other, max(deadline - monotonic(), 0.1))
        except (InputError, InfeasibleError, UndecidedError):
            continue
        if solution is not None:
            found = _baseline(other, solution, plan, variant)
            if not is_same_fleet(plan, found):
                yield found


def _without_links(problem: Problem, scenario: Scenario) -> Problem | None:
    """The problem with every link gone; None where some class then has no prefill."""
    other = replace(problem, scenario=scenario, links=())
    return other if all(any(arcs.values()) for arcs in other.arcs) else None


def verdict_of(problem: Problem, plan: Fleet, others: Sequence[Baseline], is_known: bool = True) -> Verdict:
    if not problem.links:
        requests = {c.name: (c.share, c.mix) for c in problem.classes}
        return one_site_verdict(problem.scenario, requests, plan, others)
    if not any(link.mean_gbps > 0 for link in plan.links):
        return Verdict(worth_it=False, because="Not worth it: the best plan sends nothing to another site.")
    if not is_known:
        return Verdict(worth_it=False, because="Not shown: what sites on their own serve was not found in the time.")
    if not others:
        return Verdict(
            worth_it=True,
            because="Cross-site prefill serves a demand that sites on their own do not serve as promised.",
        )
    ours, theirs = plan.cost.usd_per_hour, others[0].cost.usd_per_hour
    if problem.is_min_cost and ours is not None and theirs is not None:
        saved = 1 - ours / theirs
        what = f"{usd(ours)} USD/h instead of {usd(theirs)} USD/h with prefill at the decoding sites"
        worth = saved > WORTHWHILE
        start = f"Cross-site prefill saves {percent(saved)}: " if worth else "Not worth it: cross-site prefill costs "
        return Verdict(worth_it=worth, because=f"{start}{what}.")
    more = plan.throughput_req_per_s / others[0].throughput_req_per_s - 1
    worth = more > WORTHWHILE
    start = "Cross-site prefill serves" if worth else "Not worth it: cross-site prefill serves only"
    return Verdict(worth_it=worth, because=f"{start} {percent(more)} more than sites on their own.")


def sites_alone(problem: Problem, time_limit_s: float) -> tuple[bool | None, list[str]]:
    """Whether sites without links between them keep the promises too; None where time was too short to tell."""
    other = _without_links(problem, problem.scenario.model_copy(update={"links": {}}))
    if other is None or not problem.links:
        return not problem.links, []
    try:
        return network_search(other, time_limit_s, ANY_PLAN) is not None, []
    except UndecidedError:
        return None, ["whether sites on their own keep that TTFT was not found out in the time"]


def verdict_by_ttft(problem: Problem, found: Solution, plan: Fleet, alone: bool | None) -> Verdict:
    if not problem.links or not any(link.mean_gbps > 0 for link in plan.links):
        return verdict_of(problem, plan, ())
    kept = f"a TTFT of {number(found.objective)} s"
    if alone is None:
        return Verdict(worth_it=False, because=f"Not shown: whether sites on their own keep {kept} is not known.")
    if alone:
        return Verdict(worth_it=False, because=f"Not worth it: sites on their own keep {kept} as well.")
    return Verdict(worth_it=True, because=f"Cross-site prefill keeps {kept}, which sites on their own do not.")


def spare_notes(problem: Problem, solution: Solution, time_limit_s: float) -> Iterator[str]:
    """What it costs to survive a loss."""
    kinds = problem.scenario.spare.survive
    if not kinds or not problem.is_min_cost or not problem.is_priced:
        return
    scenario = problem.scenario.model_copy(update={"spare": Spare()})
    try:
        bare = network_search(replace(problem, scenario=scenario), time_limit_s)
    except UndecidedError:
        yield "what surviving a loss costs was not found in the time"
        return
    if bare is not None:
        more = solution.objective - bare.objective
        what = " or ".join(f"one {kind}" for kind in kinds)
        yield f"surviving the loss of any {what} costs {usd(more)} USD/h, {percent(more / bare.objective)} more"
