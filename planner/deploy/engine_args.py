"""Command lines of the engines: what a pool's instances are started with."""

import json
from collections.abc import Iterator, Mapping

from planner.deploy.deployment import Deployment, Duty, Unit
from planner.deploy.versions import ENGINES, UCX_ANY, UCX_RDMA, UCX_TCP, EngineName

BOOTSTRAP_PORT = 8998
SIDE_CHANNEL_PORT = 5600
KV_ROLES: Mapping[Duty, str] = {"prefill": "kv_producer", "decode": "kv_both", "both": "kv_both"}


def engine_args(deployment: Deployment, unit: Unit, engine: EngineName, served_as: str | None = None) -> list[str]:
    """Arguments that say what an instance is; none about its role or its ports.

    Args:
        served_as: what requests call the model; None: the name of its profile.

    Returns:
        Arguments of its model, layout, precision and batch.
    """
    words = {"vllm": _vllm_layout, "sglang": _sglang_layout}[engine]
    return [
        *_model(unit, engine, served_as),
        *words(unit),
        *_precision(deployment, unit, engine),
        *_batch(unit, engine),
        *_passes(unit, engine),
        *_memory(unit, engine),
        *_prefix_cache(deployment, unit, engine),
        *_drafts(deployment, unit, engine),
    ]


def _model(unit: Unit, engine: EngineName, served_as: str | None) -> Iterator[str]:
    yield from (ENGINES[engine].flag("model name"), served_as or unit.model.name)
    if engine == "vllm" and unit.model.has_recurrent_state:
        yield ENGINES[engine].flag("hybrid")


def _vllm_layout(unit: Unit) -> Iterator[str]:
    layout, engine = unit.layout, ENGINES["vllm"]
    yield from (engine.flag("tensor"), str(layout.tp))
    if layout.dp > 1:
        yield from (engine.flag("data"), str(layout.dp))
    if layout.pp > 1:
        yield from (engine.flag("pipeline"), str(layout.pp))
    if layout.ep > 1:
        yield engine.flag("experts")


def _sglang_layout(unit: Unit) -> Iterator[str]:
    """SGLang counts attention replicas of a mixture of experts inside its tensor parallel size."""
    layout, engine = unit.layout, ENGINES["sglang"]
    inside = unit.model.has_experts
    yield from (engine.flag("tensor"), str(layout.tp * layout.dp if inside else layout.tp))
    if layout.dp > 1:
        yield from (engine.flag("attention data" if inside else "data"), str(layout.dp))
    if layout.pp > 1:
        yield from (engine.flag("pipeline"), str(layout.pp))
    if layout.ep > 1:
        yield from (engine.flag("experts"), str(layout.ep))


def _precision(deployment: Deployment, unit: Unit, engine: EngineName) -> Iterator[str]:
    """The KV cache's format always, the weights' only where the engine is to make it of the checkpoint's."""
    software = ENGINES[engine]
    yield from (software.flag("kv precision"), software.kv_word(unit.kv_precision) or "auto")
    if is_converted(deployment, unit):
        yield from (software.flag("quantization"), "fp8")


def is_converted(deployment: Deployment, unit: Unit) -> bool:
    """True if an engine makes the weights' format of the checkpoint's; a checkpoint that is named has the right one."""
    is_other = (unit.pool.precision, unit.model.precision) == ("fp8", "bf16")
    return is_other and unit.model.name not in deployment.parameters.checkpoint


def _batch(unit: Unit, engine: EngineName) -> Iterator[str]:
    """Most sequences at once; vLLM counts those of one attention replica, SGLang those of the instance.

    vLLM takes no more sequences than tokens of a pass, which no pass could have either: each takes a token. It holds
    logits for every sequence that it may have, so one without a batch is told how many memory was counted for.
    """
    told = unit.pool.engine
    most = None if unit.role == "prefill" else unit.pool.batch_limit
    if engine == "vllm":
        counted = told.most_running if told is not None and is_planned_for(unit, engine) else None
        each = unit.replica_batch or counted
        most = each and min(each, unit.tokens_per_pass or each)
    if most:
        yield from (ENGINES[engine].flag("batch"), str(most))


