"""Colocated pools in exports: flags of aggregated serving, and of instances that take caches of long prompts too."""

import json
import shlex
from math import floor

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from planner.deploy import TARGETS, Target
from planner.errors import InputError
from tests.deploy_cases import colocated, colocated_pool, colocated_split, exported, manifests, model, options, plan

LAUNCHED: tuple[Target, ...] = ("sglang", "vllm")


def server(of: dict[str, str], name: str = "both-0", cluster: str = "home") -> dict[str, str]:
    """Options of an instance in a compose file."""
    return options(yaml.safe_load(of[f"{cluster}/compose.yaml"])["services"][name]["entrypoint"])


@pytest.mark.parametrize("target", TARGETS)
def test_instances_that_keep_their_caches_hand_none_over(target: Target) -> None:
    text = "".join(exported(colocated(), target).values())
    for word in ("disaggregation", "kv-transfer", "UCX", "NIXL", "prefill-filter", "routing-proxy", "--prefill"):
        assert word not in text
    assert "home: all prompts go to both." in text


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("vllm", {"--max-num-batched-tokens": "2048", "--max-num-seqs": "64", "--tensor-parallel-size": "8"}),
        ("sglang", {"--chunked-prefill-size": "2048", "--max-running-requests": "64", "--tp-size": "8"}),
    ],
)
def test_passes_batch_and_layout_are_those_of_the_plan(target: Target, wanted: dict[str, str]) -> None:
    found = server(exported(colocated(), target))
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(("target", "tokens", "batch"), [("vllm", "512", "125"), ("sglang", "4096", "1000")])
def test_tokens_of_a_replica_are_said_as_each_engine_counts_them(target: Target, tokens: str, batch: str) -> None:
    changes = {"layout": "tp=1,ep=8,dp=8", "tokens_per_pass": 512, "batch_limit": 1000}
    of = plan("replicas", (colocated_pool(**changes),), models=(model(has_experts=True),))
    found = server(exported(of, target))
    flags = {"vllm": ("--max-num-batched-tokens", "--max-num-seqs")}
    pass_flag, batch_flag = flags.get(target, ("--chunked-prefill-size", "--max-running-requests"))
    assert (found[pass_flag], found[batch_flag]) == (tokens, batch)


def test_vllm_is_asked_for_no_more_sequences_than_a_pass_has_tokens() -> None:
    found = server(exported(colocated(batch_limit=1024, tokens_per_pass=256), "vllm"))
    assert found["--max-num-seqs"] == found["--max-num-batched-tokens"] == "256"


@pytest.mark.parametrize(("stack", "is_mixed"), [("sglang-0.5.9", False), ("vllm-0.19.0", True), (None, True)])
def test_sglang_mixes_passes_where_the_plan_counts_with_shared_ones(stack: str | None, is_mixed: bool) -> None:
    assert ("--enable-mixed-chunk" in server(exported(colocated(stack=stack), "sglang"))) == is_mixed


@pytest.mark.parametrize("target", LAUNCHED)
def test_the_router_of_colocated_instances_calls_them_all(target: Target) -> None:
    words = shlex.split(exported(colocated(), target)["home/router-home.sh"], comments=True)
    at = words.index("--worker-urls")
    assert words[at + 1 : at + 3] == ["http://both-0:30000", "http://both-1:30000"]


def test_vllm_s_colocated_instances_take_long_prompts_and_compute_short_ones() -> None:
    files = exported(colocated_split(), "vllm")
    roles = [
        json.loads(server(files, *where)["--kv-transfer-config"])["kv_role"]
        for where in (("far-0", "away"), ("both-0", "home"))
    ]
    assert roles == ["kv_producer", "kv_both"]
    short, long = files["home/router-home-short.sh"], files["home/router-home-long.sh"]
    assert "--worker-urls http://both-0:30000" in short
    assert "far-0" not in short
    assert "--prefill http://far-0:30000" in long
    assert "--decode http://both-0:30000" in long


@given(st.floats(0.25, 1e6))
def test_llm_d_s_decider_divides_prompts_by_uncached_tokens_where_the_plan_does(threshold: float) -> None:
    files = exported(colocated_split(threshold), "llm-d")
    (config,) = [yaml.safe_load(one["data"]["epp-config.yaml"]) for one in manifests(files, "ConfigMap")]
    parameters = {one["type"]: one.get("parameters") for one in config["plugins"]}
    assert parameters["prefix-based-pd-decider"] == {"nonCachedTokens": floor(threshold) + 1}
    assert parameters["disagg-profile-handler"]["deciders"] == {"prefill": "prefix-based-pd-decider"}
    assert "context-length-range" not in "".join(files.values())


@pytest.mark.parametrize("target", ["sglang", "dynamo"])
def test_a_target_whose_instances_have_one_duty_refuses_long_prompts_by_name(target: Target) -> None:
    with pytest.raises(InputError) as found:
        exported(colocated_split(), target)
    said = str(found.value)
    assert said.startswith("plan.json: pools.both: is colocated, and takes KV caches of long prompts")
    assert "--to vllm, llm-d or kserve" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("target", ["sglang", "dynamo", "vllm", "llm-d"])
def test_colocated_instances_only_decode_where_all_prompts_leave(target: Target) -> None:
    text = "".join(exported(colocated_split(0.0), target).values())
    assert "home: all prompts go to far." in text
    assert "prefix-based-pd-decider" not in text


@pytest.mark.parametrize("target", TARGETS)
def test_a_remote_pool_that_gets_no_prompts_is_named(target: Target) -> None:
    files = exported(colocated_split(None), target)
    assert "far takes no requests" in files["NOT_EXPRESSED.md"]
