"""Passes of many cases, flat, so that one call times them all: what a fit and a fidelity score are made of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import expm1, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.roofline import (
    SERVING_BENCHMARK,
    Chip,
    Factors,
    InstanceModel,
    LoopTimes,
    RankWork,
    RunAs,
    Sequences,
    closed_loop_latency,
    expert_traffic,
    pass_time,
    physical_kv_bytes,
    prefill_passes,
    product_formats,
    settings_on,
)
from planner.roofline.engine_memory import MemorySettings, memory_settings
from planner.roofline.stack import QUANTIZED
from planner.studies.fidelity.cases import PointCase, kv_format_named

FloatArray = NDArray[np.float64]
ROUNDS = 8
MOST_BUSY = 0.9


@dataclass(frozen=True, eq=False)
class PassBatches:
    """Cases ready to be timed; arrays have one value per case unless said otherwise."""

    cases: tuple[PointCase, ...]
    prefill: RankWork
    prefill_case: NDArray[np.intp]
    """Case of each prefill pass."""
    prefill_times: FloatArray
    """How often each prefill pass happens."""
    decode: RankWork
    mixed: RankWork
    """Chunks of prompts, on as many attention replicas as prefill at once on average, among the decoding batch."""
    full: RankWork
    """The same with a chunk on every replica."""
    chunk: RankWork
    """The chunks of `full` alone."""
    n_chunks: FloatArray
    """Chunks of a prompt."""
    n_together: FloatArray
    """Replicas that prefill in a pass in which any does, on average."""
    n_replicas: FloatArray
    """Attention replicas of the worker that decodes."""
    n_prefill_replicas: FloatArray
    """Attention replicas of a worker that prefills."""
    batch: FloatArray
    """Sequences decoded together on one decode worker."""
    batch_per_replica: FloatArray
    """The same on one attention replica."""
    concurrency: FloatArray
    """Requests in flight of one replica; all of them when disaggregated."""
    in_batch: FloatArray
    """Of these, those that the memory of all decode workers holds."""
    prompt_tokens: FloatArray
    """Mean tokens of a prompt [tokens]."""
    output_tokens: FloatArray
    """Mean tokens generated per request [tokens]."""
    transfer_s: FloatArray
    """Hand-over of the cache between workers; 0 when co-located [s]."""
    harness_s: FloatArray
    """What the benchmark counts into TTFT beyond the framework's own overhead [s]."""
    n_prefill_workers: FloatArray
    """Workers that prefill; 1 when co-located."""
    is_disaggregated: NDArray[np.bool_]
    is_closed: NDArray[np.bool_]
    tokens_per_step: FloatArray
    """Tokens that a decode step yields of each sequence, drafted ones included."""
    overlap: FloatArray
    """Part of the exchange with experts that the stack hides."""

    def latencies(self, factors: Factors) -> tuple[FloatArray, FloatArray]:
        """TTFT and TPOT of every case.

        Args:
            factors: the stack's; scalars, or arrays with one value per case.

        Returns:
            TTFT and TPOT [s].
        """
        overlap, case = self.overlap, self.prefill_case
        prefill = pass_time(self.prefill, _at(factors, case), eager=True, overlap=overlap[case]).total_s
        alone = np.bincount(self.prefill_case, prefill * self.prefill_times, len(self.cases))
        step = pass_time(self.decode, factors, self.batch_per_replica, overlap=overlap).total_s
        mixed, full = (
            pass_time(work, factors, self.batch_per_replica + 1, eager=True, overlap=overlap).total_s
            for work in (self.mixed, self.full)
        )
        chunk = pass_time(self.chunk, factors, eager=True, overlap=overlap).total_s
        apart = self.n_chunks * chunk / (self.n_prefill_workers * self.n_prefill_replicas)
        added, together = (self.n_chunks * np.maximum(one - step, 0.0) for one in (mixed, full))
        interference = np.where(self.is_disaggregated, apart, added / self.n_together)
        times = LoopTimes(
            alone + factors.before_prefill_s(self.prompt_tokens) + self.harness_s + self.transfer_s,
            interference,
            step,
            np.where(self.is_disaggregated, apart, together),
            np.where(self.is_disaggregated, 1.0, self.n_replicas),
            self.tokens_per_step,
        )
        found = closed_loop_latency(
            times,
            self.concurrency,
            self.in_batch,
            self.output_tokens,
            burst=np.where(self.is_closed, factors.burst, 0.0),
            is_shared=~self.is_disaggregated,
        )
        # The cycle of a request is at least C X / workers: prefill apart from decode serves no faster than it can.
        slowest = self.concurrency * interference - found.tpot_s * self.output_tokens
        ttft = np.where(self.is_disaggregated, np.maximum(found.ttft_s, slowest), found.ttft_s)
        return ttft, found.tpot_s


