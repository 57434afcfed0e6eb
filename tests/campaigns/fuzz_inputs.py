"""Mutated inputs of every kind through the real commands: the law of `tests.campaigns.commands`.

Run from the root of a checkout:

    python -m tests.campaigns.fuzz_inputs --seed 1 --count 20000 --out tests/campaigns/fuzz_inputs.md
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.results.plan_file import plan_from
from planner.scenario import load_scenario
from tests.campaigns.commands import Ended, campaign_parser, ended, judged, load_rooms
from tests.campaigns.corpus import Case, corpus
from tests.campaigns.mutations import mutated

EXECUTED = "plan"
"""Kind of the inputs that are run request by request."""


def campaign(seed: int, indexes: Sequence[int], kinds: Sequence[str] = ()) -> Iterator[Ended]:
    """Mutated inputs, every one made of the seed and its index alone."""
    load_rooms()
    known = corpus()
    names = [*kinds] or [*known]
    if EXECUTED in names:  # what its kernel compiles into is there for all children
        _run_once(known[EXECUTED][0])
    for index in indexes:
        rng = Random(f"{seed}:{index}")
        kind = names[index % len(names)]
        case = rng.choice(known[kind])
        yield ended(case.changed(rng, mutated), kind, index)


def _run_once(case: Case) -> None:
    scenario = load_scenario(case.files["tiny.toml"].decode(), "tiny.toml", Path())
    plan = plan_from(case.files["plan.json"].decode(), "plan.json")
    simulate(scenario, plan, RunQuestion(200, 0, None, 2))


if __name__ == "__main__":
    given = campaign_parser(__doc__).parse_args()
    sys.exit(judged("Mutated inputs", given, lambda indexes: campaign(given.seed, indexes, given.kind)))
