"""A report as a folder: written all at once, and checked against what it should say."""

import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from planner.errors import InputError, InputProblem
from planner.files import move_into_place
from planner.reading import JSON_BYTES, TABLE_BYTES, is_file, read_bytes
from planner.report.figures import NAME_KEY, PNG_KEY, Chart, charts, digest, images
from planner.report.markdown import report_markdown
from planner.report.reproduce import Reproduction
from planner.results.case import Case

SCENARIO, REPORT, FIGURES = "scenario.toml", "report.md", "figures"
INPUTS = "Inputs: sha256 "
"""What the last line of a report begins with."""
LEFTOVER = ".report-"
"""What the name of a folder begins with that holds a report before it is put into place."""
PNG_HEADER = b"\x89PNG\r\n\x1a\n"


def write_report(case: Case, out_dir: Path, scenario_text: str, again: Reproduction | None = None) -> None:
    """Write scenario.toml, report.md and figures/*.png into a folder.

    Args:
        case: what to report.
        out_dir: the folder; made where it does not exist.
        scenario_text: the question, as it stands in its file.
        again: what else the report depends on; None: nothing.

    Raises:
        InputError: the folder cannot be written.
    """
    texts = {REPORT: report_text(case, again)}
    if _text(out_dir / SCENARIO) != scenario_text:
        texts = {SCENARIO: scenario_text, **texts}
    write_folder(out_dir, texts, charts(case))


def report_text(case: Case, again: Reproduction | None) -> str:
    """The Markdown of a report with the digest of its inputs, where that is known."""
    return with_inputs(report_markdown(case, again), "" if again is None else again.inputs)


