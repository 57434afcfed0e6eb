"""The laws of `tests.metamorphic` on random questions, one line for every break.

Every question about one stream is asked as a network as well, and of the other laws two or three are tried in turn. Run
from the root of a checkout:

    python -m tests.campaigns.optimizer_laws --seed 1 --count 200 --networks 60
"""

import argparse
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType

from planner.comparison import optimize
from tests.campaigns.random_scenarios import Data, network_data, one_site_data, toml_text
from tests.metamorphic import LAWS, Answer, answer_to, breaks

FIRST = next(iter(LAWS))
N_OTHERS = 2
MOST_WALL_S = 60


def laws_for(index: int, data: Data) -> list[str]:
    """The laws that are tried for a question, in turn."""
    others = [name for name in LAWS if name != FIRST]
    chosen = [others[(N_OTHERS * index + k) % len(others)] for k in range(N_OTHERS + ("periods" in data))]
    return chosen if "periods" in data else [FIRST, *chosen]


def guarded(data: Data, limit_s: float) -> Answer:
    """An answer, or that none came in many times the time limit."""

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, MOST_WALL_S)
    try:
        return answer_to(data, limit_s, optimize)
    except TimeoutError:
        return Answer(data, "undecided", words=f"no answer in {MOST_WALL_S} s")
    except Exception as error:  # a fault is a result, and the campaign goes on
        return Answer(data, "fault", words=f"{type(error).__name__}: {str(error)[:120]}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def features(data: Data) -> str:
    """What a question is made of, in a few words."""
    routing, pools = data.get("routing", {}), data["pools"].values()
    words = [data["objective"], data.get("capacity_rule", ""), f"{sum(p['role'] == 'prefill' for p in pools)} prefill"]
    words += [f"{len(data['classes'])} classes"] if "classes" in data else []
    words += [f"{len(data['periods'])} periods"] if "periods" in data else []
    stated = {
        "slo": data.get("slo"),
        "budget": "budget_usd_per_hour" in data,
        "threshold": "threshold_tokens" in routing,
    }
    stated |= {"ratio": "prefill_to_decode" in routing, "size": any("n_instances" in p for p in pools)}
    return ", ".join([word for word in words if word] + [name for name, value in stated.items() if value])


def tried(make: Callable[[int], Data], seeds: range, limit_s: float) -> Iterator[tuple[str, str, str]]:
    """Law, question and outcome ("holds", "undecided", or what breaks it) of every pair."""
    for index, seed in enumerate(seeds):
        data, known = make(seed), dict[str, Answer]()
        for name in laws_for(index, data):
            pair = LAWS[name].questions(data)
            if pair is None:
                continue
            answers = [known.setdefault(toml_text(q), known.get(toml_text(q)) or guarded(q, limit_s)) for q in pair]
            found = list(breaks(LAWS[name], answers[0], answers[1]))
            kinds = [a.kind for a in answers]
            outcome = "undecided" if "undecided" in kinds else "infeasible" if kinds == ["infeasible"] * 2 else "holds"
            yield name, data["name"], found[0] if found else outcome


def main() -> None:
    """Run the campaign and print its summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--networks", type=int, default=60)
    parser.add_argument("--limit", type=float, default=20.0)
    asked = parser.parse_args()
    start, counts, broken = time.process_time(), Counter[tuple[str, str]](), list[str]()
    first = 10_000 * asked.seed
    questions = ((one_site_data, asked.count), (network_data, asked.networks))
    with suppress(KeyboardInterrupt):  # what was tried until then is summed up
        for make, count in questions:
            for law, name, outcome in tried(make, range(first, first + count), asked.limit):
                kind = outcome.split(":")[0].split(" ")[0]
                counts[law, kind] += 1
                if kind not in ("holds", "infeasible", "undecided"):
                    words = features(make(int(name.split("-")[1])))
                    broken.append(f"- {law}: {name} ({words}): {outcome[:150]}")
                    print(broken[-1], flush=True)
    print_summary(counts, broken, time.process_time() - start)


def print_summary(counts: Counter[tuple[str, str]], broken: list[str], cpu_s: float) -> None:
    """A row per law: how many pairs hold, how many have no plan on both sides, are undecided, or break it and how."""
    kinds = ["holds", "infeasible", "undecided", *sorted({k for _, k in counts} - {"holds", "infeasible", "undecided"})]
    print("\n| law | " + " | ".join(kinds) + " |\n|---|" + "---:|" * len(kinds))
    for law in LAWS:
        print(f"| {law} | " + " | ".join(str(counts[law, kind] or "") for kind in kinds) + " |")
    print(f"\n{len(broken)} of {sum(counts.values())} pairs break a law; {cpu_s:.0f} CPU s.\n")


if __name__ == "__main__":
    main()
