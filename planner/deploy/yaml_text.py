"""YAML that means one thing to every reader: strings are quoted, and so are keys that could be something else."""

from collections.abc import Mapping
from typing import Any

import yaml

from planner.markdown_text import plain

_ENDLESS = 2**31
"""Width of a line: none is folded."""


def yaml_text(*documents: Mapping[str, Any]) -> str:
    r"""Documents of mappings, lists, strings, numbers and booleans as YAML, in the order given.

    >>> yaml_text({"replicas": 2, "args": ["y", "1"], "on": {}})
    'replicas: 2\nargs:\n  - "y"\n  - "1"\n\'on\': {}\n'
    """
    return "---\n".join(yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=_ENDLESS) for document in documents)


class _Dumper(yaml.SafeDumper):
    """Quoted strings, texts of several lines as blocks, lists below their key, and nothing by reference."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def represent_str(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, "|" if text.endswith("\n") else '"')

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        node = super().represent_mapping(tag, mapping, flow_style)
        for key, _ in node.value:
            key.style = None  # quoted where it must be
        return node


_Dumper.add_representer(str, _Dumper.represent_str)


def comments(text: str) -> list[str]:
    r"""A text as comments: each of its lines is one, and nothing in it ends a comment or steers a terminal.

    >>> comments("The router of $(x)\nrm -rf /\x1b[2J")
    ['# The router of $(x)', '# rm -rf /\ufffd[2J']
    """
    return [f"# {plain(line)}" for line in text.splitlines()]
