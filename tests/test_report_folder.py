"""A report's folder: written whole or left alone, and what is stale in it is named."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from planner.errors import InputError
from planner.report import canvas
from planner.report.chart_money import CostChart
from planner.report.figures import NAME_KEY, PNG_KEY, charts
from planner.report.folder import check_report, png_text, write_report
from tests.test_report_records import CASES, PD_P

TEXT = 'name = "example"\n'
CASE = CASES["one pool"]
"""It has two figures, cost and utilisation: what holds of a folder holds with few as with many."""
OTHER = CASE.model_copy(update={"plan": CASE.plan.model_copy(update={"pools": (PD_P,)})})
"""The same with another fleet."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("written") / "reports" / "example"
    write_report(CASE, out, TEXT)
    return out


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A current report."""
    return shutil.copytree(written, tmp_path / "example")


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["usual", "one pool"])
def test_a_report_just_written_is_current(name: str, tmp_path: Path) -> None:
    write_report(CASES[name], tmp_path, TEXT)
    assert check_report(CASES[name], tmp_path, TEXT) == []


def test_a_report_is_question_answer_and_figures(folder: Path) -> None:
    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert {"scenario.toml", "report.md", "figures", "figures/cost.png"} < names
    assert all(name.startswith("figures") or name in ("scenario.toml", "report.md") for name in names)
    assert (folder / "scenario.toml").read_text() == TEXT


def test_writing_again_gives_the_same_bytes(folder: Path) -> None:
    before = content(folder)
    write_report(CASE, folder, TEXT)
    assert content(folder) == before


def test_a_changed_number_makes_the_text_stale_and_its_line_is_named(folder: Path) -> None:
    report = folder / "report.md"
    line = report.read_text().splitlines().index("## Latency") + 1
    report.write_text(report.read_text().replace("## Latency", "## latency"))
    assert check_report(CASE, folder, TEXT) == [f"report.md: line {line} differs"]


def test_another_answer_makes_text_and_figures_stale(folder: Path) -> None:
    stale = check_report(OTHER, folder, TEXT)
    assert "figures/cost.png: shows other data" in stale
    assert "figures/utilisation.png: shows other data" in stale
    assert any(line.startswith("report.md: line") for line in stale)


def test_changed_data_of_one_figure_are_noticed_even_where_the_text_is_the_same(folder: Path) -> None:
    busier = CASE.plan.pools[0].model_copy(update={"utilization": CASE.plan.pools[0].utilization + 1e-4})
    case = CASE.model_copy(update={"plan": CASE.plan.model_copy(update={"pools": (busier,)})})
    assert check_report(case, folder, TEXT) == ["figures/utilisation.png: shows other data"]


def test_another_question_is_noticed(folder: Path) -> None:
    assert check_report(CASE, folder, TEXT + "# more\n") == ["scenario.toml: line 2 differs"]


def test_missing_files_are_named(folder: Path, tmp_path: Path) -> None:
    (folder / "figures" / "cost.png").unlink()
    assert check_report(CASE, folder, TEXT) == ["figures/cost.png: is missing"]
    nowhere = check_report(CASE, tmp_path / "nowhere", TEXT)
    assert nowhere[:2] == ["scenario.toml: is missing", "report.md: is missing"]


def test_figures_of_an_earlier_report_are_named_and_removed_and_no_others(folder: Path) -> None:
    figures = folder / "figures"
    earlier = canvas.png(cost_figure(), {PNG_KEY: "x", NAME_KEY: "hours"})
    of_others = {
        "photo.png": b"not drawn by planner",
        "copy.png": (figures / "cost.png").read_bytes(),
        "sweep.png": canvas.png(cost_figure(), {}),
        "notes.txt": b"of the user",
    }
    for name, image in {**of_others, "hours.png": earlier}.items():
        (figures / name).write_bytes(image)
    assert check_report(CASE, folder, TEXT) == ["figures/hours.png: is not a figure of this report, remove it"]
    write_report(CASE, folder, TEXT)
    assert check_report(CASE, folder, TEXT) == []
    assert {name: (figures / name).read_bytes() for name in of_others} == of_others
    assert not (figures / "hours.png").exists()


def cost_figure() -> Figure:
    with canvas.style():
        return charts(CASE)["cost"].draw()


def test_a_damaged_figure_is_named(folder: Path) -> None:
    path = folder / "figures" / "cost.png"
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:-30] + b"\0" + whole[-29:], b"", b"text"):
        path.write_bytes(broken)
        assert check_report(CASE, folder, TEXT) == ["figures/cost.png: is no figure that planner drew"]
        assert png_text(path) is None


@pytest.mark.parametrize("name", ["report.md", "scenario.toml", "figures/cost.png"])
@pytest.mark.parametrize("kind", ["too large", "a pipe", "a folder", "not UTF-8"])
def test_what_no_report_can_be_is_named_and_neither_waited_for_nor_read_whole(
    name: str, kind: str, folder: Path
) -> None:
    path = folder / name
    path.unlink()
    if kind == "too large":
        with path.open("wb") as file:
            file.truncate(2**40)  # a hole: it takes no room on the disk
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.write_bytes(b"\xff\xfe")
    what = "no figure that planner drew" if name.endswith(".png") else "no text that planner wrote"
    assert check_report(CASE, folder, TEXT) == [f"{name}: is {what}"]


def test_a_failure_while_drawing_leaves_the_old_report_untouched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: CostChart) -> None:
        raise KeyboardInterrupt

    before = content(folder)
    monkeypatch.setattr(CostChart, "draw", fails)
    with pytest.raises(KeyboardInterrupt):
        write_report(OTHER, folder, "other")
    assert content(folder) == before
    monkeypatch.undo()
    assert check_report(CASE, folder, TEXT) == []


def test_a_failure_while_drawing_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CostChart, "draw", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(CASE, tmp_path / "new", TEXT)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_writing_leaves_the_old_report_untouched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    before = content(folder)
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_report(OTHER, folder, TEXT)
    monkeypatch.undo()
    assert content(folder) == before


def test_a_failure_while_moving_leaves_whole_files_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []

    def replace(source: Path, target: Path) -> None:
        if moved:
            raise KeyboardInterrupt
        moved.append(Path(target).name)
        os.rename(source, target)

    before = content(folder)
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        write_report(OTHER, folder, TEXT)
    monkeypatch.undo()
    after = content(folder)
    assert after.keys() == before.keys()
    assert after["report.md"] == before["report.md"]
    assert all(png_text(path) for path in (folder / "figures").iterdir())


def test_the_question_is_not_rewritten_where_it_stands_already(folder: Path) -> None:
    scenario = folder / "scenario.toml"
    os.utime(scenario, (1.0, 1.0))
    write_report(CASE, folder, TEXT)
    assert scenario.stat().st_mtime == 1.0
    write_report(CASE, folder, "other\n")
    assert scenario.read_text() == "other\n"


def test_a_place_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(CASE, tmp_path / "file", TEXT)


ROOT = Path(__file__).resolve().parents[1]
KILLER = """
import os, shutil, signal, sys
from pathlib import Path
import planner.report.folder as folder
from planner.report.figures import NAME_KEY, PNG_KEY
from planner.report import canvas

