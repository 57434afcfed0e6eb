"""A prompt's cache must fit beside the weights where it is prefilled: in predictions, and wherever a plan sends it."""

import json
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from planner.cli import app
from planner.comparison import optimize
from planner.errors import InfeasibleError
from planner.profiles import GqaLayers, MlaLayers, ModelProfile, SwaLayers, model_profile
from planner.results.plan import Plan
from planner.roofline.layout import Layout
from planner.scenario import Scenario
from planner.studies.predict import PredictQuestion, predict
from planner.workload.atom_mix import AtomMix
from planner.workload.distributions import distribution
from planner.workload.length_mix import LengthMix
from planner.workload.lengths import LogNormalLengths
from tests.builders import FAST, HOME, problem_of, sketch, small_with

BLOCK = 64
COUNTED = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "qwen3-235b", "gpt-oss-120b", "deepseek-v3", "mimo-v2-flash")
CHIPS = ("h100-sxm", "h200-sxm", "l40s", "h20-96gb", "b200-sxm")
LAYOUTS = ("tp=1", "tp=2", "tp=4", "tp=8", "tp=2,dp=4,ep=8", "tp=16", "tp=4,pp=2")


def cache_bytes(model: ModelProfile, layout: Layout, tokens: float, width: float = 2.0) -> float:
    """Cache of a prompt on a rank of the fullest stage, group by group, in whole blocks; no code is shared."""
    total = 0.0
    for group in model.architecture.attention:
        kept = min(tokens, group.window) if isinstance(group, SwaLayers) else tokens
        if isinstance(group, MlaLayers):
            values: float = group.kv_lora_rank + group.qk_rope_head_dim
        else:
            assert isinstance(group, GqaLayers | SwaLayers)
            values = ceil(group.n_kv_heads / layout.tp_size) * (group.head_dim + (group.v_head_dim or group.head_dim))
        total += ceil(group.n_layers / layout.pp_size) * values * width * ceil(kept / BLOCK) * BLOCK
    return total


# Predictions


@given(
    model=st.sampled_from(COUNTED),
    chip=st.sampled_from(CHIPS),
    layout=st.sampled_from(LAYOUTS),
    kv=st.sampled_from(["bf16", "fp8"]),
    precision=st.sampled_from([None, "fp8", "fp4"]),
    tokens=st.lists(st.integers(1, 3_000_000), min_size=1, max_size=5),
)
def test_a_prompt_fits_where_its_bytes_do(
    model: str, chip: str, layout: str, kv: str, precision: str | None, tokens: list[int]
) -> None:
    asked = PredictQuestion(
        model, chip, layout=layout, kv_precision=kv, precision=precision, stack="datasheet", tokens=tuple(tokens)
    )
    found, sizes, profile = predict(asked), Layout.parse(layout), model_profile(model)
    memory = found.memory
    assert memory.weights_bytes is not None
    assert memory.workspace_bytes is not None
    room = memory.usable_bytes - memory.weights_bytes - memory.workspace_bytes
    for row in found.prefill:
        held = cache_bytes(profile, sizes, row.tokens, 2.0 if kv == "bf16" else 1.0)
        assert row.fits == (held <= room)
        assert row.lacking_bytes_per_accelerator == pytest.approx(max(held - room, 0.0), rel=1e-9, abs=1.0)
        assert (row.prefill_s is None) == (not row.fits)
        assert found.longest_prompt_tokens is None or row.fits == (row.tokens <= found.longest_prompt_tokens)
    assert bool(found.relaxations) <= (not all(row.fits for row in found.prefill))
    if found.fits and not all(row.fits for row in found.prefill):
        assert any("does not fit beside the weights" in note for note in found.notes)


@pytest.mark.parametrize(
    ("model", "chip", "layout", "precision", "tokens"),
    [
        ("llama-3.1-70b", "h100-sxm", "tp=1", "fp8", 6000),
        ("llama-3.1-70b", "h100-sxm", "tp=1", "fp8", 131_072),
        ("llama-3.1-8b", "l40s", "tp=1", "bf16", 300_000),
        ("qwen3-235b", "h200-sxm", "tp=4", "bf16", 400_000),
        ("deepseek-v3", "h200-sxm", "tp=8", None, 900_000),
    ],
)
def test_each_change_that_is_named_holds_the_longest_prompt(
    model: str, chip: str, layout: str, precision: str | None, tokens: int
) -> None:
    asked = {"layout": layout, "precision": precision, "tokens": (64, tokens), "stack": "datasheet"}
    found = predict(PredictQuestion(model, chip, **asked))
    assert [row.fits for row in found.prefill] == [True, False]
    assert found.relaxations
    for change in found.relaxations:
        option, value = change.split("--")[1].rstrip(")").split(" ")
        key = option.replace("-", "_")
        stated = float(value) if key == "memory_fraction" else value
        again = predict(PredictQuestion(model, chip, **{**asked, key: stated}))
        assert again.prefill[1].fits


