"""Tables that families of Hugging Face configs share: attention, experts, patterns."""

from collections.abc import Mapping, Sequence
from typing import Any

from planner.errors import shown
from planner.profiles.hf_config import HfConfig

Table = dict[str, Any]


def heads(config: HfConfig, qk_norm: str | None = None, bias: str = "qkvo", head_dim: int | None = None) -> Table:
    """Attention by heads over all layers; a class without head_dim in its config has hidden_size / heads."""
    n_heads = config.integer("num_attention_heads")
    dim = head_dim or config.optional("head_dim") or config.integer("hidden_size") // n_heads
    group: Table = {
        "kind": "gqa",
        "n_layers": config.integer("num_hidden_layers"),
        "n_heads": n_heads,
        "n_kv_heads": config.integer("num_key_value_heads"),
        "head_dim": dim,
    }
    if qk_norm:
        group["qk_norm"] = qk_norm
    if config.flag("attention_bias", False):
        group["attention_bias"] = bias
    return group


def latent_heads(config: HfConfig) -> Table:
    """Multi-head latent attention over all layers."""
    names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    group: Table = {
        "kind": "mla",
        "n_layers": config.integer("num_hidden_layers"),
        "n_heads": config.integer("num_attention_heads"),
        **{name: config.integer(name) for name in names},
    }
    config.only("attention_bias", False)
    config.ignore("head_dim", "qk_head_dim")  # of one of the parts, or their sum
    if rank := config.optional("q_lora_rank"):
        group["q_lora_rank"] = rank
    return group


def experts(
    config: HfConfig,
    number: str,
    *,
    shared: int,
    dense: int,
    width: str = "moe_intermediate_size",
    per_token: str = "num_experts_per_tok",
    **facts: bool,
) -> Table:
    """A mixture of experts; the number and the width of experts by the names of their keys."""
    return {
        "n_experts": config.integer(number),
        "n_experts_per_token": config.integer(per_token, "num_experts_per_token"),
        "n_shared_experts": shared,
        "expert_intermediate_size": config.integer(width),
        "n_dense_first_layers": dense,
        **routing_groups(config),
        **facts,
    }


def routing_groups(config: HfConfig) -> Table:
    """Groups of experts that limit where a token may go; nothing where there is one."""
    groups = config.optional("n_group") or config.optional("num_expert_group") or 1
    taken = config.optional("topk_group") or groups
    return {"n_groups": groups, "n_groups_per_token": taken} if groups > 1 else {}


def experts_with_bias(
    config: HfConfig,
    number: str = "n_routed_experts",
    per_token: str = "num_experts_per_tok",
    shared: str = "n_shared_experts",
) -> Table:
    """Experts with a selection bias, after the first dense layers."""
    config.only("moe_layer_freq", 1)
    kinds = config.data.get("mlp_layer_types")
    if isinstance(kinds, list):  # which is held against what is found, as a whole
        config.assume(first_k_dense_replace=next((i for i, kind in enumerate(kinds) if kind != "dense"), len(kinds)))
    return {
        "n_experts": config.integer(number),
        "n_experts_per_token": config.integer(per_token),
        "n_shared_experts": config.count(shared),
        "expert_intermediate_size": config.integer("moe_intermediate_size"),
        "n_dense_first_layers": config.count("first_k_dense_replace"),
        "router_bias": True,
        **routing_groups(config),
    }


def with_dense_first(config: HfConfig, moe: Table) -> Table:
    """Experts, and the width of the dense layers before them where there are any."""
    return dense_width(config, moe["n_dense_first_layers"]) | {"moe": moe}


def dense_width(config: HfConfig, n_dense: int) -> Table:
    """Width of the dense MLP where a layer has one."""
    config.get("intermediate_size")
    return {"intermediate_size": config.integer("intermediate_size")} if n_dense else {}


def typed(config: HfConfig, letters: Mapping[str, str], key: str = "layer_types") -> str:
    """Pattern from a list of layer types."""
    types = config.items(key, config.integer("num_hidden_layers"))
    if unknown := sorted({str(kind) for kind in types} - set(letters)):
        config.refuse(key, f"has {', '.join(unknown)}", "known: " + ", ".join(letters))
    return "".join(letters.get(str(kind), "") for kind in types)


