"""The question of a prediction, and the model, accelerators, layout and stack that it means."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

from planner.errors import InputError, InputProblem, did_you_mean
from planner.profiles import (
    HardwareProfile,
    MeasuredInstance,
    ModelProfile,
    Speculation,
    hardware_profile,
    model_profile,
)
from planner.profiles.parameters import missing_shapes
from planner.roofline.chip import FORMATS, Chip
from planner.roofline.engine_memory import memory_settings
from planner.roofline.layout import Layout
from planner.roofline.served_model import InstanceModel
from planner.roofline.stack import Stack, best_stack, expert_traffic, stack
from planner.studies.drafts import NO_DRAFTS, AskedDrafts

COMMAND = "planner predict"
N_ACCELERATORS = 8
LARGEST = 10**9
"""Above any length, batch or context that makes sense."""


@dataclass(frozen=True)
class PredictQuestion:
    """A model, an instance, and the prompts and batches to time on it."""

    model: str
    """Name, alias or path of a model profile."""
    hardware: str
    """Name, alias or path of a hardware profile."""
    n_accelerators: int | None = None
    """Accelerators of the instance; None: as the layout has, else 8."""
    layout: str | None = None
    """Parallel sizes such as tp=8,ep=1,dp=1,pp=1; None: tensor parallelism over all accelerators."""
    precision: str | None = None
    """Number format of weights and products; None: the checkpoint's own."""
    kv_precision: str = "bf16"
    """Number format of the attention cache."""
    stack: str | None = None
    """Framework, framework and version, or datasheet; None: the one calibrated best."""
    memory_fraction: float | None = None
    """Part of an accelerator's memory that the engine is told to use; None: as its stack says."""
    chunk_tokens: int | None = None
    """Most tokens of a pass; None: as its stack says [tokens]."""
    most_running: int | None = None
    """Most requests that an attention replica admits at once; None: as its stack says."""
    tokens: tuple[int, ...] = (1024, 8192, 32768, 131072)
    """Lengths of prompts, cached tokens included [tokens]."""
    cached_tokens: int = 0
    """Leading tokens of each prompt whose cache exists already [tokens]."""
    batch: tuple[int, ...] = (1, 8, 32, 64, 128)
    """Sequences decoded together."""
    context_tokens: int = 4096
    """Context of each of them [tokens]."""
    drafts: AskedDrafts = NO_DRAFTS
    """Tokens that are drafted in every decode step."""
    tpot_limit_s: float | None = None
    """Longest decode step allowed, to find the largest batch [s]; None: not asked."""

    def problems(self) -> Iterator[InputProblem]:
        """Everything that no instance could be asked."""
        for option, values in (
            ("--tokens", self.tokens),
            ("--batch", self.batch),
            ("--context", (self.context_tokens,)),
        ):
            allowed = f"whole numbers from 1 to {LARGEST}"
            if not values:
                yield InputProblem(COMMAND, option, "is empty", allowed)
            for value in values:
                if not 1 <= value <= LARGEST:
                    yield InputProblem(COMMAND, option, f"holds {value}", allowed)
        shortest = min(self.tokens, default=1)
        if not 0 <= self.cached_tokens < max(shortest, 1):
            allowed = "at least 0 and below every length of --tokens, whose shortest is " + str(shortest)
            yield InputProblem(COMMAND, "--cached", f"is {self.cached_tokens}", allowed)
        for option, name in (("--precision", self.precision), ("--kv-precision", self.kv_precision)):
            if name is not None and name not in FORMATS:
                yield InputProblem(COMMAND, option, f"{name!r} is no number format", did_you_mean(name, FORMATS))
        yield from self._settings_problems()
        yield from self.drafts.problems(COMMAND)
        if self.tpot_limit_s is not None and not (self.tpot_limit_s > 0 and isfinite(self.tpot_limit_s)):
            yield InputProblem(COMMAND, "--tpot-ms", f"is {1000 * self.tpot_limit_s:g}", "milliseconds above 0")
        if self.n_accelerators is not None and self.n_accelerators < 1:
            yield InputProblem(COMMAND, "--accelerators", f"is {self.n_accelerators}", "a whole number of at least 1")

    def _settings_problems(self) -> Iterator[InputProblem]:
        """Problems: settings that no engine could be told."""
        fraction = self.memory_fraction
        if fraction is not None and not 0 < fraction <= 1:
            yield InputProblem(COMMAND, "--memory-fraction", f"is {fraction:g}", "above 0 and at most 1")
        for option, value, least in (
            ("--chunk-tokens", self.chunk_tokens, 16),
            ("--most-running", self.most_running, 1),
        ):
            if value is not None and not least <= value <= LARGEST:
                yield InputProblem(COMMAND, option, f"is {value}", f"whole numbers from {least} to {LARGEST}")

    @property
    def settings(self) -> dict[str, float | int | None]:
        """Settings of the stack that are stated."""
        return {key: getattr(self, key) for key in ("memory_fraction", "chunk_tokens", "most_running")}

    def parallel_sizes(self) -> Layout:
        """Layout of the instance.

        Raises:
            InputError: it is none, or not one of as many accelerators as asked.
        """
        if self.layout is None:
            return Layout(tp_size=self.n_accelerators or N_ACCELERATORS)
        found = Layout.parse(self.layout)
        if self.n_accelerators not in (None, found.n_accelerators):
            message = f"is {self.n_accelerators}, but --layout {self.layout} has {found.n_accelerators}"
            allowed = "tp x dp x pp; or leave out --accelerators"
            raise InputError(InputProblem(COMMAND, "--accelerators", message, allowed))
        return found


