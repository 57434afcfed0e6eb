"""Stack profiles: what a serving framework adds to the roofline, shared by all models and accelerators."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from planner.profiles.base import Profile, Text
from planner.ranges import LEAST_POSITIVE, NonNegative, Positive, ProfileName, Share, Whole, WholeOrNone
from planner.schema import FieldError, StrictModel, raise_faults

BelowOne = Annotated[float, Field(ge=0, lt=1)]
FactorBasis = Literal["calibrated", "measured", "quoted", "assumed"]
Accounting = Literal["vllm", "sglang", "trtllm"]


class Factor(StrictModel):
    """One factor with where it comes from."""

    value: NonNegative
    """The number, in the unit its key ends in; a ratio without one."""
    source: Text
    """Id of one of the profile's [sources]."""
    basis: FactorBasis
    """calibrated: fitted to measured points. measured: read off. quoted: stated by the framework. assumed: the prior
    that a fit starts from, where no point speaks about it."""
    spread_fraction: NonNegative | None = None
    """Standard error of a fitted value over the value."""
    note: Text | None = None
    """What a reader must know to use it."""


RATE_FACTORS = (
    "gemm_efficiency",
    "moe_efficiency",
    "attention_efficiency",
    "recurrence_efficiency",
    "weight_read_fraction",
    "kv_read_efficiency",
)
"""Factors that times are divided by."""


