"""Performance of an instance by its shapes and rates: the answer of `planner predict`, as `--format json` prints it."""

from typing import Any, Literal

from pydantic import Field

from planner.notes import Note
from planner.schema import StrictModel

Bound = Literal["compute", "memory", "network", "overhead"]
PredictionBasis = Literal["measured", "calibrated", "inferred", "datasheet"]


class PrefillPrediction(StrictModel):
    """Prefill of one prompt on an idle instance."""

    tokens: int
    """Length of the prompt, cached tokens included [tokens]."""
    cached_tokens: int
    """Leading tokens whose cache exists already [tokens]."""
    prefill_s: float | None
    """Seconds from the request's arrival to its first token [s]; None where unknown."""
    low_s: float | None
    high_s: float | None
    """The 90 % band; None where nothing was measured that it could follow from [s]."""
    kv_bytes: float
    """Logical bytes of cache and state of the whole prompt [B]."""
    kv_gbps: float | None
    """Those bytes over the seconds [Gbps]."""
    fits: bool
    """Whether the whole prompt's cache fits the memory beside the weights; where it does not, there are no seconds."""
    lacking_bytes_per_accelerator: float
    """Bytes that the weights and the prompt need beyond the memory of an accelerator; 0 where they fit [B]."""
    beyond_context_limit: bool
    """Whether it is longer than the model is made for."""
    bound: Bound | None
    """What takes the largest part of the seconds."""
    basis: PredictionBasis
    """Where the seconds come from."""
    extrapolated: bool
    """Whether they lie outside what was measured or calibrated."""
    measured_s: float | None = None
    """Seconds somebody measured on the same accelerators at the same precision [s]."""
    pass_prompts: int = 1
    """Prompts, or chunks of them, that a full pass takes: on each attention replica as many as its tokens allow."""
    pass_tokens: int | None = None
    """Tokens that the first of a prompt's passes computes on the instance when it is full [tokens]."""
    full_s: float | None = None
    """Seconds of the same prompt when its passes are full of prompts like it [s]."""
    tokens_per_s: float | None = None
    """Tokens computed per second by an instance that is never without prompts like it, what a request costs before
    its prefill being waited for and not worked [tokens/s]."""
    tokens_per_s_per_accelerator: float | None = None
    """The same over its accelerators [tokens/s]."""


class DecodePrediction(StrictModel):
    """One decode step of a batch."""

    batch: int
    """Sequences decoded together on the instance."""
    context_tokens: int
    """Context of each [tokens]."""
    step_s: float | None
    """Seconds of a step, which yields one token per sequence, or with drafts `speculation.tokens_per_step` [s]; None
    where unknown."""
    low_s: float | None
    high_s: float | None
    """The 90 % band [s]."""
    tokens_per_s: float | None
    """Tokens of the whole batch per second [tokens/s]."""
    bound: Bound | None
    """What takes the largest part of the step."""
    basis: PredictionBasis
    """Where the seconds come from."""
    extrapolated: bool
    """Whether they lie outside what was measured or calibrated."""
    fits: bool
    """Whether the caches of the batch fit the memory beside the weights."""


class DraftedStep(StrictModel):
    """One decode step with drafted tokens beside the plain step of the same batch."""

    batch: int
    """Sequences decoded together on the instance."""
    plain_step_s: float
    """The step without drafts, which yields one token of each sequence [s]."""
    verify_s: float
    """What verifying takes of the step: all drafted tokens and one more of each sequence at once [s]."""
    draft_s: float
    """What drafting takes of it [s]."""
    tpot_s: float
    """Seconds per token of a sequence: the step over the tokens that it yields [s]."""
    speedup: float
    """The plain step over that; below 1 drafting slows down [-]."""


