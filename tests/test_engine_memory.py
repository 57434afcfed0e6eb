"""Memory beside weights by each engine's own accounting: by hand, by laws, and against what engines logged."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import InfeasibleError, InputError
from planner.profiles import Speculation, hardware_profile, model_profile
from planner.profiles.stack import StackSettings
from planner.roofline import Chip, InstanceModel, Layout, MemoryFit, altered, memory_fit, stack
from planner.roofline.engine_memory import memory_settings, static_fraction
from planner.roofline.kv_memory import kv_bytes_per_rank
from planner.studies.predict import PredictQuestion, predict

H100 = 81_559 * 2**20
GIB = 2**30
QWEN_WEIGHTS = (233_895_100_416 + 2 * (2 * 151_936 * 4096)) / 4
"""Qwen3-235B over four ranks, but for norms and routers: fp8 layers, bf16 embedding and head."""
ENGINES = ["vllm", "sglang", "trtllm"]


def fit(
    name: str, layout: str, engine: str, precision: str | None = None, chunk_tokens: float = 8192, **settings: Any
) -> MemoryFit:
    """Memory of an H100 under the shipped stack of an engine, some settings stated."""
    told = memory_settings(stack(engine).settings.model_copy(update=settings))
    model = model_profile(name)
    return memory_fit(model, H100, Layout.parse(layout), precision=precision, settings=told, chunk_tokens=chunk_tokens)


def cli(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_vllm_samples_for_every_sequence_of_its_profile_run() -> None:
    """Llama 3.1 70B over four ranks: 1,024 sequences of 128,256 logits of 38 bytes beside 8,192 hidden states of 8,192
    values are more than any layer needs; two NCCL communicators and attention buffers of half a GiB each."""
    found = fit("llama-3.1-70b", "tp=4", "vllm")
    assert found.memory_bytes == 0.9 * (H100 - GIB / 2)
    assert found.workspace_bytes == 1024 * 128_256 * 38 + 8192 * 8192 * 2 + 1.5 * GIB
    assert found.weights_bytes == pytest.approx(70.554e9 * 2 / 4, rel=1e-3)


def test_a_pass_of_many_tokens_needs_more_than_the_sampler_of_few_sequences() -> None:
    """8 of 128 experts 4,096 wide and two buffers of them beside two hidden states, for each of 65,536 tokens."""
    found = fit("qwen3-235b", "tp=4", "vllm", chunk_tokens=65_536, most_running=16)
    assert found.workspace_bytes == 65_536 * 2 * (2 * 4096 + 2 * 8 * 4096) + 1.5 * GIB


def test_sglang_reserves_a_fraction_and_loads_into_what_was_free_before() -> None:
    """512 MiB, 1.5 for each of 8,192 tokens, 2 for graphs of up to 512, 128 for each of 4 ranks, of 81,559 MiB; a
    context and PyNccl's communicator, half a GiB each, are there before the model."""
    fraction = round((81_559 - 512 - 12_288 - 1024 - 512) / 81_559, 3)
    found = fit("llama-3.1-70b", "tp=4", "sglang")
    assert found.cache_bytes == pytest.approx(fraction * (H100 - 1.5 * GIB) - found.weights_bytes)


@pytest.mark.parametrize(
    ("mib", "layout", "tokens", "reserve"),
    [
        (81_559, "tp=1", 8192, 512 + 12_288 + 512 + 128),
        (81_559, "tp=1", 1024, 10_240),  # never less on more than 60 GiB
        (46_068, "tp=1", 4096, 512 + 6144 + 64 + 128),
        (143_771, "tp=1,dp=8", 16_384, 512 + 24_576 + 1024 + 1024 + 512 * 8 * 4.5),
        (183_359, "tp=4,pp=2", 16_384, 512 + 24_576 + 1024 + 1024),
    ],
)
def test_the_static_fraction_is_what_the_reserve_leaves(mib: int, layout: str, tokens: int, reserve: float) -> None:
    found = static_fraction(mib * 2**20, Layout.parse(layout), tokens, has_experts=True)
    assert found == round((mib - reserve) / mib, 3)


