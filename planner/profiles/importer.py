"""A model profile from a Hugging Face config.json: what is stated is mapped, what is not is refused."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from planner.errors import InputError, InputProblem, shown
from planner.profiles.hf_config import ConfigNumber, HfConfig
from planner.profiles.hf_families import FAMILIES, family, shapes
from planner.profiles.hf_parts import Table
from planner.profiles.hf_precision import BESIDE, Statement, statements, stored_weights
from planner.profiles.imported import ImportedProfile
from planner.profiles.model import ModelProfile
from planner.profiles.stated_size import sizes_in
from planner.profiles.toml_text import toml_assignments, toml_table
from planner.schema import Document, JsonFile, dotted, read_text
from planner.toml_lines import KeyPath

_ID = re.compile(r"[\w.-]+/[\w.-]+")


def import_profile(
    path: Path, name: str | None = None, weights: str | None = None, model_id: str | None = None
) -> ImportedProfile:
    """A model profile from a config file.

    Args:
        path: a config.json.
        name: name of the profile; None: from the config's _name_or_path, else its model_type.
        weights: precision of the weights, where the config does not state it.
        model_id: name of the model, such as mistralai/Mistral-7B-v0.1; None: the config's _name_or_path.

    Returns:
        The profile as TOML, checked against its schema.

    Raises:
        InputError: the file cannot be read, its architecture is not supported, or a shape is missing; with every key.
    """
    return profile_of_config(str(path), read_text(path), name, weights, model_id, _beside(path))


def _beside(path: Path) -> JsonFile | None:
    """ModelOpt's file beside a config, which has the config's own beginning where that has one; None: there is none."""
    own = path.name.removesuffix("config.json") + BESIDE
    for beside in (path.with_name(own), path.with_name(BESIDE)):
        if beside != path and beside.is_file():
            return JsonFile(str(beside), read_text(beside), f"a {BESIDE} of ModelOpt", is_strict=False)
    return None


def profile_of_config(
    file: str,
    text: str,
    name: str | None = None,
    weights: str | None = None,
    model_id: str | None = None,
    beside: JsonFile | None = None,
) -> ImportedProfile:
    """As `import_profile`, from the text of a config, and perhaps a hf_quant_config.json beside it."""
    config = HfConfig(file, text)
    kind = family(config)
    architecture = shapes(config, kind) if kind else {}
    if kind:
        refuse_by_layer(config, architecture)
    if (longest := context_limit_tokens(config)) is not None:
        architecture["context_limit_tokens"] = longest
    stated = _stated(config, beside, weights)
    if config.problems:
        raise InputError(_first_of_each_key(config.problems))
    origin = model_id or str(config.outer.get("_name_or_path") or "")
    found = name or profile_name(origin) or profile_name(str(kind))
    head: dict[str, Any] = {"schema": "planner.model/1", "name": found, "title": origin or found}
    head["precision"] = weights or "bf16"
    if _ID.fullmatch(origin):  # and not the path of a folder
        head["aliases"] = [origin]
    sources = {"hf-config": f"config.json of {origin or found}, read from {Path(file).name}"}
    shown = {"source": "hf-config", "basis": "published"}
    if config.assumed:
        defaults = ", ".join(f"{key} = {json.dumps(value)}" for key, value in config.assumed.items())
        shown["note"] = f"By default of its class, as the config does not say: {defaults}"
    shape = {**shown, **architecture}
    content = {**head, "sources": sources, "checkpoint": {"source": "hf-config"}, "architecture": shape}
    profile = _Mapped(file, content, {"name": name, "precision": weights}).record(ModelProfile)
    names = [model_id, name, str(config.outer.get("_name_or_path") or ""), *_names_of_folders(file)]
    stored = stored_weights(stated, profile.architecture, names, weights)
    head["precision"], checkpoint = stored.precision, {"source": "hf-config", **stored.checkpoint()}
    if beside is not None:
        sources["hf-config"] += f" and {Path(beside.name).name}"
    content |= {**head, "sources": sources, "checkpoint": checkpoint}
    profile = _Mapped(file, content, {"name": name, "precision": weights}).record(ModelProfile)
    toml = _toml(head, sources, checkpoint, shape)
    unread = (f"quantization: {entry}" for entry in stored.unread)
    return ImportedProfile(found, toml, profile, (*config.unmapped(), *unread), config.assumed)


def _stated(config: HfConfig, beside: JsonFile | None, weights: str | None) -> list[Statement]:
    """Statements of files about the weights; where a precision is given, what cannot be read is no problem."""
    problems = [*config.problems]
    found = statements(config, beside)
    if weights is not None:
        config.problems[:] = problems
    return found


def _names_of_folders(file: str) -> list[str]:
    """Names of a config's file and of its folder that are a model's: those with a family or a size in them.

    Of a cache of Hugging Face, the folder of the model counts, above that of the revision.
    """
    path, makers = Path(file), re.compile("|".join({name.split("_")[0].rstrip("0123456789") for name in FAMILIES}))
    found = [path.stem, path.parent.name, *(one.name for one in path.parents if one.name.startswith("models--"))]
    return [name for name in found if sizes_in(name) or makers.search(name.casefold())]


class _Mapped(Document):
    """A profile made of a config: what its schema refuses is told by the config's own keys, or the option's."""

    def __init__(self, name: str, profile: Mapping[str, Any], options: Mapping[str, str | None]) -> None:
        super().__init__(name, profile)
        self._said = {option for option, value in options.items() if value is not None}

    def problem(self, key: KeyPath, message: str, allowed: str = "") -> InputProblem:
        """A problem at the key of the config that states the value; at the profile's where it is derived."""
        if key and key[0] in self._said:
            return InputProblem(f"--{key[0]}", "", message, allowed)
        value: Any = self.data
        for part in key:
            value = value[part] if isinstance(part, int) else value.get(part, {})
        return InputProblem(self.name, value.key if isinstance(value, ConfigNumber) else dotted(key), message, allowed)


