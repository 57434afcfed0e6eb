"""What `planner predict` says of drafted tokens."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import InputError
from planner.notes import code_of
from planner.results.prediction import Prediction, SpeculationPrediction
from planner.studies.drafts import NO_DRAFTS, AskedDrafts
from planner.studies.predict import PredictQuestion, predict, roofline_survey
from planner.studies.predict.question import instance

DEEPSEEK = PredictQuestion("deepseek-v3", "h200-sxm", batch=(1, 8, 128), drafts=AskedDrafts(1, (0.85,)))
LLAMA = PredictQuestion("llama-3.1-70b", "h200-sxm", batch=(1, 32, 256), drafts=AskedDrafts(4, (0.7,), "llama-3.1-8b"))


def without(question: PredictQuestion) -> Prediction:
    return predict(replace(question, drafts=NO_DRAFTS))


def drafts(found: Prediction) -> SpeculationPrediction:
    assert found.speculation is not None
    return found.speculation


@pytest.mark.parametrize("question", [DEEPSEEK, LLAMA], ids=["mtp", "draft model"])
def test_rows_agree_with_one_another_and_with_a_prediction_without_drafts(question: PredictQuestion) -> None:
    found, plain = predict(question), without(question)
    said = drafts(found)
    for row, step, single in zip(said.steps, found.decode, plain.decode, strict=True):
        assert row.plain_step_s == single.step_s
        assert row.verify_s + row.draft_s == pytest.approx(step.step_s)
        assert row.tpot_s * said.tokens_per_step == pytest.approx(step.step_s)
        assert row.speedup == pytest.approx(row.plain_step_s / row.tpot_s)
        assert step.tokens_per_s == pytest.approx(row.batch / row.tpot_s)
    assert found.weights_bytes_per_accelerator == pytest.approx(
        (plain.weights_bytes_per_accelerator or 0) + said.weights_bytes_per_accelerator
    )
    assert (found.kv_bytes_per_token, found.state_bytes) == (plain.kv_bytes_per_token, plain.state_bytes)
    assert plain.speculation is None


@pytest.mark.parametrize("question", [DEEPSEEK, LLAMA], ids=["mtp", "draft model"])
def test_the_batch_from_which_drafting_slows_down_is_the_least_after_the_last_that_it_helps(
    question: PredictQuestion,
) -> None:
    asked, said = instance(question), drafts(predict(question))
    plain, most = (
        instance(_plain(question)).instance_model,
        int(asked.instance_model.largest_batch(question.context_tokens)),
    )
    sizes = np.arange(1, most + 1)
    context = np.full(sizes.shape, question.context_tokens)
    pays = asked.instance_model.token_time(sizes, context).total_s < plain.decode_time(sizes, context).total_s
    last = int(np.max(np.flatnonzero(pays), initial=-1))
    assert said.slower_from_batch == (None if last == most - 1 else int(sizes[last + 1]))


def _plain(question: PredictQuestion) -> PredictQuestion:
    return PredictQuestion(question.model, question.hardware, batch=question.batch)


def test_batches_that_drafting_slows_down_are_noted() -> None:
    codes = [{code_of(note) for note in predict(question).notes} for question in (DEEPSEEK, LLAMA)]
    assert ["drafting-slows-down" in found for found in codes] == [False, True]


def test_the_largest_batch_within_a_limit_counts_the_time_per_token() -> None:
    limited = replace(DEEPSEEK, tpot_limit_s=0.02)
    with_drafts, plain = predict(limited), without(limited)
    assert (with_drafts.largest_batch.within_tpot or 0) > (plain.largest_batch.within_tpot or 0)


def test_the_survey_of_operators_shows_the_verification_and_what_drafts() -> None:
    with_drafts, plain = (roofline_survey(question).passes[1] for question in (DEEPSEEK, _plain(DEEPSEEK)))
    assert "joining_proj" in {point.name for point in with_drafts.points} - {point.name for point in plain.points}
    assert sum(point.flop for point in with_drafts.points) > 2 * sum(point.flop for point in plain.points)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"acceptance": ()}, "--acceptance: is missing"),
        ({"acceptance": (0.8, 0.7)}, "holds 2 values for 1 draft tokens"),
        ({"acceptance": (1.2,)}, "holds 1.2"),
        ({"draft_tokens": 64}, "--draft-tokens: is 64"),
        ({"draft_tokens": 0}, "none are drafted"),
        ({"draft_model": "llama-3.1-8b"}, "vocabulary of 128,256"),
        ({"draft_model": "lama"}, "no model profile"),
        ({"layout": "tp=8,pp=2"}, "--layout: is 2 beside draft tokens"),
        ({"model": "kimi-k2"}, "--draft-tokens: kimi-k2 has no MTP layers"),
        ({"model": "prfaas-1t"}, "shapes of prfaas-1t are not known"),
    ],
)
def test_what_cannot_be_drafted_is_refused_by_the_option_that_asks_for_it(
    changes: dict[str, object], said: str
) -> None:
    asked = {"model": "deepseek-v3", "layout": None, "draft_tokens": 1, "acceptance": (0.85,), **changes}
    model, layout = str(asked.pop("model")), asked.pop("layout")
    with pytest.raises(InputError, match=said):
        predict(PredictQuestion(model, "h200-sxm", layout=layout, drafts=AskedDrafts(**asked)))  # type: ignore[arg-type]


def test_the_command_takes_one_acceptance_or_one_per_token_and_prints_both_ways() -> None:
    words = ["predict", "deepseek-v3", "h200-sxm", "--draft-tokens", "3", "--acceptance", "0.9,0.8,0.5"]
    tables = CliRunner().invoke(app, words)
    found = json.loads(CliRunner().invoke(app, [*words, "--format", "json"]).stdout)
    assert found["speculation"]["tokens_per_step"] == pytest.approx(1 + 0.9 + 0.72 + 0.36)
    assert "2.98 tokens per step" in " ".join(tables.stdout.replace("│", " ").split())
    assert "decode steps with drafted tokens" in tables.stdout
    wrong = CliRunner().invoke(app, [*words[:-1], "often"])
    assert "is no list of numbers" in str(wrong.exception)
