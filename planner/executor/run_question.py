"""Length and number of a plan's runs, and how long it is run on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf, isfinite

from planner.errors import UsageError
from planner.results.plan import Fleet, Plan
from planner.results.run import Run

N_REQUESTS = 200_000
N_REPLICATIONS = 4
BUSY_LOAD = 0.8
"""Load where the plan's own rate saturates something."""

Enough = Callable[[Run], bool]
"""Whether a run says what is asked of it; else it is run on."""


@dataclass(frozen=True)
class RunQuestion:
    """Length, number and load of runs."""

    n_requests: int = N_REQUESTS
    """Of all replications together."""
    seed: int = 0
    load: float | None = None
    """Fraction of the rate that the plan is for; None: 1, or 0.8 where that saturates a pool."""
    n_replications: int = N_REPLICATIONS
    is_full: bool = False
    """Whether the system is kept full, each request that leaves letting the next one in, to see the most it serves."""
    concurrency: int | None = None
    """Requests inside at any time, each that leaves letting the next one in; None: they arrive by themselves."""
    most_requests: int | None = None
    """Up to which replications are added while a run is too short for what is asked of it; None: none are."""

    def __post_init__(self) -> None:
        """Raises UsageError for what cannot be run."""
        if not 1 <= self.n_replications <= self.n_requests:
            what = f"--replications {self.n_replications}: does not share out --requests {self.n_requests}"
            raise UsageError(f"{what} (1 to one per request)")
        if self.load is not None and not (isfinite(self.load) and self.load > 0):
            raise UsageError(f"--load {self.load}: is no load (a fraction above 0 of the plan's rate)")
        if self.concurrency is not None and not 1 <= self.concurrency <= self.n_requests:
            what = f"--concurrency {self.concurrency}: is no number of requests inside"
            raise UsageError(f"{what} (1 to --requests {self.n_requests})")
        if self.concurrency is not None and (self.load is not None or self.is_full):
            what = "--concurrency: each request comes as another leaves"
            raise UsageError(f"{what}, and --load and --full say how they arrive (one of the three)")
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed}: is below 0")
        if self.most_requests is not None and self.most_requests < self.n_requests:
            what = f"--most-requests {self.most_requests}: is below --requests {self.n_requests}"
            raise UsageError(f"{what} (at least as many)")

    @property
    def is_closed(self) -> bool:
        """True if requests come as others leave."""
        return self.is_full or self.concurrency is not None

    def steps(self) -> Iterator[range]:
        """Replications that are run at first, and as many again each time, up to the limit.

        >>> list(RunQuestion(4000, n_replications=4, most_requests=10_000).steps())
        [range(0, 4), range(4, 8), range(8, 10)]
        """
        most = (self.most_requests or 0) * self.n_replications // self.n_requests
        done, upto = 0, self.n_replications
        while done < upto:
            yield range(done, upto)
            done, upto = upto, max(min(2 * upto, most), upto)

    def longer(self, settling_requests: float = inf) -> "RunQuestion | None":
        """As many replications, twice or four times as long, to let a system settle; None beyond the limit.

        Args:
            settling_requests: that a run says it takes. A short one may be far off, so that it is approached in steps;
                those before the last take less than the last.

        >>> question = RunQuestion(4000, most_requests=40_000)
        >>> [question.longer(n).n_requests for n in (5_000, 15_000, 1_000_000)]
        [8000, 16000, 16000]
        """
        times = 4 if settling_requests > 2 * self.n_requests else 2
        fitting = (n for n in (times, 2) if n * self.n_requests <= (self.most_requests or 0))
        n = next(fitting, None)
        return None if n is None else replace(self, n_requests=n * self.n_requests)


def run_on(
    question: RunQuestion,
    run: Callable[[RunQuestion, range], Run],
    enough: Enough,
    fits: Callable[[RunQuestion, int], bool] = lambda _, __: True,
) -> Run:
    """The first run that will do, or the last within the limit of the question.

    Replications are added while a run is too short for what is asked of it. Of a system that still fills they are made
    longer instead: more of the same would have the same bias.

    Args:
        run: the run of some replications and of all before them.
        enough: whether it will do.
        fits: whether there is the memory for a question with so many replications; the first has it.
    """
    for some in question.steps():
        if some.start and not fits(question, some.stop):
            break
        found = run(question, some)
        if enough(found):
            break
        longer = question.longer(found.settling_requests or inf) if found.is_transient else None
        if longer is not None and fits(longer, longer.n_replications):
            return run_on(longer, run, enough, fits)
    return found


def default_load(fleet: Fleet) -> float:
    """The plan's own rate where no pool or link is full at it, else 0.8 of it."""
    parts = fleet.periods if isinstance(fleet, Plan) else ()
    most = max([part.most_used for part in parts], default=fleet.most_used)
    return 1.0 if most < 1 - 1e-6 else BUSY_LOAD
