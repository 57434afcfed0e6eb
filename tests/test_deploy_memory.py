"""Exports tell engines the memory that the plan counts with: fraction, tokens of a pass, sequences and length."""

from typing import Any

import pytest
import yaml

from planner.deploy import TARGETS, Target
from planner.results.plan import Plan
from planner.results.plan_parts import EngineSettings
from planner.studies.predict import PredictQuestion, predict
from tests.builders import FAST, HOME, sketch, small_with
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
    counted = None if stack is None or stack == "datasheet" else stack.partition("-")[0]
    told = {"stack": stack, "engine": PLANNED.model_copy(update={"accounting": counted}), **changes}
    return plan(
        "memory", (pool("prefill", "prefill", **told), pool("decode", "decode", **{"batch_limit": 900, **told}))
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


def test_an_engine_is_told_every_sequence_that_the_plan_decodes_together_and_passes_that_hold_them() -> None:
    """4,096 tokens of a pass hold 4,096 sequences; a stack that does not say how many run may plan more."""
    unsaid = PLANNED.model_copy(update={"most_running": None})
    found = words(two("datasheet", engine=unsaid, batch_limit=5000), "vllm")
    assert "--max-num-seqs 5000" in found
    assert "--max-num-batched-tokens 5000" in found
    assert "--max-num-seqs 900" in words(two("vllm-9.9"), "vllm")


@pytest.mark.parametrize("most", [8, 16])
def test_a_plan_decodes_no_more_together_than_its_engine_admits(most: int) -> None:
    """A pass of so few tokens holds no more sequences; memory and the limit of a step would."""
    narrow = {"like": "vllm", "chunk_tokens": most, "source": "short passes"}
    of = planned("narrow", **{"stacks.narrow": narrow})
    decode = {pool.name: pool for pool in of.pools}["decode"]
    assert decode.engine is not None
    assert decode.engine.most_running == decode.batch_limit == most
    told = [options(command) for command in commands_of(of)]
    assert {(one["--max-num-seqs"], one["--max-num-batched-tokens"]) for one in told} == {(str(most), str(most))}


def test_a_fraction_of_an_own_stack_is_in_the_sense_of_the_engine_that_it_is_like() -> None:
    mine = {"like": "sglang", "memory_fraction": 0.9, "source": "as we run it"}
    of = planned("mine", **{"stacks.mine": mine})
    assert not any("--gpu-memory-utilization" in command for command in commands_of(of))
    assert "Memory of " in exported(of, "vllm")["NOT_EXPRESSED.md"]


def planned(stack: str = "vllm", **changes: Any) -> Plan:
    """Two GPUs that prefill and eight that decode a model of 70B in fp8, all on the roofline of a stack."""
    pools = ("fast", "near", "decode")
    changes = {
        **changes,
        "model.profile": "llama-3.1-70b",
        "model.precision": "fp8",
        "measured": {},
        "sites.local.accelerators": {FAST: 24, HOME: 40},
        **{f"pools.{name}.stack": stack for name in pools},
        **{f"pools.{name}.hardware": FAST for name in pools},
        **{f"pools.{name}.accelerators_per_instance": 2 for name in pools},
        **{f"pools.{name}.layout": "tp=2" for name in pools},
    }
    return sketch(small_with(changes))


def test_flags_of_an_export_are_what_a_prediction_counts_with() -> None:
    of = planned()
    assert all(one.engine for one in of.pools)
    commands = commands_of(of)
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


def commands_of(of: Plan) -> list[list[str]]:
    """Command lines of every engine of an export for vLLM."""
    texts = [text for name, text in exported(of, "vllm").items() if name.endswith("compose.yaml")]
    return [command for text in texts for command in services(text)]


def services(text: str) -> list[list[str]]:
    """Command lines of the engines in a compose file."""
    found = [service["entrypoint"] for service in yaml.safe_load(text)["services"].values()]
    return [command for command in found if command[:2] == ["vllm", "serve"]]
