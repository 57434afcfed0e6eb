"""Ways to run instances, each with what one of them serves: what a size chooses from."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from math import ceil, inf
from typing import Literal, TypeVar

import numpy as np

from planner.errors import InputError
from planner.optimizer.batch_loads import preemption_of
from planner.profiles import HardwareProfile, ModelProfile, Speculation
from planner.queueing import PassLoop, Preemption, Prompts, colocated_capacity_req_per_s
from planner.results import ConsideredWay
from planner.roofline import (
    Chip,
    Layout,
    MixedPasses,
    RequestKinds,
    ServedModel,
    Stack,
    expert_traffic,
    held_dispersion,
    mixed_passes,
    most_held,
)
from planner.roofline.engine_memory import MOST_RUNNING, memory_settings
from planner.roofline.layouts import layouts
from planner.studies.size.question import SizeQuestion

MOST_SIZES = 2048
"""Of decode batches that are timed: every one, or of more so many at equal steps."""
TOKENS_PER_PASS = (2048, 512)
"""Of a replica, tried for colocated instances beside what a stack takes: shorter passes hold up decode less."""
TOGETHER = 4
"""Mean requests that an instance holds at least, beside the weights."""
BUSIEST = 0.98
"""Of an instance in an estimate: no queue is stable beyond."""


@dataclass(frozen=True, eq=False)
class InstanceKind:
    """Instances that hold the model and its requests."""

    chip: HardwareProfile
    software: Stack
    served: ServedModel
    usd_per_hour: float
    """Of an instance."""


@dataclass(frozen=True, eq=False)
class Way:
    """Instances of one kind in a role."""

    role: Literal["prefill", "decode", "colocated"]
    kind: InstanceKind
    capacity_req_per_s: float
    """Of an instance, within the limit on the time per token and without waiting."""
    batch: int | None = None
    """Most sequences that decode at once."""

    @property
    def chip(self) -> HardwareProfile:
        """Its accelerator."""
        return self.kind.chip

    @property
    def served(self) -> ServedModel:
        """The model on it."""
        return self.kind.served

    @property
    def usd_per_hour(self) -> float:
        """Rent of an instance."""
        return self.kind.usd_per_hour

    @property
    def layout(self) -> Layout:
        """Its parallel sizes."""
        return self.served.layout

    @property
    def tokens_per_pass(self) -> int | None:
        """Most tokens of a pass on a replica; None where no prompts are computed."""
        return None if self.role == "decode" else self.served.chunk_tokens

    def least_instances(self, rate: float) -> int:
        """Instances without which the rate cannot be served."""
        return max(ceil(rate / (BUSIEST * self.capacity_req_per_s) - 1e-9), 1)

    def least_usd_per_hour(self, rate: float) -> float:
        """Their rent [USD/h]."""
        return self.least_instances(rate) * self.usd_per_hour

    def considered(self, rate: float) -> ConsideredWay:
        """As answers list it."""
        return ConsideredWay(
            role=self.role,
            hardware=self.chip.name,
            stack=self.kind.software.name,
            layout=str(self.layout),
            tokens_per_pass=self.tokens_per_pass,
            accelerators_per_instance=self.layout.n_accelerators,
            capacity_req_per_s=self.capacity_req_per_s,
            usd_per_hour=self.least_usd_per_hour(rate),
        )


def instances(question: SizeQuestion, chip: HardwareProfile, used: Stack) -> Iterator[InstanceKind]:
    """Instances of an accelerator that hold the model and its requests under a stack. Raises InputError."""
    requests, drafts = question.requests, question.speculation
    longest = question.longest_tokens + requests.output_tokens
    for layout in layouts(question.profile, chip):
        if drafts is not None and layout.pp_size > 1:  # nothing is drafted over pipeline stages
            continue
        one = served(question.profile, chip, layout, used, question.precision, question.kv_precision, drafts)
        if has_room(one, longest, requests.mean_tokens + requests.output_tokens):
            yield InstanceKind(chip, used, one, question.usd_per_hour(chip) * layout.n_accelerators)


def served(
    model: ModelProfile,
    hardware: HardwareProfile,
    layout: Layout,
    used: Stack,
    precision: str | None,
    kv: str,
    drafts: Speculation | None = None,
) -> ServedModel:
    """The model on an instance under a stack."""
    settings = used.on_layout(layout, hardware)
    return ServedModel(
        model,
        Chip(hardware, used.derated),
        layout,
        used.factors,
        precision,
        kv,
        settings.chunk_tokens,
        memory_settings(settings),
        expert_traffic(settings),
        used.formats(kv),
        drafts,
    )


def has_room(one: ServedModel, longest_tokens: float, mean_tokens: float) -> bool:
    """Whether weights, the longest request, and some requests of mean length fit."""
    if not one.memory.fits:
        return False
    longest, together = one.largest_batch([longest_tokens, mean_tokens]).tolist()
    return bool(longest >= 1 and together >= TOGETHER)


def prefill_way(question: SizeQuestion, kind: InstanceKind) -> Way | None:
    """Prefill alone; None where it is too slow for the promise on the first token, even without waiting."""
    requests, one = question.requests, kind.served
    n_places = one.n_places
    total_s = one.prefill_time(requests.tokens, n_prompts=n_places).total_s
    if question.ttft_s is not None and quantile(total_s, requests.weights, question.percentile) > question.ttft_s:
        return None
    work_s = float((total_s - one.factors.before_prefill_s(requests.tokens)) @ requests.weights)
    return Way("prefill", kind, n_places / work_s)


def decode_way(question: SizeQuestion, kind: InstanceKind) -> Way | None:
    """Decode alone; None where no step is as short as promised."""
    requests, one = question.requests, kind.served
    kept, context = requests.mean_tokens + requests.output_tokens, requests.mean.context_tokens
    most = int(min(float(one.largest_batch(kept)), one.most_running))
    sizes = np.unique(np.round(np.linspace(1, most, min(most, MOST_SIZES))))
    steps_s = one.token_time(sizes, np.full(sizes.shape, context)).total_s
    kept_sizes = sizes[steps_s <= (question.tpot_s or inf)]
    if not len(kept_sizes):
        return None
    per_s = kept_sizes / (steps_s[: len(kept_sizes)] * requests.output_tokens)
    return Way("decode", kind, float(per_s.max()), int(kept_sizes[-1]))


@dataclass(frozen=True, eq=False)
class ColocatedWay(Way):
    """Prefill and decode on the same instances."""

    requests: RequestKinds | None = None
    passes: MixedPasses | None = None
    most_by_memory: int = 0
    """Sequences that memory holds, at their mean length."""
    is_prefill_first: bool = False
    held_dispersion: float = 1.0
    """Of what requests hold of memory, where it limits how many run [fraction]."""
    preemption: Preemption | None = None
    """What gives way where memory limits how many run; None elsewhere."""

    @cached_property
    def loop(self) -> PassLoop:
        """Its passes as the model of queues takes them."""
        assert self.passes is not None, "made by colocated_way"
        budget = float(self.served.chunk_tokens * self.served.n_places)
        most = len(self.passes.decode_s) - 1
        limits = (budget, most, self.is_prefill_first, self.held_dispersion, self.preemption)
        return PassLoop(self.passes, *limits)

    @cached_property
    def before_s(self) -> np.ndarray:
        """What the host needs before a prompt of each kind [s]."""
        assert self.requests is not None, "made by colocated_way"
        return np.zeros(len(self.requests.tokens)) + self.served.factors.before_prefill_s(self.requests.tokens)

    @cached_property
    def prompts(self) -> Prompts:
        """Its requests as the model of queues takes them."""
        assert self.requests is not None, "made by colocated_way"
        r = self.requests
        alone_s = self.served.prefill_time(r.tokens).total_s - self.before_s
        return Prompts(r.tokens, r.weights, alone_s, r.output_tokens, r.output_scv)


def colocated_way(question: SizeQuestion, kind: InstanceKind) -> ColocatedWay | None:
    """Both on the same instances; None where they are too slow without waiting, or their passes are not modelled.

    Pipeline stages overlap passes, which the pass loop has one after another. Its passes make one token of each
    sequence, and so have no drafts.
    """
    one = kind.served
    if one.layout.pp_size > 1 or one.speculation is not None:
        return None
    settings, requests = kind.software.settings, question.requests
    held = most_held(one, requests, settings.reserves_output)
    most = min((settings.most_running or MOST_RUNNING) * one.n_places, held)
    way = ColocatedWay(
        "colocated",
        kind,
        0.0,
        most,
        requests,
        mixed_passes(one, requests.mean, most),
        held,
        settings.prefill_first is True,
        held_dispersion(requests, settings.reserves_output) if most == held else 1.0,
        preemption_of(one, requests, settings.reserves_output) if most == held else None,
    )
    capacity = colocated_capacity_req_per_s(way.loop, way.prompts, question.tpot_s or inf)
    ttft_s = quantile(way.prompts.alone_s + way.before_s, requests.weights, question.percentile)
    if capacity <= 0 or (question.ttft_s is not None and ttft_s > question.ttft_s):
        return None
    return replace(way, capacity_req_per_s=capacity)


def quantile(values: np.ndarray, weights: np.ndarray, percentile: float) -> float:
    """The least value that a percentage does not exceed.

    >>> quantile(np.array([3.0, 1.0]), np.array([0.2, 0.8]), 90.0)
    3.0
    """
    order = np.argsort(values)
    reached = np.searchsorted(np.cumsum(weights[order]), percentile / 100 - 1e-12)
    return float(values[order][min(int(reached), len(values) - 1)])


@dataclass(frozen=True)
class Ways:
    """All that can serve; of each kind of fleet the cheapest first."""

    colocated: tuple[tuple[ColocatedWay, ...], ...]
    """On every accelerator."""
    pairs: tuple[tuple[tuple[Way, ...], tuple[Way, ...]], ...]
    """Prefill on every accelerator with decode on every one, under software that both run."""
    n_instances: int
    """Kinds of instances that hold the model and its requests."""
    stacks: tuple[str, ...]
    """Software that they run, by name."""

    def by_role(self, question: SizeQuestion) -> tuple[list[Way], ...]:
        """Colocated, prefill and decode ways on all accelerators, each once, the cheapest first."""
        colocated: list[Way] = [way for found in self.colocated for way in found]
        separate = ([way for pair in self.pairs for way in pair[side]] for side in (0, 1))
        return tuple(
            sorted(dict.fromkeys(found), key=partial(cost_order, question)) for found in (colocated, *separate)
        )


def ways(question: SizeQuestion) -> Ways:
    """Ways to run instances for a question; what an accelerator adds changes none of the others. Raises InputError."""
    chips, stacks = question.chips, dict[str, Stack]()

    def software(*used: HardwareProfile) -> Stack:
        found = question.software(*used)
        return stacks.setdefault(found.name, found)

    @cache
    def kinds(at: int, used: Stack) -> tuple[InstanceKind, ...]:
        return tuple(instances(question, chips[at], used))

    @cache
    def separate(make: Make[Way], at: int, used: Stack) -> tuple[Way, ...]:
        return _made(make, question, kinds(at, used))

    alone = [kinds(at, software(chip)) for at, chip in enumerate(chips)]
    pairs = ((p, d, software(chips[p], chips[d])) for p, d in product(range(len(chips)), repeat=2))
    return Ways(
        tuple(_made(colocated_way, question, _by_tokens_per_pass(found)) for found in alone),
        tuple((separate(prefill_way, p, used), separate(decode_way, d, used)) for p, d, used in pairs),
        sum(map(len, alone)),
        tuple(stacks),
    )


def _by_tokens_per_pass(kinds: Iterable[InstanceKind]) -> Iterator[InstanceKind]:
    """Instances with each number of tokens that their passes may take, the usual one first."""
    for kind in kinds:
        yield kind
        for tokens in TOKENS_PER_PASS:
            if tokens < kind.served.chunk_tokens:
                yield replace(kind, served=replace(kind.served, chunk_tokens=tokens))


def cost_order(question: SizeQuestion, way: Way) -> tuple[float, float]:
    """The cheapest first; among those that cost the same, the one that does most for it."""
    return way.least_usd_per_hour(question.rate_req_per_s), way.usd_per_hour / way.capacity_req_per_s


Some = TypeVar("Some", bound=Way)
Make = Callable[[SizeQuestion, InstanceKind], Some | None]


def _made(make: Make[Some], question: SizeQuestion, kinds: Iterable[InstanceKind]) -> tuple[Some, ...]:
    """Ways of some kinds of instances, the cheapest first."""
    found = []
    for kind in kinds:
        with suppress(InputError):  # a figure of the accelerator that nobody published
            way = make(question, kind)
            found += [] if way is None else [way]
    return tuple(sorted(found, key=partial(cost_order, question)))
