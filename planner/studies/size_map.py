"""Where prefill and decode pools beat a colocated one: many demands, each sized both ways and run."""

from collections.abc import Iterator
from itertools import islice, product
from math import exp, log
from typing import Annotated, Literal

from pydantic import Field

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.executor.run_question import RunQuestion
from planner.jobs import HERE, Workers, answers
from planner.profiles import hardware_profile, model_profile
from planner.progress import Progress
from planner.results.plan import Plan
from planner.results.size_map import SizeMap, SizeMapCell
from planner.scenario import Price
from planner.schema import StrictModel, TomlFile
from planner.studies.plan_inputs import inputs_digest
from planner.studies.size import KINDS, SizeQuestion, best_fleet_of
from planner.units import MILLI
from planner.workload.spec import Workload

WIDE_SIGMAS = 3.0
"""Standard deviations of a logarithm at which lengths are cut off."""
N_REPLICATIONS = 4
Positive = Annotated[float, Field(gt=0, le=1e9)]


class Traffic(StrictModel):
    """Requests of one kind, with prompts of several mean lengths."""

    name: str
    prompt_tokens: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=32)]
    """Mean prompts, one demand each."""
    prompt_sigma: Annotated[float, Field(ge=0.01, le=3)]
    """Standard deviation of the logarithm of a prompt's length, which is log-normal."""
    output_tokens: Annotated[float, Field(ge=2, le=1e6)]
    """Mean answer."""
    output_sigma: Annotated[float, Field(ge=0.01, le=3)]
    """Standard deviation of the logarithm of its length."""
    ttft_s: Positive
    """Promise on the first token, without the prompt's part."""
    ttft_s_per_1k_tokens: Annotated[float, Field(ge=0, le=1e3)] = 0.0
    """What it is longer for every thousand tokens of the mean prompt."""

    def promise_s(self, prompt_tokens: float) -> float:
        """The promise on the first token for prompts of a mean length."""
        return self.ttft_s + self.ttft_s_per_1k_tokens * prompt_tokens / 1000

    def workload(self, prompt_tokens: float) -> Workload:
        """Its requests with prompts of a mean length."""
        parts = {
            "lengths": _lengths(prompt_tokens, self.prompt_sigma),
            "output_lengths": _lengths(self.output_tokens, self.output_sigma),
        }
        return Workload.model_validate(parts)


def _lengths(mean: float, sigma: float) -> dict[str, object]:
    """Log-normal lengths whose mean is as stated, but for what is cut off."""
    low, high = max(mean * exp(-WIDE_SIGMAS * sigma), 2.0), mean * exp(WIDE_SIGMAS * sigma)
    ends = {"low_tokens": round(low) * 1.0, "high_tokens": round(high) * 1.0}
    return {"kind": "lognormal", "mu": log(mean) - sigma**2 / 2, "sigma": sigma, **ends}


class SizeMapQuestion(StrictModel):
    """Question of a map: every model on every accelerator, for every prompt length and limit on time per token."""

    schema_version: Annotated[Literal["planner.size-map/1"], Field(alias="schema")]
    name: str
    title: str
    notes: str = ""
    sources: tuple[str, ...] = ()
    models: Annotated[tuple[str, ...], Field(min_length=1, max_length=8)]
    hardware: Annotated[tuple[str, ...], Field(min_length=1, max_length=8)]
    prompt_tokens_per_s: Positive
    """Demand: so many prompt tokens a second, whatever their length."""
    tpot_ms: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=32)]
    """Promises on the time per output token."""
    percentile: Annotated[float, Field(gt=0, lt=100)] = 90.0
    """Of the requests that promises are kept for."""
    n_requests: Annotated[int, Field(ge=1000, le=10_000_000)] = 20_000
    """Of the run of each fleet, all replications together; more where arrivals would not last long enough."""
    stack: str | None = None
    """Serving software of all; absent: the best calibrated for each model and accelerator."""
    traffic: tuple[Traffic, ...]
    prices: dict[str, Price]
    """By accelerator."""


