"""Passes of colocated instances as a function: the roofline's where it is asked, and memory in tokens."""

from dataclasses import replace

import numpy as np
import pytest

from planner.profiles import hardware_profile, model_profile
from planner.roofline import (
    Chip,
    Factors,
    InstanceModel,
    Layout,
    MeanRequest,
    PromptTokens,
    linear_memory,
    mixed_pass_time,
    mixed_passes,
)
from planner.roofline.colocated import fullest_context

CLOSE = pytest.approx
REQUEST = MeanRequest(2000.0, 1000.5, 2150.0)
CASES = [("llama-3.1-8b", Layout()), ("llama-3.1-70b", Layout(tp_size=4)), ("qwen3-235b", Layout(dp_size=8, ep_size=8))]


def served(model: str, layout: Layout) -> InstanceModel:
    return InstanceModel(model_profile(model), Chip(hardware_profile("h200-sxm")), layout, Factors())


def contexts(one: InstanceModel, batch: np.ndarray) -> np.ndarray:
    """Of the fullest replica, over the number of sequences of each."""
    return REQUEST.context_tokens * fullest_context(one.n_places * batch, one.n_places, 0.0)


@pytest.mark.parametrize(("model", "layout"), CASES)
def test_without_prompts_passes_are_decode_steps(model: str, layout: Layout) -> None:
    one, each = served(model, layout), np.arange(1.0, 97.0)
    found = mixed_passes(one, REQUEST, 96)(np.zeros(96), each)
    assert found == CLOSE(one.decode_time(one.n_places * each, contexts(one, each)).total_s, rel=1e-9)


@pytest.mark.parametrize(("model", "layout"), CASES)
def test_at_knots_passes_are_the_rooflines(model: str, layout: Layout) -> None:
    one = served(model, layout)
    passes = mixed_passes(one, REQUEST, 96)
    p, b = passes.tokens[[3, 9, -1]], passes.batches[[0, 4, -1]]
    exact = mixed_pass_time(one, PromptTokens(p, REQUEST.keys), one.n_places * b, contexts(one, b)).total_s
    assert passes(p, b) == CLOSE(exact, rel=1e-9)


@pytest.mark.parametrize(("model", "layout"), CASES)
def test_between_knots_passes_are_near_the_roofline(model: str, layout: Layout) -> None:
    one, draw = served(model, layout), np.random.default_rng(0)
    passes = mixed_passes(one, REQUEST, 96)
    p, b = np.exp(draw.uniform(3, np.log(passes.tokens[-1]), 50)), np.round(draw.uniform(1, 96, 50))
    exact = mixed_pass_time(one, PromptTokens(p, REQUEST.keys), one.n_places * b, contexts(one, b)).total_s
    assert np.abs(passes(p, b) / exact - 1).max() < 0.05


@pytest.mark.parametrize(("model", "layout"), CASES)
def test_more_in_a_pass_never_takes_less_time(model: str, layout: Layout) -> None:
    passes = mixed_passes(served(model, layout), REQUEST, 96)
    tokens = passes(np.geomspace(1, passes.tokens[-1], 60), np.full(60, 32.0))
    batches = passes(np.full(97, 2000.0), np.arange(97.0))
    assert (np.diff(tokens) >= -1e-12).all()
    assert (np.diff(batches) >= -1e-12).all()


def test_a_pass_waits_for_the_chunks_of_other_replicas_as_often_as_they_have_one() -> None:
    one = served(*CASES[-1])
    few, many = (mixed_passes(one, replace(REQUEST, prompts_per_token=x), 96) for x in (1e-5, 10.0))
    b = np.array([8.0, 40.0])
    alone = mixed_passes(one, REQUEST, 96)
    assert few(0.0, b) == CLOSE(alone(0.0, b), rel=0.02)
    whole = mixed_pass_time(one, PromptTokens(one.chunk_tokens, REQUEST.keys, 8.0), 8 * b, contexts(one, b)).total_s
    assert many(one.chunk_tokens, b) == CLOSE(whole, rel=0.03)  # all replicas are full of prompts
    assert (many(0.0, b) > 3 * alone(0.0, b)).all()


@pytest.mark.parametrize(("model", "layout"), CASES)
def test_memory_in_tokens_holds_as_many_requests_as_blocks_of_it_do(model: str, layout: Layout) -> None:
    one, length = served(model, layout), 4096.0
    room, fixed = linear_memory(one, 1000.0, 8000.0)
    assert one.n_places * (room / (fixed + length)) == CLOSE(float(one.largest_batch(length)), rel=0.02)
