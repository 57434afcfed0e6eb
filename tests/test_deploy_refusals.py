"""What would be wrong is refused, with every reason; what a parameter may say is checked like any input."""

from typing import Any

import pytest

from planner.deploy import TARGETS, Target
from planner.deploy.names import label
from planner.errors import InputError, UsageError
from planner.results.plan import Plan
from tests.deploy_cases import containers, exported, manifests, model, pool, split, two_pools, two_sites, unequal_hybrid


def refusal(of: Plan, target: Target, *parameters: str) -> str:
    """What is said against an export."""
    with pytest.raises(InputError) as found:
        exported(of, target, *parameters)
    assert found.value.exit_code == 3
    return str(found.value)


def with_pools(of: Plan, **changes: Any) -> Plan:
    """A plan with its pools changed, by name."""
    pools = tuple(one.model_copy(update=changes.get(one.name.replace("-", "_"), {})) for one in of.pools)
    return of.model_copy(update={"pools": pools})


@pytest.mark.parametrize("target", TARGETS)
def test_differing_formats_of_the_kv_cache_are_refused_everywhere(target: Target) -> None:
    said = refusal(with_pools(two_pools(), decode={"kv_precision": "fp8"}), target)
    assert said.startswith("plan.json: pools.prefill: its KV cache is bf16, that of decode is fp8")
    assert f"not exported to {target}" in said


@pytest.mark.parametrize("target", ["dynamo", "llm-d", "kserve", "vllm"])
def test_unequal_tensor_parallelism_is_refused_of_a_hybrid_model_alone(target: Target) -> None:
    assert "it has tp=8, decode has tp=4" in refusal(unequal_hybrid(), target)
    exported(unequal_hybrid().model_copy(update={"models": (model(),)}), target)


@pytest.mark.parametrize("target", TARGETS)
def test_rdma_over_a_link_is_refused_and_inside_a_site_it_is_not(target: Target) -> None:
    parameters = ("transfer=rdma", "clusters=one")
    of = split(0.0 if target == "kserve" else 4096.0)  # which takes one prefill pool
    assert "go from away to home over a link that carries no RDMA" in refusal(of, target, *parameters)
    assert exported(two_pools(), target, *parameters)


def test_a_far_pool_alone_is_refused_by_kserve_but_in_one_cluster() -> None:
    said = refusal(split(0.0), "kserve")
    assert "an LLMInferenceService is in one cluster, and far is in another" in said
    exported(split(0.0), "kserve", "clusters=one")
    assert "no RDMA" in refusal(split(0.0), "kserve", "clusters=one", "transfer=rdma")


def test_two_prefill_pools_are_refused_by_kserve() -> None:
    assert "has one prefill block, and near, far prefill for it" in refusal(split(), "kserve", "clusters=one")


@pytest.mark.parametrize("of", [split, two_pools])
def test_a_threshold_under_isl_bounding_is_refused(of: Any) -> None:
    said = refusal(of(), "dynamo", "router=isl-bounding")
    assert "isl_bounding keeps no prompt local that has no cache hit, however short" in said


def test_two_engines_that_hand_caches_over_are_refused_until_one_is_named() -> None:
    mixed = with_pools(two_pools(), prefill={"stack": "sglang-0.5.9"}, decode={"stack": "vllm-0.18"})
    assert "is planned on sglang-0.5.9, vllm-0.18" in refusal(mixed, "dynamo")
    page = exported(mixed, "dynamo", "engine=sglang")["NOT_EXPRESSED.md"]
    assert "decode: its times are of vllm-0.18; it runs SGLang, pinned at 0.5.23." in page


@pytest.mark.parametrize(("stack", "engine"), [("sglang-0.5.9", "sglang"), ("vllm-0.18", "vllm"), (None, "vllm")])
def test_dynamo_runs_the_engine_whose_times_the_plan_has(stack: str | None, engine: str) -> None:
    changes = {"stack": stack}
    files = exported(with_pools(two_pools(), prefill=changes, decode=changes), "dynamo")
    assert f'backendFramework: "{engine}"' in files["home/two-pools-site-home.yaml"]


def test_an_engine_that_no_export_is_written_for_is_refused() -> None:
    changes = {"stack": "trtllm-1.0"}
    assert "is planned on trtllm-1.0" in refusal(with_pools(two_pools(), prefill=changes, decode=changes), "dynamo")


@pytest.mark.parametrize("target", ["llm-d", "kserve", "sglang", "vllm"])
def test_an_instance_beyond_a_machine_is_refused_where_none_is_written_for_it(target: Target) -> None:
    large = {"accelerators_per_instance": 16, "layout": "tp=16"}
    of = with_pools(two_pools(), prefill=large, decode=large)
    assert "an instance of 16 accelerators does not fit a machine of 8" in refusal(of, target)
    exported(of, target, "accelerators_per_node=16")