def size_map_question(text: str, name: str) -> SizeMapQuestion:
    """The question of a file; raises InputError with every problem of it."""
    file = TomlFile(name, text)
    found = file.record(SizeMapQuestion)
    if not found.traffic:
        raise InputError(file.problem(("traffic",), "is empty", "one [[traffic]] at least"))
    names = {key: hardware_profile(key).name for key in found.prices}
    lacking = [chip for chip in found.hardware if hardware_profile(chip).name not in names.values()]
    if lacking:
        raise InputError(file.problem(("prices",), f"has none of {lacking[0]}", "a price of every accelerator"))
    return found


def map_digest(question: SizeMapQuestion, text: str) -> str:
    """SHA-256 of what a map is made from: its file and the profiles that it names; raises InputError."""
    return inputs_digest([text], (*map(model_profile, question.models), *map(hardware_profile, question.hardware)))


def size_map(
    question: SizeMapQuestion, time_limit_s: float = 60.0, progress: Progress = lambda _: None, workers: Workers = HERE
) -> SizeMap:
    """Every demand of a map, sized both ways and run request by request.

    Args:
        question: what is mapped.
        time_limit_s: seconds that the search of one plan may take.
        progress: is told what is going on.
        workers: who shares the demands; the answer does not depend on it.

    Raises:
        InputError: a model or an accelerator is not known, or not enough of it.
    """
    n = len(list(_demands(question)))
    jobs = [(question, place, time_limit_s) for place in range(n)]
    cells = answers(_cell, jobs, workers, lambda part: progress(f"{part * n:.0f} of {n} demands are sized"))
    prices = _prices(question)
    return SizeMap(
        title=question.title,
        notes=question.notes,
        sources=question.sources,
        percentile=question.percentile,
        usd_per_accelerator_hour={name: price.hourly_usd for name, price in prices.items()},
        prices=tuple(f"{name}: {price.source} ({price.basis})" for name, price in prices.items()),
        cells=tuple(cells),
    )


def _prices(question: SizeMapQuestion) -> dict[str, Price]:
    return {hardware_profile(name).name: price for name, price in question.prices.items()}


def _demands(question: SizeMapQuestion) -> Iterator[tuple[Traffic, float, SizeQuestion]]:
    """Traffic, mean prompt and question of every cell."""
    for model, chip in product(question.models, question.hardware):
        for traffic in question.traffic:
            for prompt, tpot_ms in product(traffic.prompt_tokens, question.tpot_ms):
                asked = SizeQuestion(
                    model=model,
                    hardware=(chip,),
                    rate_req_per_s=question.prompt_tokens_per_s / prompt,
                    workload=traffic.workload(prompt),
                    prices=_prices(question),
                    ttft_s=traffic.promise_s(prompt),
                    tpot_s=tpot_ms * MILLI,
                    percentile=question.percentile,
                    stack=question.stack,
                )
                yield traffic, prompt, asked


def _cell(question: SizeMapQuestion, place: int, time_limit_s: float) -> SizeMapCell:
    """The demand at a place of the map."""
    traffic, prompt, asked = next(islice(_demands(question), place, None))
    fleets: dict[str, Plan | None] = {}
    failures: list[str] = []
    for kind, roles in KINDS.items():
        try:
            run = RunQuestion(question.n_requests, 0, None, N_REPLICATIONS)
            fleets[kind] = best_fleet_of(asked, roles, run, time_limit_s).plan
        except (InfeasibleError, UndecidedError) as error:
            fleets[kind] = None
            failures.append(str(error))
    return SizeMapCell(
        model=model_profile(asked.model).name,
        hardware=hardware_profile(asked.hardware[0]).name,
        traffic=traffic.name,
        rate_req_per_s=asked.rate_req_per_s or 0.0,
        input_tokens=prompt,
        output_tokens=traffic.output_tokens,
        ttft_s=traffic.promise_s(prompt),
        tpot_s=asked.tpot_s or 0.0,
        colocated=fleets["colocated"],
        disaggregated=fleets["disaggregated"],
        failure=None if any(fleets.values()) else "\n".join(failures),
    )
