"""Operators of a prefill and a decode step under the accelerator's roofline."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from planner.errors import InputError, InputProblem
from planner.results.roofline import OperatorPoint, RooflinePass, RooflineSurvey
from planner.roofline.operator import FloatArray
from planner.roofline.pass_time import operator_seconds
from planner.roofline.rank_work import RankWork
from planner.roofline.served_model import prefill_passes
from planner.studies.predict.memory import instance_memory, most_sequences
from planner.studies.predict.question import COMMAND, Instance, PredictQuestion, instance
from planner.units import number


def roofline_survey(question: PredictQuestion) -> RooflineSurvey:
    """The first length's prefill and a decode step of the largest batch that fits, operator by operator.

    Args:
        question: as for `predict`.

    Returns:
        Operators of one rank; equal names of several kinds of layers are added up.

    Raises:
        InputError: something in the question cannot be, or shapes or figures are unknown.
    """
    asked = instance(question)
    if not asked.has_shapes:
        raise InputError(
            InputProblem(COMMAND, "--figure", f"cannot show {asked.model.name}", "a model of known shapes")
        )
    formats = dict.fromkeys((asked.instance_model.product_precision, asked.chip.product_format("bf16")))
    return RooflineSurvey(
        title=f"{asked.model.name} in {asked.precision} on {asked.n_accelerators} x {asked.hardware.name}",
        subtitle=f"one accelerator of {asked.layout}; {asked.stack.name}; area of a marker: share of its pass",
        memory_bytes_per_s=asked.chip.memory_bytes_per_s,
        peaks_flop_per_s={name: asked.chip.peak_flop_per_s(name) for name in formats},
        passes=(_prefill(asked), _decode(asked)),
    )


def _prefill(asked: Instance) -> RooflinePass:
    question = asked.question
    tokens = question.tokens[0]
    new, cached = np.array([float(tokens - question.cached_tokens)]), np.array([float(question.cached_tokens)])
    passes = prefill_passes(new, cached, asked.instance_model.chunk_tokens)
    total_s = float(asked.instance_model.prefill_time(new, cached).total_s[0])
    after = f" after {number(question.cached_tokens)} cached" if question.cached_tokens else ""
    return _surveyed(
        asked,
        "prefill",
        f"prefill of {number(float(new[0]))} tokens{after}",
        asked.instance_model.work([passes.sequences]),
        passes.times,
        total_s,
    )


def _decode(asked: Instance) -> RooflinePass:
    most, context = most_sequences(asked, instance_memory(asked)), asked.question.context_tokens
    batch = max((n for n in asked.question.batch if n <= most), default=min(asked.question.batch))
    work = asked.instance_model.decode_work([float(batch)], [float(context)])
    total_s = float(asked.instance_model.decode_time([float(batch)], [float(context)]).total_s[0])
    title = f"decode of {number(batch)} sequences at {number(context)} tokens"
    return _surveyed(asked, "decode", title, work, np.ones(1), total_s)


def _surveyed(
    asked: Instance,
    phase: Literal["prefill", "decode"],
    title: str,
    work: RankWork,
    times: FloatArray,
    total_s: float,
) -> RooflinePass:
    compute, memory = operator_seconds(work, asked.instance_model.factors)
    latency = work.n_layers * work.n_kernels * asked.instance_model.factors.kernel_latency_s
    often = times[work.pass_index]
    points = _points(work, (np.maximum(compute, memory) + latency) * often, often, total_s)
    return RooflinePass(phase=phase, title=title, seconds=total_s, points=tuple(points))


def _points(work: RankWork, seconds: FloatArray, often: FloatArray, total_s: float) -> Sequence[OperatorPoint]:
    """Operators that compute something, those of one name added up, the longest first."""
    names, index = np.unique(work.name, return_inverse=True)
    flop, moved = (np.bincount(index, often * work.n_layers * part) for part in (work.flop, work.moved_bytes))
    spent = np.bincount(index, seconds)
    points = [
        OperatorPoint(name=str(name), flop=f, moved_bytes=b, seconds=s, share=s / total_s)
        for name, f, b, s in zip(names, flop.tolist(), moved.tolist(), spent.tolist(), strict=True)
        if f > 0 and b > 0
    ]
    return sorted(points, key=lambda point: (-point.seconds, point.name))