def _first_of_each_key(problems: Iterable[InputProblem]) -> list[InputProblem]:
    return list({problem.key: problem for problem in reversed([*problems])}.values())[::-1]


def profile_name(model_id: str) -> str:
    """The name of a profile by a model's id.

    >>> profile_name("mistralai/Mixtral-8x7B_v0.1")
    'mixtral-8x7b-v0.1'
    """
    return re.sub(r"[^a-z0-9.]+", "-", model_id.rpartition("/")[2].lower()).strip("-.")


def _toml(head: Mapping[str, Any], sources: Any, checkpoint: Any, architecture: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in architecture.items() if key not in ("moe", "mlp_only", "attention")}
    tables = [toml_assignments(head), toml_table("sources", sources), *_checkpoint(checkpoint)]
    tables.append(toml_table("architecture", plain))
    tables += [
        toml_table(f"architecture.{key}", architecture[key]) for key in ("mlp_only", "moe") if key in architecture
    ]
    tables += [toml_table("[architecture.attention]", group) for group in architecture["attention"]]
    return "\n".join(tables)


def _checkpoint(table: Mapping[str, Any]) -> list[str]:
    plain = {key: value for key, value in table.items() if key != "formats"}
    own = [toml_table("checkpoint.formats", table["formats"])] if "formats" in table else []
    return [toml_table("checkpoint", plain), *own]


BY_NAME = re.compile(
    r"(?:^|_)(?:freq|frequency|interval|layers|pattern|types|step|stride|period|indices|indexes|layer_ids?|layer_idx"
    r"|layer_offset|layer_index|layer_configs?|block_configs|layer_type|block_types?|layer_list|start_index|end_index"
    r"|dense_replace|layer_num_skipped|schedule|overrides?|per_layer(?:_\w+)?)$"
)
"""Names that say which layers have something, or how many of them."""
REVIEWED = re.compile(r"(?:^|_)mtp(?:_|$)|^(?:num_nextn_predict_layers|max_window_layers)$")
"""Keys with such names that are known not to matter: of MTP layers, which are counted by their number alone; and of
windows in upper layers, which each family with windows reads."""
OTHER_TOWERS = re.compile(
    r"(?:^|_)(?:vision|visual|audio|image|video|speech|talker|code2wav|projector)(?:_|$)|^(?:vit|thinker_speech)"
)
"""Tables and keys of images and sound, which a text model's profile leaves out."""
NEUTRAL = (None, False, 0, "", "full_attention", "attention", "full", "dense")
"""Values that leave every layer as it is: no layers, attention over all keys."""
EVERY = re.compile(r"(?:freq|frequency|interval|step|stride|period)$")
"""Names of which 1 means every layer."""
ALIKE = ("full_attention", "attention", "full")
FEWEST_LETTERS = 8
"""Shortest string that is taken for a pattern by its length alone."""


def refuse_by_layer(config: HfConfig, found: Table) -> None:
    """Refuse keys that say what single layers have and that nothing read, by their names or their lengths."""
    n_layers = int(found["n_layers"])
    _hold_mlps(config, found, n_layers)
    for path, value in _unread(config.data, [*config.unmapped()], n_layers):
        allowed = "absent: it says what single layers have, and no family counts it"
        config.refuse(path, f"is {shown(value)}", allowed)


