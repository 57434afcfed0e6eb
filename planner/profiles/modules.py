"""Modules of a model that checkpoints quantise one by one: their names, their parts and their parameters."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from planner.profiles.experts import MixtureOfExperts
from planner.profiles.layers import AttentionLayers
from planner.profiles.model import Architecture, WeightPart
from planner.profiles.parameters import embedding_parameters
from planner.profiles.projections import projections, required

MIXERS = {
    **dict.fromkeys(("gqa", "swa", "mla", "kda"), ("self_attn", "attention", "attn")),
    "lightning": ("attention", "self_attn", "linear_attn"),
    "gdn": ("linear_attn",),
    **dict.fromkeys(("mamba1", "mamba2"), ("mamba",)),
}
"""Names of what mixes tokens, by kind of layer."""
ALONE = ("mixer",)
"""The name of every layer's module where a layer is either a mixer or an MLP."""
MLPS = ("mlp", "feed_forward", "block_sparse_moe", "moe")
SHARED = ("shared_experts", "shared_expert", "shared_mlp")
ALIASES = {
    **{name: (name, "qkv_proj", "query_key_value") for name in ("q_proj", "k_proj", "v_proj")},
    "o_proj": ("o_proj", "out_proj", "dense"),
    "q_a_proj": ("q_a_proj", "fused_qkv_a_proj_with_mqa"),
    "kv_a_proj_with_mqa": ("kv_a_proj_with_mqa", "kv_a_proj", "fused_qkv_a_proj_with_mqa"),
    **{name: (name, "in_proj_qkvz") for name in ("in_proj_qkv", "in_proj_z")},
    "in_proj_ba": ("in_proj_ba", "in_proj_a", "in_proj_b"),
    "indexer.weights_proj": ("indexer.weights_proj", "indexers_proj"),
    "gate_proj": ("gate_proj", "gate_up_proj", "w1"),
    "up_proj": ("up_proj", "gate_up_proj", "w3"),
    "down_proj": ("down_proj", "w2"),
    "latent_down": ("fc1_latent_proj", "latent_down_proj", "routed_expert_down_proj"),
    "latent_up": ("fc2_latent_proj", "latent_up_proj", "routed_expert_up_proj"),
}
"""Names that a module may bear, fused ones included."""


@dataclass(frozen=True)
class Module:
    """One module, or several alike that share every name but a number."""

    names: tuple[str, ...]
    """Names that it may bear, from its layer on."""
    part: WeightPart
    """Part of the model."""
    n_parameters: int
    """Parameters of its matrix, or of all of them."""


def modules(architecture: Architecture, experts: Collection[int] = ()) -> Iterator[Module]:
    """Matrices of a model in the order of its layers; routers, norms and other vectors, which stay bf16, left out.

    Args:
        architecture: shapes, all known.
        experts: numbers of the experts to be told apart; all others of a layer are one module each per matrix.

    Raises:
        InputError: a shape is unknown.

    >>> from planner.profiles import model_profile
    >>> found = [*modules(model_profile("llama-3.1-8b").architecture)]
    >>> len(found), found[1].names[0], sum(module.n_parameters for module in found)
    (226, 'layers.0.self_attn.q_proj', 8029995008)
    """
    vocabulary = embedding_parameters(architecture)
    yield Module(("embed_tokens", "embeddings", "word_embeddings"), "embedding", vocabulary)
    hidden = required(architecture.hidden_size, "hidden_size")
    alone = ALONE if architecture.mlp_only else ()
    beside: list[AttentionLayers] = [group for group in architecture.attention if group.beside]
    for layer, (mixer, mlp) in enumerate(_layers(architecture)):
        for group in [mixer, *beside] if mixer else beside:
            places = [f"layers.{layer}.{name}" for name in (*MIXERS[group.kind], *alone)]
            yield from _placed(places, "attention", projections(group, hidden))
        places = [f"layers.{layer}.{name}" for name in (*MLPS, *alone)]
        if mlp == "dense":
            yield from _placed(
                places, "dense_mlp", _mlp(architecture, required(architecture.intermediate_size, "intermediate_size"))
            )
        elif mlp == "sparse" and architecture.moe:
            yield from _sparse(architecture, architecture.moe, places, experts)
    if not architecture.tie_word_embeddings:
        yield Module(("lm_head", "output"), "lm_head", vocabulary)


def experts_named(entries: Collection[str]) -> set[int]:
    """Numbers of experts that entries of a list name.

    >>> experts_named(["model.layers.3.mlp.experts.12.up_proj", "lm_head"])
    {12}
    """
    return {int(found[1]) for entry in entries if (found := re.search(r"experts\\?\.(\d{1,6})(?:\D|$)", entry))}


def _layers(architecture: Architecture) -> Iterator[tuple[AttentionLayers | None, str | None]]:
    """Token mixer of each layer, and its MLP: dense, sparse or none."""
    groups, pattern = architecture.attention, architecture.pattern
    by_letter = {group.symbol: group for group in groups}
    in_order: list[AttentionLayers | None] = []
    in_order += [group for group in groups if not group.beside for _ in range(group.n_layers)]
    if pattern and len(pattern) == architecture.n_layers:
        in_order = [by_letter.get(letter) for letter in pattern]
    for layer, group in enumerate(in_order):
        if architecture.mlp_only:
            letter = (pattern or "")[layer : layer + 1]
            yield group, {"E": "sparse", "-": "dense"}.get(letter) if group is None else None
        elif architecture.moe and layer in architecture.moe.sparse_layers(len(in_order)):
            yield group, "sparse"
        else:
            yield group, "dense" if architecture.intermediate_size else None


def _placed(places: Collection[str], part: WeightPart, sizes: dict[str, int], times: int = 1) -> Iterator[Module]:
    for name, size in sizes.items():
        names = tuple(f"{place}.{alias}" for place in places for alias in ALIASES.get(name, (name,)))
        yield Module(names, part, times * size)


def _mlp(architecture: Architecture, width: int, outer: int | None = None) -> dict[str, int]:
    size = (outer or required(architecture.hidden_size, "hidden_size")) * width
    return dict.fromkeys(("gate_proj", "up_proj", "down_proj")[0 if architecture.gated_mlp else 1 :], size)


def _sparse(
    architecture: Architecture, moe: MixtureOfExperts, places: Collection[str], experts: Collection[int]
) -> Iterator[Module]:
    """Routed experts: those that are told apart, and the others together under a number that none of them has."""
    hidden, apart = required(architecture.hidden_size, "hidden_size"), sorted(i for i in experts if i < moe.n_experts)
    sizes = _mlp(architecture, moe.expert_intermediate_size, moe.latent_size)
    numbers = dict.fromkeys(apart, 1)
    if rest := moe.n_experts - len(apart):
        numbers[next(number for number in range(moe.n_experts) if number not in experts)] = rest
    for number, times in numbers.items():
        named = [f"{place}.experts{of}" for place in places for of in (f".{number}", "")]
        yield from _placed(named, "experts", sizes, times)
    if moe.n_shared_experts:
        shared = _mlp(architecture, moe.shared_width * moe.n_shared_experts)
        yield from _placed([f"{place}.{name}" for place in places for name in SHARED], "shared_experts", shared)
    if moe.latent_size:
        latent = dict.fromkeys(("latent_down", "latent_up"), hidden * moe.latent_size)
        yield from _placed(places, "latent", latent)
