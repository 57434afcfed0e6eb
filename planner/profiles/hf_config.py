"""A Hugging Face config.json that knows which of its keys were understood, and reports every one that is missing."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from planner.errors import InputError, InputProblem, shown
from planner.schema import JsonFile

Keys = dict[str, Any]

NEMOTRON_LAYERS = {
    "linear_attention": "M",
    "mamba": "M",
    "moe": "E",
    "full_attention": "*",
    "attention": "*",
    "mlp": "-",
}
EXPERTS = ("num_experts", "num_local_experts")
MTP = {"mtp_layers_block_type"}
"""What predicted tokens are made by; counted by num_nextn_predict_layers."""


RENAMED: Mapping[str, Mapping[str, str]] = {
    "chatglm": {
        "num_layers": "num_hidden_layers",
        "padded_vocab_size": "vocab_size",
        "ffn_hidden_size": "intermediate_size",
        "multi_query_group_num": "num_key_value_heads",
        "kv_channels": "head_dim",
        "seq_length": "max_position_embeddings",
        "add_qkv_bias": "attention_bias",
        "add_bias_linear": "mlp_bias",
    },
    "dbrx": {
        "d_model": "hidden_size",
        "n_heads": "num_attention_heads",
        "n_layers": "num_hidden_layers",
        "max_seq_len": "max_position_embeddings",
        "attn_config.kv_n_heads": "num_key_value_heads",
        "ffn_config.ffn_hidden_size": "intermediate_size",
        "ffn_config.moe_num_experts": "num_experts",
        "ffn_config.moe_top_k": "num_experts_per_tok",
    },
    "exaone": {"num_layers": "num_hidden_layers"},
    "internlm2": {"bias": "attention_bias"},
}
"""Keys of families that name what all have in their own way; those of an inner table with its name before."""


def earlier_keys(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    """Keys that published configs would state, and the newer keys that they were taken from.

    >>> earlier_keys({"model_type": "qwen3_moe", "num_local_experts": 128})
    ({'num_experts': 128}, {'num_local_experts'})
    """
    kind = str(data.get("model_type"))
    found, taken = FAMILIES.get(kind, _nothing)(data)
    for name, ours in RENAMED.get(kind, {}).items():
        outer, _, inner = name.rpartition(".")
        table = data.get(outer) if outer else data
        if isinstance(table, Mapping) and inner in table:
            found, taken = found | {ours: table[inner]}, taken | {outer or inner}
    return {key: value for key, value in found.items() if data.get(key) is None}, taken


def _nothing(_: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    return {}, set()


def _experts(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    earlier, newer = EXPERTS
    return ({earlier: data[newer]}, {newer}) if newer in data else ({}, set())


def _gemma4(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    """Shapes of full layers, where a table of layers has them alike for all of these."""
    table, kinds = data.get("per_layer_config"), data.get("layer_types")
    if not isinstance(table, dict) or not table or not isinstance(kinds, list):
        return {}, set()
    full = [layer for layer, kind in enumerate(kinds) if kind == "full_attention"]
    own, *others = table.values()
    names = {"head_dim": "global_head_dim"}
    if data.get("attention_k_eq_v") is True:
        names["num_key_value_heads"] = "num_global_key_value_heads"
    is_alike = isinstance(own, dict) and own.keys() <= names.keys() and all(one == own for one in others)
    if (
        not is_alike
        or [int(layer) for layer in table if layer.isdecimal() and len(layer) < 6] != full
        or len(table) != len(full)
    ):
        return {}, set()
    return {names[key]: value for key, value in own.items()}, {"per_layer_config"}


def _nemotron_h(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    kinds = data.get("layers_block_type")
    if not isinstance(kinds, list) or not all(kind in NEMOTRON_LAYERS for kind in kinds):
        return {}, set()
    letters = "".join(NEMOTRON_LAYERS[kind] for kind in kinds)
    return {"hybrid_override_pattern": letters, "num_hidden_layers": len(kinds)}, {"layers_block_type", *MTP}


def _kimi_linear(data: Mapping[str, Any]) -> tuple[Keys, set[str]]:
    kinds, mlps = data.get("layer_types"), data.get("mlp_layer_types")
    if not isinstance(kinds, list) or set(kinds) - {"linear_attention", "full_attention"}:
        return {}, set()
    linear = {
        "full_attn_layers": [i for i, kind in enumerate(kinds, 1) if kind == "full_attention"],
        "kda_layers": [i for i, kind in enumerate(kinds, 1) if kind == "linear_attention"],
        "num_heads": data.get("linear_num_heads"),
        "head_dim": data.get("linear_head_dim"),
        "short_conv_kernel_size": data.get("linear_conv_kernel_dim"),
    }
    found: Keys = {"linear_attn_config": linear}
    taken = {"layer_types", "linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim", "qk_head_dim"}
    if isinstance(mlps, list) and mlps:
        n_dense = next((i for i, kind in enumerate(mlps) if kind != "dense"), len(mlps))
        if all(kind == "sparse" for kind in mlps[n_dense:]):  # else it stays unread, and is told
            found |= {"first_k_dense_replace": n_dense, "moe_layer_freq": 1}
            taken.add("mlp_layer_types")
    return found, taken


FAMILIES: Mapping[str, Callable[[Mapping[str, Any]], tuple[Keys, set[str]]]] = {
    **dict.fromkeys(("gemma4", "gemma4_text"), _gemma4),
    **dict.fromkeys(("qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_vl_moe", "qwen3_vl_moe_text"), _experts),
    "nemotron_h": _nemotron_h,
    "kimi_linear": _kimi_linear,
}


_IRRELEVANT = """
_name_or_path activation_function add_cross_attention architectures attention_dropout attention_in_multiplier
attention_multiplier attention_out_multiplier attention_value_scale attn_implementation attn_logit_softcapping
attn_rotary_emb auto_map aux_loss_alpha block_size bos_token_id cache_implementation chunk_size
chunk_size_feed_forward dim_model_base dtype embd_pdrop embedding_dropout embedding_multiplier
embedding_multiplier_scale enable_lm_head_fp32 enable_moe_fp32_combine eos_token_id ep_size expand experts_per_token
extract_layer final_layernorm final_logit_softcapping hidden_act hidden_activation hidden_dropout hidden_dropout_prob
id2label init_method initial_context_length initializer_range is_encoder_decoder key_multiplier label2id
layer_norm_eps layer_norm_epsilon layernorm_epsilon linear_silu lm_head_multiplier load_balance_coeff logit_scale
logits_scaling mamba_chunk_size mamba_hidden_act mamba_norm_before_gate mamba_ssm_cache_dtype mamba_ssm_dtype
max_model_len max_position_embeddings max_window_layers mlp_expansion_factor mlp_hidden_act mlp_multipliers
mm_tokens_per_image model_max_length model_type moe_gate moe_norm_min moe_renormalize moe_router_activation_func
moe_router_enable_expert_bias moe_shared_expert_overlap moe_use_aux_free mtp_loss_scaling_factor mup_denominator
mup_enabled n_group norm_eps norm_softmax norm_topk_prob normalization_function num_attention_heads num_expert_group
num_key_value_heads num_logits_to_keep original_max_position_embeddings output_attentions output_dropout
output_hidden_states output_multiplier_scale output_router_logits pad_token_id partial_rotary_factor
position_embedding_type pretraining_tp problem_type quantization_config query_pre_attn_scalar rescale_prenorm_residual
resid_pdrop residual_dropout residual_in_fp32 residual_multiplier return_dict rms_norm_eps rope_interleave
rope_local_base_freq rope_parameters rope_ratio rope_scaling rope_theta rotary_dim rotary_pct route_norm route_scale
routed_scaling_factor router_aux_loss_coef router_dtype router_jitter_noise router_logit_softcapping
router_scaling_factor scale_depth scale_emb score_function scoring_func seq_aux shared_moe_mode ssm_in_multiplier
ssm_multipliers ssm_out_multiplier swa_rope_theta swiglu_alpha swiglu_limit tf_legacy_loss time_step_floor
time_step_limit time_step_max time_step_min topk_group topk_method torch_dtype transformers_version unk_token_id
use_bfloat16 use_cache use_embedding_sharing use_grouped_topk use_mamba_kernels use_parallel_embedding use_rmsnorm
z_loss_coefficient
"""
_OF_TOKENS = ("_token_id", "_token_index")
IRRELEVANT = frozenset(_IRRELEVANT.split())
"""Keys that say nothing of shapes, precision or what is cached."""
MOST: Mapping[str, int] = {"num_hidden_layers": 10_000}
"""Largest whole number by key, where something is counted out one by one."""
MOST_OTHERWISE = 10**9
"""Largest of any other key; what is too large for its place is refused by the profile's schema."""
KINDS: Mapping[str, tuple[type, str]] = {
    "architectures": (str, "a list of strings"),
    "layer_types": (str, "a list of strings"),
    "layers_block_type": (str, "a list of strings"),
    "mlp_layer_types": (str, "a list of strings"),
    "modules_to_not_convert": (str, "a list of strings"),
    "ignore": (str, "a list of strings"),
    "full_attn_layers": (int, "a list of whole numbers"),
    "kda_layers": (int, "a list of whole numbers"),
    "hybrid_layer_pattern": (int, "a list of whole numbers"),
    "mlp_only_layers": (int, "a list of whole numbers"),
    "attn_layer_indices": (int, "a list of whole numbers"),
    "attn_type_list": (int, "a list of whole numbers"),
    "is_moe_layer": (bool, "a list of truth values"),
    "moe_layers": (int, "a list of whole numbers"),
    "no_rope_layers": (int, "a list of whole numbers"),
    "config_groups": (dict, "a table of tables"),
}
"""Keys that hold several values, and of which kind each must be."""
TEXTS = ("model_type", "_name_or_path", "quant_method", "quant_algo", "type")
TABLES = ("quantization_config", "text_config", "thinker_config", "llm_config", "linear_attn_config", "weights")
NUMBERS = ("num_bits", "bits")


