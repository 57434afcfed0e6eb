"""Parts that manifests share: pods on the right nodes, their labels, and the kustomization of a cluster."""

from collections.abc import Mapping, Sequence
from typing import Any

from planner.deploy.deployment import Deployment, Unit
from planner.deploy.names import label
from planner.deploy.versions import REGION_LABEL
from planner.deploy.yaml_text import yaml_text

PART_OF = "app.kubernetes.io/part-of"
PLANNER = "prefill-planner"
KUSTOMIZATION = "kustomization.yaml"


def metadata(deployment: Deployment, name: str) -> dict[str, Any]:
    """Metadata of an object."""
    return {
        "name": name,
        "namespace": deployment.parameters.namespace,
        "labels": {PART_OF: deployment.name, "app.kubernetes.io/managed-by": PLANNER},
    }


def annotations(unit: Unit) -> dict[str, str]:
    """Decisions of the plan on a pool, as annotations of its pods."""
    pool = unit.pool
    return {
        f"{PLANNER}/pool": pool.name,
        f"{PLANNER}/site": pool.site,
        f"{PLANNER}/hardware": pool.hardware,
        f"{PLANNER}/precision": pool.precision or unit.model.precision,
        f"{PLANNER}/kv-precision": unit.kv_precision,
        f"{PLANNER}/planned-on": pool.stack or "unknown",
    }


def node_selector(deployment: Deployment, unit: Unit) -> dict[str, str]:
    """Nodes with a pool's accelerators, and at its site where one cluster spans several."""
    parameters = deployment.parameters
    found = {parameters.label_key: unit.product}
    if parameters.clusters == "one":
        found[REGION_LABEL] = parameters.region.get(unit.pool.site, label(unit.pool.site))
    return found


def container(
    deployment: Deployment, unit: Unit, name: str, image: str | None, command: Sequence[str], args: Sequence[str]
) -> dict[str, Any]:
    """The container of an engine, with the accelerators of one machine."""
    n = min(unit.n_accelerators, deployment.parameters.accelerators_per_node)
    return {
        "name": name,
        "image": deployment.image_of(unit, image),
        **({"command": [*command]} if command else {}),
        **({"args": [*args]} if args else {}),
        "resources": accelerator_resources(unit, n),
    }


def accelerator_resources(unit: Unit, n: int) -> dict[str, Any]:
    """Resources that a pod asks for: so many accelerators."""
    return {"limits": {unit.resource: str(n)}, "requests": {unit.resource: str(n)}}


def variables(values: Mapping[str, str]) -> list[dict[str, Any]]:
    """Environment variables as a container has them."""
    return [{"name": name, "value": value} for name, value in values.items()]


def own_address(name: str) -> dict[str, Any]:
    """A variable that holds the pod's address."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def config_map(deployment: Deployment, name: str, files: Mapping[str, str]) -> dict[str, Any]:
    """A ConfigMap of files."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(deployment, name), "data": {**files}}


def kustomization(deployment: Deployment, files: Sequence[str]) -> str:
    """The kustomization of a cluster's folder: `kubectl apply -k` takes it."""
    return yaml_text(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": deployment.parameters.namespace,
            "resources": [*files],
        }
    )
