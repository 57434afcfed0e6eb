"""Attention data parallelism: a pass takes one prompt or chunk per replica, and replicas step together."""

from dataclasses import replace

import numpy as np
import pytest

from planner.profiles import hardware_profile, model_profile
from planner.roofline import (
    Chip,
    InstanceModel,
    Layout,
    Sequences,
    roofline_prefill,
    settings_on,
    stack,
)
from planner.roofline.factors import DATASHEET
from planner.studies.predict import PredictQuestion, predict
from tests.model_counts import prefill_operators, total_flop

MODEL = model_profile("deepseek-v3")
BARE, H200 = (Chip(hardware_profile("h200-sxm"), derated) for derated in (False, True))
LONG = 8192.0


def served(layout: str, chip: Chip = BARE, name: str = "datasheet") -> InstanceModel:
    return InstanceModel(MODEL, chip, Layout.parse(layout), DATASHEET if chip is BARE else stack(name).factors)


def rank_flop(model: InstanceModel, n_prompts: float) -> float:
    work = model.work([Sequences.prefill([LONG], 0, n_prompts)])
    return float(work.n_layers @ work.flop)


@pytest.mark.parametrize("dp", [1, 2, 8, 32])
def test_a_full_pass_computes_one_prompt_per_replica_and_nothing_twice(dp: int) -> None:
    found = served(f"tp=1,dp={dp},ep={dp}")
    counted = float(total_flop(prefill_operators(MODEL, LONG, n_sequences=dp)))
    assert dp * rank_flop(found, dp) == pytest.approx(counted, rel=1e-9)


@pytest.mark.parametrize("layout", ["tp=1,dp=8,ep=8", "tp=4,dp=2,ep=8", "tp=2,dp=4,ep=1"])
@pytest.mark.parametrize("chip", [BARE, H200])
def test_a_prompt_beside_others_takes_longer_than_alone_and_less_than_one_after_another(
    layout: str, chip: Chip
) -> None:
    found, tokens = served(layout, chip), np.array([512.0, LONG, 40000.0])
    alone, full = (found.prefill_time(tokens, n_prompts=n).total_s for n in (1, found.n_places))
    assert np.all(alone <= full)
    assert np.all(full < found.n_places * alone)


@pytest.mark.parametrize("dp", [2, 8, 32])
def test_tokens_per_accelerator_of_full_passes_are_about_those_of_tensor_parallel_ranks(dp: int) -> None:
    """One prompt per pass of many replicas would leave about 1 / dp of it."""
    replicas, ranks = served(f"tp=1,dp={dp},ep={dp}"), served(f"tp={dp}")
    found = [m.n_places * LONG / m.prefill_time([LONG], n_prompts=m.n_places).total_s[0] for m in (replicas, ranks)]
    assert found[0] > 0.7 * found[1]


@pytest.mark.parametrize("layout", ["tp=8", "tp=4,dp=2,ep=8", "tp=1,dp=8,ep=8"])
def test_an_instance_has_a_place_per_replica_and_a_prompt_keeps_its_share_of_it_busy(layout: str) -> None:
    found = served(layout)
    service, dp = roofline_prefill(found, (0.0, 1e9)), found.layout.dp_size
    full_s = float(found.prefill_time([LONG], n_prompts=dp).total_s[0])
    assert service.places == dp
    assert float(service.seconds(LONG, 0)) == pytest.approx(full_s)
    assert float(service.occupancy.seconds(LONG, 0)) == pytest.approx(full_s / dp)
    assert service.occupancy is service.occupancy, "sums over requests are remembered by it"
    assert replace(service, places=1).occupancy.places == 1


@pytest.mark.parametrize("layout", ["tp=8", "tp=1,dp=8,ep=8", "tp=4,dp=8,ep=32"])
def test_predict_states_tokens_of_a_full_pass_and_per_accelerator(layout: str) -> None:
    found = predict(PredictQuestion("deepseek-v3", "h200-sxm", layout=layout, tokens=(4096, 30000), stack="sglang"))
    sizes = Layout.parse(layout)
    chunk = settings_on(stack("sglang").settings, sizes, hardware_profile("h200-sxm")).chunk_tokens
    for row in found.prefill:
        assert row.pass_prompts == sizes.dp_size * max(chunk // row.tokens, 1)
        assert row.pass_tokens == row.pass_prompts * min(row.tokens, chunk)
        assert row.prefill_s is not None
        assert row.full_s is not None
        assert row.tokens_per_s is not None
        assert row.tokens_per_s_per_accelerator == pytest.approx(row.tokens_per_s / sizes.n_accelerators)
        before_s = float(np.asarray(stack("sglang").factors.before_prefill_s(float(row.tokens))))
        assert row.tokens_per_s * (row.full_s - before_s) == pytest.approx(row.pass_prompts * row.tokens)
        assert (row.full_s == pytest.approx(row.prefill_s)) == (row.pass_prompts == 1)


def test_cached_tokens_are_not_counted_as_computed() -> None:
    question = PredictQuestion("llama-3.1-8b", "h200-sxm", 1, tokens=(4096,), cached_tokens=4000, stack="datasheet")
    (row,) = predict(question).prefill
    assert row.full_s is not None
    assert row.pass_tokens == 96 * row.pass_prompts
    assert row.tokens_per_s == pytest.approx(row.pass_tokens / row.full_s)
