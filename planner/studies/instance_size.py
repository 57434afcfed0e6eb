"""Number of accelerators that an instance takes to begin with: enough memory, and prompts in time."""

from dataclasses import dataclass

import numpy as np

from planner.errors import InputError
from planner.profiles import hardware_profile, model_profile
from planner.roofline.memory_fit import largest_batch
from planner.studies.predict.memory import instance_memory
from planner.studies.predict.question import Instance, PredictQuestion, instance

SIZES = (1, 2, 4, 8, 16, 32, 64)
USUAL = 8
"""Where nothing is known that speaks for another size."""
TOGETHER = 8
"""Requests of mean length that an instance should hold beside the weights."""
IN_TIME = 0.5
"""Part of a promise on TTFT that the prefill itself may take of the P90 prompt; the rest is for waiting."""


@dataclass(frozen=True)
class RequestLengths:
    """Lengths of the requests that instances serve [tokens]."""

    mean: float
    p90: float
    longest: float
    output: float


def accelerators_per_instance(
    model: str, hardware: str, precision: str | None, lengths: RequestLengths, ttft_s: float | None = None
) -> int:
    """The fewest accelerators, in powers of two, that hold the model with its requests and prefill them in time.

    Args:
        model: name of a model profile.
        hardware: name of a hardware profile.
        precision: number format of the weights; None: the checkpoint's own.
        lengths: what it has to hold and to prefill.
        ttft_s: promise on TTFT; None: none [s].

    Returns:
        Accelerators of one instance: those that were measured, where the model's profile has a measurement on this
        hardware; of the sizes with enough memory the smallest in time, else the usual one of 8 if it has the memory.

    Raises:
        InputError: no such model or hardware.
    """
    profile, chip = model_profile(model), hardware_profile(hardware)
    measured = [one.n_accelerators for one in profile.measured.values() if one.hardware in (chip.name, *chip.aliases)]
    if measured:
        return measured[0]
    asked = [_instance(model, hardware, precision, n, lengths) for n in SIZES]
    roomy = [one for one in asked if _has_room(one, lengths)]
    if not roomy:
        return USUAL
    quick = next((one for one in roomy if _is_quick(one, lengths, ttft_s)), None)
    return quick.n_accelerators if quick else max(USUAL, roomy[0].n_accelerators)


def _instance(model: str, hardware: str, precision: str | None, n: int, lengths: RequestLengths) -> Instance:
    context = max(round(lengths.mean + lengths.output), 1)
    return instance(PredictQuestion(model, hardware, n, precision=precision, context_tokens=context))


def _has_room(asked: Instance, lengths: RequestLengths) -> bool:
    """True if weights, the longest prompt, and some requests of mean length fit."""
    memory = instance_memory(asked)
    if not memory.fits or not asked.has_shapes:
        return memory.fits
    tokens = np.array([lengths.longest, lengths.mean + lengths.output])
    longest, together = largest_batch(asked.model, memory.likely, asked.layout, tokens, asked.question.kv_precision)
    return bool(longest >= 1 and together >= TOGETHER)


def _is_quick(asked: Instance, lengths: RequestLengths, ttft_s: float | None) -> bool:
    """True if the P90 prompt is prefilled well within the promise, or if that cannot be told."""
    if ttft_s is None or not asked.has_shapes:
        return True
    try:
        seconds = asked.instance_model.prefill_time(np.array([lengths.p90])).total_s
    except InputError:  # a figure of the accelerator that nobody published
        return True
    return float(seconds.max()) <= IN_TIME * ttft_s
