"""Launch commands of SGLang and vLLM: a script per pool, a script per router, and a compose file per cluster.

A router takes prefill servers of any cluster by their addresses, and knows no threshold: where a plan divides prompts
there is a router for each kind, on a port of its own, and whoever calls them chooses.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from planner.deploy.deployment import Deployment, Group, Unit
from planner.deploy.engine_args import (
    BOOTSTRAP_PORT,
    SIDE_CHANNEL_PORT,
    engine_args,
    environment,
    mooncake_backend,
    nixl_args,
)
from planner.deploy.names import label
from planner.deploy.versions import ENGINES, SGLANG_ROUTER, VLLM_ROUTER, EngineName
from planner.deploy.yaml_text import comments, yaml_text
from planner.errors import InputError, InputProblem

SERVE_PORT, ROUTER_PORT = 30000, 8000
PORTS_APART = 100
"""Between the side channels of two instances on a machine: each rank of one listens on its own."""
COMMANDS = {"sglang": ["smg", "launch"], "vllm": ["vllm-router"]}
APART = {"sglang": "--pd-disaggregation", "vllm": "--vllm-pd-disaggregation"}
"""What tells a router that its servers prefill or decode."""
POLICY = "power_of_two"
ROUTERS = {"sglang": SGLANG_ROUTER, "vllm": VLLM_ROUTER}
PYTHON_IMAGE = "python:3.12-slim"
SIDE_CHANNEL_HOST = "VLLM_NIXL_SIDE_CHANNEL_HOST"
ON_HOST = {"network_mode": "host", "ipc": "host"}


@dataclass(frozen=True)
class InstancePlace:
    """Where an instance runs."""

    host: str
    slot: int
    """Which of the instances on its machine it is, from 0."""


def launch_files(deployment: Deployment, engine: EngineName) -> Iterator[tuple[str, str]]:
    """Scripts and compose files by their path below the export's folder."""
    for unit in deployment.units:
        yield f"{unit.cluster}/start-{unit.name}.sh", _start_script(deployment, unit, engine)
    for group in deployment.groups:
        for kind, prefill, port in _routers(group):
            name = "-".join(filter(None, ("router", group.name, kind)))
            command = router_command(deployment, group, prefill, port, engine)
            yield f"{group.cluster}/{name}.sh", _script(_router_words(group, kind), [], command)
    for cluster in deployment.clusters:
        yield f"{cluster}/compose.yaml", yaml_text(_compose(deployment, cluster, engine))


