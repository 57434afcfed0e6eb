"""Refusals of what would be wrong if it were deployed: by name, all of it at once."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal

from planner.deploy.deployment import Deployment, Group, ParallelSizes, Unit
from planner.deploy.parameters import OPTION
from planner.deploy.versions import ENGINES, PRODUCTS, EngineName
from planner.errors import InputError, InputProblem

Target = Literal["dynamo", "llm-d", "kserve", "sglang", "vllm"]
TARGETS: tuple[Target, ...] = ("dynamo", "llm-d", "kserve", "sglang", "vllm")
OVER_NIXL = ("dynamo", "llm-d", "kserve", "vllm")
"""Targets that hand KV caches over with NIXL."""
ON_KUBERNETES: tuple[Target, ...] = ("dynamo", "llm-d", "kserve")
LAUNCHED: tuple[Target, ...] = ("sglang", "vllm")
ONLY_FOR: Mapping[str, tuple[Target, ...]] = {
    "engine": ("dynamo",),
    "router": ("dynamo",),
    "sidecar_image": ("llm-d",),
    "hosts": LAUNCHED,
    **dict.fromkeys(("namespace", "label_key", "label", "region", "resource"), ON_KUBERNETES),
    **dict.fromkeys(("timezone", "first_hour"), ON_KUBERNETES),
}
"""Targets that a parameter says something to, where it does not to all."""
SEVERAL_NODES = ("dynamo",)
"""Targets that an instance of several machines is written for."""
NOT_WRITTEN = ("trtllm",)
"""Engines that a plan may have the times of, and that no export is written for."""
ONE_DUTY: Mapping[Target, str] = {
    "sglang": "an instance that decodes for others prefills nothing itself",
    "dynamo": "no router of it divides prompts between a worker that prefills and one that decodes for others",
}
"""Targets whose colocated instances take no KV caches, and why."""
MOST_ROLES, MOST_COMPONENTS = 10, 25
"""Of a DisaggregatedSet, and of a DynamoGraphDeployment."""


def engine_of(deployment: Deployment, target: Target) -> EngineName:
    """The engine that a target runs the plan on.

    Raises:
        InputError: Dynamo may run several, and neither the plan nor a parameter says which.
    """
    if target == "sglang":
        return "sglang"
    if target != "dynamo":
        return "vllm"
    if deployment.parameters.engine is not None:
        return deployment.parameters.engine
    stacks = {unit.pool.stack for unit in deployment.units if unit.pool.stack is not None}
    planned = {stack: stack.partition("-")[0] for stack in sorted(stacks)}
    known = {stack: family for stack, family in planned.items() if family in (*ENGINES, *NOT_WRITTEN)}
    families = {*known.values()}
    if not families:
        return "vllm"
    for name in ENGINES:
        if families == {name}:
            return name
    what = f"is planned on {', '.join(known)}: pools that hand KV caches over run one engine, vLLM or SGLang"
    raise InputError(InputProblem(deployment.origin, "pools", what, "--param engine=vllm or --param engine=sglang"))


def check_target(deployment: Deployment, target: Target, engine: EngineName) -> None:
    """Raises InputError with everything that a target cannot hold of a plan without being wrong."""
    problems = [
        *_idle_parameters(deployment, target),
        *(
            InputProblem(deployment.origin, key, f"{message}: not exported to {target}", allowed)
            for key, message, allowed in _faults(deployment, target, engine)
        ),
    ]
    if problems:
        raise InputError(problems)


def _idle_parameters(deployment: Deployment, target: Target) -> Iterator[InputProblem]:
    """Parameters that say nothing to a target: whoever states one expects that it does."""
    for field, targets in ONLY_FOR.items():
        if field in deployment.parameters.model_fields_set and target not in targets:
            yield InputProblem(OPTION, field, f"says nothing to {target}", f"with --to {' or '.join(targets)}")


Found = Iterator[tuple[str, str, str]]
"""Key, what is wrong, and what is allowed."""


def _faults(deployment: Deployment, target: Target, engine: EngineName) -> Found:
    for unit in deployment.units:
        if deployment.duty_of(unit) == "both" and target in ONE_DUTY:
            what = f"is colocated, and takes KV caches of long prompts from another site: {ONE_DUTY[target]}"
            yield f"pools.{unit.pool.name}", what, "--to vllm, llm-d or kserve, or a plan that keeps all prompts"
        yield from _unit_faults(deployment, target, engine, unit)
    yield from _unknown_hardware(deployment, target)
    if target == "llm-d":
        yield from _llm_d_faults(deployment)
    for group in deployment.groups:
        yield from _hand_off_faults(deployment, target, group)
        if target == "kserve":
            yield from _kserve_faults(group)
        if target == "dynamo":
            yield from _dynamo_faults(deployment, group)


def _unknown_hardware(deployment: Deployment, target: Target) -> Found:
    told, key = deployment.parameters, "pools"
    for name in dict.fromkeys(unit.pool.hardware for unit in deployment.units if unit.pool.hardware not in PRODUCTS):
        if target not in ON_KUBERNETES:
            yield key, f"launch commands are written for NVIDIA's accelerators, and not for {name}", ", ".join(PRODUCTS)
        elif not all(name in table for table in (told.label, told.resource, told.images)):
            allowed = f"--param label.{name}=VALUE --param resource.{name}=NAME --param images.{name}=IMAGE"
            yield key, f"no label of nodes, resource and image are known for {name}", allowed


def _llm_d_faults(deployment: Deployment) -> Found:
    counts = Counter((unit.cluster, unit.model.name) for unit in deployment.units)
    for (cluster, model), n in counts.items():
        sites = [group.site for group in deployment.groups_in(cluster) if group.model.name == model]
        if len(sites) > 1:
            what = f"{', '.join(sites)} decode {model} in it, and one router finds the pods of them all"
            yield f"clusters.{cluster}", what, "--param clusters=per-site"
        if n > MOST_ROLES:
            what = f"has {n} pools of {model}, and a DisaggregatedSet has {MOST_ROLES} roles at most"
            yield f"clusters.{cluster}", what, "fewer pools, or --param clusters=per-site"


def _unit_faults(deployment: Deployment, target: Target, engine: EngineName, unit: Unit) -> Found:
    key, n, node = f"pools.{unit.pool.name}", unit.n_accelerators, deployment.parameters.accelerators_per_node
    if n > node and (target not in SEVERAL_NODES or n % node):
        what = f"an instance of {n} accelerators does not fit a machine of {node}"
        allowed = "whole machines under dynamo" if target in SEVERAL_NODES else "one machine; --to dynamo takes several"
        yield key, what, f"{allowed}; --param accelerators_per_node=N says how large one is"
    if ENGINES[engine].kv_word(unit.kv_precision) is None:
        known = ", ".join(ENGINES[engine].kv_precisions or ())
        yield key, f"{ENGINES[engine].name} has no KV cache in {unit.kv_precision}", known
    yield from _precision_faults(deployment, unit)
    yield from _layout_faults(engine, unit, key)


def _precision_faults(deployment: Deployment, unit: Unit) -> Found:
    """Weights in another format than the checkpoint's, which no engine makes of it while it loads."""
    wanted, stored = unit.pool.precision, unit.model.precision
    if wanted in (None, stored) or (wanted, stored) == ("fp8", "bf16"):
        return
    if unit.model.name not in deployment.parameters.checkpoint:
        what = f"weights are planned in {wanted}, and the checkpoint of {unit.model.name} has {stored}"
        yield f"pools.{unit.pool.name}", what, f"--param checkpoint.{unit.model.name}=ONE-IN-{wanted.upper()}"


