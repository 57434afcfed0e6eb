"""The page is one file that asks for nothing, holds hostile text as text, and is refused where it makes no sense."""

import json
import re
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.report.decision import decision_rows, recommendation_text
from planner.report.explore_charts import FLEETS, PLACES, specifications
from planner.report.explore_page import CAPTIONS, OWN, SECTIONS, VENDORED, explore_html, packaged
from planner.report.screen import fleet_table, other_fleets_table
from planner.results.explorer import Explorer, MapSite
from planner.scenario import read_scenario
from planner.studies.explore import PageInputs, explorer
from tests.cpu_cost import cached

MOST_BYTES = 1_500_000
HOSTILE = "</script><img src=x onerror=alert(1)>&{{ 7*7 }}\u2028<!--"


@cached
def small_page() -> Explorer:
    """Of a scenario that is planned soon."""
    return explorer(PageInputs(read_scenario("not-worth-it"), "", "planner optimize not-worth-it", "0", None, False))


class Elements(HTMLParser):
    """Elements of a page with their attributes, and the text of scripts that hold data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.data: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.found[-1] if self.found else ("", {})
        if tag == "script" and attributes.get("id"):
            self.data[attributes["id"] or ""] = self.data.get(attributes["id"] or "", "") + data


def hostile(page: Explorer) -> Explorer:
    """The page with text of a user that tries to be markup, everywhere a user has text."""
    return page.model_copy(
        update={
            "title": HOSTILE,
            "question": HOSTILE,
            "command": HOSTILE,
            "notes": HOSTILE,
            "sources": (HOSTILE,),
            "places": tuple(MapSite(name=place.name, title=HOSTILE) for place in page.places),
            "inputs": tuple(note.model_copy(update={"what": HOSTILE, "source": HOSTILE}) for note in page.inputs),
            "plan": page.plan.model_copy(
                update={
                    "notes": (HOSTILE,),
                    "verdict": page.plan.verdict.model_copy(update={"because": HOSTILE}),
                    "baselines": tuple(b.model_copy(update={"name": HOSTILE}) for b in page.plan.baselines),
                }
            ),
        }
    )


def test_a_page_is_one_small_file_that_asks_for_nothing() -> None:
    text = explore_html(small_page())
    assert len(text.encode()) < MOST_BYTES
    page = Elements(text)
    asked = [(tag, a) for tag, a in page.found for key in a if key in ("src", "href", "srcset", "action", "data")]
    assert [(tag, a["href"]) for tag, a in asked] == [("link", "data:,")]
    assert "@import" not in text.split("</style>")[0]
    assert "url(" not in text.split("</style>")[0]
    (policy,) = (a["content"] for tag, a in page.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_text_of_a_user_stays_text() -> None:
    plain, bad = Elements(explore_html(small_page())), Elements(explore_html(hostile(small_page())))
    before, after = ([tag for tag, _ in page.found] for page in (plain, bad))
    assert not [tag for tag in after if tag == "img"]
    assert after.count("script") == before.count("script")
    data = json.loads(bad.data["data"])
    assert data["title"] == data["plan"]["notes"][0] == HOSTILE


def test_data_of_a_page_is_its_answer() -> None:
    page = small_page()
    data = json.loads(Elements(explore_html(page)).data["data"])
    assert data == json.loads(json.dumps(page.answer()))
    assert data["plan"]["schema"] == "planner.plan/1"


def test_every_chart_has_a_place_a_caption_and_no_text_of_a_user_in_its_specification() -> None:
    placed = [name for _, names in SECTIONS for name in names]
    assert sorted(placed) == sorted(CAPTIONS) == sorted(specifications())
    script = "".join(packaged("explore", name) for name in OWN)
    for name, spec in specifications().items():
        rows = set(re.findall(r'"name": "([\w-]+)"}', json.dumps(spec)))
        assert rows
        assert all(re.search(rf"\b{row}\b", script) for row in rows), name


def test_vendored_scripts_are_those_that_are_named_with_their_licences() -> None:
    told, text = packaged("vendor", "README.md"), explore_html(small_page())
    for name in VENDORED:
        assert sha256(packaged("vendor", name).encode()).hexdigest() in told
        assert name in told
    assert "University of Washington Interactive Data Lab" in text
    assert "Mike Bostock" in text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--out", "plan.txt"], 2, "plan.txt"),
        (["--out", "p.html", "--plan", "plan.json", "--studies"], 2, "--studies"),
        (["--out", "p.html", "--index", ".", "--studies"], 2, "--index"),
        (["--out", "p.html", "--index", "."], 3, "no page"),
        (["--out", "p.html", "--plan", "missing.json"], 3, "missing.json"),
        (["nowhere", "--out", "p.html"], 3, "nowhere"),
        (["--out", "p.html", "--plan", "other.json"], 3, "the scenario is 'prfaas-paper'"),
    ],
)
def test_what_makes_no_page_is_refused_before_any_work(
    arguments: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text(json.dumps(small_page().plan.answer()), encoding="utf-8")
    found = CliRunner().invoke(app, ["explore", *arguments])
    text = found.output + str(found.exception)
    assert getattr(found.exception, "exit_code", found.exit_code) == code, text
    assert said in text
    assert not (tmp_path / "p.html").exists()


def test_an_index_has_a_card_for_every_page_with_its_verdict_and_figure(tmp_path: Path) -> None:
    for name, page in (("one", small_page()), ("two", hostile(small_page()))):
        (tmp_path / name / "figures").mkdir(parents=True)
        (tmp_path / name / "plan.html").write_text(explore_html(page), encoding="utf-8")
    (tmp_path / "one" / "figures" / "theta.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    found = CliRunner().invoke(app, ["explore", "--index", str(tmp_path), "--out", str(tmp_path / "index.html")])
    assert found.exit_code == 0, found.exception
    index = Elements((tmp_path / "index.html").read_text(encoding="utf-8"))
    links = [a["href"] for tag, a in index.found if tag == "a"]
    images = [a["src"] or "" for tag, a in index.found if tag == "img"]
    assert links == ["one/plan.html", "two/plan.html"]
    assert len(images) == 1
    assert images[0].startswith("data:image/png;base64,")


def test_the_page_begins_with_the_answer_of_the_command_line() -> None:
    """The same headline, answers and fleets as on the first screen, and no verdict on a site that nobody offered."""
    page = small_page()
    text = unescape(explore_html(page))
    head = text[: text.index("<main>")]
    assert recommendation_text(page.plan) in head
    for label, answer in decision_rows(page.plan):
        assert f"<dt>{label}</dt><dd>{answer}</dd>" in head
    assert "Not worth it" not in head
    for table in (fleet_table(page.plan), other_fleets_table(page.plan)):
        assert all(f">{cell}</td>" in text for row in table.rows for cell in row)


def test_colours_of_fleets_and_of_places_go_by_all_of_their_names() -> None:
    charts = specifications()
    for name in ("throughput", "goodput", "first-token"):
        encoding = charts[name]["layer"][1]["encoding"]
        assert encoding["color"]["scale"]["domain"] == encoding["shape"]["scale"]["domain"] == FLEETS
    for name in ("capacity", "hours"):
        assert charts[name]["layer"][0]["encoding"]["color"]["scale"]["domain"] == PLACES