@dataclass(frozen=True, eq=False)
class Instance:
    """A question with everything it names looked up."""

    question: PredictQuestion
    model: ModelProfile
    hardware: HardwareProfile
    layout: Layout
    stack: Stack
    speculation: Speculation | None = None

    @property
    def precision(self) -> str:
        """Number format of the weights."""
        return self.question.precision or self.model.precision

    @property
    def n_accelerators(self) -> int:
        """Accelerators of the instance."""
        return self.layout.n_accelerators

    @property
    def has_shapes(self) -> bool:
        """True if the model's shapes are known, so that operators can be counted."""
        return not missing_shapes(self.model.architecture)

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a decode step yields of each sequence."""
        return 1.0 if self.speculation is None else self.instance_model.tokens_per_step

    @cached_property
    def chip(self) -> Chip:
        """Rates of one accelerator."""
        return Chip(self.hardware, self.stack.derated)

    @cached_property
    def instance_model(self) -> InstanceModel:
        """The roofline of the instance; only of use where shapes are known."""
        return self.laid_out(self.layout)

    def laid_out(self, layout: Layout, precision: str | None = None) -> InstanceModel:
        """The same with other parallel sizes, or another precision."""
        settings = self.stack.on_layout(layout, self.hardware)
        return InstanceModel(
            model=self.model,
            chip=self.chip,
            layout=layout,
            factors=self.stack.factors,
            precision=precision or self.question.precision,
            kv_precision=self.question.kv_precision,
            chunk_tokens=settings.chunk_tokens,
            memory_settings=memory_settings(settings),
            traffic=expert_traffic(settings),
            formats=self.stack.formats(self.question.kv_precision),
            speculation=self.speculation,
        )

    @cached_property
    def measured(self) -> dict[str, MeasuredInstance]:
        """Measurements of this very instance in the model's profile, by name."""
        wanted = (self.hardware.name, self.n_accelerators, self.precision)
        every = self.model.measured.items()
        return {name: one for name, one in every if (one.hardware, one.n_accelerators, one.precision) == wanted}


def instance(question: PredictQuestion) -> Instance:
    """Look up what a question names.

    Raises:
        InputError: something in it cannot be, or is not known.
    """
    if problems := tuple(question.problems()):
        raise InputError(problems)
    layout = question.parallel_sizes()
    model, hardware = model_profile(question.model), hardware_profile(question.hardware)
    known = stack(question.stack) if question.stack else best_stack(model.name, hardware.name)
    chosen = known.with_settings(question.settings)
    found = Instance(question, model, hardware, layout, chosen, question.drafts.speculation)
    if found.speculation is not None:
        _check_drafts(found)
    return found


def _check_drafts(found: Instance) -> None:
    """Raises InputError where nothing is known of a step with drafts."""
    if not found.has_shapes:
        what = f"is {found.question.drafts.draft_tokens}, and shapes of {found.model.name} are not known"
        raise InputError(InputProblem(COMMAND, "--draft-tokens", what, "a model of known shapes, or no draft tokens"))
    try:
        found.instance_model.drafter  # noqa: B018 - the model may have no MTP layers
    except InputError as error:
        key = "--layout" if error.problems[0].file == "layout" else "--draft-tokens"
        raise InputError([InputProblem(COMMAND, key, p.message, p.allowed) for p in error.problems]) from None