def test_machines_are_filled_whole_under_dynamo() -> None:
    odd = {"accelerators_per_instance": 12, "layout": "tp=12"}
    assert "whole machines under dynamo" in refusal(with_pools(two_pools(), prefill=odd, decode=odd), "dynamo")


@pytest.mark.parametrize(
    ("precision", "stored", "is_refused"),
    [
        ("int4", "bf16", True),
        ("bf16", "fp8", True),
        ("fp8", "bf16", False),
        ("fp8", "fp8", False),
        (None, "fp8", False),
    ],
)
def test_weights_that_no_engine_makes_of_the_checkpoint_need_one_of_their_own(
    precision: str | None, stored: str, is_refused: bool
) -> None:
    changes = {"precision": precision}
    of = with_pools(two_pools(models=(model(precision=stored),)), prefill=changes, decode=changes)
    if is_refused:
        said = refusal(of, "vllm")
        assert f"weights are planned in {precision}, and the checkpoint of dense has {stored}" in said
        assert "makers/dense-other" in "".join(exported(of, "vllm", "checkpoint.dense=makers/dense-other").values())
    else:
        assert "makers/dense" in "".join(exported(of, "vllm").values())


@pytest.mark.parametrize(("engine", "kv"), [("vllm", "fp4"), ("vllm", "int8"), ("sglang", "int4")])
def test_a_format_that_an_engine_has_no_word_for_is_refused(engine: Target, kv: str) -> None:
    changes = {"kv_precision": kv}
    assert f"has no KV cache in {kv}" in refusal(with_pools(two_pools(), prefill=changes, decode=changes), engine)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("tp=4", "the layout tp=4 is of 4 accelerators, the instance of 8"),
        ("tp=4,dp=2,ep=2", "vLLM deals experts out over all 8 ranks or over none, and the layout has ep=2"),
    ],
)
def test_a_layout_that_an_engine_cannot_have_is_refused(layout: str, said: str) -> None:
    assert said in refusal(with_pools(two_pools(), decode={"layout": layout}), "vllm")


def test_replicas_of_a_model_of_unknown_mlps_are_refused_under_sglang() -> None:
    of = with_pools(two_pools(models=(model(has_experts=None),)), decode={"layout": "tp=4,dp=2"})
    assert "not known whether dense has experts" in refusal(of, "sglang")
    exported(of, "vllm")


def test_pools_that_share_a_cell_of_the_grid_are_refused_under_dynamo() -> None:
    of = split()
    more = of.model_copy(update={"pools": (*of.pools, pool("nearer", "prefill"))})
    assert "a cell of the GlobalRouter's grid names one pool, and near, nearer share short" in refusal(more, "dynamo")
    exported(more, "llm-d")


def test_more_pools_than_an_object_holds_are_refused() -> None:
    many = (*(pool(f"p{i}", "prefill") for i in range(25)), pool("decode", "decode"))
    of = two_pools().model_copy(update={"pools": many})
    assert "a DisaggregatedSet has 10 roles at most" in refusal(of, "llm-d")
    assert "a graph has 25 components at most" in refusal(of, "dynamo")


def test_every_reason_is_told_at_once() -> None:
    wrong = with_pools(unequal_hybrid(), decode={"kv_precision": "fp8", "precision": "int4"})
    said = refusal(wrong, "vllm").splitlines()
    assert len(said) == 3
    assert all(line.startswith("plan.json: pools.") for line in said)


def test_a_plan_that_does_not_say_what_it_serves_is_refused() -> None:
    said = refusal(two_pools(models=()), "vllm")
    assert said.startswith("plan.json: pools: do not say what they serve: prefill, decode")
    assert "nothing prefills" not in said


def test_a_site_without_prefill_is_refused() -> None:
    alone = two_pools().model_copy(update={"pools": (pool("decode", "decode"),)})
    assert "sites.home: no pool prefills dense for it" in refusal(alone, "sglang")


