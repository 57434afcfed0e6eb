"""Text of others in reports: it is shown, and changes neither the structure of a document nor that of a figure."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from planner.markdown_text import as_code, code, escaped, plain, prose
from planner.report.canvas import style, svg
from planner.report.fidelity_folder import fidelity_markdown
from planner.report.figures import charts
from planner.report.live_folder import live_markdown
from planner.report.markdown import report_markdown
from planner.results.case import Case, ComparedPlan, SourceNote
from planner.results.live_file import live_from
from planner.results.plan import Verdict
from planner.results.scheduling import LoadPattern
from tests.test_report_fidelity import SURVEY
from tests.test_report_records import (
    PD_D,
    PD_P,
    baseline,
    make_break_even,
    make_case,
    make_claim,
    make_class,
    make_curve,
    make_executed,
    make_plan,
    pool,
)

ROOT = Path(__file__).resolve().parents[1]
SHARP = st.text("#`*_[]()!<>|~$&;:=+-.\\/ \n\r\t1ax\u2028\x1b\u202e", min_size=1, max_size=30)
HOSTILE = [
    "# x\n<img src=http://a.example/p.png>",
    "![x](http://a.example/p.png)",
    "a | b\n|---|---|\n| c | d |",
    "x\n===",
    "[a]: http://a.example",
    "</td><script>x</script><!--",
    "- [x](y)\n1. z\n> q",
    "``` \n~~~",
    "$x^2$ &lt; \\*",
    "`a` **b** ~~c~~ _d_",
    "<http://a.example>",
    "@team, see https://a.example and www.a.example",
    "Ask:x@a.example about #12 of #team",
    "\x1b[31mred\x07",
]
TEXTS = (st.text(min_size=1, max_size=30) | SHARP | st.sampled_from(HOSTILE)).filter(plain)
APART = "\u200b"
CALLS = re.compile(r"@\w|#\d", re.ASCII)
"""What GitHub looks for in the text of a comment: people, teams, e-mail addresses and issues."""
ADDRESSES = re.compile(r"(https?|ftp)://|\bwww\.", re.IGNORECASE)
"""What it makes links of in the source."""
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def structure(text: str) -> list[str]:
    """Kinds of everything in a document but text itself."""
    blocks = PARSER.parse(text)
    inline = [child for block in blocks for child in block.children or []]
    return [token.type + token.tag for token in [*blocks, *inline] if token.type not in ("text", "softbreak", "inline")]


def shown(text: str) -> str:
    """What a reader sees of inline Markdown."""
    (paragraph,) = (token for token in PARSER.parse(f"x{text}") if token.type == "inline")
    return "".join(child.content for child in paragraph.children or [])[1:]


def with_text(text: str, name: str) -> Case:
    """A case with a text wherever files have one, and a name wherever they have names."""
    # A plan that is read has names that obey a pattern; what is escaped does not rest on it.
    long = pool("far", 4, "h200-sxm", "long", 1.56).model_copy(update={"name": name})
    plan = make_plan(
        pools=(long, PD_P.model_copy(update={"site": name}), PD_D),
        classes=(
            make_class("chat", 0.7, 13886.0).model_copy(update={"name": name}),
            make_class("documents", 0.3, 15428.0),
        ),
        threshold_tokens=None,
        sweep=None,
        notes=(f"what is said of {text}",),
        verdict=Verdict(worth_it=True, because=f"It is ahead of {text}."),
        baselines=(baseline(name, 1.56, title=text),),
    ).model_copy(update={"scenario": name})
    executed = make_executed()
    assert executed.schedulers is not None
    patterns = (LoadPattern(name="bursts", text=text),)
    return make_case(
        name=name,
        title=text,
        plan=plan,
        curves=(make_curve(name, "measured"),),
        comparisons=(
            ComparedPlan(name=name, title=text, plan=plan),
            ComparedPlan(name="none", title=text, plan=None, failure=text),
        ),
        claims=(make_claim(text, note=text, source=text, holds=False), make_claim(text, kind="input", note=text)),
        break_even=(make_break_even(title=text), make_break_even(title=text, decides=name)),
        not_varied=(f'prices."{name}"',),
        inputs=(SourceNote(what=text, basis="quoted", source=text),),
        sources=(text,),
        executed=executed.model_copy(
            update={"schedulers": executed.schedulers.model_copy(update={"patterns": patterns})}
        ),
    )


PLAIN = structure(report_markdown(with_text("text", "name")))


@given(TEXTS, TEXTS)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_text_or_name_changes_the_structure_of_a_report(text: str, name: str) -> None:
    assert structure(report_markdown(with_text(text, name))) == PLAIN


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_change_nothing_either(text: str) -> None:
    found = report_markdown(with_text(text, text))
    assert structure(found) == PLAIN
    assert found.splitlines()[0].startswith("# ")


@given(TEXTS)
def test_escaped_text_is_read_as_it_was_written(text: str) -> None:
    assert shown(escaped(text)).replace(APART, "").strip() == plain(text).replace(APART, "").strip()
    assert not {kind for kind in structure(escaped(text))} - {"paragraph_openp", "paragraph_closep"}


@given(st.lists(st.sampled_from([*"@#x1 &*", "www.", "http://", "FTP://"]), max_size=8).map("".join))
@example("@team")
@example("x@a.example")
@example("HTTPS://a.example www.a.example #12")
def test_escaped_text_mentions_nobody_and_links_nowhere(text: str) -> None:
    for written in (escaped(text), prose(text.replace("`", ""))):
        assert not CALLS.search(shown(written.replace("\n", " ")))
        assert not ADDRESSES.search(written)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["%", "x", "USD/h", "to +3.5 %", "= 7"]))
def test_a_number_with_its_sign_stands_as_it_is(value: float, unit: str) -> None:
    for text in (f"{value:+.3g} {unit}", f"{value:.1f}{unit}", f"={value:g}", f"a {unit} of {value:+g}"):
        assert escaped(text) == text


@given(TEXTS)
def test_code_is_one_span_that_shows_the_text(text: str) -> None:
    assert as_code(escaped(text)) == code(text)
    (inline,) = (token for token in PARSER.parse(f"x {code(text)}") if token.type == "inline")
    spans = [child.content for child in inline.children or [] if child.type == "code_inline"]
    assert [span.strip() for span in spans] == [plain(text)]


MARKS = {"em_openem", "em_closeem", "strong_openstrong", "strong_closestrong", "code_inlinecode"}
BLOCKS = {f"{kind}_{end}{tag}" for kind, tag in (("paragraph", "p"), ("list_item", "li")) for end in ("open", "close")}
LISTS = {f"{kind}_list_{end}{tag}" for kind, tag in (("bullet", "ul"), ("ordered", "ol")) for end in ("open", "close")}
QUOTES = {f"blockquote_{end}blockquote" for end in ("open", "close")}
ALLOWED = MARKS | BLOCKS | LISTS | QUOTES | {"code_blockcode", "hardbreakbr"}


@given(SHARP | st.lists(st.sampled_from([*HOSTILE, "`", "\\", "\n", "- a ", "`b`"]), max_size=6).map("".join))
@example("\\`![x](http://y)`")
@example("`a\nb` ![x](y) `c`")
def test_notes_keep_paragraphs_lists_emphasis_and_code_alone(text: str) -> None:
    assert set(structure(prose(text))) <= ALLOWED


@given(TEXTS, TEXTS)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_name_of_a_file_or_a_machine_changes_the_structure_of_the_other_reports(text: str, name: str) -> None:
    def surveyed(text: str, name: str) -> str:
        files = tuple(file.model_copy(update={"name": name, "what": text, "source": text}) for file in SURVEY.files)
        return fidelity_markdown(SURVEY.model_copy(update={"title": text, "files": files}), [])

    def lived(text: str, name: str) -> str:
        path = ROOT / "reports" / "live-reference" / "live.json"
        live = live_from(path.read_text(encoding="utf-8"), str(path))
        machine = live.machine.model_copy(update={"processor": text, "system": name})
        return live_markdown(live.model_copy(update={"machine": machine}), [])

    for report in (surveyed, lived):
        assert structure(report(text, name)) == structure(report("text", "name"))


@pytest.mark.parametrize("text", [*HOSTILE, "漢字 🚀", "a" * 60])
def test_figures_of_any_text_are_drawn_and_are_whole_documents(text: str) -> None:
    for chart in charts(with_text(text, text)).values():
        with style():
            figure = chart.draw()
        ElementTree.fromstring(svg(figure))


def test_a_dollar_is_a_dollar_in_a_figure() -> None:
    chart: Any = charts(make_case(break_even=(make_break_even(title="$a$ or $b$"),)))["break_even"]
    with style():
        labels = chart.draw().axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == ["$a$ or $b$"]
    assert not any(label.get_parse_math() for label in labels)
