"""CPU seconds of tests: those of an answer that several tests share are counted for each of them."""

import resource
from collections.abc import Callable, Hashable
from functools import wraps
from time import process_time
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

shared_s: dict[Hashable, float] = {}
"""What the running test would have paid for answers that an earlier test made; cleared before each test [s]."""


def cpu_s() -> float:
    """CPU seconds of this process and of its finished children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def cached(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose answers are kept, as by functools.cache; who asks again is charged what the answer cost."""
    kept: dict[Hashable, tuple[T, float]] = {}

    @wraps(function)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        question = (args, tuple(sorted(kwargs.items())))
        key = (ask, question)
        if question not in kept:
            start_s, charged_s = cpu_s(), sum(shared_s.values())
            answer = function(*args, **kwargs)
            cost_s = cpu_s() - start_s + sum(shared_s.values()) - charged_s
            kept[question] = answer, cost_s
            shared_s[key] = 0.0  # paid in full by this test
        answer, cost_s = kept[question]
        shared_s.setdefault(key, cost_s)
        return answer

    return ask