TOWERS = ("thinker_config", "text_config", "llm_config", "language_config")
"""Tables with the text model of one that reads images or sound as well; the first may hold one of the others."""


def _text_tower(data: Mapping[str, Any]) -> dict[str, Any]:
    """The text model's own keys; none where they are not in a table of their own."""
    tower: dict[str, Any] = next((data[key] for key in TOWERS if isinstance(data.get(key), dict)), {})
    return {**tower, **_text_tower(tower)} if tower else {}


class ConfigNumber(int):
    """A whole number that knows which key of a config states it."""

    key: str

    def __new__(cls, value: int, key: str) -> "ConfigNumber":
        """The number, and its key."""
        made = super().__new__(cls, value)
        made.key = key
        return made


def _kind_problems(name: str, table: Mapping[str, Any], path: str = "") -> Iterator[InputProblem]:
    """Keys that importers look into, of another kind than any published config has."""
    for key, value in table.items():
        allowed = _kind_allowed(key, value)
        if allowed and value is not None:
            yield InputProblem(name, path + key, f"is {shown(value)}", allowed)
        elif isinstance(value, dict) and key in TABLES:
            yield from _kind_problems(name, value, f"{path}{key}.")
        elif isinstance(value, dict) and key in KINDS:
            for inner, item in value.items():
                yield from _kind_problems(name, item, f"{path}{key}.{inner}.")


