"""The models of a scenario, as far as whoever deploys a plan has to know them."""

import re

from planner.profiles import ModelProfile, Speculation
from planner.results.plan import DeployedModel, Drafts
from planner.scenario import ModelChoice, Scenario

RECURRENT = ("kda", "gdn", "lightning", "mamba1", "mamba2")
"""Kinds of layers that keep a state of fixed size."""

REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
"""An alias under which a model is published."""


def scenario_models(scenario: Scenario) -> tuple[DeployedModel, ...]:
    """Every model that a pool of the scenario serves, once, in the order of the pools.

    Returns:
        Models by the name of their profile, which classes and pools of the plan call them by.
    """
    choices = {pool.model: scenario.model_choice(pool.model) for pool in scenario.pools.values()}
    models = (
        _served(scenario.profile_of(name), choice, scenario.speculation_of(name)) for name, choice in choices.items()
    )
    return tuple({model.name: model for model in models}.values())


def pool_model_name(scenario: Scenario, pool: str) -> str:
    """Name of the profile of the model that a pool of the scenario serves; raises KeyError."""
    return scenario.profile_of(scenario.pools[pool].model).name


def _served(profile: ModelProfile, choice: ModelChoice, used: Speculation | None) -> DeployedModel:
    shapes = profile.architecture
    knows_mlps = shapes.moe or shapes.mlp_only or shapes.intermediate_size
    return DeployedModel(
        name=profile.name,
        checkpoints=_checkpoints(profile),
        precision=profile.precision,
        kv_precision=choice.kv_precision,
        has_recurrent_state=any(group.kind in RECURRENT for group in shapes.attention),
        has_experts=shapes.n_sparse_layers > 0 if knows_mlps else None,
        context_limit_tokens=choice.context_limit_tokens or shapes.context_limit_tokens,
        drafts=None if used is None else _drafts(used),
    )


def _drafts(used: Speculation) -> Drafts:
    draft = used.draft
    return Drafts(
        draft_tokens=used.n_draft_tokens,
        acceptance=used.acceptance,
        model=None if draft is None else draft.name,
        checkpoints=() if draft is None else _checkpoints(draft),
    )


def _checkpoints(profile: ModelProfile) -> tuple[str, ...]:
    return tuple(alias for alias in profile.aliases if REPOSITORY.fullmatch(alias))
