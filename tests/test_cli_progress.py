"""What goes on is said on stderr, seldom and in time, and never in the way of the answer."""

import io
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cli.progress import LONGEST_PAUSE_S, PATIENCE_S, progress, progress_bar
from planner.executor.compilation import OVER
from tests.talk import without_progress


class Patience:
    """Stands for an Event that nobody sets while so many pauses pass."""

    def __init__(self, n_pauses: int) -> None:
        self.pauses: list[float] = []
        self.n_pauses, self.all_passed, self.may_pass = n_pauses, threading.Event(), threading.Event()

    def wait(self, pause_s: float) -> bool:
        self.pauses.append(pause_s)
        self.may_pass.wait(30)
        is_over = len(self.pauses) > self.n_pauses
        if is_over:
            self.all_passed.set()
        return is_over

    def set(self) -> None:
        self.may_pass.set()
        self.all_passed.wait(30)


@contextmanager
def waiting(n_pauses: int) -> Iterator[tuple[Patience, io.StringIO]]:
    """stderr is no terminal, and so many pauses pass before what is done ends."""
    patience, told = Patience(n_pauses), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.cli.progress.Event", lambda: patience)
        patch.setattr(sys, "stderr", told)
        yield patience, told


@given(st.integers(0, 40))
def test_lines_come_late_and_ever_more_seldom(n_pauses: int) -> None:
    with waiting(n_pauses) as (patience, told), progress("planning x"):
        pass
    pauses, lines = patience.pauses, told.getvalue().splitlines()
    assert pauses[0] == PATIENCE_S
    assert pauses == sorted(pauses)
    assert max(pauses) <= LONGEST_PAUSE_S
    assert len(lines) == (n_pauses + 1 if n_pauses else 0)
    assert all(line.startswith("planner: planning x: ") for line in lines)
    assert without_progress(told.getvalue()) == ""


def test_nothing_is_said_to_be_done_that_failed() -> None:
    with waiting(2) as (_, told), pytest.raises(ZeroDivisionError), progress("planning x"):
        raise ZeroDivisionError
    assert "so far" in told.getvalue()
    assert "done" not in told.getvalue()


def test_lines_say_how_far_it_is() -> None:
    with waiting(1) as (_, told), progress_bar("running x") as reach:
        reach(0.25)
    assert told.getvalue().splitlines()[0].endswith("s so far, 25 % done")


def test_lines_say_what_goes_on_now() -> None:
    with waiting(1) as (_, told), progress("starting") as say:
        say("serving")
    first, last = told.getvalue().splitlines()
    assert first.startswith("planner: serving: ")
    assert last.startswith("planner: starting: done after ")


@pytest.mark.parametrize("shown", [progress, progress_bar])
def test_what_a_room_says_of_long_work_is_shown_at_once_and_then_as_what_goes_on(shown: type) -> None:
    log = logging.getLogger("planner.executor")
    level = logging.getLogger("planner").level
    with waiting(0) as (_, told), shown("running x"):
        log.info("compiling, about %d s", 100)
        log.debug("nobody needs to know")
        log.info("compiled", extra=OVER)
    assert told.getvalue() == "planner: compiling, about 100 s\nplanner: compiled\n"
    assert logging.getLogger("planner").level == level
    assert not logging.getLogger("planner").handlers


@pytest.mark.parametrize("shown", [progress, progress_bar])
def test_stdout_gets_nothing_of_it(shown: type, capsys: pytest.CaptureFixture[str]) -> None:
    with waiting(3), shown("running x"):
        pass
    assert capsys.readouterr().out == ""


def test_a_reader_of_stderr_that_left_is_no_failure() -> None:
    class Left(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    patience = Patience(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.cli.progress.Event", lambda: patience)
        patch.setattr(sys, "stderr", Left())
        with progress("planning x"):
            logging.getLogger("planner.executor").info("compiling")
    assert len(patience.pauses) == 3
