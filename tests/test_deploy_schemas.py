"""Every object of an export against the schema that its custom resource has, and mistakes that the schemas catch."""

import copy
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from planner.deploy import TARGETS, Target
from tests.conftest import DATA_DIRS, GOLDENS
from tests.deploy_cases import (
    CASES,
    exported,
    manifests,
    model,
    plan,
    pool,
    schedule_of,
    split,
    two_pools,
    with_schedule,
)
from tests.deploy_schemas import MADE

SCHEMAS = {
    "DynamoGraphDeployment": "dynamo-dgd-v1beta1.schema.json",
    "DisaggregatedSet": "llm-d-disaggregatedset-v1.schema.json",
    "LLMInferenceService": "kserve-llmisvc-v1alpha2.schema.json",
}
API_VERSIONS = {
    "DynamoGraphDeployment": "nvidia.com/v1beta1",
    "DisaggregatedSet": "disaggregatedset.x-k8s.io/v1",
    "LLMInferenceService": "serving.kserve.io/v1alpha2",
    "ConfigMap": "v1",
    "Deployment": "apps/v1",
    "Kustomization": "kustomize.config.k8s.io/v1beta1",
    "EndpointPickerConfig": "llm-d.ai/v1alpha1",
}
KUBERNETES: tuple[Target, ...] = ("dynamo", "llm-d", "kserve")


def is_taken(case: str, target: Target) -> bool:
    """Whether the target takes the plan; the golden of one that does not says why."""
    return not (GOLDENS / "deploy" / f"{case}-{target}.txt").read_text(encoding="utf-8").startswith("refused")


TAKEN = [(case, target) for case in CASES for target in KUBERNETES if is_taken(case, target)]
ONE_CLUSTER = ("clusters=one",)
EXPORTED = [
    *(
        (case, target, parameters)
        for case, target in TAKEN
        for parameters in ((), ONE_CLUSTER, ("transfer=tcp", *(("engine=sglang",) if target == "dynamo" else ())))
        if (case, target, parameters) != ("two-sites", "llm-d", ONE_CLUSTER)  # two routers in it
    ),
    ("colocated-split", "kserve", ONE_CLUSTER),
]
WITH_PODS_ALONE = [case for case, target in TAKEN if target == "llm-d" and case != "two-pools"]
"""Plans with a pool that is no role of a set under llm-d."""


@pytest.fixture(scope="session", params=["made", "published"])
def schema_of(request: pytest.FixtureRequest) -> Callable[[str], Draft202012Validator]:
    """The validator of a kind: of a schema that tests make, and of the publisher's, without which it skips the test."""

    def find(kind: str) -> Draft202012Validator:
        if request.param == "made":
            return Draft202012Validator(MADE[kind])
        name = SCHEMAS[kind]
        for folder in (*DATA_DIRS, *(path.parent / "reference" for path in DATA_DIRS)):
            path = folder / "deploy" / name
            if path.is_file():
                return Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))
        pytest.skip(f"{name} is not here: make it of the custom resource's definition and set PLANNER_DATA")

    return find


def faults(one: dict[str, Any], schema_of: Callable[[str], Draft202012Validator]) -> list[str]:
    """What is wrong with an object; pods of a pool alone are those that a set would have."""
    if one["kind"] in SCHEMAS:
        return [error.message for error in schema_of(one["kind"]).iter_errors(one)]
    sets = schema_of("DisaggregatedSet").schema["properties"]["spec"]["properties"]["roles"]["items"]["properties"]
    pod = sets["spec"]["properties"]["leaderWorkerTemplate"]["properties"]["workerTemplate"]
    return [error.message for error in Draft202012Validator(pod).iter_errors(one["spec"]["template"])]


@pytest.mark.parametrize(("case", "target", "parameters"), EXPORTED)
def test_every_object_is_valid(
    case: str, target: Target, parameters: tuple[str, ...], schema_of: Callable[[str], Draft202012Validator]
) -> None:
    found = manifests(exported(CASES[case](), target, *parameters))
    judged = [one for one in found if one.get("kind") in (*SCHEMAS, "Deployment")]
    assert judged
    assert [faults(one, schema_of) for one in judged] == [[] for _ in judged]


@pytest.mark.parametrize("sizes", [[2, 1], [3, 0], [1, 1]])
def test_a_service_that_follows_the_hours_is_valid(
    sizes: list[int], schema_of: Callable[[str], Draft202012Validator]
) -> None:
    hourly = with_schedule(
        two_pools(), *(schedule_of(name, sizes, [14.0, 10.0], 600.0) for name in ("prefill", "decode"))
    )
    (service,) = manifests(exported(hourly, "kserve"), "LLMInferenceService")
    assert [error.message for error in schema_of("LLMInferenceService").iter_errors(service)] == []


@pytest.mark.parametrize("layout", ["tp=1,ep=8,dp=8", "tp=8,ep=8", "tp=4,pp=2"])
@pytest.mark.parametrize("target", KUBERNETES)
def test_objects_of_every_kind_of_layout_are_valid(
    target: Target, layout: str, schema_of: Callable[[str], Draft202012Validator]
) -> None:
    pools = (pool("prefill", "prefill", layout=layout), pool("decode", "decode", layout=layout))
    found = manifests(exported(plan("layouts", pools, models=(model(has_experts=True),)), target))
    judged = [one for one in found if one.get("kind") in SCHEMAS]
    assert judged
    assert [faults(one, schema_of) for one in judged] == [[] for _ in judged]


