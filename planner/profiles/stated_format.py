"""Number formats that a model's name states, and whether a checkpoint has them."""

import re
from collections.abc import Collection, Iterator

ALLOWED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("fp8", "mxfp8", "float8"), ("fp8",)),
    **dict.fromkeys(("nvfp4", "mxfp4", "fp4"), ("fp4",)),
    **dict.fromkeys(("int4", "bnb4bit"), ("int4",)),
    **dict.fromkeys(("w4a16", "w4a8", "4bit"), ("int4", "fp4")),
    **dict.fromkeys(("int8", "8bit"), ("int8",)),
    "w8a16": ("int8", "fp8"),
    "w8a8": ("int8", "fp8"),
    **dict.fromkeys(("awq", "gptq"), ("int4", "int8")),
    "bf16": ("bf16",),
}
"""Formats that agree with a word of a name."""
_WORD = re.compile(r"[-_ ./\\]+")


def stated_formats(name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Words of a name that state a format of weights, and the formats that agree with each; those of caches left out.

    >>> [*stated_formats("nvidia/Llama-3.1-8B-Instruct-FP8")]
    [('FP8', ('fp8',))]
    >>> [*stated_formats("DeepSeek-R1-NVFP4-KV-FP8")], [*stated_formats("Llama-3.1-8B")]
    ([('NVFP4', ('fp4',))], [])
    """
    words = _WORD.split(name)
    for before, word in zip(["", *words], words, strict=False):
        if before.casefold() not in ("kv", "cache") and (found := ALLOWED.get(word.casefold())):
            yield word, found


def contradiction(name: str, found: Collection[str]) -> str | None:
    """The word of a name that states a format which a checkpoint does not have; None where they agree.

    >>> contradiction("Llama-3.1-8B-FP8", {"bf16"}), contradiction("Llama-3.1-8B-FP8", {"fp8", "bf16"})
    ('FP8', None)
    """
    for word, allowed in stated_formats(name):
        own = found if allowed != ("bf16",) or len(found) == 1 else set(found) - {"bf16"}
        if not set(allowed) & set(own):
            return word
    return None
