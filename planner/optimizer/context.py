"""Uses of a model by a class that it is not made for: longer prompts, and another format of its cache."""

from collections.abc import Iterator

from planner.errors import InputProblem
from planner.notes import Note, note
from planner.roofline.formats import checkpoint_cache_notes
from planner.scenario import Scenario
from planner.units import percent
from planner.workload.mix import RequestMix

N_LENGTHS = 4096
"""Requests that stand for a continuous length distribution."""


def context_problems(scenario: Scenario, name: str, mix: RequestMix) -> Iterator[InputProblem]:
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
    """Prompts of a class longer than their model is made for where the scenario says nothing, and another cache format
    than its checkpoint's."""
    model = scenario.model_of(name)
    profile, choice = scenario.profile_of(model), scenario.model_choice(model)
    stated, limit = choice.context_limit_tokens, profile.architecture.context_limit_tokens
    where = "model" if model is None else f"models.{model}"
    yield from checkpoint_cache_notes(profile, choice.kv_precision, f"{where}.kv_precision")
    if stated is None and limit is not None and mix.longest_tokens() > limit:
        yield note(
            "context-exceeded",
            f"'{name}' has {_beyond(mix, limit)} that {profile.name} is made for: engines refuse them unless RoPE "
            f"scaling extends it; {where}.context_limit_tokens states what it is served with",
        )


def _beyond(mix: RequestMix, limit: int) -> str:
    total, _, weights = mix.atoms(N_LENGTHS)
    share = percent(float(weights[total > limit].sum() / weights.sum()))
    return f"prompts of up to {mix.longest_tokens():,.0f} tokens, {share} of them beyond the context of {limit:,}"
