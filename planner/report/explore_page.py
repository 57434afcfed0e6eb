"""The page of `planner explore`: one HTML file that holds its data, its charts and the scripts that draw them."""

import json
from importlib.resources import files
from typing import Any

from planner.report import bottleneck_text
from planner.report.decision import decision_rows, recommendation_text
from planner.report.explore_charts import specifications
from planner.report.formats import figure, sentence
from planner.report.screen import fleet_table, latency_table, other_fleets_table
from planner.results.explorer import Explorer
from planner.units import percent

TEMPLATE = "explore.html.jinja"
VENDORED = ("vega-6.4.0.min.js", "vega-lite-6.4.3.min.js")
LICENCES = ("LICENSE.vega", "LICENSE.vega-lite", "LICENSE.d3")
OWN = ("figures.js", "rows.js", "page.js")
SECTIONS = (
    ("What a threshold leads to", ("capacity", "ttft", "cost")),
    ("How busy everything is", ("use", "map", "hours")),
    ("What it costs", ("money", "throughput", "goodput", "first-token")),
    ("How sure that is", ("tornado", "prices", "executed")),
)
CAPTIONS = {
    "capacity": "Most requests per second that each pool and link would allow, by threshold. The grey area is what all "
    "of them allow together. Dashed: the plan; red: as set.",
    "ttft": "Time to first token at this rate and these sizes, by threshold. Dotted: what is promised.",
    "cost": "Cost per million input tokens at the highest rate of every threshold.",
    "use": "How busy every pool and link is. The red tick is the plan.",
    "map": "Sites and links. A site grows with its accelerators; a grey line is as wide as what is rented, the blue in "
    "it is what is used.",
    "hours": "Accelerators at work over the day, by pool. The chosen period stands out.",
    "money": "Where the money goes.",
    "throughput": "Requests per second against cost: the plan, what it is compared with, and the most that every "
    "budget serves.",
    "goodput": "Requests per second within the promise, against cost.",
    "first-token": "Time to first token that 90 % do not exceed, against cost.",
    "tornado": "How the objective changes when an input is up to 20 % off.",
    "prices": "What the plan gains over the other fleet for the same money, by the ratio of prices. Dashed: the stated "
    "ratio.",
    "executed": "Time to first token when the plan is run request by request, with its 95 % interval, beside what was "
    "predicted (lines).",
}
ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def explore_html(page: Explorer) -> str:
    """The page as one HTML text; it asks for nothing from anywhere.

    Args:
        page: what it shows. Names and texts of a user are escaped, or data that is never evaluated.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    template = environment.from_string(packaged("templates", TEMPLATE))
    trusted = [Markup(_script(text)) for text in _scripts()]  # our own and vendored scripts
    return template.render(
        page=page,
        plan=page.plan,
        verdict=sentence(recommendation_text(page.plan)),
        answers=[*decision_rows(page.plan)],
        fleets=[fleet_table(page.plan), latency_table(page.plan), other_fleets_table(page.plan)],
        binds=[sentence(bottleneck_text.bottleneck(item)) for item in page.plan.bottlenecks],
        gap=percent(page.plan.gap),
        words=figure,
        sections=SECTIONS,
        captions=CAPTIONS,
        style=Markup(packaged("explore", "page.css")),
        licences="\n\n".join(packaged("vendor", name) for name in LICENCES),
        data=Markup(json_text(page.answer())),
        charts=Markup(json_text(specifications())),
        scripts=trusted,
    )


def packaged(folder: str, name: str) -> str:
    """The text of a file that ships with the report."""
    return files("planner.report").joinpath(folder, name).read_text(encoding="utf-8")


def json_text(value: Any) -> str:
    """JSON that cannot end the element of a page that holds it.

    >>> json_text({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def _scripts() -> list[str]:
    return [packaged("vendor", name) for name in VENDORED] + [packaged("explore", name) for name in OWN]


def _script(text: str) -> str:
    """A script as an element holds it: nothing in it ends the element."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
