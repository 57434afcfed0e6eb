"""Engines whose passes take what a line says: easy to reckon with by hand."""

import numpy as np

from planner.executor.engine import EngineLoad
from planner.executor.passes import EngineRules
from planner.roofline import PassTimes

BASE_S, TOKEN_S, KEY_S, SEQUENCE_S, CONTEXT_S = 0.01, 1e-5, 1e-9, 1e-4, 1e-8
ROOMY = 1e9


def linear_times(most: int = 64, n_replicas: int = 1) -> PassTimes:
    """Base + tokens of all replicas + keys of the fullest + sequences + their context."""
    spread = np.array([1.0]) if n_replicas == 1 else np.array([1.0, float(n_replicas)])
    tokens, keys, contexts = np.array([1.0, 1e4]), np.array([1.0, 1e4]), np.array([1.0, 1e4])
    sequences = np.array([0.0, float(max(most, 1))])
    s, p, a, n, c = np.meshgrid(spread, tokens, keys, sequences, contexts, indexing="ij")
    prompt_s = BASE_S + TOKEN_S * p * s + KEY_S * p * a + SEQUENCE_S * n + CONTEXT_S * n * c
    each = np.arange(most + 1.0)[:, None]
    return PassTimes(
        spread, tokens, keys, sequences, contexts, prompt_s, BASE_S + SEQUENCE_S * each + CONTEXT_S * each * contexts
    )


def step_s(n: int, context: float) -> float:
    """A decode step of so many with a mean context."""
    return BASE_S + SEQUENCE_S * n + CONTEXT_S * n * context


def pass_s(tokens: int, cached: int = 0, n: int = 0, context: float = 0.0) -> float:
    """A pass with a chunk of one prompt beside so many that decode."""
    keys = cached + (tokens + 1) / 2
    return step_s(n, context) + TOKEN_S * tokens + KEY_S * tokens * keys


def alike(n: int, prompt: int, output: int, concurrency: int | None = None, **more: object) -> EngineLoad:
    """Requests of one length."""
    return EngineLoad(np.full(n, prompt), np.full(n, output), concurrency=concurrency, **more)  # type: ignore[arg-type]


def mixed(n: int, concurrency: int | None, seed: int = 0, **more: object) -> EngineLoad:
    """Requests of many lengths."""
    draw = np.random.default_rng(seed)
    prompts, outputs = draw.integers(1, 2000, n), draw.integers(1, 200, n)
    return EngineLoad(prompts, outputs, concurrency=concurrency, **more)  # type: ignore[arg-type]


def rules(**changed: object) -> EngineRules:
    """8,192 tokens a pass and no lack of memory, but for what is changed."""
    return EngineRules(**{"tokens_per_pass": 8192, "room_tokens": ROOMY, **changed})  # type: ignore[arg-type]
