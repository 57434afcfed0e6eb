"""Drafted tokens in launch commands: flags as the pinned releases of the engines take them."""

import json
import shlex
from collections.abc import Mapping

import pytest

from planner.deploy import TARGETS, Target
from planner.errors import InputError
from planner.results.plan import Drafts
from tests.deploy_cases import exported, model, pool, two_pools

MTP = Drafts(draft_tokens=2, acceptance=(0.85, 0.7), model=None)
SMALL = Drafts(draft_tokens=4, acceptance=(0.7,) * 4, model="small", checkpoints=("makers/small",))


def files(target: Target, drafts: Drafts | None) -> Mapping[str, str]:
    return exported(two_pools(models=(model(drafts=drafts),)), target)


def arguments(target: Target, drafts: Drafts | None) -> list[list[str]]:
    """Words of the scripts that start instances, prefill and decode."""
    found = files(target, drafts)
    return [shlex.split(found[f"home/start-{role}.sh"], comments=True) for role in ("prefill", "decode")]


def value(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


@pytest.mark.parametrize(
    ("drafts", "expected"),
    [
        (MTP, {"method": "mtp", "num_speculative_tokens": 2}),
        (SMALL, {"method": "draft_model", "model": "makers/small", "num_speculative_tokens": 4}),
    ],
)
def test_vllm_is_told_of_drafts_on_both_sides_of_the_hand_over(drafts: Drafts, expected: dict[str, object]) -> None:
    """vllm/config/speculative.py of the pinned release: SpeculativeConfig."""
    for words in arguments("vllm", drafts):
        assert json.loads(value(words, "--speculative-config")) == expected


@pytest.mark.parametrize(("drafts", "algorithm", "n"), [(MTP, "EAGLE", 2), (SMALL, "STANDALONE", 4)])
def test_sglang_verifies_one_chain_of_drafts_and_the_token_before_it(drafts: Drafts, algorithm: str, n: int) -> None:
    """sglang/srt/arg_groups/speculative_hook.py of the pinned release: one branch has one token more than steps."""
    for words in arguments("sglang", drafts):
        assert value(words, "--speculative-algorithm") == algorithm
        assert (value(words, "--speculative-num-steps"), value(words, "--speculative-eagle-topk")) == (str(n), "1")
        assert value(words, "--speculative-num-draft-tokens") == str(n + 1)
        assert ("--speculative-draft-model-path" in words) == (drafts is SMALL)


@pytest.mark.parametrize("target", TARGETS)
def test_without_drafts_nothing_is_said_and_with_them_the_acceptance_is_named_as_taken_for_granted(
    target: Target,
) -> None:
    plain, drafted = files(target, None), files(target, MTP)
    assert "speculative" not in "".join(plain.values())
    assert "speculative" in "".join(text for name, text in drafted.items() if name != "NOT_EXPRESSED.md")
    assert "counts with an acceptance of 0.85, 0.7" in drafted["NOT_EXPRESSED.md"]


def test_a_draft_models_weights_are_where_a_parameter_says() -> None:
    found = exported(two_pools(models=(model(drafts=SMALL),)), "vllm", "checkpoint.small=/weights/small")
    assert "/weights/small" in found["home/start-decode.sh"]


def test_a_draft_model_beside_attention_replicas_is_refused_under_sglang() -> None:
    layout = {"layout": "tp=2,ep=8,dp=4,pp=1"}
    pools = (pool("prefill", "prefill", **layout), pool("decode", "decode", **layout))
    of = two_pools(models=(model(drafts=SMALL, has_experts=True),)).model_copy(update={"pools": pools})
    with pytest.raises(InputError, match="SGLang lets no other model draft"):
        exported(of, "sglang")
    exported(of, "vllm")