def _passes(unit: Unit, engine: EngineName) -> Iterator[str]:
    """Tokens of a pass: of one attention replica, and SGLang divides those of the instance by its replicas.

    SGLang gives prompts passes of their own. Where the plan's times are of other software it is told to mix them.
    """
    software, tokens = ENGINES[engine], unit.tokens_per_pass
    if tokens is not None:
        is_divided = engine == "sglang" and bool(unit.model.has_experts)
        yield from (software.flag("pass"), str(tokens * unit.layout.dp if is_divided else tokens))
    if engine == "sglang" and unit.role == "colocated" and (unit.pool.stack or "").partition("-")[0] != "sglang":
        yield software.flag("mixed")


def is_planned_for(unit: Unit, engine: EngineName) -> bool:
    """True if a pool's memory was counted as an engine counts it, or as no engine does."""
    return unit.pool.engine is None or unit.pool.engine.accounting in (None, engine)


def _memory(unit: Unit, engine: EngineName) -> Iterator[str]:
    """The part of the memory that the plan counts with, and the longest request that it can hold.

    An engine does not start where the longest request that it admits has no room, and by default that is the model's.
    """
    told, software, limit = unit.pool.engine, ENGINES[engine], unit.model.context_limit_tokens
    if told is None:
        return
    if is_planned_for(unit, engine):
        yield from (software.flag("memory"), f"{told.memory_fraction:g}")
    lengths = [tokens for tokens in (told.longest_tokens, limit) if tokens]
    if lengths:
        yield from (software.flag("length"), str(min(lengths)))


def _prefix_cache(deployment: Deployment, unit: Unit, engine: EngineName) -> Iterator[str]:
    """SGLang's instances that decode keep no prefixes unless they are told to."""
    has_hits = any(one.cached_fraction > 0 for one in deployment.plan.classes if one.model == unit.model.name)
    if engine == "sglang" and deployment.duty_of(unit) == "decode" and has_hits:
        yield ENGINES[engine].flag("prefix cache")


def _drafts(deployment: Deployment, unit: Unit, engine: EngineName) -> Iterator[str]:
    """Speculative decoding, on pools that prefill too: what drafts needs a cache of the prompt."""
    drafts, software = unit.model.drafts, ENGINES[engine]
    if drafts is None:
        return
    draft, n = deployment.draft_checkpoint_of(drafts), drafts.draft_tokens
    if engine == "vllm":
        by = {"method": "mtp"} if draft is None else {"method": "draft_model", "model": draft}
        yield from (software.flag("drafts"), json.dumps(by | {"num_speculative_tokens": n}, separators=(",", ":")))
        return
    yield from (software.flag("drafts"), "EAGLE" if draft is None else "STANDALONE")
    if draft is not None:
        yield from (software.flag("draft model"), draft)
    # One branch: a chain of n drafted tokens, verified with the one before them.
    sizes = {"draft steps": n, "draft branches": 1, "draft tokens": n + 1}
    for meaning, size in sizes.items():
        yield from (software.flag(meaning), str(size))


def nixl_args(deployment: Deployment, unit: Unit) -> list[str]:
    """vLLM's side of the hand-over of KV caches; nothing of an instance that keeps its own."""
    role = KV_ROLES.get(deployment.duty_of(unit))
    if role is None:
        return []
    config = {"kv_connector": "NixlConnector", "kv_role": role}
    return [ENGINES["vllm"].flag("transfer"), json.dumps(config, separators=(",", ":"))]


def ucx_tls(deployment: Deployment, unit: Unit) -> str:
    """Transports that NIXL may use for a pool: between sites TCP, inside one RDMA where there is any."""
    asked = deployment.parameters.transfer
    if asked != "auto":
        return UCX_TCP if asked == "tcp" else UCX_RDMA
    groups = deployment.groups_of(unit)
    if unit.role == "prefill" and groups and all(unit.pool.site != group.site for group in groups):
        return UCX_TCP
    return UCX_ANY


def mooncake_backend(deployment: Deployment, unit: Unit) -> str:
    """SGLang's way to hand KV caches over: one for all pools that exchange any, and TCP where some cross sites."""
    asked = deployment.parameters.transfer
    over_tcp = asked == "tcp" or (asked == "auto" and unit in deployment.tied_to_wan)
    return "mooncake_tcp" if over_tcp else "mooncake"


def environment(deployment: Deployment, unit: Unit, engine: EngineName, over_nixl: bool) -> dict[str, str]:
    """Environment variables of an instance."""
    keeps = deployment.duty_of(unit) == "colocated"
    found = {"UCX_TLS": ucx_tls(deployment, unit)} if over_nixl and not keeps else {}
    if engine == "vllm" and unit.model.has_recurrent_state:
        found["VLLM_SSM_CONV_STATE_LAYOUT"] = "DS"
    return found
