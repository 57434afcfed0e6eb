"""Copies of a model in another number format: what their names say of the model and of the format."""

import re

FORMATS = {
    **dict.fromkeys(("bf16", "bfloat16", "fp16", "float16"), "bf16"),
    **dict.fromkeys(("fp8",), "fp8"),
    **dict.fromkeys(("fp4", "nvfp4", "mxfp4", "nvfp4a16"), "fp4"),
    **dict.fromkeys(("int8", "w8a8", "w8a16"), "int8"),
    **dict.fromkeys(("int4", "w4a16", "w4a8"), "int4"),
}
"""Number formats of weights by the names that points files and publishers give them."""
METHODS = {"awq": "int4", "gptq": "int4", "quantized": None}
"""What methods that state no bits of their own are usually used for; None: anything."""
_WORD = "|".join(sorted((*FORMATS, *METHODS), key=len, reverse=True))
_COPY = re.compile(rf"(?:[-_.](?:{_WORD})(?:[-_.]?(?:dynamic|block|kv|v\d+))*)+$", re.IGNORECASE)


def family_name(name: str) -> str:
    """A model's name without its publisher and the number format of a copy, in small letters.

    >>> family_name("nvidia/DeepSeek-R1-0528-NVFP4-v2"), family_name("RedHatAI/Qwen3-32B-quantized.w8a8")
    ('deepseek-r1-0528', 'qwen3-32b')
    """
    return _COPY.sub("", name).rpartition("/")[2].casefold()


def format_in(name: str) -> str | None:
    """Number format of the weights that a copy's name states; None where it states none.

    >>> [format_in(f"Qwen/Qwen3-32B{end}") for end in ("", "-FP8", "-fp8-dynamic", "-AWQ", "-GPTQ-Int8", "-w8a8")]
    [None, 'fp8', 'fp8', 'int4', 'int8', 'int8']
    """
    found = _COPY.search(name)
    words = re.findall(_WORD, found[0].casefold()) if found else []
    stated = [FORMATS[word] for word in words if word in FORMATS]
    # Of "FP8-W8A8" the first says what the second leaves open, of "GPTQ-Int8" the bits more than the method.
    return next(iter(stated), None) or next((METHODS[word] for word in words if METHODS.get(word)), None)
