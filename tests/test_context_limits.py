"""Prompts beyond the context a model is made for are pointed out; beyond a stated one they are refused."""

from typing import Any

import numpy as np
import pytest

from planner.comparison import optimize
from planner.errors import InputError
from planner.profiles import model_profile, profile_names
from planner.studies.predict import PredictQuestion, predict
from tests.builders import in_classes, sketch, small_with

LONG = {"lengths": {"kind": "empirical", "tokens": [1000, 2000, 50_000, 60_000]}}
OUTPUT = {"output_lengths": {"kind": "constant", "tokens": 100}}
EMPIRICAL = {"workload.lengths": LONG["lengths"]}
NIGHT = {
    "periods": {"day": {"hours": 12.0}, "night": {"hours": 12.0}},
    "objective": "min-cost",
    "demand_req_per_s": 0.5,
}


def notes(changes: dict[str, Any]) -> list[str]:
    return [note for note in sketch(small_with(changes)).notes if "is made for" in note]


@pytest.mark.parametrize("more", [{}, NIGHT], ids=["one-site", "network"])
def test_a_plan_points_out_prompts_beyond_what_its_model_is_made_for(more: dict[str, Any]) -> None:
    (note,) = notes({**EMPIRICAL, **more})
    for part in ("'all'", "60,000 tokens", "50.0 %", "40,960", "qwen3-235b", "model.context_limit_tokens"):
        assert part in note
    assert not notes({**EMPIRICAL, **more, "model.context_limit_tokens": 60_000})
    within = {"workload.lengths": {"kind": "empirical", "tokens": [1000, 40_960]}}
    assert not notes({**within, **more})


@pytest.mark.parametrize("more", [{}, NIGHT], ids=["one-site", "network"])
def test_prompts_beyond_the_context_that_a_scenario_states_are_refused_at_their_key(more: dict[str, Any]) -> None:
    scenario = small_with({**EMPIRICAL, **more, "model.context_limit_tokens": 59_999})
    with pytest.raises(InputError, match=r"workload.*60,000 tokens, 25\.0 % of them beyond the context of 59,999"):
        optimize(scenario)


def test_each_class_is_held_against_the_limit_of_its_own_model() -> None:
    short = {"lengths": {"kind": "constant", "tokens": 1000}, **OUTPUT}
    classes = {"short": (0.5, short), "long": (0.5, {**LONG, **OUTPUT})}
    with pytest.raises(InputError, match=r"classes\.long\.workload") as refused:
        optimize(in_classes(classes, {"model.context_limit_tokens": 2000}))
    assert len(refused.value.problems) == 1


def test_a_model_without_a_limit_is_never_refused() -> None:
    assert model_profile("prfaas-1t").architecture.context_limit_tokens is None
    found = predict(PredictQuestion("kimi-linear-48b", "h200-sxm", tokens=(1_000_000,)))
    assert found.context_limit_tokens is None
    assert not found.prefill[0].beyond_context_limit
    assert not any("is made for contexts" in note for note in found.notes)


@pytest.mark.parametrize("model", [name for name in profile_names("model") if "prfaas" not in name])
def test_a_prediction_says_which_lengths_are_beyond_and_times_them_all_the_same(model: str) -> None:
    limit = model_profile(model).architecture.context_limit_tokens
    tokens = tuple(sorted({64, limit or 4096, (limit or 4096) + 1}))
    found = predict(PredictQuestion(model, "b300-sxm", tokens=tokens, stack="datasheet"))
    assert found.context_limit_tokens == limit
    beyond = [row.beyond_context_limit for row in found.prefill]
    assert beyond == [limit is not None and n > limit for n in tokens]
    assert any("is made for contexts" in note for note in found.notes) == any(beyond)
    times = np.array([row.prefill_s for row in found.prefill if row.fits], dtype=float)
    assert (np.diff(times) >= 0).all()