def zero_rates(values: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Factors of some that are 0, or as good as 0, and must not be, each with what is wrong with it."""
    for name in RATE_FACTORS:
        if values.get(name, 1.0) < LEAST_POSITIVE:
            yield name, f"is {values[name]:g} (at least {LEAST_POSITIVE:g}: times are divided by it)"


class StackFactors(StrictModel):
    """Factors of the roofline, see `planner.roofline.Factors` for what each multiplies.

    One that is absent is as physics leads to expect of any framework."""

    gemm_efficiency: Factor | None = None
    """Rate of dense products over the accelerator's measured kernels."""
    moe_efficiency: Factor | None = None
    """Rate of experts' products over the measured grouped ones."""
    attention_efficiency: Factor | None = None
    """Rate of prefill attention over the measured kernel."""
    recurrence_efficiency: Factor | None = None
    """Rate of chunkwise recurrences over the measured kernel."""
    tile_rows: Factor | None = None
    """Rows that products are padded to [rows]."""
    weight_read_fraction: Factor | None = None
    """Rate of reading weights over the accelerator's measured kernels, kernel latency aside."""
    kv_read_efficiency: Factor | None = None
    """Rate of reading the KV cache over the measured kernel."""
    activation_traffic: Factor | None = None
    """Activation bytes really moved over one read and one write of each."""
    kernel_latency_us: Factor | None = None
    """Launch, ramp and tail of one kernel [us]."""
    collective_latency: Factor | None = None
    """Latency of a small collective over the accelerator's measured one."""
    replica_latency_us: Factor | None = None
    """Per layer, to gather the tokens of attention replicas and scatter them again [us]."""
    step_overhead_ms: Factor | None = None
    """Per pass, whatever it holds, after the accelerator is done [ms]."""
    sequence_overhead_us: Factor | None = None
    """Per pass and sequence, after the accelerator is done [us]."""
    host_step_ms: Factor | None = None
    """Host work per pass that overlaps the accelerator's [ms]."""
    host_sequence_us: Factor | None = None
    """The same per sequence of the pass [us]."""
    eager_launch_us: Factor | None = None
    """Host time to launch one kernel of a pass with prefill, which no graph replays; overlaps the accelerator [us]."""
    request_overhead_ms: Factor | None = None
    """Per request, before its prefill: HTTP, tokenizer, admission [ms]."""
    prompt_token_us: Factor | None = None
    """Per token of a prompt, before its prefill: tokenizer and hand-over of ids [us]"""
    burst: Factor | None = None
    """Weight of the burst with which a closed loop begins."""

    @property
    def stated(self) -> dict[str, Factor]:
        """The factors that the profile has, by key."""
        return {name: factor for name, factor in self if factor is not None}

    @model_validator(mode="after")
    def _divides_by_no_zero(self) -> Self:
        found = zero_rates({name: factor.value for name, factor in self.stated.items()})
        raise_faults(FieldError((name, "value"), message) for name, message in found)
        return self


class WideSettings(StrictModel):
    """Settings that differ with experts dealt out over more accelerators than a server has; absent: as elsewhere."""

    chunk_tokens: Annotated[int, Field(ge=16, le=10**9)] | None = None
    """Most prompt tokens of one prefill pass on an attention replica [tokens]."""
    memory_fraction: Share | None = None
    """Part of an accelerator's memory that serving uses."""
    dispatch_precision: Literal["bf16", "fp8"] | None = None
    """Number format of activations on their way to experts."""
    combine_precision: Literal["bf16", "fp8"] | None = None
    """Number format of the experts' sums on their way back."""
    overlap_efficiency: BelowOne | None = None
    """Part of the exchange that two micro-batches hide behind each other's computation."""
    expert_imbalance: Annotated[float, Field(ge=1, le=1000)] | None = None
    """Visits of the busiest rank's experts over the mean."""
    redundant_experts: Annotated[int, Field(ge=0, le=10**6)] | None = None
    """Copies of experts in every layer beside the model's own."""
    grouped_experts: bool | None = None
    """Whether the exchange lays an expert's tokens side by side for grouped products (DeepGEMM), so that what fused
    kernels lose to sorting and slicing is not lost; absent: false."""


class StackSettings(StrictModel):
    """Settings of the framework unless a scenario says otherwise."""

    chunk_tokens: Annotated[int, Field(ge=16, le=10**9)] = 8192
    """Most prompt tokens of one prefill pass [tokens]."""
    memory_accounting: Accounting | None = None
    """Engine whose own accounting says what an accelerator holds beside weights and caches; absent: 2 GB, or
    runtime_gb, and eight rows of activations per token of a pass."""
    memory_fraction: Share | None = None
    """Part of an accelerator's memory that serving uses: of all for vLLM (gpu_memory_utilization) and SGLang
    (mem_fraction_static), for TensorRT-LLM of what is free beside weights and a pass (free_gpu_memory_fraction);
    absent: 0.9, or what SGLang chooses by itself."""
    runtime_gb: NonNegative | None = None
    """Memory of one accelerator that the serving process itself takes, in place of an accounting: context, graphs and
    communication buffers [GB]."""
    sampler_bytes_per_logit: NonNegative | None = None
    """Bytes that vLLM's sampler holds per sequence and word of the vocabulary while memory is profiled [B]."""
    expert_multiples: tuple[Whole, Whole] | None = None
    """Multiples that the hidden size, and the width of experts on a rank, are padded to where their 4-bit weights alone
    are quantised; absent: none."""
    reserves_output: bool = False
    """Whether a request reserves cache for its whole output when it is admitted; else it grows token by token."""
    quantized_kv: bool = False
    """Whether the cache is fp8 where the weights have 8 bits or fewer and nothing is said of the cache."""

    quantized_attention: bool | None = None
    """Whether attention's own products run in fp8 where the cache is fp8 too; absent: false."""
    weight_only_products: Literal["bf16", "fp8", "mxfp8", "int8"] | None = None
    """Inputs of products whose weights alone are quantised, and so the least wide format that these run at; mxfp8: fp8
    where an accelerator has units for blocks with a scale each, and so a peak in fp4, else bf16; absent: bf16."""
    dispatch_precision: Literal["bf16", "fp8"] | None = None
    """Number format of activations on their way to experts that are dealt out; absent: bf16."""
    combine_precision: Literal["bf16", "fp8"] | None = None
    """Number format of the experts' sums on their way back; absent: bf16."""
    overlap_efficiency: BelowOne | None = None
    """Part of that exchange that two micro-batches hide behind each other's computation; absent: 0, one batch."""
    expert_imbalance: Annotated[float, Field(ge=1, le=1000)] | None = None
    """Visits of the busiest rank's experts over the mean, as it is with or without rebalancing; absent: 1."""
    redundant_experts: Annotated[int, Field(ge=0, le=10**6)] | None = None
    """Copies of experts in every layer that rebalancing holds beside the model's own; absent: 0."""
    grouped_experts: bool | None = None
    """Whether an exchange lays an expert's tokens side by side for grouped products; absent: false."""
    wide_ep: WideSettings | None = None
    """What is otherwise where experts are dealt out over more accelerators than a server has."""

    divides_pass: bool | None = None
    """Whether attention replicas share chunk_tokens, each with an even part of it; absent: each has all of it."""
    prefill_first: bool | None = None
    """Whether waiting prompts have passes of their own, before any decode step; absent: they share passes with it."""
    splits_prompts: bool | None = None
    """Whether a prompt longer than what a pass may take is computed in chunks; absent: true."""
    most_running: Annotated[int, Field(ge=1, le=10**6)] | None = None
    """Most requests that an attention replica has admitted at once; absent: 1024."""
    usual_harness: ProfileName | None = None
    """Harness of measured points that name none; absent: they are run by these settings."""


class Polling(StrictModel):
    """Interval between a scheduler's looks at what has arrived."""

    from_concurrency: Annotated[int, Field(ge=1, le=10**6)]
    """Requests in flight from which on it holds."""
    passes: Annotated[int, Field(ge=1, le=10**6)]
    """Decode steps between two looks."""


class HarnessSettings(StrictModel):
    """Settings of a public benchmark of the framework, where they are not those of the profile."""

    source: Text
    """Id of one of the profile's [sources]: its launch scripts, or who states them."""
    shortest_fraction: Share | None = None
    """Lengths are uniform from this fraction of the nominal one up to it, where points do not say; absent: 0.8."""
    tokens_per_pass: Annotated[int, Field(ge=16, le=10**9)] | None = None
    """Most tokens of a pass [tokens]; absent: by the next key, or the settings' chunk_tokens."""
    tokens_beyond_prompt: Annotated[int, Field(ge=0, le=10**9)] | None = None
    """Where set, a pass takes so many tokens beyond a nominal prompt and one per request in flight [tokens]."""
    most_running: Annotated[int, Field(ge=1, le=10**6)] | None = None
    """Most requests admitted at once; absent: as the settings say."""
    memory_fraction: Share | None = None
    """Part of an accelerator's memory, as the device reports it, that serving uses; absent: as the settings say."""
    quantized_kv: bool | None = None
    """Whether the cache is fp8 beside quantised weights where points do not say; absent: as the settings say."""
    polling: tuple[Polling, ...] = ()
    """Looks at what has arrived, by requests in flight and rising in them, without attention replicas; empty: before
    every pass."""
    request_ms: NonNegative | None = None
    """What the benchmark counts into every TTFT beyond the framework's own overhead [ms]; absent: nothing."""
    replica_wait_passes: Annotated[int, Field(ge=1, le=10**6)] | None = None
    """Most passes for which attention replicas put prompts off until each of them has one; absent: none."""


class Band(StrictModel):
    """Where the measured value lies relative to the predicted one, in nine of ten cases."""

    low: Positive
    """5 % quantile of measured over predicted."""
    high: Positive
    """95 % quantile of measured over predicted."""
    n: Whole
    """Residuals it was read from."""


class Bands(StrictModel):
    """Bands of prefill (or TTFT) and decode (or TPOT); absent where nothing was measured."""

    prefill: Band | None = None
    """Of prefill seconds."""
    decode: Band | None = None
    """Of decode steps."""


class GroupError(StrictModel):
    """Errors of one model on one accelerator, as fractions of the measured value."""

    model: ProfileName
    """Model profile."""
    hardware: ProfileName
    """Hardware profile."""
    n_points: Whole
    """Points of the group."""
    version: Text | None = None
    """Version that most of its points name; absent where most name none."""
    ttft_mean_abs: NonNegative | None = None
    """Mean absolute error of TTFT."""
    tpot_mean_abs: NonNegative | None = None
    """Mean absolute error of TPOT."""


class PointsFile(StrictModel):
    """One file of measured points."""

    name: Text
    """File name, without folders."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Digest of the file."""
    n_points: Whole
    """Points it holds."""
    n_used: WholeOrNone
    """Points that could be predicted, and so were used."""


class ErrorSummary(StrictModel):
    """Errors over all points, as fractions of the measured value."""

    n: Whole
    """Points."""
    mean_abs: NonNegative
    """Mean absolute error."""
    median_abs: NonNegative
    """Median absolute error."""
    bias: Annotated[float, Field(ge=-1, le=1e9)]
    """Median signed error, predicted over measured less 1."""


class Errors(StrictModel):
    """Errors of both latencies."""

    ttft: ErrorSummary | None = None
    """Of TTFT, or prefill seconds."""
    tpot: ErrorSummary | None = None
    """Of TPOT."""


SPANS = {
    "input_tokens": "prompts of {} tokens",
    "batch": "batches of {} sequences",
    "context_tokens": "contexts of {} tokens",
    "n_accelerators": "instances of {} accelerators",
}
"""Ranges of a calibration, in words."""


class Calibration(StrictModel):
    """Calibration of the factors: what they were fitted to, and how well they do."""

    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    """Day of the fit."""
    source: Text
    """Id of the source of the points."""
    points: tuple[PointsFile, ...]
    """Files."""
    models: tuple[ProfileName, ...]
    """Models among the points."""
    hardware: tuple[ProfileName, ...]
    """Accelerators among the points."""
    input_tokens: tuple[Whole, Whole]
    """Shortest and longest prompt [tokens]."""
    context_tokens: tuple[Whole, Whole]
    """Shortest and longest context decoded at [tokens]."""
    batch: tuple[Whole, Whole]
    """Smallest and largest batch."""
    n_accelerators: tuple[Whole, Whole]
    """Fewest and most accelerators of an instance."""
    in_sample: Errors
    """Errors on the points fitted to."""
    held_out_models: Errors | None = None
    """Errors on each model when it is left out of the fit; absent with a single model."""
    held_out_hardware: Errors | None = None
    """Errors on each accelerator when it is left out of the fit; absent with a single one."""
    model_bands: Bands = Bands()
    """Bands from the models held out; absent with a single one: for what resembles the points."""
    hardware_bands: Bands = Bands()
    """Bands from the accelerators held out, or the models where there is one: for what lies outside their range."""
    groups: tuple[GroupError, ...] = ()
    """In-sample errors by model and accelerator."""

    def beyond(self, hardware: str, n: int, **sizes: float | None) -> list[str]:
        """Which of an instance's figures lie outside the points, beside what these cover.

        Args:
            **sizes: input_tokens, context_tokens or batch; None: not to be looked at.
        """
        found = [] if hardware in self.hardware else [f"{hardware} (it covers {', '.join(self.hardware)})"]
        for name, value in {"n_accelerators": n, **sizes}.items():
            low, high = getattr(self, name)
            if value is not None and not low <= value <= high:
                found.append(f"{SPANS[name].format(f'{value:,.0f}')} ({_span(low, high)})")
        return found

    @property
    def covered(self) -> str:
        """Coverage of the points, in words."""
        ranges = [text.format(_span(*getattr(self, name))) for name, text in SPANS.items()]
        return "; ".join([*ranges, ", ".join(self.hardware)])


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


class StackProfile(Profile):
    """A serving framework."""

    model_config = ConfigDict(populate_by_name=True)

    schema_id: Literal["planner.stack/1"] = Field(alias="schema")
    """Format of the file."""
    framework: ProfileName
    """Framework, as `--stack` names it."""
    settings: StackSettings = StackSettings()
    """How it is run."""
    settings_sources: dict[Text, Text] = Field(default_factory=dict)
    """Ids of [sources] by setting: who says so."""
    harnesses: dict[Text, HarnessSettings] = Field(default_factory=dict)
    """How public benchmarks run it, by their names."""
    factors: StackFactors
    """Its factors."""
    calibration: Calibration | None = None
    """What the factors were fitted to; absent for one that was not."""
