"""Lists of modules in quantisation configs: names, globs and regular expressions, as engines and tools read them."""

import re
from collections.abc import Iterable, Iterator

PREFIX = re.compile(r"^(?:(?:model|language_model|text_model|transformer|backbone|base_model)\.)+")
PREFIXES = ("model.", "", "language_model.model.", "model.language_model.", "language_model.", "backbone.")
"""What may stand before the name of a layer."""
_REGEX = re.compile(r"[\\^$()|+{\[]")
_SUFFIX = re.compile(r"\.(?:weight|bias)$")


class ListedModules:
    """Modules that a list names.

    A plain name is a module, or any of those inside it, wherever it stands; a glob (`*`) likewise. After `re:`, or with
    characters that no name has, it is a regular expression from the beginning of a name.

    >>> listed = ListedModules(["lm_head", "model.layers.*.self_attn", r"re:.*mlp\\.up_proj$"])
    >>> [listed.has([name]) for name in ("layers.3.self_attn.q_proj", "layers.0.mlp.up_proj", "layers.0.mlp.down_proj")]
    [True, True, False]
    """

    def __init__(self, entries: Iterable[str]) -> None:
        """Raises re.error for a regular expression that is none."""
        self.entries = tuple(entries)
        self._plain: set[str] = set()
        self._expressions: list[re.Pattern[str]] = []
        globs: list[str] = []
        for entry in self.entries:
            if entry.startswith("re:") or _REGEX.search(entry):
                self._expressions.append(re.compile(entry.removeprefix("re:")))
            elif "*" in entry or "?" in entry:
                globs.append(_glob(PREFIX.sub("", entry)))
            else:
                self._plain.add(_SUFFIX.sub("", PREFIX.sub("", entry)))
        self._globs = re.compile("|".join(globs)) if globs else None

    def has(self, names: Iterable[str]) -> bool:
        """Whether a module that may bear several names is listed under one of them."""
        return any(self._has(name) for name in names)

    def _has(self, name: str) -> bool:
        if self._plain and not self._plain.isdisjoint(_paths(name)):
            return True
        if self._globs and self._globs.fullmatch(name):
            return True
        return any(found.match(before + name) for found in self._expressions for before in PREFIXES)


def _glob(entry: str) -> str:
    own = re.escape(entry).replace(r"\*", ".*").replace(r"\?", ".")
    return rf"(?:.*\.)?{own}(?:\..*)?"


def _paths(name: str) -> Iterator[str]:
    """Every part of a name that begins and ends at a dot."""
    parts = name.split(".")
    for first in range(len(parts)):
        for last in range(first + 1, len(parts) + 1):
            yield ".".join(parts[first:last])
