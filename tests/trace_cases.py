"""Traces that tests make in the formats that are published: conversations in blocks, and lengths at their times."""

import json
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from planner.workload.traces import BLOCK_TOKENS

MOONCAKE, AZURE = "mooncake_conversation.jsonl", "azure_2023_conversation.csv"
"""Names of the published files, which made ones take in a folder of their own."""
CELL_MS = 3000
"""Grid on which the recorder of conversations stamps arrivals."""


class Conversations(NamedTuple):
    """A trace of conversations and what is known of it."""

    path: Path
    n_requests: int
    ideal_hit_fraction: float
    """Part of prompt tokens that an unlimited cache finds."""
    rooms_gb: tuple[float, ...]
    """Sizes of a cache of Qwen3-235B that hold ever more of it."""


PUBLISHED_HOUR = Conversations(Path(MOONCAKE), 12_031, 0.374, (500.0, 2000.0, 8000.0))
"""Hits as published, 37 %; 37.4 % to a tenth with partly filled last blocks counted."""


def made_conversations(path: Path) -> Conversations:
    """What is known of a trace that `write_conversations` wrote, its hits counted line by line."""
    n_requests = len(path.read_text(encoding="utf-8").splitlines())
    return Conversations(path, n_requests, ideal_hit_fraction(path), (15.0, 60.0, 240.0))


def write_conversations(path: Path, n_requests: int = 200, n_conversations: int = 50) -> Path:
    """Turns of conversations, each of which begins with all that was said before, five in every cell of the grid.

    All begin with the same block; two in five take back some of what was said last; the last block of a prompt is
    partly filled and nobody else's.
    """
    rng, numbers = np.random.default_rng(0), count(1)
    said: list[list[int]] = [[0] for _ in range(n_conversations)]
    lines = []
    for i in range(n_requests):
        turn = said[i % n_conversations]
        if rng.random() < 0.4:
            del turn[max(1, len(turn) - int(rng.integers(1, 20))) :]
        turn += [next(numbers) for _ in range(int(rng.integers(2, 30)))]
        last_tokens = int(rng.integers(1, BLOCK_TOKENS))
        asked = {"input_length": BLOCK_TOKENS * len(turn) + last_tokens, "output_length": int(rng.integers(50, 700))}
        fields = {"timestamp": i // 5 * CELL_MS, **asked, "hash_ids": [*turn, next(numbers)]}
        lines.append(json.dumps(fields))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def ideal_hit_fraction(path: Path) -> float:
    """Part of prompt tokens that are in leading blocks of some earlier prompt, counted line by line."""
    seen: set[int] = set()
    total = cached = 0
    for fields in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        blocks = fields["hash_ids"]
        n_hit = next((i for i, block in enumerate(blocks) if block not in seen), len(blocks))
        total += fields["input_length"]
        cached += min(BLOCK_TOKENS * n_hit, fields["input_length"])
        seen.update(blocks)
    return cached / total


def write_lengths(path: Path, n_requests: int = 200) -> Path:
    """Lengths at times of 100 ns, some of which are equal."""
    rng, start = np.random.default_rng(1), datetime(2023, 11, 16, 23, 59, 0)
    at_s = np.cumsum(rng.integers(0, 4, n_requests))
    rows = [
        f"{start + timedelta(seconds=int(s), microseconds=680_590):%Y-%m-%d %H:%M:%S.%f}0,{n_input},{n_output}"
        for s, n_input, n_output in zip(at_s, *rng.integers(1, 5000, (2, n_requests)), strict=True)
    ]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n", encoding="utf-8")
    return path
