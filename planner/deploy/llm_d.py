"""llm-d: pools as roles of a DisaggregatedSet, and the configuration of its router.

A threshold t is a range of lengths on the pods of each prefill pool, both ends inside it: 0-t and t+1-most. Where
colocated pods take the short prompts, it is a decider's: with t + 1 uncached tokens and more, another pod prefills.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from planner.deploy.deployment import Deployment, Group, Unit
from planner.deploy.engine_args import SIDE_CHANNEL_PORT, engine_args, environment, nixl_args
from planner.deploy.hours import follows, scaled_object
from planner.deploy.names import label
from planner.deploy.pods import (
    annotations,
    config_map,
    container,
    metadata,
    node_selector,
    own_address,
    variables,
)
from planner.deploy.versions import ENGINES, LLM_D
from planner.deploy.yaml_text import yaml_text

API = "disaggregatedset.x-k8s.io/v1"
DEPLOYMENT_API, DEPLOYMENT = "apps/v1", "Deployment"
ROUTER_API = "llm-d.ai/v1alpha1"
ROLE, RANGE = "llm-d.ai/role", "llm-d.ai/context-length-range"
MODEL, POOL = "llm-d.ai/model", "llm-d.ai/pool"
CONFIG_FILE = "epp-config.yaml"
ALWAYS, BY_UNCACHED = "always-disagg-pd-decider", "prefix-based-pd-decider"
"""Whether another pod prefills: always, or from a number of uncached tokens on."""
SERVE_PORT, ENGINE_PORT = 8000, 8200
"""Where pods are called, and where the engine of a pod that decodes is behind its routing proxy."""
MOST_TOKENS = 2**31 - 1
Manifest = dict[str, Any]


def llm_d_files(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Manifests and values of the router's chart by their path below the export's folder."""
    for cluster in deployment.clusters:
        units = deployment.units_in(cluster)
        for model in dict.fromkeys(unit.model for unit in units):
            ours = tuple(unit for unit in units if unit.model == model)
            name = label(deployment.name, "model", model.name)
            manifest = _set(deployment, name, ours) if len(ours) > 1 else _alone(deployment, name, ours[0])
            yield f"{cluster}/{name}.yaml", yaml_text(manifest)
            if len(ours) == 1 and (schedule := follows(deployment, ours[0])):
                target = {"apiVersion": DEPLOYMENT_API, "kind": DEPLOYMENT, "name": name}
                scaled = scaled_object(deployment, metadata(deployment, name), target, schedule)
                yield f"{cluster}/{name}-hours.yaml", yaml_text(scaled)
    for group in deployment.groups:
        name = label(deployment.name, "router", group.name)
        config = yaml_text(router_config(group))
        yield f"{group.cluster}/{name}.yaml", yaml_text(config_map(deployment, name, {CONFIG_FILE: config}))
        yield f"{group.cluster}/{name}-values.yaml", yaml_text(_router_values(config))


def router_config(group: Group) -> Manifest:
    """The EndpointPickerConfig of a site that decodes: a pod that decodes, and one that prefills where others do."""
    least_queued = [{"pluginRef": "queue-scorer", "weight": 1}, {"pluginRef": "max-score-picker"}]
    decode = {"name": "decode", "plugins": [{"pluginRef": "decode-filter"}, *least_queued]}
    if not group.remote:
        types = ("single-profile-handler", "decode-filter", "queue-scorer", "max-score-picker")
        return _picker([{"type": name} for name in types], [decode])
    by_length = [{"pluginRef": "context-length-aware"}] if has_ranges(group) else []
    prefill = {"name": "prefill", "plugins": [{"pluginRef": "prefill-filter"}, *by_length, *least_queued]}
    return _picker([*_disaggregating(group)], [prefill, decode])


def _picker(plugins: Sequence[Manifest], profiles: Sequence[Manifest]) -> Manifest:
    return {
        "apiVersion": ROUTER_API,
        "kind": "EndpointPickerConfig",
        "plugins": [*plugins],
        "schedulingProfiles": [*profiles],
    }


def _disaggregating(group: Group) -> Iterator[Manifest]:
    """Plugins of a site for which others prefill: always, or by uncached tokens where its own pods prefill too."""
    limit = group.threshold_tokens if group.colocated else None
    decider: Manifest = {"type": ALWAYS}
    if limit is not None:
        yield {"type": "approx-prefix-cache-producer"}
        decider = {"type": BY_UNCACHED, "parameters": {"nonCachedTokens": limit + 1}}
    profiles = {"decode": "decode", "prefill": "prefill"}
    handler = {"profiles": profiles, "deciders": {"prefill": decider["type"]}}
    yield {"type": "disagg-profile-handler", "parameters": handler}
    yield decider
    for name in ("disagg-headers-handler", "prefill-filter", "decode-filter", "queue-scorer", "max-score-picker"):
        yield {"type": name}
    if has_ranges(group):
        yield {"type": "context-length-aware", "parameters": {"label": RANGE, "enableFiltering": True}}


