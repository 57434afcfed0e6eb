"""Good inputs of every kind that the planner reads, and the commands that read them."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

from planner.comparison import optimize
from planner.profiles.folders import profile_dir
from planner.scenario import bundled_scenarios, load_scenario
from tests.builders import SMALL
from tests.test_cli_errors import TINY
from tests.test_profiles_importer import CONFIGS
from tests.test_profiles_points_bench import SGLANG, VLLM

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Case:
    """Files, a command that reads them, and which of them, or which argument, is to be broken."""

    files: Mapping[str, bytes]
    arguments: tuple[str, ...]
    target: str | int
    """Name of a file, or place of an argument."""

    def changed(self, rng: Random, mutated: Callable[[bytes, Random], bytes]) -> "Case":
        """The case with its target broken."""
        if isinstance(self.target, str):
            return replace(self, files={**self.files, self.target: mutated(self.files[self.target], rng)})
        given = list(self.arguments)
        content = mutated(given[self.target].encode(), rng)[:100_000]
        given[self.target] = content.replace(b"\0", b"").decode(errors="surrogateescape")
        return replace(self, arguments=tuple(given))


@cache
def corpus() -> dict[str, list[Case]]:
    """Cases by the kind of what is broken."""
    return {
        "scenario": _scenarios(),
        "hardware profile": _profiles("hardware"),
        "model profile": _profiles("model"),
        "stack profile": _profiles("stack"),
        "config": _configs(),
        "trace": _traces(),
        "points": _points(),
        "override": _overrides(),
        "live run": _one("live.json", (ROOT / "reports/live-reference/live.json").read_bytes(), "live", "--from"),
        "notes": _notes(),
        "option": _options(),
        "plan": _plans(),
    }


def _one(name: str, content: bytes, *arguments: str) -> list[Case]:
    return [Case({name: content}, (*arguments, name), name)]


def _scenarios() -> list[Case]:
    texts = {name: path.read_text(encoding="utf-8") for name, path in bundled_scenarios().items()}
    texts = {name: text for name, text in texts.items() if "trace" not in text}
    texts |= {"small": SMALL, "tiny": TINY}
    found = []
    for text in texts.values():
        found += _one("scenario.toml", text.encode(), "scenario", "check")
    for text in (SMALL, TINY):
        content = {"scenario.toml": text.encode()}
        found.append(Case(content, ("optimize", "scenario.toml", "--time-limit", "0.5"), "scenario.toml"))
    return found


def _profiles(kind: str) -> list[Case]:
    paths = sorted(profile_dir(kind).glob("*.toml"))  # type: ignore[arg-type]
    found = []
    for path in paths[:: max(1, len(paths) // 6)]:
        name, content = path.name, path.read_bytes()
        found += [*_one(name, content, "profiles", "check"), *_one(name, content, "profiles", "show")]
        commands = {"hardware": ("qwen3-32b", name), "model": (name, "h200-sxm"), "stack": ()}
        if commands[kind]:
            found.append(Case({name: content}, ("predict", *commands[kind], "--tokens", "1024"), name))
    return found


def _configs() -> list[Case]:
    found = []
    for config in CONFIGS.values():
        found += _one("config.json", json.dumps(config, indent=1).encode(), "profiles", "import")
    return found


def _traces() -> list[Case]:
    lines = [{"timestamp": 500 * n, "input_length": 700, "output_length": 9, "hash_ids": [0, n]} for n in range(30)]
    mooncake = "".join(json.dumps(line) + "\n" for line in lines)
    rows = "".join(f"2023-11-16 18:00:{n:02}.0,{100 + n},{10 + n}\n" for n in range(40))
    azure = f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}"
    start, end = SMALL.index("[workload]"), SMALL.index("[sites.remote]")
    scenario = f"{SMALL[:start]}[workload]\ntrace = {{ path = 'trace' }}\n{SMALL[end:]}".encode()
    found = []
    for text in (mooncake, azure):
        found.append(Case({"trace": text.encode()}, ("scenario", "new", "mine", "--from", "trace"), "trace"))
        files = {"trace": text.encode(), "scenario.toml": scenario}
        found.append(Case(files, ("scenario", "check", "scenario.toml"), "trace"))
    return found


POINT = {
    "model": "qwen3-32b",
    "hardware": "h200-sxm",
    "framework": "vllm",
    "framework_version": "0.19.0",
    "precision": "bf16",
    "tp_size": "4",
    "gpus": "4",
    "input_tokens": "1024",
    "output_tokens": "512",
    "concurrency": "8",
    "ttft_ms": "250",
    "tpot_ms": "12.5",
}


def _table() -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [*POINT])
    writer.writeheader()
    writer.writerows(POINT | {"concurrency": str(n), "tpot_ms": str(10 + n / 8)} for n in range(1, 20))
    return text.getvalue()


def _points() -> list[Case]:
    found = []
    for content in (
        _table().encode(),
        json.dumps(VLLM | {"model_id": "qwen3-32b"}).encode(),
        json.dumps(SGLANG).encode(),
    ):
        more = ("--model", "qwen3-32b", "--hardware", "h200-sxm", "--precision", "bf16", "--accelerators", "8")
        found.append(Case({"points": content}, ("fidelity", "points", *more, "--out", "out.csv"), "points"))
        calibrate = ("calibrate", "points", "--stack", "mine", "--out", "mine.toml", "--force", *more)
        found.append(Case({"points": content}, calibrate, "points"))
    return found


SETTINGS = (
    "pools.prefill.n_instances=3",
    "prices.h200-sxm.usd_per_accelerator_hour=2.5",
    "sites.here.accelerators.h200-sxm=16",
    "demand_req_per_s=2",
    'workload.lengths={ kind = "lognormal", mu = 8, sigma = 1, low_tokens = 16, high_tokens = 100000 }',
    "measured.mine.prefill.seconds[0]=0.4",
    "model.profile=qwen3-32b",
)


def _plans() -> list[Case]:
    plan = optimize(load_scenario(TINY, "tiny.toml", Path()), time_limit_s=5.0)
    files = {"tiny.toml": TINY.encode(), "plan.json": json.dumps(plan.answer()).encode()}
    command = ("simulate", "tiny.toml", "--plan", "plan.json", "--requests", "200", "--replications", "2")
    return [Case(files, command, "plan.json")]


def _overrides() -> list[Case]:
    command = ("optimize", "tiny.toml", "--time-limit", "0.5", "--set")
    return [Case({"tiny.toml": TINY.encode()}, (*command, setting), len(command)) for setting in SETTINGS]


OPTIONS = (
    ("--accelerators", "8"),
    ("--layout", "tp=8,ep=1,dp=1,pp=1"),
    ("--precision", "fp8"),
    ("--kv-precision", "bf16"),
    ("--stack", "vllm-0.18"),
    ("--tokens", "1024,8192"),
    ("--cached", "512"),
    ("--batch", "1,8,64"),
    ("--context", "4096"),
    ("--tpot-ms", "20"),
)


def _options() -> list[Case]:
    """Arguments, each of which is broken."""
    command = ("predict", "qwen3-32b", "h200-sxm")
    found = [Case({}, (*command, *option), len(command) + 1) for option in OPTIONS]
    found += [Case({}, command, place) for place in (1, 2)]
    points = {"points": _table().encode()}
    for name, value in (("--stack", "vllm"), ("--precision", "fp8"), ("--mode", "agg"), ("--tp-size", "4")):
        found.append(Case(points, ("fidelity", "points", name, value), 3))
    for name, value in (("--source", "Makers"), ("--chunk-tokens", "8192"), ("--memory-fraction", "0.9")):
        start = ("calibrate", "points", "--stack", "mine", "--out", "mine.toml", "--force")
        found.append(Case(points, (*start, name, value), len(start) + 1))
    for arguments in (
        ("profiles", "show", "h200-sxm"),
        ("scenario", "check", "not-worth-it"),
        ("scenario", "new", "mine"),
    ):
        found.append(Case({}, arguments, 2))
    return found


NOTES = """
schema = "planner.fidelity-notes/1"
title = "Points"
[[files]]
name = "points.csv"
what = "A sweep"
source = "Its makers"
[[doubts]]
what = "Long answers"
why = "Too quick"
model = "qwen3-32b"
input_tokens = [1, 100000]
ttft_above_s = 3
"""


def _notes() -> list[Case]:
    files = {"points.csv": _table().encode(), "report/notes.toml": NOTES.encode()}
    return [Case(files, ("fidelity", "points.csv", "--report", "report", "--check"), "report/notes.toml")]
