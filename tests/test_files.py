"""Files are written whole or not at all."""

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files import whole_file, write_text


def test_a_file_is_there_only_when_all_of_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    write_text(path, "first\r\n")

    def failing() -> None:
        with whole_file(path) as aside:
            aside.write_text("only a part")
            raise ValueError("half of it failed")

    with pytest.raises(ValueError, match="half"):
        failing()
    assert path.read_bytes() == b"first\r\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        write_text(tmp_path / "nowhere" / "answer.txt", "text")
