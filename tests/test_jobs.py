"""Processes that share the work of a command."""

import logging

import pytest

from planner.jobs import Workers, answers


def warned(number: int) -> int:
    """A job that has something to tell."""
    logging.getLogger("planner.executor").warning("the disk is full")
    return number


def test_processes_that_share_the_work_do_not_repeat_what_the_first_has_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert answers(warned, [(1,), (2,), (3,)], Workers(2)) == [1, 2, 3]
    assert capfd.readouterr().err == ""
