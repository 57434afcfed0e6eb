"""Ctrl-C, and what a system sends a process that is to end: one line, everything cleaned up, the shell's exit code."""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn, Self

WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
"""Signals that end a process, as far as the system has them, and what is said then."""
AFTER_SIGNAL = 128
"""Added to a signal's number: the exit code that shells know it by."""
GRACE_S = 3.0
"""How long the program may take to end itself before it is ended."""
SHOW_CURSOR = b"\x1b[?25h"
"""For a terminal whose cursor a spinner has hidden."""


class Signals:
    """While this context is open a signal ends the program; what was heard is in `heard`.

    While modules load there is nothing to clean up, and a module that is interrupted may pass on any error it likes:
    the process ends at once. Later, after `raise_interrupts`, a signal is a KeyboardInterrupt: every `with` and
    `finally` on the way cleans up. It is late where a library computes for long, so that a second thread, which the
    system tells of the signal at once, waits for the end and brings it about when it does not come.
    """

    def __init__(self) -> None:
        self.heard: int | None = None
        self._is_raised = False
        self._is_said = False
        self._before: dict[int, Any] = {}
        self._wakes: tuple[int, int] | None = None
        self._unraisable = sys.unraisablehook

    def __enter__(self) -> Self:
        """Listen; a signal that whoever started us has us ignore stays ignored."""
        for number in _numbers():
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                with suppress(ValueError):  # only the main thread may listen
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Everything as it was before."""
        sys.unraisablehook = self._unraisable
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._wakes is not None:
            signal.set_wakeup_fd(-1)
            os.close(self._wakes[1])

    def raise_interrupts(self) -> None:
        """From now on a signal is a KeyboardInterrupt, and an end that must come."""
        self._is_raised = True
        sys.unraisablehook = self._unraised
        if self._before and os.name == "posix":
            from threading import Thread

            self._wakes = os.pipe()
            os.set_blocking(self._wakes[1], False)
            signal.set_wakeup_fd(self._wakes[1], warn_on_full_buffer=False)
            Thread(target=self._watch, args=(self._wakes[0],), daemon=True).start()

    @property
    def exit_code(self) -> int:
        """Of a process that was ended by what was heard."""
        return AFTER_SIGNAL + (self.heard or 0)

    def word(self) -> str:
        """Word to say about it, once."""
        self._is_said = True
        return WORDS[signal.Signals(self.heard or signal.SIGINT).name]

    def _hear(self, number: int, _: FrameType | None) -> None:
        if self.heard is not None:
            return  # it is ending already
        self.heard = number
        if not self._is_raised:
            self._end_now()
        raise KeyboardInterrupt

    def _unraised(self, found: "sys.UnraisableHookArgs") -> None:
        """A library that calls back from where nothing can be raised shows what it dropped; an interrupt is no news."""
        if self.heard is None:
            self._unraisable(found)

    def _watch(self, wakes: int) -> None:
        from time import sleep

        while told := os.read(wakes, 1):
            if told[0] in self._before:
                sleep(GRACE_S)
                self.heard = told[0]
                self._end_now()
        os.close(wakes)

    def _end_now(self) -> NoReturn:
        """End where nobody else can: a library is computing, or has swallowed the interrupt."""
        if "multiprocessing" in sys.modules:
            for child in sys.modules["multiprocessing"].active_children():
                child.kill()
        if "tempfile" in sys.modules:
            from planner.files import remove_scratch

            remove_scratch()
        with suppress(OSError):
            if self._is_raised and os.isatty(2):
                os.write(2, SHOW_CURSOR)
            if not self._is_said:
                os.write(2, f"planner: {self.word()}\n".encode())
        os._exit(self.exit_code)


def _numbers() -> list[int]:
    return [int(getattr(signal, name)) for name in WORDS if hasattr(signal, name)]