def _kind_allowed(key: str, value: Any) -> str:
    """Kind of value that a key must have where it has another; empty where it may be what it is."""
    if key in KINDS:
        kind, allowed = KINDS[key]
        items = value.values() if isinstance(value, dict) else value
        fits = isinstance(value, dict if kind is dict else list) and all(isinstance(item, kind) for item in items)
        return "" if fits else allowed
    kinds = ((TEXTS, str, "a string"), (NUMBERS, int, "a whole number"), (TABLES, dict, "a table"))
    return next((allowed for keys, kind, allowed in kinds if key in keys and not isinstance(value, kind)), "")


class HfConfig:
    """A parsed config; nested text towers are read as one with what is around them."""

    def __init__(self, name: str, text: str) -> None:
        """Raises InputError when the text is no JSON object."""
        self.name = name
        self.problems: list[InputProblem] = []
        self._defaults: dict[str, Any] = {}
        self._read: set[str] = {*TOWERS}
        data = JsonFile(name, text, "a config.json of Hugging Face").data
        if not isinstance(data, dict):
            raise InputError(InputProblem(name, "", "is no JSON object", "a config.json of Hugging Face"))
        if problems := [*_kind_problems(name, data)]:
            raise InputError(problems)
        tower = _text_tower(data)
        self.outer: Mapping[str, Any] = data
        self.is_wrapped = bool(tower)
        own: dict[str, Any] = {**data, **tower}
        earlier, taken = earlier_keys(own)
        self.data = {**own, **earlier}
        self._read |= taken

    def refuse(self, key: str, message: str, allowed: str) -> None:
        """Keep a problem; the importer raises all of them together."""
        self.problems.append(InputProblem(self.name, key, message, allowed))

    def get(self, key: str) -> Any:
        """A key's value; None where it is absent."""
        self._read.add(key)
        return self.data.get(key)

    def assume(self, **defaults: Any) -> None:
        """Values that the config's class has by default, where the config states nothing; a null is a statement."""
        absent = {key: value for key, value in defaults.items() if key not in self.data}
        self.data.update(absent)
        self._defaults.update(absent)

    @property
    def assumed(self) -> dict[str, Any]:
        """Defaults that were taken; lists, which follow from other keys, left out."""
        return {key: value for key, value in self._defaults.items() if not isinstance(value, list)}

    def ignore(self, *keys: str) -> None:
        """Keys that say nothing of shapes in this family."""
        self._read.update(keys)

    def integer(self, *keys: str) -> int:
        """The positive whole number of the first of several names that is there; a problem where none is."""
        for key in keys:
            value, most = self.get(key), MOST.get(key, MOST_OTHERWISE)
            if type(value) is int and 0 < value <= most:
                return ConfigNumber(value, key)
            if value is not None:
                self.refuse(key, f"is {shown(value)}", f"a positive whole number, at most {most:,}")
                return 1
        self.refuse(keys[0], "is required", "it cannot be derived" if len(keys) == 1 else f"or {', '.join(keys[1:])}")
        return 1

    def count(self, key: str) -> int:
        """A whole number that is 0 where absent or null."""
        return self.integer(key) if self.get(key) else 0

    def optional(self, key: str) -> int | None:
        """A positive whole number, or None where absent or null."""
        return None if self.get(key) is None else self.integer(key)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """A truth value; a problem where it is absent without default."""
        value = self.get(key)
        if isinstance(value, bool):
            return value
        if value is not None or default is None:
            self.refuse(key, "is required" if value is None else f"is {shown(value)}", "true or false")
        return bool(default)

    def items(self, key: str, n_items: int | None = None) -> list[Any]:
        """A list, of a known length where one is given; a problem where it is absent or another."""
        value = self.get(key)
        if not isinstance(value, list):
            self.refuse(key, "is required" if value is None else f"is {shown(value)}", "a list")
            return []
        if n_items is not None and len(value) != n_items:
            self.refuse(key, f"has {len(value)} items", f"one per layer, {n_items}")
        return value

    def table(self, key: str) -> "HfConfig":
        """A nested table, whose problems are this one's."""
        value = self.get(key)
        if not isinstance(value, dict):
            self.refuse(key, "is required" if value is None else "is no table", "a table")
        inner = HfConfig(self.name, json.dumps(value if isinstance(value, dict) else {}))
        inner.problems = self.problems
        return inner

    def only(self, key: str, *allowed: Any) -> None:
        """A problem unless the key is absent, null, or has one of the values that a family is counted for."""
        value = self.get(key)
        if value is not None and value not in allowed:
            expected = " or ".join(json.dumps(item) for item in allowed) or "absent"
            self.refuse(key, f"is {shown(value)}", f"counted for {expected} only")

    def unmapped(self) -> Iterator[str]:
        """Keys with a value that nothing read and that may matter."""
        for key, value in self.data.items():
            known = key in self._read or key in IRRELEVANT or key.endswith(_OF_TOKENS)
            if not known and value not in (None, False, [], {}):
                yield key
