"""Parts that all commands share: sections of the help, and failures as messages or as JSON."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from planner.cli.common import ANSWER, Answer, print_json
from planner.errors import (
    MOST_LINES,
    TEXT_CHARACTERS,
    CheckFailedError,
    InfeasibleError,
    InputError,
    PlannerError,
    UndecidedError,
    UsageError,
    printable,
)

WRONG_CALL: Any = typer.BadParameter.__bases__[0]
"""What the library raises where a command was called wrongly: it has no public name of its own."""
KEYS = {
    "--slo-ttft": "slo.ttft_s=SECONDS",
    "--ttft-ms": "slo.ttft_s=SECONDS",
    "--slo-tpot-ms": "slo.tpot_ms=MS",
    "--tpot-ms": "slo.tpot_ms=MS",
    "--percentile": "slo.ttft_percentile=P",
    "--demand": "demand_req_per_s=REQ_PER_S",
    "--rate": "demand_req_per_s=REQ_PER_S",
    "--users": "users=N",
    "--budget": "budget_usd_per_hour=USD",
    "--objective": "objective=min-cost",
    "--model": "model.profile=NAME",
    "--price": "prices.HARDWARE.usd_per_accelerator_hour=USD",
}
"""Options of the commands that write scenarios, which are keys to the commands that read one."""
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class Entry(NamedTuple):
    """A command, as far as the help of all commands needs it."""

    heading: str
    place: str
    """Module of this room, and its name there: a function, or a group of commands of its own."""
    text: str
    """What it is for, in one line."""


class LoadedCommands(Mapping[str, Any]):
    """Commands by name; each loads when it is asked for."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The command. Raises KeyError when there is none of that name."""
        entry = self._entries[name]
        if name not in self._loaded:
            self._loaded[name] = _command(name, entry)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        """Names, in the order of the help."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Number of commands."""
        return len(self._entries)


class OnceCommand(TyperCommand):
    """A command that takes each option of one value once: of two, one would be passed over."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what was typed. Raises UsageError where an option of one value is given twice."""
        given = [] if ctx.resilient_parsing else self._given(ctx, args)
        for option in given:
            takes_one = isinstance(option, TyperOption) and not (option.multiple or option.is_flag)
            if takes_one and given.count(option) > 1:
                raise UsageError(f"{option.opts[0]}: is given {given.count(option)} times (once)")
        return super().parse_args(ctx, args)

    def _given(self, ctx: Any, args: list[str]) -> list[Any]:
        """Options that were typed; one that is a key of a scenario is told so."""
        try:
            return list(self.make_parser(ctx).parse_args(args=list(args))[2])
        except WRONG_CALL as error:
            key = KEYS.get(getattr(error, "option_name", ""))
            if key and any("--set" in option.opts for option in self.params):
                error.message += f" (a key of the scenario: --set {key})"
            raise


def _command(name: str, entry: Entry) -> Any:
    module, attribute = entry.place.split(":")
    found = getattr(import_module(f"planner.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        for one in found.registered_commands:
            one.cls = OnceCommand
        command: Any = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, cls=OnceCommand)(found)
        command = typer.main.get_command(alone)
    command.name = name
    return command


class PlannerGroup(TyperGroup):
    """The commands, listed under their headings without loading any."""

    entries: ClassVar[Mapping[str, Entry]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LoadedCommands(self.entries)  # type: ignore[assignment]  # nobody adds to them

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """The context of a call; what is wrong with the call is told as everything else is."""
        with _printably():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; one that fails without an answer gives one that says so, where JSON was asked for."""
        before = ANSWER.set(Answer())
        try:
            with _printably(), _figures_in_bounds():
                return super().invoke(ctx)
        except (PlannerError, OSError) as error:
            if not isinstance(error, BrokenPipeError):
                _answer(error)
            raise
        finally:
            ANSWER.reset(before)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands under their headings, with names in one column."""
        del ctx  # the commands are the same in every context
        indent = max(map(len, self.entries))
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            sections.setdefault(entry.heading, []).append((name.ljust(indent), entry.text))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


@contextmanager
def _printably() -> Iterator[None]:
    """Messages of the library about how a command was called: what was typed cannot steer a terminal, nor fill it."""
    try:
        yield
    except WRONG_CALL as error:
        lines = str(error.message).split("\n", MOST_LINES)
        error.message = "\n".join(printable(line, TEXT_CHARACTERS) for line in lines)
        raise


@contextmanager
def _figures_in_bounds() -> Iterator[None]:
    """A figure too great for any answer is the fault of the question, and is told as such."""
    try:
        yield
    except ValueError as error:
        if type(error).__name__ != "ValidationError":
            raise
        from planner.schema import excessive_answer

        raise excessive_answer(cast(Any, error)) or error from None


def _answer(error: PlannerError | OSError) -> None:

    answer, failed = ANSWER.get(), failure(error)
    if answer and answer.as_json and not answer.is_printed and failed is not None:
        print_json(failed)


SCHEMA = "planner.error/1"
KINDS = {
    InputError.exit_code: "bad input",
    InfeasibleError.exit_code: "infeasible",
    UndecidedError.exit_code: "undecided",
    CheckFailedError.exit_code: "check failed",
}
"""Exit codes of which stdout gets an object, and what each is called there."""


def exit_code(error: PlannerError | OSError) -> int:
    """Exit code of a command that fails so; what the system refuses is taken for bad input."""
    return error.exit_code if isinstance(error, PlannerError) else InputError.exit_code


def failure(error: PlannerError | OSError) -> dict[str, Any] | None:
    """A failure for programs; None where it is about how the command was called, or a fault of the program."""
    code = exit_code(error)
    if code not in KINDS:
        return None
    answer: dict[str, Any] = {"schema": SCHEMA, "exit_code": code, "error": KINDS[code], "message": str(error)}
    if isinstance(error, InputError):
        answer["problems"] = [
            {"file": p.file, "line": p.line, "key": p.key, "message": p.message, "allowed": p.allowed}
            for p in error.problems
        ]
    if isinstance(error, InfeasibleError):
        answer["relaxations"] = list(error.relaxations)
    return answer
