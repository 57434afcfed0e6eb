"""Measured points as questions to the roofline: model, instance and load of each, or why not; copies once."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from planner.errors import InputError
from planner.profiles import (
    HardwareProfile,
    ModelProfile,
    Speculation,
    hardware_profile,
    missing_shapes,
    model_profile,
    profile_names,
)
from planner.profiles.folders import own_dirs
from planner.profiles.points import ServingPoint
from planner.roofline import Chip, Factors, InstanceModel, Layout, memory_fit
from planner.units import GB

MOST_REPORTED = 1.074
"""Most that a device may report of its memory over the gigabytes it is sold with: a GiB over a GB."""
MOST_TOKENS_IN_FLIGHT = 50_000_000
"""To be generated at once in a closed loop: 3,000 answers of 16,000 tokens."""
PRECISIONS = ("bf16", "fp8", "int8", "int4", "fp4")


@dataclass(frozen=True)
class Refusal:
    """A point that cannot be predicted."""

    point: ServingPoint
    reason: str


@dataclass(frozen=True)
class PointCase:
    """A point that can be predicted; sizes are those of one replica."""

    point: ServingPoint
    model: ModelProfile
    hardware: HardwareProfile
    precision: str | None
    prefill_layout: Layout
    decode_layout: Layout
    n_prefill_workers: int
    n_decode_workers: int
    is_disaggregated: bool
    note: str | None = None
    """What a reader must know of how the row was read."""
    speculation: Speculation | None = None
    """What drafts tokens, where the row says so; None: nothing, as far as is known."""

    @property
    def version(self) -> str:
        """Version of the framework; empty when unknown."""
        return self.point.framework_version or ""


def cases_of(points: Iterable[ServingPoint]) -> tuple[list[PointCase], list[Refusal]]:
    """Points that can be predicted, and those that cannot with the reason; both in the order of the points.

    Raises:
        InputError: PLANNER_PROFILES names what is no folder.
    """
    own_dirs()  # what is wrong with it is no reason to refuse single points
    cases: list[PointCase] = []
    refused: list[Refusal] = []
    for point in points:
        try:
            cases.append(case_of(point))
        except InputError as error:
            refused.append(Refusal(point, "; ".join(f"{problem.file} {problem.message}" for problem in error.problems)))
        except UnfitPointError as error:
            refused.append(Refusal(point, str(error)))
    return cases, refused


class UnfitPointError(Exception):
    """A point whose row lacks what a prediction needs."""


def case_of(point: ServingPoint) -> PointCase:
    """The case that a point means.

    Raises:
        InputError: the model or the accelerator has no profile.
        UnfitPointError: a figure or a size is missing or contradicts another.
    """
    model, hardware = _model(point.model), _hardware(point.hardware)
    if missing := missing_shapes(model.architecture):
        raise UnfitPointError(f"the profile {model.name} lacks {', '.join(missing)}")
    precision, note = _precision(point, model)
    if point.concurrency is None and point.request_rate_req_per_s is None:
        raise UnfitPointError("has neither a concurrency nor a rate")
    _check_cache_format(point)
    _check_size(point)
    drafts = _speculation(point, model)
    if point.mode == "disagg":
        return _with_room(replace(_disaggregated(point, model, hardware, precision), note=note, speculation=drafts))
    layout = _layout(point)
    if drafts is not None and layout.pp_size > 1:
        raise UnfitPointError(f"drafts tokens with {layout.pp_size} pipeline stages, which is not modelled")
    n = point.n_accelerators // layout.n_accelerators
    return _with_room(PointCase(point, model, hardware, precision, layout, layout, n, n, False, note, drafts))


def _speculation(point: ServingPoint, model: ModelProfile) -> Speculation | None:
    """Drafting of a point, taken to be by the model's MTP layers; None where nothing drafted, or nobody says."""
    n = point.draft_tokens
    if not n:
        return None
    if point.acceptance is None:
        raise UnfitPointError(f"drafts {n} tokens per step, and acceptance does not say how many are accepted")
    if not model.architecture.n_mtp_layers:
        raise UnfitPointError(f"drafts {n} tokens per step, and the profile {model.name} has no MTP layers")
    return Speculation.of(n, point.acceptance)


def _check_size(point: ServingPoint) -> None:
    """A closed loop is run token by token, so that one beyond any deployment would never end."""
    in_flight = (point.concurrency or 1.0) * point.output_tokens
    if point.is_closed_loop and point.mode == "agg" and in_flight > MOST_TOKENS_IN_FLIGHT:
        allowed = f"{MOST_TOKENS_IN_FLIGHT:,}"
        raise UnfitPointError(f"has {in_flight:,.0f} tokens to generate in flight, and a run at most {allowed}")


def _with_room(case: PointCase) -> PointCase:
    """The case, if the weights fit at all: with all the memory that a device may report and nothing beside them."""
    room_bytes = case.hardware.memory_bytes
    if room_bytes and case.hardware.figures.reported_memory_mib is None:
        room_bytes *= MOST_REPORTED
    for layout in (case.prefill_layout, case.decode_layout):
        weights = memory_fit(case.model, room_bytes or 0.0, layout, precision=case.precision).weights_bytes
        if room_bytes and weights > room_bytes:
            lacking = (weights - room_bytes) / GB
            raise UnfitPointError(f"the weights do not fit {layout}: each accelerator lacks {lacking:.3g} GB")
    _check_rate(case)
    return case


