"""Points written back with predictions beside them, and copies that count as one."""

import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.profiles.points import PointDefaults, read_points, weights, write_predictions

HEADER = "model,hardware,framework,input_tokens,output_tokens,concurrency,gpus,ttft_ms,note"
FIRST = 'm,h200_sxm,vllm,1000,200,8.0,"4",250.50,"a ""quoted"", note"'
SECOND = "m,h200_sxm,vllm,2000,200,16.0,4.0,1e2,"
RESULT = {
    "backend": "vllm",
    "model_id": "m",
    "tp_size": "8",
    "request_rate": "inf",
    "max_concurrency": 4,
    "completed": 40,
    "total_input_tokens": 40960,
    "total_output_tokens": 4000,
    "median_ttft_ms": 250.0,
}


@pytest.fixture
def file(tmp_path):
    """Makes a file of points."""

    def make(text, name="points.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return make


def test_rows_keep_their_text_to_the_letter_and_get_the_new_cells(file, tmp_path):
    path = file(f"\ufeff{HEADER}\r\n{FIRST}\r\n\r\n{SECOND}")
    out = tmp_path / "out.csv"
    write_predictions(path, out, {"ttft_ms_predicted": [251.25, None], "refused": [None, "too long, by far"]})
    assert out.read_bytes().decode() == (
        f'\ufeff{HEADER},ttft_ms_predicted,refused\r\n{FIRST},251.25,\r\n\r\n{SECOND},,"too long, by far"'
    )
    assert {*tmp_path.iterdir()} == {path, out}


def test_a_cell_with_a_line_break_stays_one_cell(file, tmp_path):
    path = file(f'{HEADER}\n{FIRST[:-1]}\r\nmore"\n{SECOND}\n')
    out = tmp_path / "out.csv"
    write_predictions(path, out, {"x": [1.0, 2.0]})
    assert out.read_bytes().decode() == f'{HEADER},x\n{FIRST[:-1]}\r\nmore",1.0\n{SECOND},2.0\n'


def test_the_table_may_replace_the_file_it_comes_from(file):
    path = file(f"{HEADER}\n{FIRST}\n")
    write_predictions(path, path, {"x": [float("nan")]})
    write_predictions(path, path, {"n": [3]})
    assert path.read_text(encoding="utf-8") == f"{HEADER},x,n\n{FIRST},,3\n"


def test_no_columns_leave_a_table_as_it_is(file, tmp_path):
    text = f"{HEADER}\n{FIRST}\n"
    write_predictions(file(text), tmp_path / "out.csv", {})
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == text


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text("ab,\" '\n", min_size=1)))
def test_what_is_written_beside_a_table_is_read_from_it(tmp_path_factory, cells):
    folder = tmp_path_factory.mktemp("points")
    (folder / "in.csv").write_text("\n".join([HEADER, *([FIRST] * len(cells)), SECOND]), encoding="utf-8")
    write_predictions(folder / "in.csv", folder / "out.csv", {"x": [*cells, None]})
    with (folder / "out.csv").open(encoding="utf-8", newline="") as out:
        rows = list(csv.DictReader(out))
    expected = [cell if isinstance(cell, str) else "" if cell is None else repr(cell) for cell in [*cells, None]]
    assert [row["x"] for row in rows] == expected
    assert [row["note"] for row in rows] == ['a "quoted", note'] * len(cells) + [""]


def test_benchmark_results_become_a_table_of_points(file, tmp_path):
    defaults = PointDefaults(hardware="h200-sxm")
    path = file("\n".join([json.dumps(RESULT)] * 2), "run.jsonl")
    write_predictions(path, tmp_path / "out.csv", {"ttft_ms_predicted": [240.0, None]}, defaults)
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as out:
        rows = list(csv.DictReader(out))
    assert [(row["hardware"], row["gpus"], row["ttft_ms"], row["tpot_ms"]) for row in rows] == [
        ("h200-sxm", "8", "250.0", "")
    ] * 2
    assert [row["ttft_ms_predicted"] for row in rows] == ["240.0", ""]
    assert [(p.input_tokens, p.output_tokens, p.ttft_s) for p in read_points(tmp_path / "out.csv")] == [
        (1024.0, 100.0, 0.25)
    ] * 2


def test_a_column_that_is_there_already_is_not_written_twice(file, tmp_path):
    path = file(f"{HEADER}\n{FIRST}\n")
    with pytest.raises(InputError, match=r"points\.csv:1: note: is there already \(a file without it\)"):
        write_predictions(path, tmp_path / "out.csv", {"note": ["x"]})
    assert not (tmp_path / "out.csv").exists()


def test_a_column_needs_a_cell_for_every_point(file, tmp_path):
    with pytest.raises(ValueError, match="x has 1 cells for 2 points"):
        write_predictions(file(f"{HEADER}\n{FIRST}\n{SECOND}\n"), tmp_path / "out.csv", {"x": [1.0]})


@pytest.mark.parametrize("out", ["nowhere/out.csv", "points.csv/out.csv", "folder"])
def test_a_place_that_cannot_be_written_is_named_and_left_clean(file, tmp_path, out):
    path = file(f"{HEADER}\n{FIRST}\n")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"cannot be written: .*\(a file in a writable folder\)"):
        write_predictions(path, tmp_path / out, {"x": [1.0]})
    assert {entry.name for entry in tmp_path.iterdir()} == {"points.csv", "folder"}


def weights_of(file, *rows, header=HEADER):
    return weights(read_points(file("\n".join([header, *rows]))))


def test_copies_count_as_one_also_where_writing_moved_the_last_digits(file):
    copy = SECOND.replace("1e2", "100.00000000000001")
    assert weights_of(file, SECOND, FIRST, copy, SECOND) == pytest.approx([1 / 3, 1, 1 / 3, 1 / 3])


@pytest.mark.parametrize(
    ("old", "new"), [("1e2", "100.01"), ("16.0", "17"), ("vllm", "sglang"), ("1e2,", "1e2,x"), ("2000", "2001")]
)
def test_what_differs_in_its_values_its_load_or_its_stack_is_no_copy(file, old, new):
    expected = [0.5, 0.5] if new.endswith("x") else [1, 1]  # a remark is no part of a point
    assert weights_of(file, SECOND, SECOND.replace(old, new)) == expected


def test_the_same_values_on_another_day_are_another_measurement(file):
    dated = [f"{SECOND},2026-01-0{day}" for day in (1, 1, 2)]
    assert weights_of(file, *dated, header=f"{HEADER},measured_date") == [0.5, 0.5, 1]


def test_a_point_without_a_latency_is_no_copy_of_one_that_has_it(file):
    header = HEADER.replace("note", "tpot_ms")
    assert weights_of(file, f"{SECOND}5", SECOND, f"{SECOND}5.0", header=header) == [0.5, 1, 0.5]


@given(st.lists(st.sampled_from([FIRST, SECOND, SECOND.replace("1e2", "101")]), min_size=1))
def test_weights_add_up_to_the_number_of_different_measurements(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("points") / "points.csv"
    path.write_text("\n".join([HEADER, *rows]), encoding="utf-8")
    assert sum(weights(read_points(path))) == pytest.approx(len(set(rows)))


def test_no_points_have_no_weights():
    assert weights([]) == []