def _layout_faults(engine: EngineName, unit: Unit, key: str) -> Found:
    layout, ranks = unit.layout, unit.layout.tp * unit.layout.dp
    if ranks * layout.pp != unit.n_accelerators:
        what = f"the layout {unit.pool.layout} is of {ranks * layout.pp} accelerators, the instance of"
        yield key, f"{what} {unit.n_accelerators}", "tp x dp x pp of one instance"
    if engine == "sglang" and layout.dp > 1 and unit.model.has_experts is None:
        what = f"it is not known whether {unit.model.name} has experts, and SGLang lays replicas out by that"
        yield key, what, "dp=1, or a model whose shapes are published"
    drafts = unit.model.drafts
    if engine == "sglang" and layout.dp > 1 and unit.model.has_experts and drafts is not None and drafts.model:
        what = f"SGLang lets no other model draft ({drafts.model}) beside attention replicas, and the layout has"
        yield key, f"{what} dp={layout.dp}", "dp=1, or drafts by the model's MTP layers"
    if engine == "vllm" and layout.ep not in (1, ranks):
        what = f"vLLM deals experts out over all {ranks} ranks or over none, and the layout has ep={layout.ep}"
        yield key, what, f"ep=1 or ep={ranks}"


def _hand_off_faults(deployment: Deployment, target: Target, group: Group) -> Found:
    if not group.prefill:
        yield f"sites.{group.site}", f"no pool prefills {group.model.name} for it", "a prefill pool with instances"
    for prefill in group.prefill:
        key = f"pools.{prefill.pool.name}"
        for decode in group.decode:
            if prefill.kv_precision != decode.kv_precision:
                what = f"its KV cache is {prefill.kv_precision}, that of {decode.pool.name} is {decode.kv_precision}"
                yield key, what, "one kv_precision for pools that hand KV caches over"
            if group.model.has_recurrent_state and target in OVER_NIXL and prefill.layout.tp != decode.layout.tp:
                yield key, _unequal_tp(group, prefill.layout, decode), "equal tp, or --to sglang"
        if deployment.parameters.transfer == "rdma" and prefill.pool.site != group.site:
            what = f"its KV caches go from {prefill.pool.site} to {group.site} over a link that carries no RDMA"
            yield key, what, "--param transfer=tcp or auto"


