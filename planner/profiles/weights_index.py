"""Size of a checkpoint by the index of its tensors, held against the parameters counted from a config."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.errors import InputError, InputProblem, shown
from planner.profiles.imported import ImportedProfile
from planner.reading import TABLE_BYTES, read_text
from planner.schema import JsonFile

ALLOWED = "a model.safetensors.index.json with metadata.total_size and weight_map"
BYTES = {"bf16": 2.0}
"""Bytes of a parameter where every tensor of the checkpoint has one format; quantised ones mix formats with scales."""
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_EXPERT = re.compile(r"\.experts\.(\d+)\.")
_OTHER_TOWER = re.compile(r"^(?:model\.)?(?:vision|visual|audio|multi_modal)")


@dataclass(frozen=True)
class WeightsIndex:
    """An index of tensors, as far as it can be held against a config."""

    name: str
    n_parameters: int | None
    """All parameters, where the index states them."""
    total_bytes: int
    """All tensors [B]."""
    n_layers: int
    """Layers of the text model that have tensors, those that predict further tokens included."""
    n_experts: int
    """Experts of a layer that have tensors of their own; 0 where they share some."""
    has_other_towers: bool
    """Whether tensors of images or sound are among them."""

    def doubts(self, found: ImportedProfile) -> Iterator[str]:
        """Where the index disagrees with the shapes of a config."""
        architecture = found.profile.architecture
        layers = {architecture.n_layers, architecture.n_layers + (architecture.n_mtp_layers or 0)}
        if self.n_layers and self.n_layers not in layers:
            yield f"{self.name} has tensors of {self.n_layers} layers, and the config {architecture.n_layers}"
        if self.n_experts and architecture.moe is not None and self.n_experts != architecture.moe.n_experts:
            yield f"{self.name} has tensors of {self.n_experts} experts, and the config {architecture.moe.n_experts}"
        stated = self.parameters(found.profile.precision)
        if stated is not None and stated != found.n_parameters:
            off = found.n_parameters / stated - 1
            why = ", those of images or sound among them" if self.has_other_towers else ""
            counted = f"{found.n_parameters:,} ({100 * off:+.3f} %)"
            yield f"{self.name} has {stated:,} parameters{why}, and the shapes {counted}"

    def parameters(self, precision: str) -> int | None:
        """Whole number of parameters: as stated, else by the bytes; None where tensors have several formats."""
        if self.n_parameters is not None:
            return self.n_parameters
        each = BYTES.get(precision)
        return None if each is None else round(self.total_bytes / each)


def weights_index(path: Path) -> WeightsIndex:
    """An index of tensors from its file.

    Raises:
        InputError: it is none.
    """
    name = str(path)
    data = JsonFile(name, read_text(path, TABLE_BYTES), ALLOWED, is_strict=False).data
    metadata = data.get("metadata") if isinstance(data, dict) else None
    tensors = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(metadata, dict) or not isinstance(tensors, dict) or not tensors:
        raise InputError(InputProblem(name, "", "has no metadata or no weight_map", ALLOWED))
    counts = {key: metadata.get(key) for key in ("total_size", "total_parameters")}
    for key, value in counts.items():
        if not (type(value) is int and value > 0) and not (key == "total_parameters" and value is None):
            raise InputError(InputProblem(name, f"metadata.{key}", f"is {shown(value)}", "a whole number above 0"))
    text = [tensor for tensor in tensors if not _OTHER_TOWER.search(tensor)]
    return WeightsIndex(
        name=path.name,
        n_parameters=counts["total_parameters"],
        total_bytes=counts["total_size"] or 0,
        n_layers=_count(_LAYER, text),
        n_experts=_count(_EXPERT, text),
        has_other_towers=len(text) < len(tensors),
    )


def _count(pattern: re.Pattern[str], tensors: list[str]) -> int:
    """Number of different numbers that the tensors' names have in a place."""
    return len({match[1] for tensor in tensors if (match := pattern.search(tensor))})