class SpeculationPrediction(StrictModel):
    """Effect of speculative decoding on the instance."""

    draft_tokens: int
    """Tokens drafted per step."""
    acceptance: tuple[float, ...]
    """Probability that each is accepted, given that those before it were."""
    draft_model: str | None
    """Model that drafts; None: the model's own MTP layers."""
    tokens_per_step: float
    """Tokens that a step yields of each sequence, on average."""
    tokens_per_step_variance: float
    """Variance of that number over steps."""
    weights_bytes_per_accelerator: float
    """Weights of what drafts on the fullest rank, within those of the answer [B]."""
    kv_bytes_per_token: float
    """Logical cache of what drafts, for one more token and beside that of the answer [B]."""
    steps: tuple[DraftedStep, ...]
    """By batch; empty where steps are not known."""
    slower_from_batch: int | None
    """Least batch from which on drafting slows down, of those that fit; None: it pays for all of them, or is not
    known."""


class AcceleratorMemory(StrictModel):
    """Memory of one accelerator."""

    total_bytes: float
    """All of it [B]."""
    usable_bytes: float
    """What the stack uses of it [B]."""
    weights_bytes: float | None
    """Weights of the fullest rank [B]; None where neither shapes nor parameters are known."""
    workspace_bytes: float | None
    """Activations of a prefill pass and the runtime [B]."""
    cache_bytes: float | None
    """What is left for caches, 0 where the weights do not fit [B]; None where weights are not known well enough."""


class LargestBatch(StrictModel):
    """Most sequences that an instance decodes together."""

    context_tokens: int
    """Context that each reserves [tokens]."""
    within_memory: int | None
    """By memory alone."""
    tpot_limit_s: float | None = None
    """Longest step allowed [s]; None where not asked."""
    within_tpot: int | None = None
    """By memory and that limit; None where not asked, or the step is unknown."""


class Prediction(StrictModel):
    """A model on one instance of an accelerator."""

    schema_version: Literal["planner.prediction/1"] = Field(
        default="planner.prediction/1", serialization_alias="schema"
    )
    model: str
    hardware: str
    n_accelerators: int
    precision: str
    """Number format of the weights."""
    stack: str
    fits: bool
    """Whether weights and workspace leave room for any cache at all."""
    weights_bytes_per_accelerator: float | None
    """Weights of the fullest rank [B]."""
    kv_bytes_per_token: float
    """Logical cache of one more token [B]."""
    kv_bytes_per_token_physical: float
    """The same over all ranks that hold it, copies included [B]."""
    state_bytes: float
    """Logical recurrent state of a request, whatever its length [B]."""
    prefill: tuple[PrefillPrediction, ...]
    decode: tuple[DecodePrediction, ...]
    layout: str
    """Parallel sizes."""
    kv_precision: str
    """Number format of the attention cache."""
    product_format: str | None
    """Number format that matrix products run at; None where the accelerator has no peak for any."""
    stack_basis: str
    """What the stack's factors rest on, for this model and accelerator."""
    stack_is_default: bool
    """Whether the stack was chosen rather than asked for."""
    memory: AcceleratorMemory
    lacking_bytes_per_accelerator: float
    """Bytes that weights and workspace need beyond the memory; 0 where they fit [B]."""
    largest_batch: LargestBatch
    longest_prompt_tokens: int | None
    """Longest prompt whose cache fits beside the weights, 0 where they do not [tokens]; None where weights are not
    counted, or any length fits."""
    context_limit_tokens: int | None
    """Longest context that the model is made for [tokens]; None where its profile states none."""
    speculation: SpeculationPrediction | None = None
    """What drafting tokens does; None: none are drafted."""
    relaxations: tuple[str, ...] = ()
    """The smallest changes that would make the weights fit, where they do not, else the longest prompt asked for."""
    notes: tuple[Note, ...] = ()
    """What the reader must know to use the figures."""

    @property
    def fits_any_prompt(self) -> bool:
        """True if the weights, and any of the prompts asked for beside them, fit."""
        return self.fits and any(row.fits for row in self.prefill)

    @property
    def instance(self) -> str:
        """Accelerators, such as `8 x h200-sxm`."""
        return f"{self.n_accelerators} x {self.hardware}"

    def answer(self) -> dict[str, Any]:
        """The prediction as JSON prints it."""
        return self.model_dump(mode="json", by_alias=True)