def test_what_drafts_with_weights_of_its_own_takes_two_gigabytes_from_the_static_fraction() -> None:
    layout, mib = Layout(tp_size=8), 81_559
    alone, drafted = (
        static_fraction(mib * 2**20, layout, 8192, has_experts=True, has_drafter=d) for d in (False, True)
    )
    assert alone - drafted == pytest.approx(2048 / mib, abs=1e-3)
    mtp = InstanceModel(
        model_profile("deepseek-v3"),
        Chip(hardware_profile("h200-sxm")),
        layout,
        stack("sglang").factors,
        memory_settings=memory_settings(stack("sglang").settings),
    )
    with_drafts = replace(mtp, speculation=Speculation(acceptance=(0.8,)))
    assert mtp.memory.fraction - with_drafts.memory.fraction == pytest.approx(2048 / 143_771, abs=1e-3)


def test_tensorrt_llm_takes_a_part_of_what_a_pass_and_weights_leave() -> None:
    """Of Llama 3.1 70B over four ranks a token's widest layer has 3 x 28,672 / 4 values beside two hidden states."""
    found = fit("llama-3.1-70b", "tp=4", "trtllm")
    passes = 8192 * 2 * (2 * 8192 + 3 * 28_672 / 4)
    assert found.cache_bytes == pytest.approx(0.9 * (H100 - 2.0 * GIB - found.weights_bytes - passes))


@pytest.mark.parametrize("engine", ENGINES)
@given(data=st.data())
def test_more_tokens_never_leave_more_cache_and_a_larger_fraction_never_less(engine: str, data: st.DataObject) -> None:
    name, layout = data.draw(
        st.sampled_from([("llama-3.1-8b", "tp=1"), ("qwen3-235b", "tp=8,ep=8"), ("glm-5", "tp=8")])
    )
    few, many = sorted(data.draw(st.lists(st.integers(16, 10**5), min_size=2, max_size=2)))
    low, high = sorted(data.draw(st.lists(st.floats(0.1, 1.0), min_size=2, max_size=2)))
    one, hundred = sorted(data.draw(st.lists(st.integers(1, 4096), min_size=2, max_size=2)))

    def cache(tokens: int = few, fraction: float | None = low, running: int = one) -> float:
        told = {"memory_fraction": fraction, "most_running": running}
        return fit(name, layout, engine, "fp8", tokens, **told).cache_bytes

    assert cache(many) <= cache()
    assert cache(many, None) <= cache(few, None)
    assert cache(fraction=high) >= cache()
    assert cache(running=hundred) <= cache()


@given(chunk=st.integers(16, 10**5), runtime_gb=st.floats(0.0, 10.0), fraction=st.floats(0.1, 1.0))
@pytest.mark.parametrize("engine", ENGINES)
def test_memory_that_is_stated_stays_as_it_is(engine: str, chunk: int, runtime_gb: float, fraction: float) -> None:
    found = fit("llama-3.1-8b", "tp=1", engine, None, chunk, runtime_gb=runtime_gb, memory_fraction=fraction)
    stated = runtime_gb * 1e9 + 8 * 2 * 4096 * chunk
    assert found.cache_bytes == pytest.approx(fraction * H100 - found.weights_bytes - stated)


def test_a_stack_without_an_accounting_takes_two_gigabytes_and_eight_rows() -> None:
    found = memory_fit(model_profile("llama-3.1-8b"), 80e9, Layout(), settings=memory_settings(StackSettings()))
    assert (found.memory_bytes, found.workspace_bytes) == (0.9 * 80e9, 2e9 + 8 * 2 * 4096 * 8192)


@pytest.mark.parametrize(("layout", "width"), [("tp=1", 2944), ("tp=8", 384), ("tp=8,ep=8", 2944)])
def test_experts_in_mxfp4_are_padded_as_kernels_want_them(layout: str, width: int) -> None:
    """2,880 values wide become 3,072; a rank's 2,880 or 360 become whole multiples of 128."""
    sizes = Layout.parse(layout)
    own = width if sizes.ep_size > 1 else width * sizes.tp_size
    padded, plain = (fit("gpt-oss-120b", layout, engine).weights_bytes for engine in ("vllm", "sglang"))
    matrices = 36 * 128 * 3 * 0.53125 / sizes.n_accelerators
    grown = 3072 * own / (2880 * 2880)
    assert padded - plain == pytest.approx(matrices * 2880 * 2880 * (grown - 1), rel=2e-3)
    same = [fit("qwen3-235b", "tp=4", engine, "fp8").weights_bytes for engine in ("vllm", "sglang")]
    assert same[0] == same[1]


