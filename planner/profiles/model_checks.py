"""The gate's checks of a model profile beyond its schema."""

from collections.abc import Iterator

from planner.errors import InputProblem
from planner.profiles.architectures import Range
from planner.profiles.entries import Check, CheckedFile
from planner.profiles.measured import MeasuredInstance
from planner.profiles.model import ModelProfile
from planner.profiles.parameters import total_parameters
from planner.schema import FieldError


def published_parameters(checked: CheckedFile) -> Iterator[InputProblem]:
    """The total from shapes, where all are known, is the published one within `ParameterCount.tolerance`."""
    if not isinstance(checked.profile, ModelProfile):
        return
    published, total = checked.profile.published.total_parameters, total_parameters(checked.profile)
    if published is None or total is None or abs(total - published.value) <= published.tolerance:
        return
    message = f"is {published.value}, but the shapes give {total}"
    allowed = f"within {published.tolerance / published.value:.2%}, as {published.digits} digits are published"
    yield checked.file.problem(("published", "total_parameters", "value"), message, allowed)


PREFILL_TOKENS_PER_S = Range(5, 200_000)
"""Prompt tokens per second and accelerator, from a model of trillions on old chips to one of billions on new ones."""
KV_BYTES_PER_TOKEN = Range(100, 10_000_000)
"""Logical cache bytes that one more token adds."""
DECODE_STEP_S = Range(0.0005, 2)
"""Seconds of one decode step."""


def plausible_measurements(checked: CheckedFile) -> Iterator[InputProblem]:
    """Measured seconds and bytes have the size that seconds and bytes have."""
    if isinstance(checked.profile, ModelProfile):
        for name, instance in checked.profile.measured.items():
            for fault, allowed in measurement_faults(instance):
                yield checked.file.problem(("measured", name, *fault.key), fault.message, allowed)


MODEL_CHECKS: tuple[Check, ...] = (published_parameters, plausible_measurements)
"""Every check of a model profile, in the order of their word on a key: the first one is reported."""

_ALLOWED = {
    "prefill": f"{PREFILL_TOKENS_PER_S} tokens/s; seconds are in s and tokens are single tokens",
    "kv": f"{KV_BYTES_PER_TOKEN} bytes per token; bytes are single bytes",
    "decode": f"{DECODE_STEP_S} s; step_s is in s",
}


def measurement_faults(instance: MeasuredInstance) -> Iterator[tuple[FieldError, str]]:
    """The first implausible value of each curve, and what is allowed."""
    yield from ((fault, _ALLOWED[str(fault.key[0])]) for fault in _faults_of(instance))


def _faults_of(instance: MeasuredInstance) -> Iterator[FieldError]:
    if instance.prefill:
        points = zip(instance.prefill.tokens, instance.prefill.seconds, strict=True)
        rates = [tokens / seconds / instance.n_accelerators for tokens, seconds in points]
        yield from _first_outside(("prefill", "seconds"), rates, PREFILL_TOKENS_PER_S, "tokens/s and accelerator")
    if instance.kv:
        points = zip(instance.kv.tokens, instance.kv.bytes, strict=True)
        (low_tokens, low_bytes), *_, (high_tokens, high_bytes) = points
        per_token = (high_bytes - low_bytes) / (high_tokens - low_tokens)
        yield from _first_outside(("kv", "bytes"), [per_token], KV_BYTES_PER_TOKEN, "bytes per token")
    if instance.decode and instance.decode.step_s not in DECODE_STEP_S:
        yield FieldError(("decode", "step_s"), f"is {instance.decode.step_s:.10g}")


def _first_outside(key: tuple[str, str], found: list[float], allowed: Range, unit: str) -> Iterator[FieldError]:
    odd = next((index for index, value in enumerate(found) if value not in allowed), None)
    if odd is not None:
        where = (*key, odd) if len(found) > 1 else key
        yield FieldError(where, f"gives {found[odd]:.4g} {unit}")
