"""Files are written whole or not at all, and stay what they are."""

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files import (
    check_writable,
    move_into_place,
    remove_scratch,
    scratch_prefix,
    whole_file,
    write_bytes,
    write_text,
)

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def by_text(path: Path) -> None:
    write_text(path, "new")


def by_bytes(path: Path) -> None:
    write_bytes(path, b"new")


def by_moving(path: Path) -> None:
    aside = path.parent / "aside"
    aside.write_text("new")
    move_into_place(aside, path)
    aside.unlink(missing_ok=True)


WRITERS = [by_text, by_bytes, by_moving]
every_writer = pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


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


@every_writer
@pytest.mark.parametrize("before", [0o600, 0o640, 0o644, 0o755])
def test_a_file_keeps_its_mode(write: Callable[[Path], None], before: int, tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("old")
    path.chmod(before)
    write(path)
    assert (path.read_text(), mode(path)) == ("new", before)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
@every_writer
def test_a_file_keeps_its_owner_where_that_may_be_given(write: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("old")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    write(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode(path)) == (12345, 23456, 0o640)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("write", [by_text, by_bytes])
def test_a_new_file_has_the_mode_that_the_umask_leaves(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / "answer.txt")
    assert mode(tmp_path / "answer.txt") == 0o640


@every_writer
@pytest.mark.parametrize("is_there", [True, False], ids=["whole", "dangling"])
def test_a_link_stays_and_what_it_leads_to_is_written(
    write: Callable[[Path], None], is_there: bool, tmp_path: Path
) -> None:
    target = tmp_path / "elsewhere" / "target.txt"
    target.parent.mkdir()
    if is_there:
        target.write_text("old")
        target.chmod(0o600)
    (tmp_path / "second").symlink_to("elsewhere/target.txt")
    link = tmp_path / "first"
    link.symlink_to(tmp_path / "second")
    write(link)
    assert link.is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert target.read_text() == "new"
    if is_there:
        assert mode(target) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["target.txt"]


def test_a_link_to_itself_is_said(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path / "loop", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


@every_writer
def test_a_pipe_stays_a_pipe_and_gets_the_text(write: Callable[[Path], None], tmp_path: Path) -> None:
    path, heard = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: heard.append(path.read_text()))
    reader.start()
    write(path)
    reader.join(timeout=30)
    assert heard == ["new"]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


@every_writer
def test_a_device_stays_a_device(write: Callable[[Path], None], tmp_path: Path) -> None:
    link = tmp_path / "nothing"
    link.symlink_to(os.devnull)
    write(link)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert link.is_symlink()
    assert [each.name for each in tmp_path.iterdir()] == ["nothing"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_that_takes_nothing_is_said() -> None:
    with pytest.raises(InputError, match="/dev/full: cannot be written: No space left on device"):
        write_text(Path("/dev/full"), "new")


SAYS = "import sys; from planner.files import write_text; from pathlib import Path; print('before', flush=True); "
RESERVED = "from planner.cli.exit import reserve_stdout; reserve_stdout(); "


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
@pytest.mark.parametrize("where", ["pipe", "file"])
@pytest.mark.parametrize("before", ["", RESERVED], ids=["plain", "reserved"])
def test_standard_output_gets_the_text_in_its_turn(before: str, where: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", before + SAYS + "write_text(Path('/dev/stdout'), 'new\\n'); print('after')"]
    if where == "pipe":
        found = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, check=True).stdout
    else:
        with (tmp_path / "out").open("wb") as file:
            subprocess.run(command, env=ENVIRONMENT, stdout=file, check=True)
        found = (tmp_path / "out").read_bytes()
    assert found == b"before\nnew\nafter\n"


def test_what_cannot_be_written_is_said_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("no/where")
    for path, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "nowhere" / "x", "No such file or directory"),
        (tmp_path / "dangling", "No such file or directory"),
    ):
        with pytest.raises(InputError, match=reason):
            check_writable(path)
    for path in (tmp_path / "x", Path(os.devnull)):
        check_writable(path)
    assert [path.name for path in tmp_path.iterdir()] == ["dangling"]


def test_two_writers_of_one_file_never_meet(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    with whole_file(path) as one, whole_file(path) as other:
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_temporary_folders_of_this_process_alone_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in (f"{scratch_prefix()}one", f"{scratch_prefix()}two", "planner-1-other", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    remove_scratch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "planner-1-other"]