def _unread(table: Mapping[str, Any], keys: Iterable[str], n_layers: int, path: str = "") -> Iterator[tuple[str, Any]]:
    """Keys of a table, and of those inside it, that speak of single layers."""
    for key in keys:
        value = table[key]
        if REVIEWED.search(key) or OTHER_TOWERS.search(key):
            continue
        if _is_by_layer(key, value, n_layers):
            yield path + key, value
        elif isinstance(value, dict):
            yield from _unread(value, value, n_layers, f"{path}{key}.")


def _is_by_layer(key: str, value: Any, n_layers: int) -> bool:
    is_named = bool(BY_NAME.search(key))
    if isinstance(value, list):
        if not value or all(item in ALIKE for item in value):
            return False
        return is_named or len(value) == n_layers > 1
    if isinstance(value, dict):
        return bool(value) and (is_named or all(str(name).isdigit() for name in value))
    if isinstance(value, str) and len(value) == n_layers >= FEWEST_LETTERS and not value.islower():
        return True
    if not is_named or value in NEUTRAL:
        return False
    return bool(value != (1 if EVERY.search(key) else n_layers))


def _hold_mlps(config: HfConfig, found: Table, n_layers: int) -> None:
    """A list of dense and sparse MLPs has to be what the other keys say of them."""
    moe = found.get("moe")
    period, offset = (moe or {}).get("layer_period", 1), (moe or {}).get("layer_offset", 0)
    first = (moe or {}).get("n_dense_first_layers", 0)
    sparse = [moe is not None and layer >= first and layer % period == offset for layer in range(n_layers)]
    for key, dense_or_sparse in (("mlp_layer_types", ("dense", "sparse")), ("is_moe_layer", (False, True))):
        listed = config.data.get(key)
        if isinstance(listed, list) and not found.get("mlp_only"):
            config.get(key)
            if listed != [dense_or_sparse[one] for one in sparse]:
                other = f"{sparse.count(True)} sparse layers, as the other keys have them"
                config.refuse(key, f"is {shown(listed)}", other)


POSITIONS = "max_position_embeddings"
COUNTED: tuple[str, ...] = ("default", "llama3", "longrope", "su", "mrope")
"""Kinds of RoPE scaling that the positions of a config count already."""
MOST_TOKENS = 10**9


def context_limit_tokens(config: HfConfig) -> int | None:
    """Longest context of a config [tokens]; None where it states no positions, a problem where they make no sense.

    Equation:
        yarn: original_max_position_embeddings factor; linear, dynamic: max_position_embeddings factor; else as stated

    Source:
        `_get_and_verify_max_len` of vLLM; `rope_scaling` of Transformers. Positions of Gemma 3 are scaled already.
    """
    positions = config.optional(POSITIONS)
    if positions is None or positions > MOST_TOKENS:
        if positions is not None:
            config.refuse(POSITIONS, f"is {positions}", f"at most {MOST_TOKENS}")
        return None
    if str(config.data.get("model_type")).startswith("gemma3"):
        return positions
    return max([positions if found is None else found for found in _scaled(config, positions)], default=positions)


def _scaled(config: HfConfig, positions: int) -> Iterator[int | None]:
    """Positions of a config under each of its scalings; None where it leaves them, or is faulty."""
    key = "rope_scaling" if config.data.get("rope_scaling") else "rope_parameters"
    stated = config.get(key)
    if not isinstance(stated, Mapping):
        return
    kinds = [stated] if _kind(stated) else [part for part in stated.values() if isinstance(part, Mapping)]
    for part in kinds:
        yield None if _kind(part) in (None, *COUNTED) else _times(config, key, part, positions)


def _kind(scaling: Mapping[str, Any]) -> str | None:
    found = scaling.get("rope_type", scaling.get("type"))
    return None if found is None else str(found)


def _times(config: HfConfig, key: str, scaling: Mapping[str, Any], positions: int) -> int | None:
    factor, start = scaling.get("factor", 1.0), scaling.get("original_max_position_embeddings")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not (isfinite(factor) and factor > 0):
        config.refuse(f"{key}.factor", f"is {str(factor)[:40]}", "a number above 0")
        return None
    if _kind(scaling) != "yarn" or not isinstance(start, int) or isinstance(start, bool) or start < 1:
        start = positions
    return int(min(start * factor, MOST_TOKENS))
