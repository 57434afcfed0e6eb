"""`planner size`: a demand without a scenario file, served by colocated instances or by prefill and decode pools."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, log
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.common import (
    MOST_SEED,
    ForceOption,
    Format,
    FormatOption,
    TimeLimitOption,
    data_dirs,
    n_lines,
    noted_where_infeasible,
    print_json,
    print_rich,
    width,
    write_files,
)
from planner.cli.completion import hardware_names
from planner.cli.draft_options import (
    AcceptanceOption,
    DraftModelOption,
    DraftTokensOption,
    KvPrecisionOption,
    ModelArgument,
    PrecisionOption,
    StackOption,
    drafts_of_options,
)
from planner.cli.plan_argument import check_promise
from planner.cli.progress import progress
from planner.cli.scenario_text import UNPRICED, rent_of
from planner.cli.trace_options import (
    BlockTokensOption,
    SkipInvalidOption,
    TimeUnitOption,
    read_notes,
    trace_keys,
    trace_reading,
)
from planner.errors import UsageError, printable
from planner.profiles import hardware_profile, labels
from planner.scenario import Price, is_path

if TYPE_CHECKING:
    from planner.workload.spec import Workload
    from planner.workload.traces import TraceReading

MILLISECONDS = 1000.0
N_REQUESTS, MOST_REQUESTS, N_REPLICATIONS = 40_000, 2_000_000, 4
WIDE_SIGMAS = 4.0
"""Standard deviations of a logarithm above its mean where log-normal lengths are cut off."""


def size(
    model: ModelArgument,
    hardware: Annotated[
        str,
        typer.Argument(
            metavar="HARDWARE[,HARDWARE]", help="Accelerators to choose from.", autocompletion=hardware_names
        ),
    ],
    rate: Annotated[
        float | None, typer.Option(metavar="REQ_PER_S", help="Rate to serve; a trace's own if not given.")
    ] = None,
    users: Annotated[
        int | None, typer.Option(metavar="N", help="Users in place of a rate, each with one request at a time.")
    ] = None,
    think_s: Annotated[
        float | None,
        typer.Option("--think-s", metavar="S", help="Mean time between an answer and the user's next request."),
    ] = None,
    input_: Annotated[
        str | None,
        typer.Option("--input", metavar="TOKENS", help="Prompts: a length, or lognormal:MEAN,SIGMA[,LOW,HIGH]."),
    ] = None,
    output: Annotated[str | None, typer.Option(metavar="TOKENS", help="Answers, in the same way.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--from", metavar="TRACE", help="Lengths and arrivals of recorded requests.")
    ] = None,
    time_unit: TimeUnitOption = None,
    block_tokens: BlockTokensOption = None,
    skip_invalid: SkipInvalidOption = False,
    ttft_ms: Annotated[float | None, typer.Option(metavar="MS", help="Promise on the time to first token.")] = None,
    tpot_ms: Annotated[float | None, typer.Option(metavar="MS", help="Promise on the time per output token.")] = None,
    percentile: Annotated[float, typer.Option(metavar="P", help="Of the requests that promises are kept for.")] = 90.0,
    price: Annotated[
        list[str] | None,
        typer.Option(metavar="USD", help="Rent per accelerator and hour: 2.5, or h200-sxm=2.5,h20-96gb=1."),
    ] = None,
    precision: PrecisionOption = None,
    kv_precision: KvPrecisionOption = "bf16",
    stack: StackOption = None,
    draft_tokens: DraftTokensOption = 0,
    acceptance: AcceptanceOption = None,
    draft_model: DraftModelOption = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Predict only: nothing is run request by request.")] = False,
    requests: Annotated[
        int | None, typer.Option(metavar="N", min=4, max=10**8, help="Of the runs; 40,000 or as many as it takes.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", min=0, max=MOST_SEED, help="Of the runs.")] = 0,
    write: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the scenario that is asked.")] = None,
    force: ForceOption = False,
    details: Annotated[
        bool, typer.Option("--details", help="The layouts that were compared and all notes, after what fits a screen.")
    ] = False,
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Size a demand: colocated serving beside prefill and decode pools, at the least cost that keeps the promises.

    Layouts and instance sizes that fit model and accelerators are tried; both fleets are then run request by request.
    """
    from planner.errors import UsageError
    from planner.executor.run_question import RunQuestion
    from planner.files import check_new, write_text
    from planner.studies.size import SizeQuestion, sized

    if no_run and requests is not None:
        raise UsageError("--requests: is about runs, and --no-run asks for none")
    if write is not None:
        check_new(write, force)
    directory = Path() if write is None else write.resolve().parent
    reading = trace_reading(trace, time_unit, block_tokens, skip_invalid)
    workload, recorded = _workload(input_, output, trace, reading, directory)
    kinds = tuple(part.strip() for part in hardware.split(","))
    prices = size_prices(kinds, price or ())
    question = SizeQuestion(
        model=model,
        hardware=kinds,
        rate_req_per_s=_rate(rate, recorded, users, think_s),
        workload=workload,
        prices=prices,
        unpriced=unpriced(prices),
        directory=directory,
        ttft_s=None if ttft_ms is None else ttft_ms / MILLISECONDS,
        tpot_s=None if tpot_ms is None else tpot_ms / MILLISECONDS,
        percentile=percentile,
        precision=precision,
        kv_precision=kv_precision,
        stack=stack,
        drafts=drafts_of_options(draft_tokens, acceptance, draft_model),
        data_dirs=tuple(data_dirs()),
        users=users,
        think_s=think_s,
    )
    run = RunQuestion(requests or N_REQUESTS, seed, None, N_REPLICATIONS, most_requests=MOST_REQUESTS)
    with progress(f"sizing {model}") as update, noted_where_infeasible(question.notes):
        found = sized(question, None if no_run else run, time_limit_s, update)
    write_files((write, lambda path: write_text(path, found.scenario_text)))
    if format_ is Format.JSON:
        print_json(found.size.answer())
    else:
        from planner.report.size_tables import size_screen, size_tables

        print_rich(*(size_tables(found.size) if details else size_screen(found.size, width(), n_lines)))
    if write is not None:
        typer.echo(f"{write}: plan it with: planner optimize {shlex.quote(str(write))}", err=True)
    check_promise(found.plan)


