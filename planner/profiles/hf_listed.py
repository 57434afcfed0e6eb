"""Lists of modules in quantisation configs: names, globs and regular expressions, as engines and tools read them."""

import re
from collections.abc import Collection, Iterable, Iterator

PREFIX = re.compile(r"^(?:(?:model|language_model|text_model|transformer|backbone|base_model)\.)+")
PREFIXES = ("model.", "", "language_model.model.", "model.language_model.", "language_model.", "backbone.")
"""What may stand before the name of a layer."""
_REGEX = re.compile(r"[\\^$()|+{\[]")
_NUMBER = re.compile(r"\d+")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)")
_ELSEWHERE = re.compile(
    r"vision|visual|audio|image|speech|talker|multi_modal|mm_|projector|patch|merger|mtp|nextn|eagle"
)
"""Words of towers and drafts, which a text model's profile leaves out."""
_SMALL = re.compile(
    r"(?:gate|router|bias|conv\w*|sinks?|a_log|dt_\w+|score|rotary\w*|\w*norms?\w*|\w*embed\w*|wte|(?:lm_)?head"
    r"|output(?:_layer)?|proj_out|indexer|weights_proj)\*?$"
)
"""Modules that stay bf16 in any case, or are no matrices."""
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
        """True if a module that may bear several names is listed under one of them."""
        return any(self._has(name) for name in names)

    def _has(self, name: str) -> bool:
        if self._plain and not self._plain.isdisjoint(_paths(name)):
            return True
        if self._globs and self._globs.fullmatch(name):
            return True
        return any(found.match(before + name) for found in self._expressions for before in PREFIXES)


def unknown_entries(entries: Iterable[str], names: Collection[str], n_layers: int) -> list[str]:
    """Entries of lists that name no module of a model: those of other towers, of drafts and of what is small left out.

    Args:
        names: names of all modules of the model, from their layer on.

    >>> unknown_entries(["model.layers.0.mixer.in", "layers.9.mlp", "lm_head"], ["layers.0.mlp.up_proj"], 2)
    ['model.layers.0.mixer.in']
    """
    alike = {_NUMBER.sub("#", name) for name in names}
    inside = {path for name in alike for path in _paths(name)}
    found = []
    for entry in dict.fromkeys(entries):
        own = _SUFFIX.sub("", PREFIX.sub("", entry.removeprefix("re:")))
        layer = _LAYER.search(own)
        if _ELSEWHERE.search(own) or _SMALL.search(own.casefold()) or (layer and int(layer[1]) >= n_layers):
            continue
        one = _NUMBER.sub("#", own)
        is_regex = entry.startswith("re:") or bool(_REGEX.search(entry))
        if one not in inside and not ListedModules([entry if is_regex else one]).has(names if is_regex else alike):
            found.append(entry)
    return found


def _glob(entry: str) -> str:
    own = re.escape(entry).replace(r"\*", ".*").replace(r"\?", ".")
    return rf"(?:.*\.)?{own}(?:\..*)?"


def _paths(name: str) -> Iterator[str]:
    """Every part of a name that begins and ends at a dot."""
    parts = name.split(".")
    for first in range(len(parts)):
        for last in range(first + 1, len(parts) + 1):
            yield ".".join(parts[first:last])
