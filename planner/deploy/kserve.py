"""KServe: one LLMInferenceService for every site that decodes, with one prefill block where others prefill for it."""

import shlex
from collections.abc import Iterator
from typing import Any

from planner.deploy.deployment import Deployment, Group, Unit
from planner.deploy.engine_args import engine_args, environment, nixl_args
from planner.deploy.hours import cron_triggers, follows, replica_limits
from planner.deploy.llm_d import router_config
from planner.deploy.names import label
from planner.deploy.pods import accelerator_resources, annotations, metadata, node_selector, variables
from planner.deploy.versions import ENGINES
from planner.deploy.yaml_text import yaml_text

API, KIND = "serving.kserve.io/v1alpha2", "LLMInferenceService"
ARGUMENTS = "VLLM_ADDITIONAL_ARGS"
"""What KServe's own command line of vLLM ends in."""
OURS = ("model name", "tensor", "data", "pipeline")
"""Flags that KServe sets itself, from the name of the model and `parallelism`."""
Manifest = dict[str, Any]


def kserve_files(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Manifests by their path below the export's folder."""
    for group in deployment.groups:
        name = label(deployment.name, group.name)
        yield f"{group.cluster}/{name}.yaml", yaml_text(_service(deployment, group, name))


def _service(deployment: Deployment, group: Group, name: str) -> Manifest:
    (decode,) = group.decode
    spec = {
        "model": {"uri": _uri(deployment.checkpoint_of(group.model)), "name": group.model.name},
        **_block(deployment, decode),
        **({"prefill": _block(deployment, group.remote[0])} if group.remote else {}),
        "router": {"route": {}, "gateway": {}, "scheduler": {"config": {"inline": router_config(group)}}},
    }
    return {"apiVersion": API, "kind": KIND, "metadata": metadata(deployment, name), "spec": spec}


def _uri(checkpoint: str) -> str:
    """Where the weights are: a path begins with the name of a volume, and what is no address is on the hub."""
    if "://" in checkpoint:
        return checkpoint
    return f"pvc:/{checkpoint}" if checkpoint.startswith("/") else f"hf://{checkpoint}"


def _block(deployment: Deployment, unit: Unit) -> Manifest:
    """Specification of the pods of a role."""
    main: Manifest = {
        "name": "main",
        "image": deployment.image_of(unit, ENGINES["vllm"].image),
        "env": variables(
            {**environment(deployment, unit, "vllm", over_nixl=True), ARGUMENTS: additional_args(deployment, unit)}
        ),
        "resources": accelerator_resources(unit, unit.n_accelerators),
    }
    return {
        **_replicas(deployment, unit),
        "annotations": annotations(unit),
        "parallelism": _parallelism(unit),
        "template": {"nodeSelector": node_selector(deployment, unit), "containers": [main]},
    }


def _replicas(deployment: Deployment, unit: Unit) -> Manifest:
    """Number of pods: as many at all times, or as the hours have it."""
    schedule = follows(deployment, unit)
    if schedule is None:
        return {"replicas": unit.pool.n_instances}
    least, most = replica_limits(schedule)
    keda: Manifest = {"triggers": cron_triggers(deployment, schedule)}
    if least == 0:  # fewer than one are had only while no trigger is on
        keda = {"idleReplicaCount": 0, **keda}
    return {"scaling": {"minReplicas": max(least, 1), "maxReplicas": most, "keda": keda}}


def _parallelism(unit: Unit) -> Manifest:
    layout = unit.layout
    found: Manifest = {"tensor": layout.tp}
    if layout.dp > 1:
        found |= {"data": layout.dp, "dataLocal": layout.dp}
    if layout.pp > 1:
        found["pipeline"] = layout.pp
    if layout.ep > 1:
        found["expert"] = True
    return found


def additional_args(deployment: Deployment, unit: Unit) -> str:
    """Arguments of vLLM beyond those that KServe sets itself, as a shell reads them."""
    kept, engine = [], ENGINES["vllm"]
    alone = {engine.flag("experts")}
    valued = {engine.flag(meaning) for meaning in OURS}
    args = iter(engine_args(deployment, unit, "vllm"))
    for arg in args:
        if arg in valued:
            next(args)
        elif arg not in alone:
            kept.append(arg)
    return shlex.join([*kept, *nixl_args(deployment, unit)])
