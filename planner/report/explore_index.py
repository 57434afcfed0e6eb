"""An index of pages: a card for each, with its question, its verdict and a figure."""

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from planner.errors import InputError, InputProblem
from planner.reading import read_bytes, read_text
from planner.report.explore_page import packaged
from planner.report.phrases import SERVING
from planner.units import number, usd

TEMPLATE = "explore_index.html.jinja"
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
FIGURES = ("threshold.png", "periods.png", "theta.png")
"""Figures of a report that show its plan best, the first that is there."""
MOST_BYTES = 16_000_000


class Card(NamedTuple):
    """A page, as the index shows it."""

    title: str
    link: str
    verdict: str
    facts: tuple[str, ...]
    figure: str | None
    """Of its report, as the address of an image; None without one."""


def index_html(folder: Path, home: Path) -> str:
    """An index of the pages that lie in a folder or in the folders of it.

    Args:
        folder: where the pages are.
        home: folder of the index, from which links start.

    Raises:
        InputError: there is no page.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    cards = list(_cards(folder, home))
    if not cards:
        allowed = "pages that planner explore wrote, in it or in its folders"
        raise InputError(InputProblem(str(folder), "", "holds no page", allowed))
    environment = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    template = environment.from_string(packaged("templates", TEMPLATE))
    return template.render(cards=cards, style=Markup(packaged("explore", "page.css")))


def _cards(folder: Path, home: Path) -> Iterator[Card]:
    for path in sorted({*folder.glob("*.html"), *folder.glob("*/*.html")}):
        found = DATA.search(read_text(path, MOST_BYTES))
        if found is not None:
            yield _card(json.loads(found[1]), path, home)


def _card(data: dict[str, Any], path: Path, home: Path) -> Card:
    plan = data["plan"]
    verdict = plan["verdict"]
    kind = verdict.get("recommendation")
    cost = plan["cost"]["usd_per_hour"]
    facts = [f"{number(plan['throughput_req_per_s'])} requests per second"]
    facts += [] if cost is None else [f"{usd(cost)} USD per hour"]
    facts.append(f"{number(sum(pool['n_accelerators'] for pool in plan['pools']))} accelerators")
    return Card(
        title=data["title"],
        link=Path(os.path.relpath(path, home)).as_posix(),
        verdict=f"Served best {SERVING[kind]}." if kind in SERVING and kind else "Not decided.",
        facts=tuple(facts),
        figure=_figure(path.parent / "figures"),
    )


def _figure(folder: Path) -> str | None:
    """A figure beside a page, as data, so that the index is one file."""
    for name in FIGURES:
        if (folder / name).is_file():
            return "data:image/png;base64," + b64encode(read_bytes(folder / name, MOST_BYTES)).decode()
    return None
