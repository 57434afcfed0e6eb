"""Comments of shell scripts and of YAML."""

from planner.markdown_text import plain


def comments(text: str) -> list[str]:
    r"""A text as comments: each of its lines is one, and nothing in it ends a comment or steers a terminal.

    >>> comments("The router of $(x)\nrm -rf /\x1b[2J")
    ['# The router of $(x)', '# rm -rf /\ufffd[2J']
    """
    return [f"# {plain(line)}" for line in text.splitlines()]
