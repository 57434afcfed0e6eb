"""A model profile from a Hugging Face config.json: what is stated is mapped, what is not is refused."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from planner.errors import InputError, Problem
from planner.profiles.hf_config import ConfigNumber, HfConfig
from planner.profiles.hf_context import context_limit_tokens
from planner.profiles.hf_families import FAMILIES, family, shapes
from planner.profiles.hf_layer_keys import refuse_by_layer
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

    def problem(self, key: KeyPath, message: str, allowed: str = "") -> Problem:
        """A problem at the key of the config that states the value; at the profile's where it is derived."""
        if key and key[0] in self._said:
            return Problem(f"--{key[0]}", "", message, allowed)
        value: Any = self.data
        for part in key:
            value = value[part] if isinstance(part, int) else value.get(part, {})
        return Problem(self.name, value.key if isinstance(value, ConfigNumber) else dotted(key), message, allowed)


def _first_of_each_key(problems: Iterable[Problem]) -> list[Problem]:
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