ONE_GPU = ("predict", "llama-3.1-70b", "h100-sxm", "--layout", "tp=1", "--precision", "fp8", "--kv-precision", "fp8")
ONE_GPU += ("--stack", "datasheet")


def test_a_length_without_room_is_told_where_others_have_some_and_refused_where_none_has() -> None:
    some = CliRunner().invoke(app, [*ONE_GPU, "--tokens", "4096,131072", "--format", "json"])
    assert some.exit_code == 0
    answer = json.loads(some.stdout)
    assert [(row["fits"], row["prefill_s"] is None) for row in answer["prefill"]] == [(True, False), (False, True)]
    assert answer["fits"]
    assert answer["longest_prompt_tokens"] == 7552
    none = CliRunner().invoke(app, [*ONE_GPU, "--tokens", "131072"])
    assert isinstance(none.exception, InfeasibleError)
    assert "131,072 tokens" in str(none.exception)
    assert "would fit: 2 x h100-sxm" in str(none.exception)
    assert "nothing" not in none.stdout.replace("nothing fitted", "")


# What a mix sends where


def mixes() -> Iterator[LengthMix | AtomMix]:
    yield LengthMix(distribution(LogNormalLengths(kind="lognormal", mu=8, sigma=1, low_tokens=100, high_tokens=9e4)), 1)
    rng = np.random.default_rng(3)
    for n in (1, 2, 7, 300):
        total = rng.integers(1, 100_000, n).astype(float)
        yield AtomMix.of(total, np.floor(total * rng.choice([0.0, 0.5, 0.9, 1.0], n)))


@pytest.mark.parametrize("mix", tuple(mixes()), ids=lambda mix: type(mix).__name__)
def test_limits_of_thresholds_are_those_at_which_prompts_still_fit(mix: LengthMix | AtomMix) -> None:
    thresholds = np.unique(np.concatenate([[-1.0], mix.threshold_grid(50), np.linspace(0, mix.support[1], 60)]))
    for room in (0.0, 50.0, 5_000.0, 40_000.0, 99_000.0, 1e6):
        least, most = mix.held_thresholds(room, room)
        for t in thresholds.tolist():
            assert (mix.longest_tokens(t) <= room) == (t >= least)
            short_fits = mix.longest_tokens(-np.inf, t) <= room
            if t <= most:
                assert short_fits
            elif short_fits:  # by a threshold that no length lies above `most` and below
                assert mix.long_fraction(t) == mix.long_fraction(most)


# Plans

TIGHT: dict[str, Any] = {
    "model.profile": "llama-3.1-70b",
    "model.precision": "fp8",
    "model.kv_precision": "fp8",
    "measured": {},
    "workload.lengths": {"kind": "lognormal", "mu": 8.0, "sigma": 1.0, "low_tokens": 128, "high_tokens": 120_000},
    "pools.near.accelerators_per_instance": 1,
    "pools.near.layout": "tp=1",
    "pools.near.hardware": FAST,
    "sites.local.accelerators": {FAST: 24, HOME: 40},
    **{f"pools.{name}.stack": "datasheet" for name in ("fast", "near", "decode")},
}
"""One H100 with an FP8 model of 70B has room for 6.5K tokens, and a pool of such takes short prompts."""


def tight(changes: Mapping[str, Any] | None = None) -> Scenario:
    return small_with({**TIGHT, **(changes or {})})


def longest_held(plan: Plan, scenario: Scenario) -> dict[str, float]:
    """By prefill pool in use, the longest of some lengths that fits, by bytes counted here."""
    found = {}
    for pool in (p for p in plan.pools if p.role == "prefill" and p.n_instances):
        stated, choice = scenario.pools[pool.name], scenario.model
        layout = stated.layout or f"tp={stated.accelerators_per_instance}"
        memory = predict(
            PredictQuestion(
                choice.profile,
                stated.hardware,
                layout=layout,
                precision=choice.precision,
                kv_precision=choice.kv_precision,
                stack=stated.stack,
            )
        ).memory
        width = 1.0 if choice.kv_precision == "fp8" else 2.0
        per_block = cache_bytes(model_profile(choice.profile), Layout.parse(layout), BLOCK, width)
        found[pool.name] = (memory.cache_bytes or 0.0) // per_block * BLOCK
    return found


def test_instances_of_one_gpu_are_no_plan_for_prompts_that_they_cannot_hold() -> None:
    alone = {"pools.fast.accelerators_per_instance": 1, "pools.fast.layout": "tp=1", "pools.fast.max_instances": 24}
    with pytest.raises(InfeasibleError) as refused:
        optimize(tight(alone))
    message = str(refused.value)
    for part in ("pools.fast", "pools.near", "7,552 tokens", "120,000", "accelerators_per_instance = 2"):
        assert part in message
    assert all(row.n_instances for row in sketch(tight({**alone, "pools.fast.layout": None, **WIDE})).pools[:1])