def _workload(
    input_: str | None, output: str | None, trace: Path | None, reading: "TraceReading", directory: Path
) -> "tuple[Workload, float | None]":
    """Workload of the requests, and the rate that a trace recorded. Raises UsageError or InputError."""
    from planner.errors import UsageError
    from planner.workload.spec import Workload

    if trace is not None:
        from planner.workload.requests import trace_path
        from planner.workload.trace_arrivals import rate_req_per_s
        from planner.workload.traces import trace_read

        if input_ is not None or output is not None:
            raise UsageError("--from: brings its own lengths (this, or --input and --output)")
        path = trace if trace.exists() else trace_path(str(trace), Path.cwd(), data_dirs())
        found = trace_read(path, reading)
        for said in read_notes(found):
            typer.echo(f"note: {said}", err=True)
        shown = Path(os.path.relpath(path.resolve(), directory.resolve())).as_posix()
        stated = {"trace": trace_keys(shown, found, reading)}
        return Workload.model_validate(stated), rate_req_per_s(found.arrival_s)
    if input_ is None or output is None:
        raise UsageError("--input, --output: both are needed, or --from TRACE")
    lengths = {"lengths": _lengths("--input", input_), "output_lengths": _lengths("--output", output)}
    return Workload.model_validate(lengths), None


def _lengths(option: str, text: str) -> dict[str, Any]:
    """Lengths as a workload states them. Raises UsageError."""
    from planner.errors import UsageError, printable

    kind, has_kind, rest = text.rpartition(":")
    try:
        values = [float(part) for part in rest.split(",")]
    except ValueError:
        values = []
    fits = all(isfinite(v) and v > 0 for v in values) and values and 1 <= values[0] <= 1e9
    if fits and not has_kind and len(values) == 1:
        return {"kind": "constant", "tokens": values[0]}
    if fits and kind == "lognormal" and len(values) in (2, 4) and values[1] <= 10:
        mean, sigma = values[:2]
        low, high = values[2:] or (1.0, min(mean * 2.718281828 ** (WIDE_SIGMAS * sigma), 1e9))
        if 1 <= low < high <= 1e9:
            mu = log(mean) - sigma**2 / 2 if len(values) == 2 else _mu_within(option, text, mean, sigma, (low, high))
            return {"kind": "lognormal", "mu": mu, "sigma": sigma, "low_tokens": low, "high_tokens": round(high) * 1.0}
    shown = printable(text, 100)
    raise UsageError(f"{option} {shown}: is no length (tokens from 1 to 1e9, or lognormal:MEAN,SIGMA[,LOW,HIGH])")