def loads_of(cases: Sequence[PointCase], how: RunAs, *, derated: bool = True) -> PassBatches:
    """Cases as flat passes.

    Args:
        derated: whether accelerators' measured kernel fractions apply.
    """
    known: dict[tuple[object, ...], dict[str, Any]] = {}
    for case in cases:  # copies of a point, of which files of measurements have many, are one load
        if pass_key(case) not in known:
            known[pass_key(case)] = _load(case, how, derated)
    parts = [known[pass_key(case)] for case in cases]
    prefill_case = np.repeat(np.arange(len(parts)), [part["prefill"].n_passes for part in parts])
    columns = {name: _in_a_row([part[name] for part in parts]) for name in parts[0]}
    return PassBatches(cases=tuple(cases), prefill_case=prefill_case, **columns)


def _in_a_row(values: list[Any]) -> Any:
    """What is one value, one array or the passes of each case as one array or one record of passes."""
    return RankWork.joined(values) if isinstance(values[0], RankWork) else np.hstack(values)


def pass_key(case: PointCase) -> tuple[object, ...]:
    """A case without what was measured and where it stands: equal for cases that ask for the same."""
    point = replace(case.point, file="", line=0, ttft_s=None, tpot_s=None, measured_date=None, weight=1.0)
    point = replace(point, output_tokens_per_s_per_gpu=None)
    return point, case.point.is_batch, case.model.name, case.hardware.name, case.precision


def _load(case: PointCase, how: RunAs, derated: bool) -> dict[str, Any]:
    """Fields of `PassBatches` of one case, by name."""
    settings = how.settings
    served, decoder = (case_model(case, how, role, derated) for role in ("prefill", "decode"))
    is_exact = case.point.lengths_are_means or case.point.output_tokens <= 1
    mean = 1.0 if is_exact else SERVING_BENCHMARK.mean_fraction
    prompt, output = mean * case.point.input_tokens, max(mean * case.point.output_tokens, 1.0)
    concurrency = _in_flight(case, served, decoder, prompt, output) / (
        1 if case.is_disaggregated else case.n_prefill_workers
    )
    reserved = prompt + (output if settings.reserves_output else output / 2)
    room = max(min(float(decoder.largest_batch(reserved)), decoder.most_running), 1.0)
    wanted = concurrency / case.n_decode_workers if case.is_disaggregated else concurrency
    batch = min(max(wanted, 1.0), room)
    context = prompt + output / 2
    slowest = served.slowest_stage_fraction
    n_chunks = np.ceil(prompt / served.chunk_tokens)
    pp, dp, places = case.decode_layout.pp_size, decoder.n_places, served.n_places
    together = 1.0 if case.is_disaggregated else replicas_together(batch, n_chunks / output, dp)
    passes = prefill_passes(np.array([prompt]), np.zeros(1), served.chunk_tokens, together)
    few, full, alone = (
        Sequences.prefill([prompt / n_chunks], [prompt / 2 * (1 - 1 / n_chunks)], n) for n in (together, dp, places)
    )
    part = max(batch / pp, min(batch, 1.0))
    return dict(
        prefill=served.prefill_work(passes.sequences),
        prefill_times=passes.times * slowest + passes.is_first * (1 - slowest),
        decode=decoder.decode_work([part], [context]),
        mixed=decoder.decode_work([part], [context], few),
        full=decoder.decode_work([part], [context], full),
        chunk=served.prefill_work(alone),
        n_chunks=n_chunks,
        n_together=together,
        n_replicas=float(dp),
        n_prefill_replicas=float(places),
        batch=batch,
        batch_per_replica=max(part / dp, min(part, 1.0)),
        concurrency=max(concurrency, 1.0),
        in_batch=batch * (case.n_decode_workers if case.is_disaggregated else 1),
        prompt_tokens=prompt,
        output_tokens=output,
        transfer_s=_transfer_s(case, served, prompt),
        harness_s=how.request_s(case.point.source),
        n_prefill_workers=float(case.n_prefill_workers if case.is_disaggregated else 1),
        tokens_per_step=decoder.tokens_per_step,
        overlap=decoder.traffic.overlap_efficiency,
        is_disaggregated=case.is_disaggregated,
        is_closed=case.point.is_closed_loop,
    )


