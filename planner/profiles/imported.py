"""A profile made of a config: its text, what it is not made of, and the parameters by which it can be recognised."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from planner.profiles.hf_precision import formats_text
from planner.profiles.model import ModelProfile
from planner.profiles.parameters import active_parameters, parameters_by_part, total_parameters
from planner.profiles.stated_size import StatedSize, sizes_in


@dataclass(frozen=True)
class ImportedProfile:
    """A profile as TOML, and what a reader should know of it."""

    name: str
    text: str
    profile: ModelProfile
    unmapped: tuple[str, ...]
    """Keys of the config that the profile does not contain."""
    assumed: Mapping[str, Any] = field(default_factory=dict)
    """Values that the config leaves to its class."""

    @cached_property
    def n_parameters(self) -> int:
        """All parameters, by the shapes."""
        return total_parameters(self.profile) or 0

    @cached_property
    def n_active_parameters(self) -> int:
        """Parameters that a token is multiplied by."""
        return active_parameters(self.profile) or 0

    @property
    def parameters_by_part(self) -> dict[str, int]:
        """Parameters by part of the model, those of none left out."""
        return {part: n for part, n in parameters_by_part(self.profile.architecture).items() if n}

    @property
    def formats_text(self) -> str:
        """Number formats of its weights and of the cache that it asks for, in words."""
        profile, stored = self.profile, self.profile.checkpoint
        weights = formats_text(profile.precision, stored.formats if stored and profile.precision != "bf16" else {})
        return f"weights {weights}" + (f"; cache {stored.kv_precision}" if stored and stored.kv_precision else "")

    def doubts(self, stated: StatedSize | None = None) -> Iterator[str]:
        """Where the count disagrees with a figure, or with the sizes in the model's names."""
        names = dict.fromkeys((self.profile.title, *self.profile.aliases, self.name))
        in_names = {size.of: (size, f" in {name}") for name in reversed([*names]) for size in sizes_in(name)}
        counts = {"total": self.n_parameters, "active": self.n_active_parameters}
        for size, where in ([(stated, "")] if stated else []) + [*in_names.values()]:
            if not size.agrees(counts[size.of]):
                active = " active" if size.of == "active" else ""
                billions = f"{counts[size.of] / 1e9:,.4g}e9"
                yield f"the shapes give {billions}{active} parameters, not the {size.text}{where}"