def layers_counted(pattern: str, *groups: Table) -> list[Table]:
    """Groups with their layers counted in the pattern; those without layers left out."""
    return [group | {"n_layers": n} for group in groups if (n := pattern.count(group["symbol"]))]


def refuse_windows(config: HfConfig) -> None:
    """A problem where a family that is counted for full attention has windows."""
    if config.flag("use_sliding_window", False):
        config.refuse("use_sliding_window", "is true", "counted for false only")
    config.get("sliding_window")


def windowed(config: HfConfig, group: Table) -> Table:
    """A group over the config's sliding window, where it has one that leaves out part of the longest context."""
    window, longest = config.optional("sliding_window"), config.get("max_position_embeddings")
    if window is None or (isinstance(longest, int) and window >= longest):
        return group
    return group | {"kind": "swa", "window": window}


def interleaved(config: HfConfig, full: Table, every: int, window: Table | None = None) -> Table:
    """Full layers between windows, as layer_types lists them, else each n-th of sliding_window_pattern.

    Args:
        every: every how many layers one is full, where the config does not say it.
        window: attention of windowed layers; None: that of full ones over the config's window.
    """
    if "sliding_window" not in config.data:  # classes have one by default
        config.refuse("sliding_window", "is required", "a whole number, or null where there is none")
    window = windowed(config, window or full)
    stated = [config.get(key) for key in ("sliding_window_pattern", "_sliding_window_pattern")]
    if config.get("layer_types"):
        has_window = config.data.get("sliding_window") is not None
        kinds = {"full_attention": "F"} | ({"sliding_attention": "S"} if has_window else {})
        return alternating(typed(config, kinds), full, window)
    pattern = next((value for value in stated if value), every)
    if isinstance(pattern, str):
        if set(pattern) - set("LG") or "G" not in pattern:
            config.refuse("sliding_window_pattern", f"is {shown(pattern)}", "letters L and G, or a whole number")
        letters = pattern
    else:
        size = config.integer("sliding_window_pattern", "_sliding_window_pattern") if any(stated) else every
        letters = "L" * (min(size, 10_000) - 1) + "G"
    n_layers = config.integer("num_hidden_layers")
    return alternating("".join("SF"[letters[i % len(letters)] == "G"] for i in range(n_layers)), full, window)


def alternating(pattern: str, full: Table, window: Table) -> Table:
    """Groups of full (F) and of windowed (S) layers with their pattern, or one of them alone without."""
    if window == full:
        return {"attention": [full]}
    groups = layers_counted(pattern, full | {"symbol": "F"}, window | {"symbol": "S"})
    if len(groups) == 1:
        return {"attention": [{key: value for key, value in groups[0].items() if key != "symbol"}]}
    return {"pattern": pattern, "attention": groups}


def placed(config: HfConfig, key: str, sparse: Sequence[int], n_layers: int) -> Table:
    """Which layers are sparse, as a mixture of experts states it; a problem at the key where they follow no rule."""
    first = sparse[0] if sparse else 0
    period = sparse[1] - first if len(sparse) > 1 else n_layers
    if not sparse or period < 1 or list(sparse) != [*range(first, n_layers, period)]:
        config.refuse(key, f"makes layers {shown(list(sparse))} sparse", "every n-th layer, perhaps after dense ones")
        return {"n_dense_first_layers": 0}
    n_dense = first if period == 1 or first >= period else 0
    if period == 1:
        return {"n_dense_first_layers": n_dense}
    return {"n_dense_first_layers": n_dense, "layer_period": period, "layer_offset": first % period}


def alike(config: HfConfig, key: str) -> int | None:
    """A whole number that may be written once per layer, if all layers have the same; None where it is absent."""
    value = config.get(key)
    if isinstance(value, list):
        if not value or any(item != value[0] for item in value):
            config.refuse(key, "differs from layer to layer", "the same whole number for all layers")
            return None
        config.data[key] = value[0]
    return config.optional(key)
