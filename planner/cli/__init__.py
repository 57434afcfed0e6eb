"""The command line: parse, call, render, exit. Heavy rooms load inside the commands, so that help is quick."""

import os

TYPE_CHECKING = False  # the module that has it takes long enough to load for a Ctrl-C to come in between
if TYPE_CHECKING:
    from planner.cli.commands import app as app


def __getattr__(name: str) -> object:
    """`app`, the commands: loaded when asked for, so that Ctrl-C while they load is already heard."""
    if name == "app":
        from planner.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run the command line; the only place that turns errors into exit codes."""
    try:
        from planner.cli.signals import Signals
    except KeyboardInterrupt:
        os.write(2, b"planner: interrupted\n")
        os._exit(130)
    with Signals() as signals:
        from planner.cli.exit import run
        from planner.threads import use_one_thread

        use_one_thread()

        run(signals)
