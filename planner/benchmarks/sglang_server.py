"""Statements of an SGLang server about itself in the result of its benchmark."""

from collections.abc import Iterator, Mapping
from typing import Any

PRECISIONS = {
    "fp8": "fp8",
    "w8a8_fp8": "fp8",
    "modelopt_fp8": "fp8",
    "w8a8_int8": "int8",
    "modelopt_fp4": "fp4",
    "mxfp4": "fp4",
}
"""Precision by SGLang's quantization; any other method, and none, leaves it unknown."""
KV_PRECISIONS = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bf16": "bf16", "bfloat16": "bf16"}
"""Precision of the KV cache by SGLang's kv_cache_dtype."""
ROLES = ("prefill", "decode")
SIZES = ("tp_size", "dp_size", "attn_dp_size", "pp_size", "ep_size")
MAX_SIZE = 10**6
"""Most of any of these, and of any size of a point."""


def sglang_server(info: Any) -> dict[str, str]:
    """Columns of a point that SGLang's server_info gives.

    SGLang's tp_size counts all accelerators of a replica; with attention data parallel (`enable_dp_attention` and
    dp_size, or attn_dp_size) each attention group has that many fewer, and without it dp_size counts replicas.

    Args:
        info: the JSON value of server_info: of one server, or of a router with lists of prefill and decode servers.

    Returns:
        Text by column; nothing where it is not an object.

    >>> found = sglang_server({"tp_size": 8, "dp_size": 4, "enable_dp_attention": True, "ep_size": 8, "version": "0.5"})
    >>> [found[key] for key in ("n_accelerators", "tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")]
    ['8', '2', '4', '1', '8']
    """
    if not isinstance(info, Mapping):
        return {}
    pools = {role: _servers(info.get(role)) for role in ROLES}
    one = next((servers[0] for servers in reversed(pools.values()) if servers), info)
    return _identity(one) | (_workers(pools) if any(pools.values()) else _layout(info))


def wrong_sizes(info: Any) -> Iterator[tuple[str, Any]]:
    """Sizes of servers that are no sizes: their keys in the file, and what they are.

    >>> [*wrong_sizes({"tp_size": 8, "decode": [{"dp_size": -1}]})]
    [('server_info.decode[0].dp_size', -1)]
    """
    if not isinstance(info, Mapping):
        return
    servers = {"server_info": info}
    for role in ROLES:
        servers |= {f"server_info.{role}[{i}]": server for i, server in enumerate(_servers(info.get(role)))}
    for place, server in servers.items():
        for key in SIZES:
            if server.get(key) is not None and _size(server, key) is None:
                yield f"{place}.{key}", server[key]


def _servers(value: Any) -> list[Mapping[str, Any]]:
    return [server for server in value if isinstance(server, Mapping)] if isinstance(value, list) else []


def _identity(server: Mapping[str, Any]) -> dict[str, str]:
    stated = {
        "model": server.get("model_path"),
        "framework": "sglang" if "model_path" in server else None,
        "framework_version": server.get("version"),
        "precision": PRECISIONS.get(str(server.get("quantization"))),
        "kv_precision": KV_PRECISIONS.get(str(server.get("kv_cache_dtype"))),
    }
    return {column: text for column, text in stated.items() if isinstance(text, str) and text}


def _workers(pools: Mapping[str, list[Mapping[str, Any]]]) -> dict[str, str]:
    found = {"mode": "disagg"}
    for role, servers in pools.items():
        if servers:
            found |= {f"{role}_num_workers": str(len(servers)), f"{role}_tp_size": _text(_size(servers[0], "tp_size"))}
    sizes = [_n_accelerators(server) for servers in pools.values() for server in servers]
    known = [size for size in sizes if size is not None]
    if all(pools.values()) and len(known) == len(sizes):
        found["n_accelerators"] = str(sum(known))
    return found


def _layout(server: Mapping[str, Any]) -> dict[str, str]:
    role = server.get("disaggregation_mode")
    if role in ROLES:
        return {"mode": "disagg", f"{role}_tp_size": _text(_size(server, "tp_size"))}
    tp, total = _size(server, "tp_size"), _n_accelerators(server)
    if tp is None or total is None:
        return {}
    groups, experts = _attention_groups(server), _size(server, "ep_size") or 1
    stages = _size(server, "pp_size") or 1
    sizes = {
        "n_accelerators": total,
        "tp_size": tp // groups,
        "pp_size": stages,
        "attention_dp_size": groups * (total // (tp * stages)),
        "moe_tp_size": tp // experts,
        "moe_ep_size": experts,
    }
    return {column: _text(size) for column, size in sizes.items()}


def _n_accelerators(server: Mapping[str, Any]) -> int | None:
    """All accelerators of a server: tensor parallel, times stages, times replicas."""
    tp = _size(server, "tp_size")
    if tp is None:
        return None
    split = "attn_dp_size" not in server and server.get("enable_dp_attention")
    return tp * (_size(server, "pp_size") or 1) * (1 if split else _size(server, "dp_size") or 1)


def _attention_groups(server: Mapping[str, Any]) -> int:
    """Attention groups inside one replica."""
    groups = _size(server, "attn_dp_size")
    if groups is None and server.get("enable_dp_attention"):
        groups = _size(server, "dp_size")
    return groups or 1


def _size(server: Mapping[str, Any], key: str) -> int | None:
    value = server.get(key)
    return value if type(value) is int and 1 <= value <= MAX_SIZE else None


def _text(size: int | None) -> str:
    """A size as a cell; nothing for none, and for the none that a contradictory layout divides to."""
    return str(size) if size else ""
