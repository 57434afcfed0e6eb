"""Published figures held against the planner's."""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import truediv
from typing import Any

from planner.errors import InputError, InputProblem, did_you_mean
from planner.results.case import ClaimResult
from planner.results.plan import Plan
from planner.scenario import Claim


def claim_results(claims: Iterable[Claim], plans: Mapping[str, Plan | None], scenario: str) -> tuple[ClaimResult, ...]:
    """Every claim beside what the named plans say.

    Args:
        plans: plan name -> plan, None where there is none.

    Raises:
        InputError: a metric names no plan or no figure of it.
    """
    answers = {name: None if plan is None else plan.model_dump(by_alias=True) for name, plan in plans.items()}
    return tuple(_result(claim, answers, scenario) for claim in claims)


def _result(claim: Claim, answers: Mapping[str, Any], scenario: str) -> ClaimResult:
    planned = _metric(claim.metric, answers, scenario)
    difference = None if planned is None or not claim.published else planned / claim.published - 1
    within = None if claim.tolerance is None or difference is None else abs(difference) <= claim.tolerance
    return ClaimResult(**claim.model_dump(), planned=planned, difference=difference, holds=within)


def _metric(text: str, answers: Mapping[str, Any], scenario: str) -> float | None:
    """A metric or the quotient of two; None where one is unknown or there is nothing to divide by."""
    values = [_lookup(part.strip(), answers, scenario) for part in text.split(" / ")]
    if values[0] is None or not all(values[1:]):
        return None
    return reduce(truediv, map(float, filter(None, values[1:])), float(values[0]))


def _lookup(path: str, answers: Mapping[str, Any], scenario: str) -> float | None:
    """The figure a dotted path leads to; items of lists go by their name."""
    node: Any = answers
    for part in path.split("."):
        choices = {item["name"]: item for item in node if "name" in item} if isinstance(node, list | tuple) else node
        if choices is None:
            return None
        if not isinstance(choices, Mapping) or part not in choices:
            known = choices if isinstance(choices, Mapping) else ()
            raise InputError(
                InputProblem(scenario, "claims", f"'{path}': no '{part}'", did_you_mean(part, map(str, known)))
            )
        node = choices[part]
    if node is not None and (isinstance(node, bool) or not isinstance(node, int | float)):
        raise InputError(InputProblem(scenario, "claims", f"'{path}' is not a figure", "the path of a number"))
    return node