def instance_places(deployment: Deployment, unit: Unit) -> list[InstancePlace]:
    """Machines of a pool's instances, filled one after the other.

    Raises:
        InputError: a parameter names more or fewer machines than its instances fill.
    """
    per_host = max(deployment.parameters.accelerators_per_node // unit.n_accelerators, 1)
    n_hosts = -(-unit.pool.n_instances // per_host)
    told = deployment.hosts_of(unit)
    hosts = told.split(",") if told else [f"{unit.name}-{i}" for i in range(n_hosts)]
    if len(hosts) != n_hosts:
        what = f"names {len(hosts)} machines for {unit.pool.n_instances} instances"
        raise InputError(
            InputProblem("--param", f"hosts.{unit.pool.name}", what, f"{n_hosts}, of {per_host} instances each")
        )
    return [InstancePlace(hosts[i // per_host], i % per_host) for i in range(unit.pool.n_instances)]


def _routers(group: Group) -> Iterator[tuple[str, Sequence[Unit], int]]:
    """Routers of a site: for short and long prompts apart where the plan divides them."""
    if group.threshold_tokens is None:
        yield "", group.prefill, ROUTER_PORT
    else:
        yield "short", group.short, ROUTER_PORT
        yield "long", group.long, ROUTER_PORT + 1


def _router_words(group: Group, kind: str) -> str:
    limit = f"{group.threshold_tokens or 0:,} tokens"
    which = {"": "all prompts", "short": f"prompts of at most {limit}", "long": f"prompts of more than {limit}"}[kind]
    return f"The router of {which} that are decoded at {group.site}."


def router_command(
    deployment: Deployment, group: Group, prefill: Sequence[Unit], port: int, engine: EngineName
) -> list[str]:
    """Command line of a router: every instance by its address, those that prefill and that decode apart if they are."""
    end = ["--policy", POLICY, "--host", "0.0.0.0", "--port", str(port)]
    if all(unit in group.colocated for unit in prefill):
        urls = [_url(place) for unit in prefill for place in instance_places(deployment, unit)]
        return [*COMMANDS[engine], "--worker-urls", *urls, *end]
    command = [*COMMANDS[engine], APART[engine]]
    for unit in prefill:
        for place in instance_places(deployment, unit):
            bootstrap = [str(BOOTSTRAP_PORT + place.slot)] if engine == "sglang" else []
            command += ["--prefill", _url(place), *bootstrap]
    for unit in group.decode:
        for place in instance_places(deployment, unit):
            command += ["--decode", _url(place)]
    return [*command, *end]


def _url(place: InstancePlace) -> str:
    return f"http://{place.host}:{SERVE_PORT + place.slot}"


def server_command(deployment: Deployment, unit: Unit, engine: EngineName, slot: int) -> list[str]:
    """Command line of an instance, the n-th of its machine."""
    args, port = engine_args(deployment, unit, engine), ["--host", "0.0.0.0", "--port", str(SERVE_PORT + slot)]
    model = deployment.checkpoint_of(unit.model)
    if engine == "vllm":
        return ["vllm", "serve", model, *args, *port, *nixl_args(deployment, unit)]
    start = ["python3", "-m", "sglang.launch_server", ENGINES["sglang"].flag("model"), model]
    return [*start, *args, *_sglang_role(deployment, unit, slot), *port]


def _sglang_role(deployment: Deployment, unit: Unit, slot: int) -> Iterator[str]:
    """SGLang's side of the hand-over of KV caches; nothing of an instance that keeps its own."""
    duty, flag = deployment.duty_of(unit), ENGINES["sglang"].flag
    if duty != "colocated":
        yield from (flag("role"), duty, flag("transfer"), mooncake_backend(deployment, unit))
    if duty == "prefill":
        yield from (flag("bootstrap"), str(BOOTSTRAP_PORT + slot))


def _variables(deployment: Deployment, unit: Unit, engine: EngineName, slot: int) -> dict[str, str]:
    """Environment of the n-th instance of a machine, less what differs between machines."""
    found = environment(deployment, unit, engine, over_nixl=engine == "vllm")
    if engine == "vllm" and deployment.duty_of(unit) != "colocated":
        found["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(SIDE_CHANNEL_PORT + PORTS_APART * slot)
    return found


def _devices(unit: Unit, slot: int) -> list[str]:
    """Accelerators of the n-th instance of a machine."""
    return [str(slot * unit.n_accelerators + i) for i in range(unit.n_accelerators)]


def _start_script(deployment: Deployment, unit: Unit, engine: EngineName) -> str:
    """A script that starts one instance of a pool, by its number."""
    pool, where = unit.pool, instance_places(deployment, unit)
    last = len(where) - 1
    words = (
        f"Starts an instance of {pool.name}: {pool.role} on {unit.n_accelerators} x {pool.hardware}.\n"
        f"Call it with the number of the instance, 0 to {last}, on the machine that hosts[number] names."
    )
    hosts = " ".join(shlex.quote(place.host) for place in where)
    lines = [f"hosts=({hosts})", f'case "${{1:?which instance: 0 to {last}}}" in']
    for slot in sorted({place.slot for place in where}):
        values = {"CUDA_VISIBLE_DEVICES": ",".join(_devices(unit, slot)), **_variables(deployment, unit, engine, slot)}
        lines.append(f"  {'|'.join(str(i) for i, place in enumerate(where) if place.slot == slot)})")
        lines += [f"    export {name}={shlex.quote(value)}" for name, value in values.items()]
        lines += ["    command=(", *_lines(server_command(deployment, unit, engine, slot), "      "), "    )", "    ;;"]
    lines += [f"  *) echo {shlex.quote(f'{pool.name} has instances 0 to {last}')} >&2; exit 2 ;;", "esac"]
    if engine == "vllm" and deployment.duty_of(unit) != "colocated":
        lines.append(f'export {SIDE_CHANNEL_HOST}="${{hosts[$1]}}"')
    return _script(words, lines, [])


def _script(words: str, lines: Sequence[str], command: Sequence[str]) -> str:
    head = ["#!/usr/bin/env bash", *comments(words), "set -euo pipefail"]
    body = ["command=(", *_lines(command, "  "), ")"] if command else []
    return "\n".join([*head, *lines, *body, 'exec "${command[@]}"', ""])


def _lines(command: Sequence[str], indent: str) -> list[str]:
    """A command's words, each option on a line with what follows it."""
    lines: list[str] = []
    for word in command:
        if not lines or word.startswith("--"):
            lines.append(indent + shlex.quote(word))
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return lines


def _compose(deployment: Deployment, cluster: str, engine: EngineName) -> dict[str, Any]:
    """Everything of a cluster as services on their host's network; a profile names the machine that each is for."""
    services: dict[str, Any] = {}
    for unit in deployment.units_in(cluster):
        for number, place in enumerate(instance_places(deployment, unit)):
            services[f"{unit.name}-{number}"] = _server(deployment, unit, engine, place)
    for group in deployment.groups_in(cluster):
        for kind, prefill, port in _routers(group):
            command = router_command(deployment, group, prefill, port, engine)
            services["-".join(filter(None, ("router", group.name, kind)))] = _router(engine, command)
    return {"name": label(deployment.name, cluster), "services": services}


def _server(deployment: Deployment, unit: Unit, engine: EngineName, place: InstancePlace) -> dict[str, Any]:
    values = _variables(deployment, unit, engine, place.slot)
    if engine == "vllm" and deployment.duty_of(unit) != "colocated":
        values[SIDE_CHANNEL_HOST] = place.host
    device = {"driver": "nvidia", "device_ids": _devices(unit, place.slot), "capabilities": ["gpu"]}
    return {
        "image": deployment.image_of(unit, ENGINES[engine].image),
        "profiles": [label(place.host)],
        **ON_HOST,
        "entrypoint": server_command(deployment, unit, engine, place.slot),
        **({"environment": values} if values else {}),
        "deploy": {"resources": {"reservations": {"devices": [device]}}},
    }


def _router(engine: EngineName, command: Sequence[str]) -> dict[str, Any]:
    """A router out of its released package; compose reads a doubled dollar as one."""
    package = ROUTERS[engine]
    install = f'pip install --quiet {package.name}=={package.version} && exec "$$0" "$$@"'
    return {"image": PYTHON_IMAGE, "profiles": ["router"], **ON_HOST, "entrypoint": ["sh", "-c", install, *command]}
