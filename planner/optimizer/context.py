"""Prompts beyond the context that a model is made for, or served with."""

from collections.abc import Iterator

from planner.errors import Problem
from planner.notes import Note, note
from planner.scenario import Scenario
from planner.units import percent
from planner.workload import RequestMix

N_LENGTHS = 4096
"""Requests that stand for a continuous length distribution."""


def context_problems(scenario: Scenario, name: str, mix: RequestMix) -> Iterator[Problem]:
    """A problem where prompts of a class are longer than the scenario says that their model is served with."""
    model = scenario.model_of(name)
    limit = scenario.model_choice(model).context_limit_tokens
    if limit is None or mix.longest_tokens() <= limit:
        return
    key = ("classes", name, "workload") if name in scenario.classes else ("workload",)
    what = f"has {_beyond(mix, limit)} that {scenario.profile_of(model).name} is served with"
    where = "model" if model is None else f"models.{model}"
    yield scenario.problem(key, what, f"prompts of at most that, or another {where}.context_limit_tokens")


def context_notes(scenario: Scenario, name: str, mix: RequestMix) -> Iterator[Note]:
    """What to know where prompts of a class are longer than their model is made for, and the scenario says nothing."""
    model = scenario.model_of(name)
    profile, stated = scenario.profile_of(model), scenario.model_choice(model).context_limit_tokens
    limit = profile.architecture.context_limit_tokens
    if stated is None and limit is not None and mix.longest_tokens() > limit:
        where = "model" if model is None else f"models.{model}"
        yield note(
            "context-exceeded",
            f"'{name}' has {_beyond(mix, limit)} that {profile.name} is made for: engines refuse them unless RoPE "
            f"scaling extends it; {where}.context_limit_tokens states what it is served with",
        )


def _beyond(mix: RequestMix, limit: int) -> str:
    total, _, weights = mix.atoms(N_LENGTHS)
    share = percent(float(weights[total > limit].sum() / weights.sum()))
    return f"prompts of up to {mix.longest_tokens():,.0f} tokens, {share} of them beyond the context of {limit:,}"
