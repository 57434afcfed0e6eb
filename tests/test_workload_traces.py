"""Trace readers: what a good line means, and that every kind of broken line is named with its number."""

import json

import numpy as np
import pytest

from planner.errors import InputError
from planner.workload.traces import read_trace
from tests.trace_cases import AZURE

AZURE_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def line(timestamp=0, n_input=600, n_output=5, hash_ids=(0, 1)):
    fields = {"timestamp": timestamp, "input_length": n_input, "output_length": n_output}
    hashes = {} if hash_ids is None else {"hash_ids": list(hash_ids)}
    return json.dumps(fields | hashes)


@pytest.fixture
def trace_of(tmp_path):
    """Reads lines written to a file, given as text or bytes."""

    def read(*lines, **options):
        path = tmp_path / "trace"
        path.write_bytes(b"\n".join(x if isinstance(x, bytes) else x.encode() for x in lines))
        return read_trace(path, **options)

    return read


def problem_of(call, *lines, **options):
    with pytest.raises(InputError) as caught:
        call(*lines, **options)
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


def test_a_mooncake_trace_gives_its_lengths_and_ragged_blocks(trace_of):
    trace = trace_of(line(0, 600, 5, [0, 1]), line(40, 512, 7, [2]), line(100, 1025, 9, [0, 1, 3]))
    assert trace.n_requests == 3
    assert trace.total_tokens.tolist() == [600, 512, 1025]
    assert trace.output_tokens.tolist() == [5, 7, 9]
    assert trace.blocks.values.tolist() == [0, 1, 2, 0, 1, 3]
    assert trace.blocks.offsets.tolist() == [0, 2, 3, 6]


def test_a_file_is_read_again_only_where_it_has_changed(tmp_path):
    path = tmp_path / "trace"
    path.write_text(line(0))
    first = read_trace(path)
    assert read_trace(path) is first
    assert not first.total_tokens.flags.writeable
    path.write_text("\n".join([line(0), line(40, 700)]))
    assert read_trace(path).total_tokens.tolist() == [600, 700]


def test_arrivals_on_the_recorders_grid_are_spread_evenly_inside_their_cell(trace_of):
    """Cells start at 0, 3 and 9 s; the recorder is late or early by a few milliseconds."""
    trace = trace_of(*(line(t) for t in (0, 0, 3, 2999, 9000, 9001)))
    assert trace.arrival_s == pytest.approx([0.5, 1.5, 2.5, 4.5, 9.75, 11.25])


def test_arrivals_off_the_grid_are_kept_and_count_from_the_first(trace_of):
    assert trace_of(line(100), line(1600.5), line(1600.5)).arrival_s == pytest.approx([0, 1.5005, 1.5005])


def test_a_mooncake_trace_may_lack_hashes_on_every_line(trace_of):
    assert trace_of(line(hash_ids=None), line(hash_ids=None)).blocks is None


def test_blank_lines_carriage_returns_and_a_byte_order_mark_at_the_ends_do_no_harm(trace_of):
    assert trace_of(b"\xef\xbb\xbf" + line().encode() + b"\r", line() + "\r", "", "  ").n_requests == 2


def test_an_azure_trace_counts_seconds_from_its_first_request_to_100_ns(trace_of):
    trace = trace_of(
        AZURE_HEADER,
        "2023-11-16 18:15:46.6805900,374,44",
        "2023-11-16 18:15:50.9951691,396,109",
        "2023-11-17 00:00:00,2,1",
    )
    assert trace.arrival_s == pytest.approx([0, 4.3145791, 20653.31941], abs=1e-9)
    assert trace.total_tokens.tolist() == [374, 396, 2]
    assert trace.output_tokens.tolist() == [44, 109, 1]
    assert trace.blocks is None


def test_an_azure_time_zone_is_respected(trace_of):
    zoned = trace_of(AZURE_HEADER, "2024-05-10 02:00:00+02:00,5,5", "2024-05-10 00:00:01.5Z,5,5")
    assert zoned.arrival_s.tolist() == [0, 1.5]


MOONCAKE_BREAKS = {
    "text that is not JSON": ("{oops", "", "not JSON"),
    "half a line": ('{"timestamp": 0, "input_le', "", "not JSON"),
    "absurd nesting": ("[" * 100_000, "", "not JSON"),
    "a number of absurd length": ("1" * 5000, "", "not JSON"),
    "a JSON list": ("[1, 2]", "", "JSON list"),
    "a missing length": ('{"timestamp": 0, "output_length": 5}', "input_length", "missing"),
    "a missing time": ('{"input_length": 5, "output_length": 5}', "timestamp", "missing"),
    "a length as text": (line(n_input="600"), "input_length", '"600"'),
    "a fractional length": (line(n_input=600.5), "input_length", "600.5"),
    "a true length": (line(n_output=True), "output_length", "true"),
    "a null length": (line(n_output=None), "output_length", "null"),
    "a prompt of no tokens": (line(n_input=0, hash_ids=[]), "input_length", "is 0"),
    "a negative length": (line(n_input=-600), "input_length", "-600"),
    "a length beyond reason": (line(n_input=10**30), "input_length", "is 1000"),
    "an answer of no tokens": (line(n_output=0), "output_length", "is 0"),
    "a time that is no number": (line(timestamp=float("nan")), "timestamp", "NaN"),
    "an infinite time": (line(timestamp=float("inf")), "timestamp", "Infinity"),
    "a negative time": (line(timestamp=-1), "timestamp", "-1"),
    "a time as text": (line(timestamp="0"), "timestamp", '"0"'),
    "a true time": (line(timestamp=True), "timestamp", "true"),
    "a time before the last": (line(timestamp=5), "timestamp", "earlier"),
    "too few hashes": (line(hash_ids=[0]), "hash_ids", "has 1 ids"),
    "too many hashes": (line(hash_ids=[0, 1, 2]), "hash_ids", "has 3 ids"),
    "hashes that are no list": (line().replace("[0, 1]", "7"), "hash_ids", "not a list"),
    "a hash that is text": (line(hash_ids=[0, "1"]), "hash_ids", "not a list"),
    "a hash that is true": (line(hash_ids=[0, True]), "hash_ids", "not a list"),
    "a hash of more than 64 bits": (line(hash_ids=[0, 2**63]), "hash_ids", "64 bits"),
    "no hashes though others have": (line(timestamp=10, hash_ids=None), "hash_ids", "not on every line"),
    "bytes that are no text": (b'{"timestamp": \xff}', "", "UTF-8"),
    "a blank line inside": ("", "", "blank"),
}