@pytest.mark.parametrize("target", ["dynamo", "llm-d", "kserve"])
def test_an_accelerator_of_no_known_label_needs_one_its_resource_and_an_image(target: Target) -> None:
    changes = {"hardware": "mi300x"}
    of = with_pools(two_pools(), decode=changes)
    said = ["label.mi300x=AMD-MI300X", "resource.mi300x=amd.com/gpu", "images.mi300x=vllm/vllm-openai-rocm:v0.33.0"]
    assert "no label of nodes, resource and image are known for mi300x" in refusal(of, target)
    assert "--param images.mi300x=IMAGE" in refusal(of, target, *said[:2])
    text = "".join(exported(of, target, *said).values())
    for word in ("amd.com/gpu", "nvidia.com/gpu", "AMD-MI300X", "NVIDIA-H200", "vllm-openai-rocm"):
        assert word in text
    images = {main["image"] for main in containers(manifests(exported(of, target, *said)))}
    assert len([image for image in images if "vllm" in image]) == 2


@pytest.mark.parametrize("target", ["sglang", "vllm"])
def test_launch_commands_of_other_accelerators_than_nvidia_s_are_refused(target: Target) -> None:
    of = with_pools(two_pools(), decode={"hardware": "mi300x"})
    assert "launch commands are written for NVIDIA's accelerators, and not for mi300x" in refusal(of, target)


def test_two_sites_that_decode_in_one_cluster_are_refused_under_llm_d() -> None:
    said = refusal(two_sites(), "llm-d", "clusters=one")
    assert "east, west decode dense in it, and one router finds the pods of them all" in said
    exported(two_sites(), "dynamo", "clusters=one")


@pytest.mark.parametrize(
    ("target", "parameter"),
    [
        ("vllm", "engine=sglang"),
        ("llm-d", "router=isl-bounding"),
        ("kserve", "sidecar_image=x"),
        ("dynamo", "hosts.prefill=a,b"),
        ("sglang", "namespace=llm"),
        ("vllm", "label.h200-sxm=X"),
    ],
)
def test_a_parameter_that_says_nothing_to_a_target_is_refused(target: Target, parameter: str) -> None:
    assert f"says nothing to {target} (with --to " in refusal(two_pools(), target, parameter)


def test_a_pool_that_is_one_of_several_layouts_is_called_by_its_name_or_its_label() -> None:
    marked = two_pools().model_copy(update={"pools": (pool("p tp=8,ep=1", "prefill"), pool("decode", "decode"))})
    name = label("p tp=8,ep=1")
    for key in (name, "p tp=8,ep=1"):
        assert "--prefill http://a:30000" in exported(marked, "vllm", f"hosts.{key}=a,b")["home/router-home.sh"]


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        ("label.h100-sxm=X", "--param: label.h100-sxm: names nothing of the plan (did you mean 'h200-sxm'?)"),
        ("hosts.prefil=a", "--param: hosts.prefil: names nothing of the plan (did you mean 'prefill'?)"),
        ("checkpoint.dens=a/b", "--param: checkpoint.dens: names nothing of the plan (did you mean 'dense'?)"),
        ("period=noon", "--param: period: is 'noon', no period of the plan (the plan has one demand at all times)"),
        ("lable.h200-sxm=X", "unknown key"),
        ("engine=tgi", "--param: engine: is \"tgi\" (allowed: 'vllm' or 'sglang')"),
        ("namespace=Upper", "--param: namespace: string should match pattern"),
        ("accelerators_per_node=0", "--param: accelerators_per_node: should be greater than or equal to 1, got 0"),
        ("accelerators_per_node=many", "--param: accelerators_per_node: should be a valid integer"),
        ("label=X", "--param: label: should be a table"),
        ("hosts.prefill=a,b,c", "names 3 machines for 2 instances (2, of 1 instances each)"),
        ("image=a b", "--param: image: string should match pattern"),
        ("checkpoint.dense=$(x)", "--param: checkpoint.dense: string should match pattern"),
    ],
)
def test_a_wrong_parameter_is_told_with_what_is_allowed(parameter: str, said: str) -> None:
    target: Target = "vllm" if parameter.partition(".")[0] in ("hosts", "checkpoint", "image") else "dynamo"
    assert said in refusal(two_pools(), target, parameter)


def test_a_machine_is_named_once() -> None:
    said = refusal(two_pools(), "vllm", "hosts.prefill=a,b", "hosts.decode=b,c")
    assert "hosts.decode: names the machine b, which is one of prefill already" in said


@pytest.mark.parametrize("parameter", ["label", "=x", "label.h200-sxm="])
def test_what_is_not_key_and_value_is_a_usage_error(parameter: str) -> None:
    with pytest.raises(UsageError, match="not KEY=VALUE"):
        exported(two_pools(), "vllm", parameter)


def test_a_period_that_the_plan_has_is_taken() -> None:
    assert "night is deployed" in exported(two_sites(), "llm-d", "period=night")["NOT_EXPRESSED.md"]
    assert "did you mean 'night'?" in refusal(two_sites(), "llm-d", "period=nigth")
