"""The requests of a problem as an instance knows them that prefills and decodes in one batch."""

from collections.abc import Sequence

import numpy as np

from planner.optimizer.batching import output_square
from planner.optimizer.problem import Problem
from planner.roofline import RequestKinds, cells
from planner.workload import RequestMix

N_ATOMS = 4096
"""Requests that stand for a class,"""
N_KINDS = 128
"""and kinds that remain of all."""
ALIKE = 9
"""Decimals to which shares of classes agree in periods that count as one."""


def loads_of(problem: Problem) -> list[tuple[float, RequestKinds]]:
    """Every mix of requests that some period brings, each with the highest rate at which it comes.

    Args:
        problem: the question.

    Returns:
        Rates over the mean rate of the whole time [fraction], and requests. Under `mean-length` all requests are alike.
    """
    n_kinds = 1 if problem.scenario.capacity_rule == "mean-length" else N_KINDS
    highest: dict[tuple[float, ...], float] = {}
    for p in range(len(problem.periods)):
        rates = np.zeros(len(problem.classes))
        for demand in problem.demands:
            rates[demand.request_class] += demand.req_per_s[p]
        total = float(rates.sum())
        if total > 0:
            shares = tuple((rates / total).round(ALIKE).tolist())
            highest[shares] = max(highest.get(shares, 0.0), total / problem.mean_req_per_s)
    mixes = [spec.mix for spec in problem.classes]
    return [
        (multiple, _kinds_of_all([(x, m) for x, m in zip(shares, mixes, strict=True) if x > 0], n_kinds))
        for shares, multiple in highest.items()
    ]


def _kinds_of_all(classes: Sequence[tuple[float, RequestMix]], n_kinds: int) -> RequestKinds:
    """Kinds of prompts with the means of all, and the moments of their answers.

    Args:
        classes: shares and requests.
        n_kinds: most kinds.
    """
    atoms = [(share, mix.atoms(N_ATOMS)) for share, mix in classes]
    weights = np.concatenate([share * found.weights for share, found in atoms])
    total = np.concatenate([found.total_tokens for _, found in atoms])
    cached = np.concatenate([found.cached_tokens for _, found in atoms])
    cell = cells(total - cached, weights, n_kinds)
    mass = np.bincount(cell, weights, n_kinds)
    kept = mass > 0
    whole, held = (np.bincount(cell, weights * x, n_kinds)[kept] / mass[kept] for x in (total, cached))
    shares = sum(share for share, _ in classes)
    mean = sum(share * mix.mean_output_tokens for share, mix in classes) / shares
    square = sum(share * output_square(mix) for share, mix in classes) / shares
    return RequestKinds(whole, mass[kept] / mass.sum(), max(mean, 1.0), max(square, mean**2, 1.0), held)