@pytest.mark.parametrize(("broken", "key", "message"), MOONCAKE_BREAKS.values(), ids=MOONCAKE_BREAKS)
def test_a_broken_mooncake_line_is_named_with_its_number(trace_of, broken, key, message):
    problem = problem_of(trace_of, line(6), line(7), broken, line(8))
    assert (problem.line, problem.key) == (3, key)
    assert message in problem.message
    assert len(str(problem)) < 400


def test_hashes_that_start_in_the_middle_are_refused(trace_of):
    assert problem_of(trace_of, line(hash_ids=None), line()).line == 2


AZURE_BREAKS = {
    "a column too few": ("2023-11-16 18:15:47,374", "", "2 columns"),
    "a column too many": ("2023-11-16 18:15:47,374,44,1", "", "4 columns"),
    "a length that is no number": ("2023-11-16 18:15:47,many,44", "ContextTokens", '"many"'),
    "an empty length": ("2023-11-16 18:15:47,,44", "ContextTokens", '""'),
    "a fractional length": ("2023-11-16 18:15:47,374,4.5", "GeneratedTokens", '"4.5"'),
    "a length that is not finite": ("2023-11-16 18:15:47,nan,44", "ContextTokens", '"nan"'),
    "a negative length": ("2023-11-16 18:15:47,374,-4", "GeneratedTokens", '"-4"'),
    "a prompt of no tokens": ("2023-11-16 18:15:47,0,44", "ContextTokens", "is 0"),
    "an answer of no tokens": ("2023-11-16 18:15:47,374,0", "GeneratedTokens", "is 0"),
    "digits of another script": ("2023-11-16 18:15:47,٣٧٤,44", "ContextTokens", "is "),
    "a length of absurd size": ("2023-11-16 18:15:47," + "9" * 5000 + ",44", "ContextTokens", "is "),
    "a time that is none": ("yesterday,374,44", "TIMESTAMP", '"yesterday"'),
    "a day that is none": ("2023-02-30 18:15:47,374,44", "TIMESTAMP", "2023-02-30"),
    "a time zone that is none": ("2023-11-16 18:15:47+99:00,374,44", "TIMESTAMP", "+99:00"),
    "a time before the last": ("2023-11-16 18:15:45,374,44", "timestamp", "earlier"),
    "bytes that are no text": (b"2023-11-16 18:15:47,\xff,44", "", "UTF-8"),
}


@pytest.mark.parametrize(("broken", "key", "message"), AZURE_BREAKS.values(), ids=AZURE_BREAKS)
def test_a_broken_azure_line_is_named_with_its_number(trace_of, broken, key, message):
    problem = problem_of(trace_of, AZURE_HEADER, "2023-11-16 18:15:46.6805900,374,44", broken)
    assert (problem.line, problem.key) == (3, key)
    assert message in problem.message
    assert len(str(problem)) < 400


@pytest.mark.parametrize("content", [[], [""], ["", " "]])
def test_an_empty_trace_is_refused(trace_of, content):
    assert "empty" in problem_of(trace_of, *content).message


def test_a_header_without_requests_is_refused(trace_of):
    assert "no requests" in problem_of(trace_of, AZURE_HEADER).message


def test_a_file_that_is_neither_format_is_refused_at_its_first_line(trace_of):
    problem = problem_of(trace_of, "when,how much", "1,2")
    assert problem.line == 1
    assert AZURE_HEADER in problem.allowed


def test_a_stated_format_is_not_guessed(trace_of):
    assert "JSON" in problem_of(trace_of, AZURE_HEADER, trace_format="mooncake").message
    assert AZURE_HEADER in problem_of(trace_of, line(), trace_format="azure").allowed


def test_a_missing_file_and_a_folder_are_input_errors(tmp_path):
    for path in (tmp_path / "none.jsonl", tmp_path):
        assert "cannot be read" in problem_of(read_trace, path).message


def test_a_trace_of_conversations_is_read_whole(mooncake):
    """Arrivals on the recorder's grid are spread inside their cells, all within an hour."""
    trace = read_trace(mooncake.path)
    assert trace.n_requests == mooncake.n_requests
    assert (np.diff(trace.arrival_s) > 0).all()
    assert trace.arrival_s[-1] < 3540
    assert np.diff(trace.blocks.offsets).tolist() == np.ceil(trace.total_tokens / 512).astype(int).tolist()


def is_read_whole(path, n_requests):
    trace = read_trace(path)
    assert trace.n_requests == n_requests
    assert trace.arrival_s[0] == 0
    assert (np.diff(trace.arrival_s) >= 0).all()


def test_a_made_azure_trace_is_read_whole_beyond_midnight(made_traces):
    is_read_whole(made_traces / AZURE, 200)


def test_the_published_azure_trace_is_read_whole(data_file):
    is_read_whole(data_file(f"traces/{AZURE}"), 19_366)