def _unequal_tp(group: Group, layout: ParallelSizes, decode: Unit) -> str:
    model = f"{group.model.name} has recurrent layers, whose state NIXL hands over between equal tp only"
    return f"{model}: it has tp={layout.tp}, {decode.pool.name} has tp={decode.layout.tp}"


def _kserve_faults(group: Group) -> Found:
    place = f"sites.{group.site}"
    if len(group.remote) > 1:
        names = ", ".join(unit.pool.name for unit in group.prefill)
        yield place, f"an LLMInferenceService has one prefill block, and {names} prefill for it", "a two-pool plan"
    if len(group.decode) > 1:
        names = ", ".join(unit.pool.name for unit in group.decode)
        yield place, f"an LLMInferenceService has one decode block, and {names} decode there", "a two-pool plan"
    if group.crosses_clusters:
        far = next(unit.pool.name for unit in group.prefill if unit.cluster != group.cluster)
        what = f"an LLMInferenceService is in one cluster, and {far} is in another"
        yield place, what, "--param clusters=one, where one cluster spans the sites"


def _dynamo_faults(deployment: Deployment, group: Group) -> Found:
    place = f"sites.{group.site}"
    if deployment.parameters.router == "isl-bounding":
        what = "isl_bounding keeps no prompt local that has no cache hit, however short, so it can hold no threshold"
        yield place, what, "--param router=auto: the grid of the GlobalRouter"
    if not has_global_router(deployment, group):
        if len(group.units) >= MOST_COMPONENTS:
            what = f"has {len(group.units)} pools, and a graph has {MOST_COMPONENTS} components at most"
            yield place, what, "fewer pools"
        return
    kinds = {"short": group.short, "long": group.long, "decode": group.decode}
    for kind, units in kinds.items():
        if len(units) > 1:
            names = ", ".join(unit.pool.name for unit in units)
            what = "decoding" if kind == "decode" else f"{kind} prompts"
            yield place, f"a cell of the GlobalRouter's grid names one pool, and {names} share {what}", "one pool"


def has_global_router(deployment: Deployment, group: Group) -> bool:
    """True if Dynamo needs its GlobalRouter: for a threshold, for pools of several clusters, or for shared pools."""
    is_shared = any(len(deployment.groups_of(unit)) > 1 for unit in group.units)
    return group.threshold_tokens is not None or group.crosses_clusters or is_shared
