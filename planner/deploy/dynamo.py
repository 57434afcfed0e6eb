"""NVIDIA Dynamo: DynamoGraphDeployments, and a GlobalRouter where prompts are divided or pools are far apart.

With a threshold t the prompts' grid has two rows of t + 1 tokens each: row = int(length / (t + 1)), at most 1. A prompt
of t tokens is of the first row, and one of t + 1 of the second.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.deploy.deployment import Deployment, Group, Unit
from planner.deploy.engine_args import engine_args, environment, nixl_args
from planner.deploy.names import label
from planner.deploy.pods import annotations, config_map, container, metadata, node_selector, variables
from planner.deploy.refusals import has_global_router
from planner.deploy.versions import DYNAMO, DYNAMO_IMAGES, EngineName
from planner.deploy.yaml_text import yaml_text

API, KIND = "nvidia.com/v1beta1", "DynamoGraphDeployment"
CONFIG_FOLDER, CONFIG_FILE = "/etc/global-router", "config.json"
COMPONENTS = {"prefill": "prefill"}
"""What Dynamo's workers of a duty register as; others as the backend."""
BACKEND = "backend"
DEFAULT_TTFT_MS, DEFAULT_ITL_MS = 10_000, 1_000
MOST_TOKENS = 2**31 - 1
SHARED_MEMORY = "16Gi"
VERSION_TAG = re.compile(r":v?\d+\.\d+\.\d+[^/]*$")
Manifest = dict[str, Any]


def dynamo_files(deployment: Deployment, engine: EngineName) -> Iterator[tuple[str, str]]:
    """Manifests by their path below the export's folder."""
    together = {unit for group in deployment.groups if not has_global_router(deployment, group) for unit in group.units}
    for group in deployment.groups:
        if has_global_router(deployment, group):
            name = label(deployment.name, "control", group.name)
            yield f"{group.cluster}/{name}.yaml", yaml_text(*_control(deployment, group, name, engine))
        else:
            name = label(deployment.name, "site", group.name)
            parts = [_frontend(deployment, engine), *(_worker(deployment, unit, engine) for unit in group.units)]
            yield f"{group.cluster}/{name}.yaml", yaml_text(_graph(deployment, name, engine, parts))
    for unit in deployment.units:
        if unit not in together:
            parts = [_local_router(deployment, unit, engine), _worker(deployment, unit, engine)]
            graph = _graph(deployment, pool_graph(deployment, unit), engine, parts)
            yield f"{unit.cluster}/{pool_graph(deployment, unit)}.yaml", yaml_text(graph)


def pool_graph(deployment: Deployment, unit: Unit) -> str:
    """Name of the graph of a pool behind a GlobalRouter."""
    return label(deployment.name, "pool", unit.name)


def dynamo_namespace(deployment: Deployment, graph: str) -> str:
    """Where Dynamo's operator has the parts of a graph find each other."""
    return f"{deployment.parameters.namespace}-{graph}"


def global_router_config(deployment: Deployment, group: Group) -> dict[str, Any]:
    """Configuration of a GlobalRouter: pools and the grids that choose among them."""
    slo = [one.slo["ttft_s"] for one in deployment.plan.classes if one.slo and "ttft_s" in one.slo]
    ttft_max_ms = max(1_000 * min(slo), 2.0) if slo else DEFAULT_TTFT_MS
    t = group.threshold_tokens
    rows = 1 if t is None else 2
    return {
        "mode": "disagg",
        "num_prefill_pools": len(group.prefill),
        "num_decode_pools": len(group.decode),
        "prefill_pool_dynamo_namespaces": _namespaces(deployment, group.prefill),
        "decode_pool_dynamo_namespaces": _namespaces(deployment, group.decode),
        "prefill_pool_selection_strategy": {
            "ttft_min_ms": 1,
            "ttft_max_ms": ttft_max_ms,
            "ttft_resolution": 1,
            "isl_min": 0,
            "isl_max": MOST_TOKENS if t is None else rows * (t + 1),
            "isl_resolution": rows,
            "prefill_pool_mapping": [[row] for row in range(rows)],
        },
        "decode_pool_selection_strategy": {
            "itl_min_ms": 1,
            "itl_max_ms": DEFAULT_ITL_MS,
            "itl_resolution": 1,
            "context_length_min": 0,
            "context_length_max": MOST_TOKENS,
            "context_length_resolution": 1,
            "decode_pool_mapping": [[0]],
        },
    }


def _namespaces(deployment: Deployment, units: Sequence[Unit]) -> list[str]:
    return [dynamo_namespace(deployment, pool_graph(deployment, unit)) for unit in units]