WIDE = {"pools.fast.accelerators_per_instance": 2, "routing.threshold_tokens": 6000.0}


def test_the_change_that_a_refusal_names_is_enough() -> None:
    changed = tight(
        {
            "pools.near.accelerators_per_instance": 2,
            "pools.near.layout": "tp=2",
            "pools.fast.accelerators_per_instance": 1,
            "pools.fast.layout": "tp=1",
        }
    )
    plan = sketch(changed)
    assert plan.threshold_tokens == pytest.approx(120_000)
    with pytest.raises(InfeasibleError, match=r"routing\.threshold_tokens = 7552"):
        optimize(tight({"routing.threshold_tokens": 20_000.0}))
    assert sketch(tight({"routing.threshold_tokens": 7552.0})).max_throughput_req_per_s > 0


PERIODS = {"day": {"hours": 12.0}, "night": {"hours": 12.0, "demand": 0.5}}


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_sends_no_prompt_to_a_pool_that_cannot_hold_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    changes: dict[str, Any] = {
        "model.kv_precision": str(rng.choice(["fp8", "bf16"])),
        "pools.near.accelerators_per_instance": (n := int(rng.choice([1, 2]))),
        "pools.near.layout": f"tp={n}",
        "capacity_rule": str(rng.choice(["mean-length", "expected-work"])),
        "objective": "min-cost",
        "demand_req_per_s": float(rng.uniform(0.2, 2)),
    }
    if rng.random() < 0.6:
        tokens = np.exp(rng.uniform(5, 12, 9)).round()
        changes["workload.lengths"] = {"kind": "empirical", "tokens": tokens.tolist()}
        if rng.random() < 0.5:
            changes["workload.prefix_hits"] = {"kind": "constant", "fraction": float(rng.choice([0.3, 0.9]))}
    if rng.random() < 0.5:
        changes |= {"periods": PERIODS, "pools.near.prompts": "short", "capacity_rule": "expected-work"}
    scenario = tight(changes)
    plan = sketch(scenario)
    workload = next(workload for _, workload in scenario.workloads.values())
    lengths = workload.lengths
    assert lengths is not None
    total = np.asarray(distribution(lengths).quantile(np.linspace(0, 1, 4001)))
    fraction = float(getattr(workload.prefix_hits, "fraction", 0.0))
    uncached, rooms = total * (1 - fraction), longest_held(plan, scenario)
    per_site = [t for period in plan.periods for t in period.thresholds["all"].values()]
    thresholds = per_site or [plan.threshold_tokens]
    used = {p.name for p in plan.pools if p.role == "prefill" and p.n_instances}
    for t in thresholds:
        if len(used) > 1:
            assert t is not None
        one_kind = {"fast": np.ones_like(total, bool), "near": np.zeros_like(total, bool)}
        long = one_kind[next(iter(used))] if len(used) == 1 else uncached > (np.inf if t is None else t)
        for name, sent in (("fast", long), ("near", ~long)):
            if sent.any():
                assert total[sent].max() <= rooms[name]


@pytest.mark.parametrize("more", [{}, {"periods": PERIODS, "objective": "min-cost"}], ids=["one-site", "network"])
def test_a_decode_pool_that_cannot_hold_the_longest_requests_is_noted(more: dict[str, Any]) -> None:
    one = {"pools.decode.hardware": FAST, "pools.decode.accelerators_per_instance": 1, "pools.decode.layout": "tp=1"}
    own = {"near": "pools.near.accelerators_per_instance", "layout": "pools.near.layout"}
    wide = {own["near"]: 2, own["layout"]: "tp=2", "demand_req_per_s": 0.05, **more}
    notes = [
        [note for note in sketch(tight({**wide, **changes})).notes if "no engine takes them" in note]
        for changes in (one, {})
    ]
    assert len(notes[0]) == 1
    assert "7,552 tokens" in notes[0][0]
    assert "120,500" in notes[0][0]
    assert not notes[1]


def test_prompts_that_fit_nowhere_are_told_before_what_their_question_may_not_have() -> None:
    lengths = {"kind": "lognormal", "mu": 9.0, "sigma": 1.0, "low_tokens": 128, "high_tokens": 400_000}
    long = {"workload.lengths": lengths, "routing.threshold_tokens": 21_000}  # those go to the smaller chip alone
    with pytest.raises(InfeasibleError, match="prompts of 'all' fit no pool that they could be routed to"):
        problem_of(long | {"routing.n_candidates": 40, "capacity_rule": "mean-length"})
