"""The passes of a colocated instance, and the prompts that it gets: what its queue is made of."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from planner.queueing.erlang import Floats
from planner.queueing.preemption import Preemption

PassSeconds = Callable[[Floats, Floats], Floats]
"""Seconds of passes by prompt tokens and decoding sequences, arrays that broadcast together."""


@dataclass(frozen=True, eq=False)
class PassLoop:
    """Pass loop of an instance: seconds, limits and order of its passes."""

    pass_s: PassSeconds
    """Seconds of a pass; no prompt tokens: a decode step [s]."""
    tokens_per_pass: float
    """Most tokens of a pass: of prompts and sequences together, or of prompts alone where these come first."""
    most_running: int
    """Most requests that are admitted at once, by memory or by rule."""
    is_prefill_first: bool = False
    """Whether prompts have passes of their own, before any decode step; else they share passes."""
    held_dispersion: float = 1.0
    """E[h^2] / E[h]^2 of the memory h that a request holds, where memory is what limits how many run [fraction]."""
    preemption: Preemption | None = None
    """What gives way where memory is what limits how many run, and is taken token by token; None elsewhere."""

    def prompt_budget(self, batch: Floats | float) -> Floats:
        """Prompt tokens that a pass may take beside so many sequences."""
        taken = 0.0 if self.is_prefill_first else np.asarray(batch, float)
        return np.asarray(np.maximum(self.tokens_per_pass - taken, 1.0))


@dataclass(frozen=True, eq=False)
class Prompts:
    """Prompts of requests, kind by kind, and their answers; arrays of one length."""

    tokens: Floats
    """Prompt tokens to compute, 0 or more [tokens]."""
    weights: Floats
    """Share of each kind [fraction], sum 1."""
    alone_s: Floats
    """Passes that compute it on an idle instance [s]."""
    output_tokens: float
    """Mean answer, 1 at least [tokens]."""
    output_scv: float = 1.0
    """Squared coefficient of variation of answers [fraction]."""
    classes: tuple[Floats, ...] = ()
    """Share of each kind among the requests of a class whose times are asked for [fraction], sum 1, class by class."""

    @property
    def mean_tokens(self) -> float:
        """Mean prompt [tokens]."""
        return float(self.tokens @ self.weights)

    @property
    def decoded_tokens(self) -> float:
        """Tokens after the first, which its prompt's last pass makes [tokens]."""
        return self.output_tokens - 1.0