def _mu_within(option: str, text: str, mean: float, sigma: float, ends: tuple[float, float]) -> float:
    """Mean of the logarithm with which log-normal lengths between two ends have a mean. Raises UsageError."""
    from scipy.optimize import brentq

    from planner.errors import UsageError, printable
    from planner.workload.distributions import LogNormal, mean_tokens

    def excess(mu: float) -> float:
        return mean_tokens(LogNormal(mu, sigma, *ends)) - mean

    bounds = [log(end) + sign * WIDE_SIGMAS * sigma for end, sign in zip(ends, (-1, 1), strict=True)]
    least, most = (excess(mu) + mean for mu in bounds)
    if not least < mean < most:
        allowed = f"a mean from {least:,.0f} to {most:,.0f}, as lengths of this spread between these ends have"
        raise UsageError(f"{option} {printable(text, 100)}: no such lengths have a mean of {mean:,g} ({allowed})")
    return float(brentq(excess, bounds[0], bounds[1]))


def _rate(stated: float | None, recorded: float | None, users: int | None, think_s: float | None) -> float | None:
    """Rate to serve; None of users. Raises UsageError."""
    from planner.errors import UsageError

    if (users is None) != (think_s is None):
        raise UsageError("--users, --think-s: both are needed, such as --users 500 --think-s 30")
    if users is not None:
        if stated is not None:
            raise UsageError("--rate: is what --users stand for (one of the two)")
        return None
    found = recorded if stated is None else stated
    if found is None:
        raise UsageError("--rate: is needed, such as --rate 40, or --users and --think-s, or a trace with arrivals")
    return found


MOST_USD = 1e6
ALLOWED = f"above 0, at most {MOST_USD:g} USD an hour"


def size_prices(kinds: Sequence[str], texts: Sequence[str]) -> dict[str, Price]:
    """Rents by the names of accelerators.

    Args:
        texts: prices as they were stated, each one or several with commas.

    Raises:
        UsageError: one is no price, of no accelerator that was asked for, or there are two of one.
        InputError: no such accelerator.
    """
    chips = {kind: hardware_profile(kind) for kind in kinds}
    names = list(dict.fromkeys(chip.name for chip in chips.values()))
    called = {label.casefold(): chip.name for chip in chips.values() for label in labels(chip)}
    called |= {kind.casefold(): chip.name for kind, chip in chips.items()}
    stated: dict[str, float] = {}
    for name, usd in _stated(texts, names, called):
        if name in stated:
            raise UsageError(f"--price: {name} has two prices, {stated[name]:g} and {usd:g} (one of each accelerator)")
        stated[name] = usd
    own_files = {chip.name for kind, chip in chips.items() if is_path(kind)}
    return {name: _price("" if name in own_files else name, stated.get(name)) for name in names}


def unpriced(prices: Mapping[str, Price]) -> tuple[str, ...]:
    """Accelerators whose rent nobody knows, so that 1 USD an hour stands for it."""
    return tuple(name for name, price in prices.items() if price.source == UNPRICED.source)


def _stated(texts: Sequence[str], names: Sequence[str], called: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    """Accelerators and their prices as they were stated. Raises UsageError."""
    for part in (part.strip() for text in texts for part in text.split(",")):
        named, has_name, text = part.rpartition("=")
        shown = f"--price {printable(part, 100)}"
        try:
            usd = float(text)
        except ValueError:
            usd = 0.0
        if not (isfinite(usd) and 0 < usd <= MOST_USD):
            raise UsageError(f"{shown}: is no price ({ALLOWED}, as {','.join(f'{name}=USD' for name in names)})")
        if not has_name and len(names) > 1:
            which = ", ".join(f"{name}={usd:g}" for name in names)
            raise UsageError(f"{shown}: does not say of which accelerator ({which})")
        if has_name and named.strip().casefold() not in called:
            raise UsageError(f"{shown}: {printable(named, 100)} is not asked about, which is {', '.join(names)}")
        yield called[named.strip().casefold()] if has_name else names[0], usd


def _price(name: str, stated: float | None) -> Price:
    rent = rent_of(name, None if stated is None else str(stated))
    return Price.model_validate({**rent._asdict(), "usd_per_accelerator_hour": float(rent.usd_per_accelerator_hour)})