def write_folder(out_dir: Path, texts: Mapping[str, str], shown: Mapping[str, Chart]) -> None:
    """Write texts and figures/*.png into a folder.

    Everything is rendered before the folder is touched, then written aside within it, then moved into place file by
    file, the texts last. Figures of an earlier report that are no longer part of it are removed, and so is what a
    writer left behind that was killed; figures that others put there stay.

    Args:
        out_dir: the folder; made where it does not exist.

    Raises:
        InputError: the folder cannot be written.
    """
    files = {f"{FIGURES}/{name}.png": image for name, image in images(shown).items()}
    files |= {name: text.encode() for name, text in texts.items()}
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        with _locked(out_dir):
            _remove_leftovers(out_dir)
            _replace_files(out_dir, files)
            for path in _figures_of_ours(out_dir):
                if f"{FIGURES}/{path.name}" not in files:
                    path.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        problem = InputProblem(
            str(out_dir), "", f"the report cannot be written: {reason}", "a folder that may be written"
        )
        raise InputError(problem) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait for whoever else writes a report into a folder; who was killed holds it no longer."""
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:  # elsewhere two writers at once are on their own
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems lock nothing
            flock(descriptor, LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Every file whole or not at all: all are written aside in the same file system, then moved."""
    aside = Path(tempfile.mkdtemp(prefix=LEFTOVER, dir=folder))
    try:
        for name, content in files.items():
            (aside / name).parent.mkdir(exist_ok=True)
            (aside / name).write_bytes(content)
        for name in files:
            (folder / name).parent.mkdir(exist_ok=True)
            move_into_place(aside / name, folder / name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove what writers of this folder had aside that were killed."""
    for path in folder.glob(f"{LEFTOVER}*"):
        shutil.rmtree(path, ignore_errors=True)


def check_report(case: Case, out_dir: Path, scenario_text: str, again: Reproduction | None = None) -> list[str]:
    """Differences of a folder from what `write_report` would leave.

    Args:
        case: what the report should say.
        out_dir: the folder.
        scenario_text: the question, as it stands in its file.
        again: what else the report depends on; None: nothing.

    Returns:
        One line per stale, missing or superfluous file; empty when the report is current.
    """
    return check_folder(out_dir, {SCENARIO: scenario_text, REPORT: report_text(case, again)}, charts(case))


def with_inputs(text: str, inputs: str) -> str:
    """A report that ends in the digest of its inputs.

    >>> with_inputs("# Report\\n", "ab12")
    '# Report\\n\\nInputs: sha256 `ab12`\\n'
    """
    return f"{text}\n{INPUTS}`{inputs}`\n" if inputs else text


def check_inputs(out_dir: Path, inputs: str) -> list[str]:
    """One line where the report of a folder was made from other inputs than those of a digest, or does not say."""
    lines = (_text(out_dir / REPORT) or "").splitlines()
    if lines and lines[-1].startswith(INPUTS):
        return [] if lines[-1] == f"{INPUTS}`{inputs}`" else [f"{REPORT}: was made from other inputs"]
    return [f"{REPORT}: does not say from which inputs it was made"]


def check_folder(out_dir: Path, texts: Mapping[str, str], shown: Mapping[str, Chart]) -> list[str]:
    """Differences of a folder from what `write_folder` would leave.

    Texts are compared exactly, figures by what they plot: another version of matplotlib draws other pixels.

    Returns:
        One line per stale, missing or superfluous file; empty when all are current.
    """
    expected = {f"{name}.png": digest(chart) for name, chart in shown.items()}
    found = [problem for name, text in texts.items() for problem in _text_problems(out_dir / name, text)]
    found += [p for name, want in expected.items() for p in _image_problems(out_dir / FIGURES / name, want)]
    extra = [path.name for path in _figures_of_ours(out_dir) if path.name not in expected]
    return found + [f"{FIGURES}/{name}: is not a figure of this report, remove it" for name in extra]


def _text_problems(path: Path, wanted: str) -> Iterator[str]:
    text = _text(path)
    if text is None:
        yield f"{path.name}: is {'no text that planner wrote' if path.exists() else 'missing'}"
    elif text != wanted:
        yield f"{path.name}: line {_first_difference(text, wanted)} differs"


def _first_difference(text: str, wanted: str) -> int:
    """Number of the first line in which two texts differ."""
    lines, others = text.split("\n"), wanted.split("\n")
    same = next(
        (i for i, (a, b) in enumerate(zip(lines, others, strict=False)) if a != b), min(len(lines), len(others))
    )
    return same + 1


def _image_problems(path: Path, wanted: str) -> Iterator[str]:
    name = f"{FIGURES}/{path.name}"
    if not path.exists():
        yield f"{name}: is missing"
    elif (found := png_text(path)) is None:
        yield f"{name}: is no figure that planner drew"
    elif found != wanted:
        yield f"{name}: shows other data"


def _text(path: Path) -> str | None:
    """A file's text with its own line ends; None where there is none that a report could have."""
    try:
        return read_bytes(path, JSON_BYTES).decode() if is_file(path) else None
    except (InputError, UnicodeDecodeError):
        return None


def _figures_of_ours(out_dir: Path) -> list[Path]:
    """Figures that a report put there: drawn by the planner under the very name that they have."""
    return [path for path in sorted((out_dir / FIGURES).glob("*.png")) if png_text(path, NAME_KEY) == path.stem]


def png_text(path: Path, key: str = PNG_KEY) -> str | None:
    """A text entry of a PNG file; None where the file is no whole PNG or has no such entry."""
    try:
        entries = dict(_text_chunks(read_bytes(path, TABLE_BYTES))) if is_file(path) else {}
    except (InputError, ValueError, struct.error):
        return None
    return entries.get(key)


def _text_chunks(content: bytes) -> Iterator[tuple[str, str]]:
    """Key and text of every tEXt chunk; raises ValueError unless the file is whole."""
    if not content.startswith(PNG_HEADER):
        raise ValueError("no PNG")
    start, kind = len(PNG_HEADER), b""
    while kind != b"IEND":
        length, kind = struct.unpack(">I4s", content[start : start + 8])
        data, end = content[start + 8 : start + 8 + length], start + 8 + length
        if struct.unpack(">I", content[end : end + 4])[0] != zlib.crc32(kind + data):
            raise ValueError("damaged PNG")
        if kind == b"tEXt":
            key, _, text = data.partition(b"\0")
            yield key.decode("latin-1"), text.decode("latin-1")
        start = end + 4
