"""Exports tell engines the memory that the plan counts with: fraction, tokens of a pass, sequences and length."""

from typing import Any

import pytest
import yaml

from planner.deploy import TARGETS, Target
from planner.optimizer import optimize
from planner.results import EngineSettings, Plan
from planner.studies.predict import PredictQuestion, predict
from tests.builders import FAST, HOME, small_with
from tests.deploy_cases import exported, options, plan, pool

PLANNED = EngineSettings(memory_fraction=0.85, tokens_per_pass=4096, most_running=512, longest_tokens=50_000)
ENGINES: dict[Target, str] = {"vllm": "vllm", "llm-d": "vllm", "kserve": "vllm", "sglang": "sglang", "dynamo": "vllm"}
WANTED = {
    "vllm": {
        "--gpu-memory-utilization": "0.85",
        "--max-model-len": "50000",
        "--max-num-batched-tokens": "4096",
        "--max-num-seqs": "512",
    },
    "sglang": {"--mem-fraction-static": "0.85", "--context-length": "50000", "--chunked-prefill-size": "4096"},
}
MEMORY_FLAGS = ("--gpu-memory-utilization", "--mem-fraction-static")


def words(of: Plan, target: Target, *parameters: str) -> str:
    """Every word of an export's files, quotes and punctuation of YAML and shell aside."""
    text = "\n".join(text for name, text in exported(of, target, *parameters).items() if not name.endswith(".md"))
    return " ".join(text.replace('"', " ").replace("'", " ").replace(",", " ").replace("- ", " ").split())


def two(stack: str | None, **changes: Any) -> Plan:
    told = {"stack": stack, "engine": PLANNED, **changes}
    return plan(
        "memory", (pool("prefill", "prefill", **told), pool("decode", "decode", **{**told, "batch_limit": 900}))
    )


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_tells_its_engine_what_the_plan_counts_with(target: Target) -> None:
    engine = ENGINES[target]
    found = words(two(f"{engine}-9.9"), target)
    for flag, value in WANTED[engine].items():
        told = f"{flag} {value}" in found or f"{flag}={value}" in found
        assert told, flag


@pytest.mark.parametrize("target", TARGETS)
def test_a_part_of_the_memory_in_the_sense_of_another_engine_is_not_told_but_said(target: Target) -> None:
    other = "sglang-9.9" if ENGINES[target] == "vllm" else "vllm-9.9"
    parameters = ("engine=vllm",) if target == "dynamo" else ()
    of = two(other)
    assert not any(flag in words(of, target, *parameters) for flag in MEMORY_FLAGS)
    page = exported(of, target, *parameters)["NOT_EXPRESSED.md"]
    assert f"Memory of prefill and decode is planned as {other} counts it." in page


def test_a_model_is_served_up_to_its_own_length_where_more_would_fit() -> None:
    longer = PLANNED.model_copy(update={"longest_tokens": 10**6})
    assert "--max-model-len 131072" in words(two("vllm-9.9", engine=longer), "vllm")


def test_what_was_measured_is_told_nothing_of_memory() -> None:
    found = words(two("vllm-9.9", engine=None), "vllm")
    assert not any(flag in found for flag in (*MEMORY_FLAGS, "--max-model-len", "--max-num-batched-tokens"))


def test_more_sequences_than_memory_was_counted_for_are_said_and_not_asked() -> None:
    page = exported(two("vllm-9.9"), "vllm")["NOT_EXPRESSED.md"]
    assert "decode: the plan decodes up to 900 sequences together" in page
    assert "900" not in words(two("vllm-9.9"), "vllm")


def planned() -> Plan:
    """Two GPUs that prefill and eight that decode a model of 70B in fp8, all on the roofline of vLLM."""
    pools = ("fast", "near", "decode")
    changes = {
        "model.profile": "llama-3.1-70b",
        "model.precision": "fp8",
        "measured": {},
        "sites.local.accelerators": {FAST: 24, HOME: 40},
        **{f"pools.{name}.stack": "vllm" for name in pools},
        **{f"pools.{name}.hardware": FAST for name in pools},
        **{f"pools.{name}.accelerators_per_instance": 2 for name in pools},
        **{f"pools.{name}.layout": "tp=2" for name in pools},
    }
    return optimize(small_with(changes))


def test_flags_of_an_export_are_what_a_prediction_counts_with() -> None:
    of = planned()
    assert all(one.engine for one in of.pools)
    texts = [text for name, text in exported(of, "vllm").items() if name.endswith("compose.yaml")]
    commands = [command for text in texts for command in services(text)]
    assert len(commands) == sum(one.n_instances for one in of.pools)
    for told in {tuple(sorted(options(command).items())): options(command) for command in commands}.values():
        asked = PredictQuestion(
            "llama-3.1-70b",
            FAST,
            layout="tp=2",
            precision="fp8",
            kv_precision="fp8" if told["--kv-cache-dtype"] == "fp8" else "bf16",
            stack="vllm",
            memory_fraction=float(told["--gpu-memory-utilization"]),
            chunk_tokens=int(told["--max-num-batched-tokens"]),
            most_running=1024,
            tokens=(64,),
        )
        longest = predict(asked).longest_prompt_tokens
        assert longest is not None
        assert int(told["--max-model-len"]) == min(longest, 131_072)
        assert int(told["--max-num-seqs"]) <= 1024


def services(text: str) -> list[list[str]]:
    """Command lines of the engines in a compose file."""
    found = [service["entrypoint"] for service in yaml.safe_load(text)["services"].values()]
    return [command for command in found if command[:2] == ["vllm", "serve"]]
