"""What all commands of the command line share: sections of the help, and failures as JSON where that was asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperGroup

from planner.cli.common import ANSWER, Answer, print_json
from planner.errors import MOST_LINES, TEXT_CHARACTERS, PlannerError, printable

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class PlannerGroup(TyperGroup):
    """The commands, listed under the headings that they name as their panel."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """The context of a call; what is wrong with the call is told as everything else is."""
        with _printably():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; one that fails without an answer gives one that says so, where JSON was asked for."""
        before = ANSWER.set(Answer())
        try:
            with _printably():
                return super().invoke(ctx)
        except (PlannerError, OSError) as error:
            if not isinstance(error, BrokenPipeError):
                _answer(error)
            raise
        finally:
            ANSWER.reset(before)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands under their headings, with names in one column."""
        commands = {name: self.commands[name] for name in self.list_commands(ctx)}
        indent = max(map(len, commands), default=0)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in commands.items():
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            text = command.get_short_help_str(formatter.width - indent - 6)
            sections.setdefault(heading, []).append((name.ljust(indent), text))
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


@contextmanager
def _printably() -> Iterator[None]:
    """Messages of the library about how a command was called: what was typed cannot steer a terminal, nor fill it."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if hasattr(error, "format_message") and isinstance(message, str):
            error.message = "\n".join(printable(line, TEXT_CHARACTERS) for line in message.split("\n", MOST_LINES))  # type: ignore[attr-defined]
        raise


def _answer(error: PlannerError | OSError) -> None:
    from planner.cli.failures import failure

    answer, failed = ANSWER.get(), failure(error)
    if answer and answer.as_json and not answer.is_printed and failed is not None:
        print_json(failed)
