"""How the handbook becomes a site: `make docs`."""

import re
from typing import Any

from planner import __version__

project = "planner"
version = release = __version__
author = copyright = "the planner's authors"
language = "en"

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # excerpts of TOML and JSON are not whole files

html_theme = "furo"
html_title = "planner handbook"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

OUTSIDE = re.compile(r"\]\((?=(?:\.\./)+reports/)")
"""Links to reports, which are no pages of the site."""


def with_files(_app: Any, _name: str, source: list[str]) -> None:
    """The page with links to reports as files that come with the site."""
    source[0] = OUTSIDE.sub("](path:", source[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", with_files)