def has_ranges(group: Group) -> bool:
    """True if prompts are divided between prefill pools, whose pods say which lengths they take."""
    return group.threshold_tokens is not None and not group.colocated


def _router_values(config: str) -> Manifest:
    return {"router": {"epp": {"pluginsConfigFile": CONFIG_FILE, "pluginsCustomConfig": {CONFIG_FILE: config}}}}


def length_range(deployment: Deployment, unit: Unit) -> str | None:
    """Lengths that a prefill pool takes, as its pods say; None where no prompts are divided."""
    split = [group for group in deployment.groups_of(unit) if has_ranges(group)]
    if unit.role != "prefill" or not split:
        return None
    most = [group.most_tokens(unit) for group in split]
    limit = max(MOST_TOKENS if tokens is None else tokens for tokens in most)
    return f"{min(group.least_tokens(unit) for group in split)}-{limit}"


def _set(deployment: Deployment, name: str, units: Sequence[Unit]) -> Manifest:
    """Pools of a model in a cluster, rolled out together."""
    roles = [
        {
            "name": unit.name,
            "spec": {
                "replicas": unit.pool.n_instances,
                "leaderWorkerTemplate": {"size": 1, "workerTemplate": _pod(deployment, unit)},
            },
        }
        for unit in units
    ]
    meta = metadata(deployment, name)
    return {"apiVersion": API, "kind": "DisaggregatedSet", "metadata": meta, "spec": {"roles": roles}}


def _alone(deployment: Deployment, name: str, unit: Unit) -> Manifest:
    """A pool that is the only one of its model in a cluster: a DisaggregatedSet has two roles at least."""
    labels = _labels(deployment, unit)
    selector = {"matchLabels": {key: labels[key] for key in (MODEL, POOL)}}
    spec = {"replicas": unit.pool.n_instances, "selector": selector, "template": _pod(deployment, unit)}
    meta = metadata(deployment, name)
    return {"apiVersion": DEPLOYMENT_API, "kind": DEPLOYMENT, "metadata": meta, "spec": spec}


def _labels(deployment: Deployment, unit: Unit) -> dict[str, str]:
    """Labels that the router finds a pod by; what its decode profile is to choose from has the role of decoding."""
    role = "prefill" if unit.role == "prefill" else "decode"
    found = {MODEL: label(deployment.name, unit.model.name), ROLE: role, POOL: unit.name}
    lengths = length_range(deployment, unit)
    return found if lengths is None else {**found, RANGE: lengths}


def _pod(deployment: Deployment, unit: Unit) -> Manifest:
    has_proxy, hands_over = _has_proxy(deployment, unit), deployment.duty_of(unit) != "colocated"
    args = modelserver_args(deployment, unit)
    server = container(deployment, unit, "modelserver", ENGINES["vllm"].image, ["vllm", "serve"], args)
    side_channel = [
        own_address("VLLM_NIXL_SIDE_CHANNEL_HOST"),
        *variables({"VLLM_NIXL_SIDE_CHANNEL_PORT": str(SIDE_CHANNEL_PORT)}),
    ]
    values = variables(environment(deployment, unit, "vllm", over_nixl=True))
    server["env"] = [*values, *(side_channel if hands_over else [])]
    server["ports"] = [{"name": "http", "containerPort": ENGINE_PORT if has_proxy else SERVE_PORT}]
    server["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    spec = {
        **({"initContainers": [_routing_proxy(deployment)]} if has_proxy else {}),
        "containers": [server],
        "nodeSelector": node_selector(deployment, unit),
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    return {"metadata": {"labels": _labels(deployment, unit), "annotations": annotations(unit)}, "spec": spec}


def modelserver_args(deployment: Deployment, unit: Unit) -> list[str]:
    """Arguments of `vllm serve` in a pod."""
    port = ENGINE_PORT if _has_proxy(deployment, unit) else SERVE_PORT
    args = engine_args(deployment, unit, "vllm")
    return [deployment.checkpoint_of(unit.model), *args, "--port", str(port), *nixl_args(deployment, unit)]


def _has_proxy(deployment: Deployment, unit: Unit) -> bool:
    return deployment.duty_of(unit) in ("decode", "both")


def _routing_proxy(deployment: Deployment) -> Manifest:
    """The sidecar of a pod that decodes: it has the prompt prefilled elsewhere first."""
    return {
        "name": "routing-proxy",
        "image": deployment.parameters.sidecar_image or LLM_D.image,
        "restartPolicy": "Always",
        "args": [f"--port={SERVE_PORT}", f"--vllm-port={ENGINE_PORT}", "--kv-connector=nixlv2"],
        "ports": [{"name": "proxy", "containerPort": SERVE_PORT}],
    }
