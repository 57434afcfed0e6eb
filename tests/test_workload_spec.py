"""The stated workload: what may be said together, where a trace is looked for, and which mix comes of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from planner.errors import InputError
from planner.schema import TomlFile
from planner.workload.atom_mix import AtomMix
from planner.workload.length_mix import LengthMix
from planner.workload.requests import request_mix, trace_path
from planner.workload.spec import Workload

CONSTANT = {"kind": "constant", "tokens": 1024.0}
LENGTHS = {"lengths": CONSTANT, "output_lengths": CONSTANT}
TRACE = {"trace": {"path": "small.jsonl"}}
PAPER_TOML = """
prefix_hits = "none"
[lengths]
kind = "lognormal"
mu = 9.90
sigma = 1
low_tokens = 128
high_tokens = 131072
[output_lengths]
kind = "constant"
tokens = 1024
"""


@pytest.fixture
def small_trace(tmp_path):
    """Three requests: 600 tokens, the same again, and 512 of other text."""
    rows = [(600, 10, [0, 1]), (600, 20, [0, 1]), (512, 60, [2])]
    lines = [
        json.dumps({"timestamp": 0, "input_length": n, "output_length": out, "hash_ids": ids}) for n, out, ids in rows
    ]
    (tmp_path / "small.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_a_workload_can_be_written_in_toml():
    mix = request_mix(TomlFile("w.toml", PAPER_TOML).record(Workload), Path())
    assert isinstance(mix, LengthMix)
    assert mix.mean_total_tokens == pytest.approx(27_486, abs=0.5)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({}, "exactly one of lengths and trace"),
        (LENGTHS | TRACE, "exactly one of lengths and trace"),
        ({"lengths": CONSTANT}, "output_lengths is required"),
        (TRACE | {"output_lengths": CONSTANT}, "must not be given with a trace"),
        (LENGTHS | {"prefix_hits": "ideal"}, "needs a trace with block hashes"),
        (LENGTHS | {"prefix_hits": "some"}, "prefix_hits"),
        (LENGTHS | {"prefix_hits": {"kind": "constant", "fraction": 1.0}}, "less than 1"),
        (LENGTHS | {"prefix_hits": {"kind": "discrete", "fractions": (0.1,), "weights": ()}}, "as many weights"),
        (LENGTHS | {"arrivals": {"kind": "weibull"}}, "poisson"),
        (LENGTHS | {"demand": 3.0}, "Extra inputs"),
    ],
)
def test_what_cannot_be_said_together_is_refused_with_the_reason(stated, reason):
    with pytest.raises(ValidationError, match=reason):
        Workload.model_validate(stated)


@pytest.mark.parametrize(
    ("hits", "problem"),
    [
        ('"idael"', 'prefix_hits: must be "none", "ideal" or a table'),
        ('{kind = "gamma"}', 'prefix_hits: must be "none", "ideal" or a table'),
        ("7", 'prefix_hits: must be "none", "ideal" or a table'),
        ('["none"]', 'prefix_hits: must be "none", "ideal" or a table'),
        ('{kind = ["beta"]}', 'prefix_hits: must be "none", "ideal" or a table'),
        ('{kind = "beta", alpha = 1}', "prefix_hits.beta: is required"),
        ('{kind = "beta", alpha = 1, beta = 2, gama = 3}', "prefix_hits.gama: unknown key"),
    ],
)
def test_a_mistake_in_prefix_hits_is_one_problem_at_its_key(hits, problem):
    with pytest.raises(InputError) as caught:
        TomlFile("w.toml", PAPER_TOML.replace('"none"', hits)).record(Workload)
    assert [str(p) for p in caught.value.problems] == [str(caught.value)]
    assert str(caught.value).startswith(f"w.toml:2: {problem}")


def test_arrivals_are_poisson_unless_stated():
    assert Workload.model_validate(LENGTHS).arrivals.squared_cv == 1


def test_gamma_arrivals_say_how_their_gaps_vary():
    gamma = {"kind": "gamma", "squared_cv": 2.5}
    assert Workload.model_validate(LENGTHS | {"arrivals": gamma}).arrivals.squared_cv == 2.5


@pytest.mark.parametrize("arrivals", [{"kind": "gamma"}, {"kind": "gamma", "squared_cv": 0.0}])
def test_gamma_arrivals_without_a_variation_above_zero_are_refused(arrivals):
    with pytest.raises(ValidationError, match="squared_cv"):
        Workload.model_validate(LENGTHS | {"arrivals": arrivals})


def test_a_trace_without_hits_is_its_requests(small_trace):
    mix = request_mix(Workload.model_validate(TRACE), small_trace)
    assert isinstance(mix, AtomMix)
    assert mix.mean_total_tokens == pytest.approx(1712 / 3)
    assert mix.mean_output_tokens == 30
    assert mix.cached_fraction == 0


def test_a_trace_with_ideal_hits_caches_what_came_before(small_trace):
    mix = request_mix(Workload.model_validate(TRACE | {"prefix_hits": "ideal"}), small_trace)
    assert mix.cached_fraction == pytest.approx(600 / 1712)
    assert mix.support == (0, 600)


def test_a_trace_with_a_hit_distribution_pairs_every_request_with_every_hit(small_trace):
    hits = {"kind": "discrete", "fractions": (0.0, 0.5), "weights": (1.0, 1.0)}
    mix = request_mix(Workload.model_validate(TRACE | {"prefix_hits": hits}), small_trace)
    assert mix.atoms(1).weights.tolist() == pytest.approx([1 / 6] * 6)
    assert mix.cached_fraction == pytest.approx(0.25)


def test_ideal_hits_on_a_trace_without_hashes_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n")
    stated = Workload.model_validate({"trace": {"path": "a.csv"}, "prefix_hits": "ideal"})
    with pytest.raises(InputError, match="no block hashes"):
        request_mix(stated, tmp_path)


def test_a_trace_is_found_beside_the_scenario_in_a_data_folder_or_its_traces(small_trace, tmp_path):
    (tmp_path / "data" / "traces").mkdir(parents=True)
    deep = tmp_path / "data" / "traces" / "deep.jsonl"
    deep.write_text("")
    elsewhere = tmp_path / "elsewhere"
    assert trace_path("small.jsonl", small_trace) == small_trace / "small.jsonl"
    assert trace_path("small.jsonl", elsewhere, [small_trace]) == small_trace / "small.jsonl"
    assert trace_path("deep.jsonl", elsewhere, [tmp_path / "data"]) == deep
    assert trace_path(str(deep), elsewhere) == deep


def test_a_trace_that_is_nowhere_names_every_place_and_what_may_name_more(tmp_path):
    with pytest.raises(InputError) as caught:
        trace_path("gone.jsonl", tmp_path / "here", [tmp_path / "data"])
    message = str(caught.value)
    for place in ("here/gone.jsonl", "data/gone.jsonl", "data/traces/gone.jsonl", "PLANNER_DATA"):
        assert place in message


def test_stating_a_workload_loads_no_numerics():
    code = "import sys, planner.workload.spec; print('numpy' in sys.modules, 'scipy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
    )
    assert done.stdout.split() == ["False", "False"]