@pytest.mark.parametrize("case", WITH_PODS_ALONE)
def test_pods_of_a_pool_alone_are_found_by_their_labels(case: str) -> None:
    alone = manifests(exported(CASES[case](), "llm-d"), "Deployment")
    assert alone
    for one in alone:
        labels = one["spec"]["selector"]["matchLabels"]
        assert labels
        assert labels.items() <= one["spec"]["template"]["metadata"]["labels"].items()
        assert set(one["spec"]) == {"replicas", "selector", "template"}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_kind_with_a_schema_is_exported_by_some_case(kind: str) -> None:
    kinds = {one.get("kind") for case, target in TAKEN for one in manifests(exported(CASES[case](), target))}
    assert kind in kinds


@pytest.mark.parametrize(("case", "target"), TAKEN)
def test_every_object_says_which_version_of_its_kind_it_is(case: str, target: Target) -> None:
    found = manifests(exported(CASES[case](), target))
    objects = [one for one in found if "router" not in one]  # values of a chart are no object
    assert {one["kind"] for one in objects} & (SCHEMAS.keys() | {"Deployment"})
    assert [one["apiVersion"] for one in objects] == [API_VERSIONS[one["kind"]] for one in objects]


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every mapping of a manifest's spec is, but for those of free keys."""
    free = ("nodeSelector", "annotations", "labels", "limits", "requests", "inline", "data")
    if isinstance(value, dict):
        inner = [path for key, item in value.items() if key not in free for path in paths(item, (*here, key))]
        return [here, *inner]
    if isinstance(value, list):
        return [path for index, item in enumerate(value) for path in paths(item, (*here, index))]
    return []


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


@pytest.mark.parametrize("target", KUBERNETES)
def test_a_key_that_nobody_knows_is_caught_wherever_it_is_planted(
    target: Target, schema_of: Callable[[str], Draft202012Validator]
) -> None:
    planted = 0
    for one in manifests(exported(two_pools(), target)):
        if one.get("kind") not in SCHEMAS:
            continue
        for path in paths(one["spec"], ("spec",)):
            wrong = copy.deepcopy(one)
            at(wrong, path)["replica"] = 1
            assert not schema_of(one["kind"]).is_valid(wrong), path
            planted += 1
    assert planted > 5


WRONG = [
    ("dynamo", ("spec", "components", 1, "type"), "decoder"),
    ("dynamo", ("spec", "components", 1, "replicas"), "2"),
    ("dynamo", ("spec", "components", 1, "name"), "with space"),
    ("dynamo", ("spec", "backendFramework"), "tgi"),
    ("llm-d", ("spec", "roles", 0, "name"), "Prefill"),
    ("llm-d", ("spec", "roles", 0, "spec", "replicas"), "2"),
    ("llm-d", ("spec", "roles"), []),
    ("kserve", ("spec", "replicas"), "2"),
    ("kserve", ("spec", "parallelism", "tensor"), "8"),
    ("kserve", ("spec", "model"), {"name": "no address"}),
]


@pytest.mark.parametrize(("target", "path", "value"), WRONG)
def test_a_planted_mistake_is_caught(
    target: Target, path: tuple[Any, ...], value: Any, schema_of: Callable[[str], Draft202012Validator]
) -> None:
    (one,) = (one for one in manifests(exported(two_pools(), target)) if one.get("kind") in SCHEMAS)
    wrong = copy.deepcopy(one)
    at(wrong, path[:-1])[path[-1]] = value
    assert schema_of(one["kind"]).is_valid(one)
    assert not schema_of(one["kind"]).is_valid(wrong)


@pytest.mark.parametrize(("case", "target"), TAKEN)
def test_a_cluster_s_folder_is_a_kustomization_of_all_its_manifests(case: str, target: Target) -> None:
    files = exported(CASES[case](), target)
    folders = {name.partition("/")[0] for name in files if "/" in name}
    assert folders
    for folder in folders:
        (listed,) = manifests({name: text for name, text in files.items() if name == f"{folder}/kustomization.yaml"})
        others = {name.partition("/")[2] for name in files if name.startswith(f"{folder}/")} - {"kustomization.yaml"}
        assert set(listed["resources"]) == {name for name in others if not name.endswith("-values.yaml")} != set()


@pytest.mark.parametrize("target", KUBERNETES)
def test_kubectl_builds_every_kustomization(target: Target, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    files = exported(split() if target != "kserve" else two_pools(), target)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for folder in (path for path in tmp_path.iterdir() if path.is_dir()):
        built = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr
        assert built.stdout.count("\nkind: ") == sum(
            text.count("\nkind: ") for name, text in files.items() if name.startswith(f"{folder.name}/")
        ) - 1 - sum(text.count("\nkind: ") for name, text in files.items() if name.endswith("-values.yaml"))


def test_every_target_is_covered() -> None:
    assert {*KUBERNETES, "sglang", "vllm"} == {*TARGETS}