def test_gpt_oss_on_one_h100_does_not_start_with_vllms_defaults() -> None:
    """Logged: -2.14 GiB for caches; 1.71 GiB at 0.95 of the memory and 1,024 tokens."""
    by_default = fit("gpt-oss-120b", "tp=1", "vllm")
    told = fit("gpt-oss-120b", "tp=1", "vllm", chunk_tokens=1024, memory_fraction=0.95)
    assert by_default.cache_bytes / GIB == pytest.approx(-2.14, abs=1.5)
    assert told.cache_bytes / GIB == pytest.approx(1.71, abs=1.5)
    assert not by_default.fits
    assert told.fits


def test_predict_says_that_it_does_not_fit_and_each_way_out_that_it_names_holds() -> None:
    words = ("predict", "gpt-oss-120b", "h100", "--accelerators", "1", "--stack", "vllm", "--tokens", "1024")
    refused = cli(*words, "--format", "json")
    assert isinstance(refused.exception, InfeasibleError)
    assert json.loads(refused.stdout)["fits"] is False
    ways = json.loads(refused.stdout)["relaxations"]
    options = [way.partition("(")[2].rstrip(")").split() for way in ways]
    assert {option for option, _ in options} >= {"--layout", "--memory-fraction", "--most-running"}
    for option, value in options:
        stated = [*words[:3], *words[5:]] if option == "--layout" else words
        assert cli(*stated, option, value).exit_code == 0


def test_a_smaller_change_than_the_one_named_does_not_do() -> None:
    question = PredictQuestion("gpt-oss-120b", "h100-sxm", 1, stack="vllm", tokens=(1024,))
    for way in predict(question).relaxations:
        option, value = way.partition("(")[2].rstrip(")").split()
        if option == "--memory-fraction":
            less = PredictQuestion("gpt-oss-120b", "h100-sxm", 1, stack="vllm", memory_fraction=float(value) - 0.01)
        elif option == "--most-running":
            less = PredictQuestion("gpt-oss-120b", "h100-sxm", 1, stack="vllm", most_running=2 * int(value))
        else:
            continue
        assert not predict(less).fits


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--memory-fraction", "1.5", "above 0 and at most 1"),
        ("--memory-fraction", "0", "above 0 and at most 1"),
        ("--chunk-tokens", "15", "from 16 to"),
        ("--most-running", "0", "from 1 to"),
    ],
)
def test_settings_that_no_engine_takes_are_refused(option: str, value: str, allowed: str) -> None:
    found = cli("predict", "gpt-oss-120b", "h100", option, value)
    assert isinstance(found.exception, InputError)
    assert option in str(found.exception)
    assert allowed in str(found.exception)


def test_size_does_not_sell_what_does_not_start() -> None:
    """One H100 holds gpt-oss-120b at 0.95 of its memory and not at vLLM's 0.9: the cheapest fleet has two or more."""
    asked = ("size", "gpt-oss-120b", "h100", "--rate", "1", "--input", "1000", "--output", "200", "--no-run")
    answer = json.loads(cli(*asked, "--stack", "vllm", "--price", "2", "--format", "json").stdout)
    fleets = [answer[name] for name in ("colocated", "disaggregated") if answer.get(name)]
    assert fleets
    assert all(pool["accelerators_per_instance"] >= 2 for fleet in fleets for pool in fleet["pools"])


def test_predictions_are_near_what_engines_logged(data_file: Callable[[str], Path]) -> None:
    """Within 10 % of a logged cache or 1.5 GiB of an accelerator; nothing was fitted to them.

    Tokens are compared, of which the logs leave no doubt: SGLang's call GiB GB.
    """
    with data_file("../cases/field/k7_memory_logs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        told = {"memory_fraction": float(row["memory_fraction"]), "chunk_tokens": float(row["chunk_tokens"])}
        layout = Layout.parse(row["layout"])
        chip = Chip(hardware_profile(row["hardware"]))
        settings = memory_settings(altered(stack(row["engine"]), "own", {}, told).settings)
        model = model_profile(row["model"])
        found = memory_fit(
            model,
            chip.memory_bytes,
            layout,
            precision=row["precision"],
            settings=settings,
            chunk_tokens=told["chunk_tokens"],
        )
        logged = float(kv_bytes_per_rank(model, float(row["measured_kv_tokens"]), "bf16", tp_size=layout.tp_size))
        assert abs(found.cache_bytes - logged) <= max(0.1 * logged, 1.5 * GIB), row