def _control(deployment: Deployment, group: Group, name: str, engine: EngineName) -> Iterator[Manifest]:
    """The frontend and the GlobalRouter of a site that decodes, with the router's configuration."""
    config = json.dumps(global_router_config(deployment, group), indent=2) + "\n"
    yield config_map(deployment, name, {CONFIG_FILE: config})
    args = ["--config", f"{CONFIG_FOLDER}/{CONFIG_FILE}", "--model-name", deployment.checkpoint_of(group.model)]
    router = _component("GlobalRouter", None, 1, _python(deployment, engine, "dynamo.global_router", args))
    spec = router["podTemplate"]["spec"]
    spec["containers"][0]["volumeMounts"] = [{"name": "config", "mountPath": CONFIG_FOLDER}]
    spec["volumes"] = [{"name": "config", "configMap": {"name": name}}]
    yield _graph(deployment, name, engine, [_frontend(deployment, engine), router])


def _graph(deployment: Deployment, name: str, engine: EngineName, components: Sequence[Manifest]) -> Manifest:
    return {
        "apiVersion": API,
        "kind": KIND,
        "metadata": metadata(deployment, name),
        "spec": {"backendFramework": engine, "components": [*components]},
    }


def _component(name: str, kind: str | None, replicas: int, main: Manifest) -> Manifest:
    named = {"name": name} if kind is None else {"name": name, "type": kind}
    # The operator takes the version from the image's tag, and wants it stated where that has none.
    version = {} if VERSION_TAG.search(main["image"]) else {"runtimeVersionOverride": DYNAMO.version}
    return {**named, **version, "replicas": replicas, "podTemplate": {"spec": {"containers": [main]}}}


def _python(deployment: Deployment, engine: EngineName, module: str, args: Sequence[str]) -> Manifest:
    """A container of Dynamo's own services, which take no accelerator."""
    image = deployment.parameters.image or DYNAMO_IMAGES[engine]
    return {"name": "main", "image": image, "command": ["python3", "-m", module], "args": [*args]}


def _frontend(deployment: Deployment, engine: EngineName) -> Manifest:
    main = _python(deployment, engine, "dynamo.frontend", ["--router-mode", "round-robin"])
    return _component("Frontend", "frontend", 1, main)


def _local_router(deployment: Deployment, unit: Unit, engine: EngineName) -> Manifest:
    """LocalRouter that the GlobalRouter calls in a pool's namespace; it knows of cached blocks what it has routed."""
    space = dynamo_namespace(deployment, pool_graph(deployment, unit))
    component = COMPONENTS.get(deployment.duty_of(unit), BACKEND)
    args = ["--endpoint", f"{space}.{component}.generate", "--no-router-kv-events"]
    if unit.role == "prefill":
        args.append("--no-router-track-active-blocks")
    return _component("LocalRouter", None, 1, _python(deployment, engine, "dynamo.router", args))


def _worker(deployment: Deployment, unit: Unit, engine: EngineName) -> Manifest:
    main = container(
        deployment,
        unit,
        "main",
        DYNAMO_IMAGES[engine],
        ["python3", "-m", f"dynamo.{engine}"],
        worker_args(deployment, unit, engine),
    )
    main["env"] = variables(environment(deployment, unit, engine, over_nixl=True))
    duty = deployment.duty_of(unit)
    found = _component(unit.name, "worker" if duty == "colocated" else duty, unit.pool.n_instances, main)
    template: Mapping[str, Any] = found["podTemplate"]
    selector = {"nodeSelector": node_selector(deployment, unit)}
    found["podTemplate"] = {"metadata": {"annotations": annotations(unit)}, "spec": {**template["spec"], **selector}}
    found["sharedMemorySize"] = SHARED_MEMORY
    nodes = -(-unit.n_accelerators // deployment.parameters.accelerators_per_node)
    return {**found, "multinode": {"nodeCount": nodes}} if nodes > 1 else found


def worker_args(deployment: Deployment, unit: Unit, engine: EngineName) -> list[str]:
    """Arguments of `dynamo.vllm` or `dynamo.sglang`."""
    checkpoint = deployment.checkpoint_of(unit.model)
    model = ["--model" if engine == "vllm" else "--model-path", checkpoint]
    # The GlobalRouter registers the name that it reads the tokenizer by, and workers must have the same.
    args = [*model, *engine_args(deployment, unit, engine, checkpoint)]
    if (duty := deployment.duty_of(unit)) == "colocated":
        return args if engine == "vllm" else [*args, "--host", "0.0.0.0"]
    args += ["--disaggregation-mode", duty]
    if engine == "vllm":
        return [*args, *nixl_args(deployment, unit)]
    over = ["--disaggregation-transfer-backend", "nixl", "--disaggregation-bootstrap-port", "12345"]
    return [*args, *over, "--host", "0.0.0.0"]