def _check_rate(case: PointCase) -> None:
    """An open loop beyond what its instances serve has no steady state, and its waits grow as long as it runs."""
    rate, point = case.point.request_rate_req_per_s, case.point
    if rate is None:
        return
    factors, drafts = Factors(request_overhead_s=0.0), case.speculation
    prefill, decode = (
        InstanceModel(case.model, Chip(case.hardware), layout, factors, case.precision, speculation=drafts)
        for layout in (case.prefill_layout, case.decode_layout)
    )
    context = point.input_tokens + point.output_tokens / 2
    batch = max(float(decode.largest_batch(context)), 1.0)
    full_s = float(prefill.prefill_time([point.input_tokens], n_prompts=prefill.n_places).total_s[0])
    busy_prefill = full_s / (case.n_prefill_workers * prefill.n_places)
    step = float(decode.token_time([batch], [context]).total_s[0])
    busy_decode = step * point.output_tokens / batch / case.n_decode_workers
    each = max(busy_prefill, busy_decode) if case.is_disaggregated else busy_prefill + busy_decode
    if rate * each >= 1.0:
        raise UnfitPointError(f"the rate of {rate:g} req/s exceeds the {1 / each:.3g} that it serves: no steady state")


def _check_cache_format(point: ServingPoint) -> None:
    named = (point.kv_precision or "auto").casefold()
    if named != "auto" and kv_format_named(named) is None:
        raise UnfitPointError(
            f"kv_precision {point.kv_precision!r} is unknown (known: bf16, fp8 and their kinds, auto)"
        )


def kv_format_named(named: str | None) -> str | None:
    """The cache's number format by any of its names; None where the name says nothing.

    >>> kv_format_named("fp8_e4m3"), kv_format_named("auto")
    ('fp8', None)
    """
    plain = (named or "").casefold()
    return "fp8" if plain.startswith("fp8") else "bf16" if plain in ("bf16", "bfloat16", "fp16", "float16") else None


def _disaggregated(
    point: ServingPoint, model: ModelProfile, hardware: HardwareProfile, precision: str | None
) -> PointCase:
    sizes = (point.prefill_num_workers, point.prefill_tp_size, point.decode_num_workers, point.decode_tp_size)
    names = ("prefill_num_workers", "prefill_tp_size", "decode_num_workers", "decode_tp_size")
    if lacking := [name for name, size in zip(names, sizes, strict=True) if size is None]:
        raise UnfitPointError(f"is disagg without {', '.join(lacking)}")
    n_prefill, _, n_decode, _ = (size or 1 for size in sizes)
    prefill, decode = _worker_layout(point, "prefill"), _worker_layout(point, "decode")
    return PointCase(point, model, hardware, precision, prefill, decode, n_prefill, n_decode, True)


def _worker_layout(point: ServingPoint, side: str) -> Layout:
    """The layout of a worker that prefills or decodes."""
    names = ("tp_size", "attention_dp_size", "pp_size", "moe_ep_size")
    tp, dp, pp, ep = (getattr(point, f"{side}_{name}") or 1 for name in names)
    if tp * dp % ep:
        raise UnfitPointError(f"{side}_moe_ep_size {ep} does not divide tp x dp, {tp * dp}")
    return Layout(tp_size=tp, dp_size=dp, pp_size=pp, ep_size=ep)


def _layout(point: ServingPoint) -> Layout:
    """The layout of an instance; where the row names no sizes, all accelerators are tensor parallel."""
    dp, pp = point.attention_dp_size or 1, point.pp_size or 1
    tp = point.tp_size or max(point.n_accelerators // (dp * pp), 1)
    stage, ep = tp * dp, point.moe_ep_size or 1
    if stage * pp > point.n_accelerators:
        raise UnfitPointError(f"tp x dp x pp is {stage * pp}, more than its {point.n_accelerators} accelerators")
    if stage % ep:
        raise UnfitPointError(f"moe_ep_size {ep} does not divide tp x dp, {stage}")
    return Layout(tp_size=tp, dp_size=dp, pp_size=pp, ep_size=ep)


def _precision(point: ServingPoint, model: ModelProfile) -> tuple[str | None, str | None]:
    """Number format of the weights, None for the checkpoint's own with its scales and unquantised parts; and a note.

    What the row states comes first, then what the name of a copy says, such as Qwen3-32B-FP8.
    """
    in_name, stated = format_in(point.model), point.precision
    named = in_name if stated is None else FORMATS.get(stated.casefold(), stated.casefold())
    if named is not None and named not in PRECISIONS:
        raise UnfitPointError(f"precision {stated!r} is unknown (known: {', '.join(PRECISIONS)})")
    note = None
    if in_name is not None and stated is None:
        note = f"{point.model}: {in_name} by its name, as no precision is stated"
    elif stated is None:
        note = f"{point.model}: {model.precision}, its checkpoint's own, as no precision is stated"
    elif in_name is not None and named != in_name:
        note = f"{point.model}: {named} as stated, though its name says {in_name}"
    return None if named == model.precision else named, note


@lru_cache(maxsize=256)
def _model(name: str) -> ModelProfile:
    """The model that a points file names; a copy in another number format, by whomever, has the same shapes.

    >>> _model("nvidia/DeepSeek-R1-0528-NVFP4").name, _model("RedHatAI/Qwen3-32B-FP8-dynamic").name
    ('deepseek-v3', 'qwen3-32b')
    """
    try:
        return model_profile(name)
    except InputError as error:
        plain = family_name(name)
        for known in profile_names("model"):
            profile = model_profile(known)
            if plain in map(family_name, (profile.name, *profile.aliases)):
                return profile
        raise error


@lru_cache(maxsize=256)
def _hardware(name: str) -> HardwareProfile:
    return hardware_profile(name)


def frameworks(points: Sequence[ServingPoint]) -> tuple[str, ...]:
    """Frameworks among points, in lower case and sorted."""
    return tuple(sorted({point.framework.casefold() for point in points}))


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
