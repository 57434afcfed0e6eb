"""Tables of measured points: what a good row means, and that every fault of a file is named with its line at once."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.profiles.points import PointDefaults, ServingPoint, points_csv, read_points, weights
from planner.profiles.points.point import THROUGHPUT
from planner.profiles.points.table import MOST_PROBLEMS

NOTHING = PointDefaults()
ROW = {
    "model": "lab/tiny-7b",
    "hardware": "h200_sxm",
    "framework": "vllm",
    "input_tokens": "1000",
    "output_tokens": "200",
    "concurrency": "16.0",
    "gpus": "8.0",
    "ttft_ms": "250.5",
    "tpot_ms": "12.5",
}
PREFILL_ROW = {key: ROW[key] for key in ("model", "hardware", "framework", "input_tokens", "ttft_ms")}
PREFILL_ROW |= {"n_accelerators": "8", "kv_transfer_ms": "3.5", "kv_mb_physical_tp8": "77"}


def table(*rows):
    return "\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)]) + "\n"


@pytest.fixture
def points_of(tmp_path):
    """Reads a file of some text or bytes."""

    def read(content, defaults=NOTHING):
        path = tmp_path / "points.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_points(path, defaults)

    return read


@pytest.fixture
def problems_of(points_of, tmp_path):
    """Every problem of a file as text, without its folder."""

    def read(content, defaults=NOTHING):
        with pytest.raises(InputError) as caught:
            points_of(content, defaults)
        return [str(problem).replace(f"{tmp_path}/", "") for problem in caught.value.problems]

    return read


def test_a_row_gives_a_point_in_si_units(points_of, tmp_path):
    (point,) = points_of(table(ROW))
    assert point == ServingPoint(
        file=str(tmp_path / "points.csv"),
        line=2,
        model="lab/tiny-7b",
        hardware="h200_sxm",
        framework="vllm",
        framework_version=None,
        precision=None,
        kv_precision=None,
        mode="agg",
        input_tokens=1000.0,
        output_tokens=200.0,
        concurrency=16.0,
        request_rate_req_per_s=None,
        n_accelerators=8,
        tp_size=None,
        pp_size=None,
        attention_dp_size=None,
        moe_tp_size=None,
        moe_ep_size=None,
        prefill_num_workers=None,
        prefill_tp_size=None,
        decode_num_workers=None,
        decode_tp_size=None,
        ttft_s=0.2505,
        tpot_s=0.0125,
        measured_date=None,
    )
    assert point.is_closed_loop
    assert point.weight == 1.0


def test_a_table_of_prefills_alone_means_one_request_at_a_time_and_its_first_token(points_of):
    (point,) = points_of(table(PREFILL_ROW))
    assert (point.concurrency, point.output_tokens, point.tpot_s) == (1.0, 1.0, None)
    assert (point.n_accelerators, point.input_tokens, point.ttft_s) == (8, 1000.0, 0.2505)


def test_empty_optional_cells_are_unknown_and_unknown_columns_are_let_be(points_of):
    optional = {"precision": "", "tp_size": "", "mode": "", "ttft_ms": "", "measured_date": " ", "remark": "warm"}
    (point,) = points_of(table(ROW | optional))
    assert (point.precision, point.tp_size, point.ttft_s, point.measured_date) == (None, None, None, None)
    assert point.mode == "agg"


def test_a_byte_order_mark_carriage_returns_quotes_and_blank_rows_do_no_harm(points_of):
    text = table(ROW | {"model": '"lab/tiny, 7b"'}).replace("\n", "\r\n")
    points = points_of(("\ufeff" + text + "\r\n,,,,,,,,\r\n" + text.splitlines()[1]).encode())
    assert [(point.line, point.model) for point in points] == [(2, "lab/tiny, 7b"), (5, "lab/tiny, 7b")]


@pytest.mark.parametrize(
    ("layout", "n_accelerators"),
    [
        ({"n_accelerators": "4"}, 4),
        ({"gpus": "4", "tp_size": "8"}, 4),  # a size that contradicts the layout is as the file states it
        ({"gpus": "4", "n_accelerators": "4.0"}, 4),
        ({"tp_size": "8.0"}, 8),
        ({"tp_size": "2", "pp_size": "3", "attention_dp_size": "4", "moe_ep_size": "9"}, 24),
        ({"tp_size": "2", "pp_size": "", "attention_dp_size": ""}, 2),
    ],
)
def test_accelerators_are_as_stated_or_else_the_product_of_the_layout(points_of, layout, n_accelerators):
    row = {key: text for key, text in ROW.items() if key != "gpus"}
    assert points_of(table(row | layout))[0].n_accelerators == n_accelerators


def test_a_disaggregated_row_has_workers_and_their_accelerators(points_of):
    row = {key: text for key, text in ROW.items() if key != "gpus"}
    workers = {"prefill_num_workers": "3", "prefill_tp_size": "2", "decode_num_workers": "1.0", "decode_tp_size": "8"}
    (point,) = points_of(table(row | {"mode": "disagg"} | workers))
    assert (point.mode, point.n_accelerators) == ("disagg", 14)
    assert (point.prefill_num_workers, point.prefill_tp_size) == (3, 2)
    assert (point.decode_num_workers, point.decode_tp_size) == (1, 8)


def test_each_side_of_a_disaggregated_row_has_a_layout_of_its_own(points_of):
    row = {key: text for key, text in ROW.items() if key != "gpus"} | {"mode": "disagg"}
    sides = {"prefill_num_workers": "2", "prefill_tp_size": "1", "prefill_attention_dp_size": "8"}
    sides |= {"prefill_moe_ep_size": "8", "decode_num_workers": "1", "decode_tp_size": "4"}
    sides |= {"decode_attention_dp_size": "4", "decode_pp_size": "2", "decode_moe_ep_size": "16"}
    (point,) = points_of(table(row | sides))
    assert point.n_accelerators == 2 * 8 + 4 * 4 * 2
    assert (point.prefill_attention_dp_size, point.prefill_moe_ep_size, point.prefill_pp_size) == (8, 8, None)
    assert (point.decode_attention_dp_size, point.decode_moe_ep_size, point.decode_pp_size) == (4, 16, 2)


@pytest.mark.parametrize(
    ("column", "hint"),
    [
        ("prefil_tp_size", "did you mean 'prefill_tp_size'?"),
        ("context_parallel", "columns of the layout: tp_size, "),
        ("cp_size", "did you mean 'tp_size'?"),
        ("encoder_num_workers", "did you mean 'decode_num_workers'?"),
    ],
)
def test_an_unknown_column_that_states_a_layout_is_refused(points_of, column, hint):
    with pytest.raises(InputError) as found:
        points_of(table(ROW | {column: "2"}))
    (problem,) = found.value.problems
    assert (problem.key, problem.message) == (column, "states a layout and is not known")
    assert hint in problem.allowed


@pytest.mark.parametrize("column", ["num_prompts", "max_batch_size", "steps", "notes"])
def test_an_unknown_column_of_anything_else_is_let_be(points_of, column):
    assert len(points_of(table(ROW | {column: "2"}))) == 1


def test_a_throughput_stands_in_place_of_latencies_and_is_then_of_requests_queued_at_once(points_of):
    row = {key: text for key, text in ROW.items() if not key.endswith("_ms")}
    (batch,) = points_of(table(row | {"output_tokens_per_s_per_gpu": "1234.5"}))
    (both,) = points_of(table(ROW | {"output_tokens_per_s_per_gpu": "1234.5"}))
    assert batch.output_tokens_per_s_per_gpu == both.output_tokens_per_s_per_gpu == 1234.5
    assert (batch.is_batch, both.is_batch) == (True, False)


def test_a_disaggregated_row_without_workers_is_read_and_says_so(points_of):
    (point,) = points_of(table(ROW | {"mode": "disagg"}))
    assert (point.mode, point.n_accelerators, point.decode_num_workers) == ("disagg", 8, None)


def test_an_open_loop_states_its_rate_instead_of_a_concurrency(points_of):
    row = {key: text for key, text in ROW.items() if key != "concurrency"}
    (point,) = points_of(table(row | {"request_rate_req_per_s": "2.5"}))
    assert (point.concurrency, point.request_rate_req_per_s) == (None, 2.5)
    assert not point.is_closed_loop


def test_a_row_may_say_by_which_harness_and_with_which_lengths_it_was_run(points_of):
    columns = ROW | {"harness": "", "length_ratio": ""}
    said, silent = points_of(table(columns | {"harness": "inferencex", "length_ratio": "0.8"}, columns))
    assert (said.source, said.length_ratio) == ("inferencex", 0.8)
    assert (silent.source, silent.length_ratio) == (None, None)


def test_defaults_hold_only_where_the_file_is_silent(points_of):
    defaults = PointDefaults(hardware="other", n_accelerators=2, precision="fp8", tp_size=1, mode="disagg")
    silent, stating = points_of(table(ROW | {"precision": ""}, ROW | {"precision": "bf16"}), defaults)
    assert (silent.precision, stating.precision) == ("fp8", "bf16")
    assert (silent.hardware, silent.n_accelerators, silent.tp_size, silent.mode) == ("h200_sxm", 8, 1, "disagg")


def test_a_default_stands_for_a_whole_column(points_of):
    row = {key: text for key, text in ROW.items() if key not in ("hardware", "gpus")}
    (point,) = points_of(table(row), PointDefaults(hardware="l20", n_accelerators=2))
    assert (point.hardware, point.n_accelerators) == ("l20", 2)


@pytest.mark.parametrize(
    ("column", "text", "message"),
    [
        ("model", "", "model: is not stated (a value in every row)"),
        ("input_tokens", "0", 'input_tokens: is "0" (a number from 1 to 1,000,000,000 tokens)'),
        ("input_tokens", "1_000", 'input_tokens: is "1_000" (a number from 1 to 1,000,000,000 tokens)'),
        ("output_tokens", "", "output_tokens: is not stated (a value in every row)"),
        ("output_tokens", "-5", 'output_tokens: is "-5" (a number from 1 to 1,000,000,000 tokens)'),
        ("concurrency", "0", 'concurrency: is "0" (a number from 1 to 1,000,000,000)'),
        (
            "concurrency",
            "",
            "concurrency: is not stated, nor is request_rate_req_per_s (a value in every row)",
        ),
        ("ttft_ms", "nan", 'ttft_ms: is "nan" (a number from 1e-06 to 1,000,000,000 ms)'),
        ("tpot_ms", "inf", 'tpot_ms: is "inf" (a number from 1e-06 to 1,000,000,000 ms)'),
        ("tpot_ms", "1e400", 'tpot_ms: is "1e400" (a number from 1e-06 to 1,000,000,000 ms)'),
        ("tpot_ms", "0", 'tpot_ms: is "0" (a number from 1e-06 to 1,000,000,000 ms)'),
        ("tpot_ms", "12 ms", 'tpot_ms: is "12 ms" (a number from 1e-06 to 1,000,000,000 ms)'),
        ("gpus", "8.5", 'gpus: is "8.5" (a whole number from 1 to 1,000,000)'),
        ("gpus", "", "n_accelerators: is not stated, nor is gpus or tp_size (a value in every row)"),
        ("tp_size", "eight", 'tp_size: is "eight" (a whole number from 1 to 1,000,000)'),
        ("n_accelerators", "4", "n_accelerators: is 4, but gpus is 8 (the same number, or one of the two)"),
        ("mode", "mixed", 'mode: is "mixed" (allowed: agg, disagg)'),
        ("draft_tokens", "64", 'draft_tokens: is "64" (a whole number from 0 to 63)'),
        ("draft_tokens", "1.5", 'draft_tokens: is "1.5" (a whole number from 0 to 63)'),
        ("acceptance", "1.2", "acceptance: is 1.2 (a probability from 0 to 1)"),
        ("acceptance", "often", 'acceptance: is "often" (a number from 0 to 1,000,000,000)'),
        ("length_ratio", "1.2", "length_ratio: is 1.2 (above 0, at most 1: shortest over nominal length)"),
        ("length_ratio", "0", 'length_ratio: is "0" (a number from 1e-06 to 1,000,000,000)'),
    ],
)
def test_a_cell_that_cannot_be_is_named_with_what_is_allowed(problems_of, column, text, message):
    assert problems_of(table(ROW | {column: text})) == [f"points.csv:2: {message}"]


@pytest.mark.parametrize("size", ["tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"])
@pytest.mark.parametrize("nothing", ["0", "0.0"])
def test_a_parallel_size_of_0_splits_nothing_and_is_1(points_of, size, nothing):
    found, one = points_of(table(ROW | {size: nothing}, ROW | {size: "1"}))
    assert getattr(found, size) == getattr(one, size) == 1
    assert found.n_accelerators == one.n_accelerators


def test_no_workers_are_as_good_as_none_stated(points_of):
    none = {"prefill_num_workers": "0", "decode_num_workers": "0"}
    (found,) = points_of(table(ROW | none))
    assert (found.prefill_num_workers, found.decode_num_workers) == (None, None)


@pytest.mark.parametrize("column", ["model", "input_tokens", "concurrency", "gpus"])
def test_what_every_row_lacks_is_told_once_and_what_some_lack_row_by_row(problems_of, column):
    (told,) = problems_of(table(*[ROW | {column: ""}] * 9))
    assert told.startswith("points.csv:2: ")
    assert "is not stated" in told
    assert ", in all 9 rows (" in told
    assert len(problems_of(table(*[ROW | {column: ""}] * 8, ROW))) == 8


def test_a_long_table_that_lacks_a_column_is_one_message_and_where_reading_ended(problems_of):
    told = problems_of(table(*[ROW | {"model": ""}] * (MOST_PROBLEMS + 9)))
    assert len(told) == 2
    assert "rows (a value in every row)" in told[0]
    assert "the rest is not read" in told[1]


def test_a_fault_of_every_row_stands_beside_those_of_some(problems_of):
    told = problems_of(table(ROW | {"model": "", "ttft_ms": "x"}, ROW | {"model": ""}, ROW | {"model": ""}))
    assert [problem.split(": ")[:2] for problem in told] == [["points.csv:2", "model"], ["points.csv:2", "ttft_ms"]]


def test_a_point_needs_one_latency_at_least(problems_of):
    row = ROW | {"ttft_ms": "", "tpot_ms": ""}
    assert problems_of(table(row)) == [
        "points.csv:2: ttft_ms: is not stated, nor is tpot_ms or output_tokens_per_s_per_gpu (at least one of them)"
    ]


def test_all_faults_of_a_file_are_reported_together(problems_of):
    bad = table(ROW | {"gpus": "x", "ttft_ms": "-1"}, ROW, ROW | {"framework": ""}) + "a,b\n"
    assert [problem.split(": ")[:2] for problem in problems_of(bad)] == [
        ["points.csv:2", "gpus"],
        ["points.csv:2", "ttft_ms"],
        ["points.csv:4", "framework"],
        ["points.csv:5", "has 2 cells (9, as in the header)"],
    ]


def test_missing_columns_are_reported_once_each_beside_the_faults_of_the_rows(problems_of):
    text = table(ROW, ROW | {"tpot_ms": "no"}).replace("concurrency", "concurency").replace("model", "network")
    text = text.replace("gpus", "cards")
    needed = "n_accelerators or gpus or tp_size or prefill_num_workers"
    assert problems_of(text) == [
        "points.csv:1: model: column is missing (needed: model)",
        "points.csv:1: concurrency: column is missing, though there is 'concurency' (did you mean 'concurrency'?)",
        f"points.csv:1: n_accelerators: column is missing (needed: {needed})",
        'points.csv:3: tpot_ms: is "no" (a number from 1e-06 to 1,000,000,000 ms)',
    ]


def test_a_table_without_any_latency_lacks_a_column(problems_of):
    row = {key: text for key, text in ROW.items() if not key.endswith("_ms")}
    assert problems_of(table(row)) == [
        f"points.csv:1: ttft_ms: column is missing (needed: ttft_ms or tpot_ms or {THROUGHPUT})"
    ]


def test_mistyped_load_columns_do_not_make_a_table_of_prefills_alone(problems_of):
    header = table(PREFILL_ROW | {"outputtokens": "9"})
    assert [problem.split(": ")[1] for problem in problems_of(header)] == ["output_tokens", "concurrency"]


def test_a_column_may_not_be_there_twice(problems_of):
    text = "tpot_ms," + table(ROW).replace("\n", "\n3,", 1)
    assert problems_of(text) == ["points.csv:1: tpot_ms: is there more than once (each column once)"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (table(ROW).splitlines()[0].encode(), "has a header but no points"),
        (b"\xff\xfe\x00\x01", "is not UTF-8 text"),
        (b"one,two\n1,2\n", "does not start like measured points: 'one,two'"),
        (b'model,"hardware\n', "is not CSV: unexpected end of data"),
        (b"[1, 2]", "is [1, 2]"),
    ],
)
def test_what_is_no_table_of_points_is_refused_with_one_reason(problems_of, content, message):
    (problem,) = problems_of(content)
    assert message in problem
    assert problem.endswith(")"), "says what is allowed"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_points(tmp_path / "nowhere.csv")


TEXTS = st.text("abcXYZ019-_./ ,\"'", min_size=1).map(str.strip).filter(bool)
SIZES = st.none() | st.integers(1, 10**6)
MILLISECONDS = st.floats(1e-3, 1e8)
TOKENS = st.floats(1, 1e6)


@st.composite
def points(draw):
    size_names = [field.name for field in fields(ServingPoint) if field.name.endswith(("_size", "_workers"))]
    optional = ("framework_version", "precision", "kv_precision", "measured_date")
    ttft_s, tpot_s = draw(
        st.tuples(st.none() | MILLISECONDS, st.none() | MILLISECONDS).filter(lambda pair: pair != (None, None))
    )
    return ServingPoint(
        file="",
        line=0,
        **{name: draw(TEXTS) for name in ("model", "hardware", "framework")},
        **{name: draw(st.none() | TEXTS) for name in optional},
        **{name: draw(SIZES) for name in size_names},
        source=draw(st.none() | TEXTS),
        length_ratio=draw(st.none() | st.floats(0.01, 1)),
        draft_tokens=draw(st.none() | st.integers(0, 63)),
        acceptance=draw(st.none() | st.just(0.0) | st.floats(0.01, 1)),
        mode=draw(st.sampled_from(["agg", "disagg"])),
        input_tokens=draw(TOKENS),
        output_tokens=draw(TOKENS),
        concurrency=draw(TOKENS),
        request_rate_req_per_s=draw(st.none() | st.floats(1e-3, 1e3)),
        n_accelerators=draw(st.integers(1, 10**6)),
        ttft_s=None if ttft_s is None else ttft_s / 1e3,
        tpot_s=None if tpot_s is None else tpot_s / 1e3,
    )


@given(st.lists(points(), min_size=1, max_size=5))
def test_points_survive_being_written_and_read(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("points") / "points.csv"
    path.write_text(points_csv(written), encoding="utf-8", newline="")
    read = read_points(path)
    assert [point.line for point in read] == list(range(2, len(written) + 2))
    for before, after in zip(written, read, strict=True):
        for name in {field.name for field in fields(ServingPoint)} - {"file", "line"}:
            expected = getattr(before, name)
            assert getattr(after, name) == (pytest.approx(expected) if isinstance(expected, float) else expected)


SPLINTERS = [b'"', b",", b"\n", b"\r", b"\xff", b"\0", b"{", b"[", b"-1", b"nan", b"1e999", "é".encode()]


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9), st.sampled_from(SPLINTERS)), min_size=1, max_size=4))
def test_a_damaged_table_is_read_or_refused_but_never_breaks_the_reader(tmp_path_factory, damages):
    content = table(ROW, ROW).encode()
    for at, length, splinter in damages:
        content = content[:at] + splinter + content[at + length :]
    path = tmp_path_factory.mktemp("points") / "points.csv"
    path.write_bytes(content)
    problems = []
    try:
        assert read_points(path)
    except InputError as error:
        problems.extend(error.problems)
    assert all(problem.file == str(path) and problem.allowed for problem in problems)


def is_sweep(points, n_points, n_unversioned, n_repeated):
    """Points of colocated pools under closed loops, all with both latencies; some are there twice."""
    assert len(points) == n_points
    assert {point.mode for point in points} == {"agg"}
    assert sum(point.framework_version is None for point in points) == n_unversioned
    assert all(point.ttft_s and point.tpot_s and point.is_closed_loop for point in points)
    assert weights(points).count(0.5) == n_repeated


def are_prefills(points, n_points):
    """Single prompts on an instance of eight."""
    assert len(points) == n_points
    found = {(point.concurrency, point.output_tokens, point.tpot_s, point.n_accelerators) for point in points}
    assert found == {(1.0, 1.0, None, 8)}


def test_a_made_sweep_is_read_whole(points_of):
    stated = ROW | {"framework_version": "0.19.0"}
    rows = [stated | {"concurrency": str(2**i), "ttft_ms": f"{250.5 + i / 7:.12g}"} for i in range(10)]
    unversioned = [row | {"framework_version": ""} for row in rows[:4]]
    is_sweep(points_of(table(*rows, *unversioned, *rows[5:7])), 16, 4, 4)


def test_the_published_sweep_is_read_whole(data_file):
    """13 measurements are there twice, to the last digits."""
    is_sweep(read_points(data_file("measured/serving_points.csv")), 1071, 529, 26)


def test_made_prefills_are_read_whole(points_of):
    are_prefills(points_of(table(*(PREFILL_ROW | {"input_tokens": str(1024 * n)} for n in (1, 2, 4)))), 3)


def test_the_published_prefills_are_read_whole(data_file):
    are_prefills(read_points(data_file("measured/h20_prefill.csv")), 9)