def replicas_together(batch: float, passes_per_token: float, n_replicas: int) -> float:
    """Attention replicas that prefill in a pass in which any does, on average, in a closed loop.

    Equation:
        R u / (1 - (1 - u)^R), u = B c / (R L): each of the B requests brings c passes of prefill to its replica in the
        L passes of its decode, which fall together with those of other replicas by chance

    Args:
        batch: requests decoded together over all replicas, B.
        passes_per_token: passes that prefill a prompt over the tokens that it decodes, c / L.
        n_replicas: replicas, R.

    Returns:
        From 1 to R.

    >>> replicas_together(8.0, 0.001, 1), round(replicas_together(8.0, 1e-6, 8), 3), replicas_together(64.0, 1.0, 8)
    (1.0, 1.0, 8.0)
    """
    use = batch * passes_per_token / n_replicas
    return n_replicas * use / -expm1(n_replicas * log1p(-use)) if use < 1 else float(n_replicas)


def case_model(case: PointCase, how: RunAs, role: str, derated: bool) -> InstanceModel:
    """The instance of a case that prefills or decodes, under a stack's settings and no factors of its.

    It was measured, and so had room for a request at least: where the stack's part of the memory leaves none, it was
    given all that the device reports.
    """
    layout, precision = case.prefill_layout if role == "prefill" else case.decode_layout, case.precision
    settings = settings_on(how.by(case.point.source), layout, case.hardware)
    if case.point.max_num_seqs:
        settings = settings.model_copy(update={"most_running": case.point.max_num_seqs})
    weights = precision or case.model.precision
    usual = "fp8" if settings.quantized_kv and weights in QUANTIZED else "bf16"
    kv = kv_format_named(case.point.kv_precision) or usual
    found = InstanceModel(
        case.model,
        Chip(case.hardware, derated),
        layout,
        Factors(),
        precision,
        kv,
        settings.chunk_tokens,
        memory_settings(settings),
        expert_traffic(settings),
        product_formats(settings, kv),
        case.speculation,
    )
    has_room = float(found.largest_batch(case.point.input_tokens + case.point.output_tokens)) >= 1
    return found if has_room else replace(found, memory_settings=MemorySettings(fraction=1.0))


def _in_flight(case: PointCase, served: InstanceModel, decoder: InstanceModel, prompt: float, output: float) -> float:
    """Requests in flight: as stated, or for a rate what Little's law makes of it, but no more than memory holds.

    The times are those of a stack without a fit: the number of requests is needed before any factor is known.
    """
    if case.point.concurrency is not None and case.point.is_closed_loop:
        return case.point.concurrency
    rate = case.point.request_rate_req_per_s or 0.0
    room = (
        max(min(float(decoder.largest_batch(prompt + output / 2)), decoder.most_running), 1.0) * case.n_decode_workers
    )
    prefill = float(served.prefill_time([prompt], n_prompts=served.n_places).total_s[0]) / served.n_places
    busy = min(rate * prefill / case.n_prefill_workers, MOST_BUSY)
    n = 1.0
    for _ in range(ROUNDS):
        share = min(max(n / case.n_decode_workers, 1.0), room)
        step = float(decoder.token_time([share], [prompt + output / 2]).total_s[0])
        n = min(rate * (prefill + step * output / (1.0 - busy)), room)
    most = case.point.concurrency
    return n if most is None else min(n, most)


def _transfer_s(case: PointCase, served: InstanceModel, prompt: float) -> float:
    """Hand-over of the physical cache over the instance's own network, after the last layer's pass."""
    if not case.is_disaggregated:
        return 0.0
    hardware, tp = case.hardware, case.prefill_layout.tp_size
    rate = (hardware.nic_bytes_per_s or hardware.scaleup_bytes_per_s or 0.0) * tp
    n_bytes = float(physical_kv_bytes(served.cached_model, prompt, served.kv_precision, tp_size=tp))
    return n_bytes / rate / (case.model.architecture.n_layers or 1) if rate else 0.0


def _at(factors: Factors, index: NDArray[np.intp]) -> Factors:
    """Factors of passes whose cases are numbered by an index."""
    picked = {name: value[index] for name, value in vars(factors).items() if np.ndim(value)}
    return replace(factors, **picked) if picked else factors