start, work = Path(sys.argv[1]), Path(sys.argv[2])

class Plain:
    def __init__(self, height): self.height = height
    def draw(self): return canvas.new_figure(self.height)

def image(name, chart):
    with canvas.style():
        return canvas.png(chart.draw(), {PNG_KEY: str(chart.height), NAME_KEY: name})

kept = {}
def images(shown):
    return {name: kept.setdefault((name, chart.height), image(name, chart)) for name, chart in shown.items()}

folder.images = images
old = ({"scenario.toml": "old", "report.md": "old"}, {"both": Plain(1.0), "old": Plain(1.0)})
new = ({"scenario.toml": "new", "report.md": "new"}, {"both": Plain(2.0), "new": Plain(2.0)})

def content(place):
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}

def write(place, report):
    folder.write_folder(place, *report)
    (place / "figures" / "mine.png").write_bytes(b"of the user")
    return content(place)

was, will_be = write(start, old), write(work / "reference", new)
images(old[1]), images(new[1])
assert was.keys() - will_be.keys() == {"figures/old.png"}

def die_at(step):
    # Every call that changes the folder is an event; this process is gone before the step-th takes place.
    names = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "open", "tempfile.mkdtemp"}
    seen = 0
    def hook(event, arguments):
        nonlocal seen
        if event in names and str(work) in str(arguments[0]):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

step, killed = 0, True
while killed:
    step += 1
    place = work / "out"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(start, place)
    child = os.fork()
    if child == 0:
        die_at(step)
        folder.write_folder(place, *new)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    found = {name: text for name, text in content(place).items() if not name.startswith(folder.LEFTOVER)}
    half = [name for name, text in found.items() if text not in (was.get(name), will_be.get(name))]
    assert not half, (step, half)
    assert found["report.md"] == b"old" or found.items() >= will_be.items(), step
    assert found["figures/mine.png"] == b"of the user", step
    folder.write_folder(place, *new)
    assert content(place) == will_be, (step, content(place).keys())
    assert not list(place.glob(".*")), step
print(step)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_report_killed_at_any_step_is_whole_again_after_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    command = [sys.executable, "-c", KILLER, str(tmp_path / "start"), str(tmp_path / "work")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 20
