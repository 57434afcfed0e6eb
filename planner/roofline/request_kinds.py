"""Requests as the passes and the memory of an instance know them: some kinds of prompts, and answers by two moments."""

from dataclasses import dataclass

import numpy as np

from planner.roofline.colocated import MeanRequest, linear_memory
from planner.roofline.operator import FloatArray
from planner.roofline.served_model import InstanceModel


@dataclass(frozen=True, eq=False)
class RequestKinds:
    """Requests of a demand, kind by kind."""

    tokens: FloatArray
    """Prompt lengths, cached prefixes included [tokens]."""
    weights: FloatArray
    """Their shares, sum 1."""
    output_tokens: float
    """Mean answer [tokens]."""
    output_square: float
    """Mean of its square."""
    cached_tokens: FloatArray | None = None
    """Cached prefix of each prompt; None: there are none [tokens]."""

    @property
    def new_tokens(self) -> FloatArray:
        """Prompt tokens to compute [tokens]."""
        return self.tokens if self.cached_tokens is None else self.tokens - self.cached_tokens

    @property
    def mean_tokens(self) -> float:
        """Mean prompt [tokens]."""
        return float(self.tokens @ self.weights)

    @property
    def output_scv(self) -> float:
        """Squared coefficient of variation of answers."""
        return max(self.output_square / self.output_tokens**2 - 1.0, 0.0)

    @property
    def mean(self) -> MeanRequest:
        """The mean request, as far as passes depend on it."""
        new, cached = self.new_tokens, self.tokens - self.new_tokens
        mean_new = float(new @ self.weights)
        keys = float((new * (cached + (new + 1.0) / 2)) @ self.weights) / max(mean_new, 1e-9)
        context = self.mean_tokens + self.output_square / self.output_tokens / 2
        return MeanRequest(mean_new, keys, context, self._context_variance / context**2, (new, self.weights))

    @property
    def _context_variance(self) -> float:
        """Of the context of a generated token: of prompts, and of how far answers are, E[L^3] as if log-normal."""
        reached = self.output_square / self.output_tokens / 2
        reached_square = self.output_tokens**2 * (1 + self.output_scv) ** 3 / 3
        prompts = float(self.tokens**2 @ self.weights) - self.mean_tokens**2
        return max(prompts, 0.0) + max(reached_square - reached**2, 0.0)


def strata(values: FloatArray, weights: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """At most n values with the mean of all, from the least to the greatest, and their shares.

    >>> strata(np.array([3.0, 1.0, 1.0]), np.ones(3) / 3, 8)[0].tolist()
    [1.0, 3.0]
    """
    cell = cells(values, weights, n)
    w = weights / weights.sum()
    mass = np.bincount(cell, w, n)
    kept = mass > 0
    means = np.bincount(cell, w * values, n)[kept] / mass[kept]
    found, index = np.unique(means, return_inverse=True)
    return found, np.asarray(np.bincount(index, mass[kept]), np.float64)


def cells(values: FloatArray, weights: FloatArray, n: int) -> np.ndarray:
    """The stratum of each value, from the least value to the greatest, of n that are about alike.

    Equation: half by weight, half by the share of the sum of squares: waits follow second moments, and of lengths with
        heavy tails a hundredth may have a third of that.

    >>> cells(np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), 2).tolist()
    [0, 0, 0, 1]
    """
    order = np.argsort(values, kind="stable")
    w, squares = weights[order] / weights.sum(), weights[order] * values[order] ** 2
    if squares.sum() > 0:
        w = (w + squares / squares.sum()) / 2
    found = np.empty(len(values), dtype=int)
    found[order] = np.minimum(((np.cumsum(w) - w / 2) * n).astype(int), n - 1)
    return found


def most_held(served: InstanceModel, requests: RequestKinds, reserves_output: bool) -> int:
    """Sequences in the memory of an instance at once, each with what it holds on average over its stay.

    Args:
        served: the model on an instance.
        requests: what is held.
        reserves_output: whether memory is taken for the whole answer at once; else token by token.
    """
    room, fixed = linear_memory(
        served, max(requests.tokens.min() / 2, 1.0), requests.tokens.max() + requests.output_tokens
    )
    grown = requests.output_square / requests.output_tokens / (1 if reserves_output else 2)
    return max(int(room / (fixed + requests.mean_tokens + grown)), 1) * served.n_places


def held_dispersion(requests: RequestKinds, reserves_output: bool) -> float:
    """Second moment of what requests hold of memory over their stay, over the square of its mean [fraction].

    Equation: 1 + (Var n + g^2 v) / (E n + g)^2: n prompts; answers take their whole length o, g = E[o^2] / E[o] and
        v = c = scv / (1 + scv), or grow to it, half of g and v = (1 + 4 c) / 3; exact for gamma answers.

    Args:
        requests: what is held.
        reserves_output: whether memory is taken for the whole answer at once; else token by token.
    """
    biased_scv = requests.output_scv / (1 + requests.output_scv)
    grown = requests.output_square / requests.output_tokens / (1 if reserves_output else 2)
    part = biased_scv if reserves_output else (1 + 4 * biased_scv) / 3
    variance = float((requests.tokens - requests.mean_tokens) ** 2 @ requests.weights) + grown**2 * part
    return 1.0 + variance / (requests.mean_tokens + grown) ** 2
