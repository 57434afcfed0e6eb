"""Faults of a line that computes: an operator, a constant, an index or an extreme in its source changed for another.

Lines of function bodies compute. What is stated, said or drawn has no faults: defaults, bounds and tables of numbers
outside functions, text, formats, error messages, annotations, tolerances, sizes of figures.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

OPERATORS: dict[type[ast.AST], dict[str, tuple[str, ...]]] = {
    ast.Add: {"+": ("-",)},
    ast.Sub: {"-": ("+",)},
    ast.Mult: {"*": ("/",)},
    ast.Div: {"/": ("*",)},
    ast.FloorDiv: {"//": ("*", "/")},
    ast.Mod: {"%": ("//",)},
    ast.Pow: {"**": ("*",)},
    ast.Lt: {"<": (">", "<=")},
    ast.LtE: {"<=": (">=", "<")},
    ast.Gt: {">": ("<", ">=")},
    ast.GtE: {">=": ("<=", ">")},
    ast.And: {"and": ("or",)},
    ast.Or: {"or": ("and",)},
}
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
UNCOUNTED_CALLS = {
    *("Field", "TypeVar", "Option", "Argument", "getLogger", "Table", "Column", "Panel", "Console", "Padding"),
    *("round", "fixed", "significant", "text", "annotate", "subplots", "figure", "savefig", "set_title", "legend"),
}
"""Functions whose arguments bound, format, draw or name something."""
UNCOUNTED_KEYWORDS = {
    *("digits", "ndigits", "width", "min_width", "max_width", "indent", "stacklevel", "maxsize", "figsize", "fontsize"),
    *("linewidth", "markersize", "alpha", "zorder", "size", "dpi", "pad", "padding", "capsize", "lw", "ms", "ratio"),
}
"""Named arguments that are no part of a computation."""
LEAST_CONSTANT = 1e-4
"""A smaller constant is a tolerance."""


@dataclass(frozen=True, order=True)
class Fault:
    """A changed piece of a source."""

    line: int
    start: int
    """Of the piece, in bytes of the source."""
    end: int
    new: str
    kind: str

    def applied(self, source: str) -> str:
        """The source with the fault."""
        content = source.encode()
        return (content[: self.start] + self.new.encode() + content[self.end :]).decode()


def faults(source: str) -> list[Fault]:
    """Faults of every kind that a source can have, in order.

    >>> source = "def wait_s(rate: float, n: list[int]) -> float:\\n    return -max(n[0] / rate, 2.5)\\n"
    >>> for fault in faults(source):
    ...     print(fault.kind, fault.applied(source).splitlines()[1].strip())
    minus return max(n[0] / rate, 2.5)
    extreme return -min(n[0] / rate, 2.5)
    index return -max(n[1] / rate, 2.5)
    operator return -max(n[0] * rate, 2.5)
    constant return -max(n[0] / rate, 5.0)
    """
    finder = _Finder(source)
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return sorted({fault for function in functions for line in function.body for fault in finder.faults_of(line)})


class _Finder:
    """Walks what of a source computes."""

    def __init__(self, source: str) -> None:
        self.content = source.encode()
        self.starts = [0]
        for line in self.content.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def faults_of(self, node: ast.AST) -> Iterator[Fault]:
        """Faults of a node and of what is in it."""
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
            return
        if isinstance(node, ast.Call):
            yield from self._of_call(node)
            return
        if isinstance(node, ast.Subscript) and (index := _index(node.slice)) is not None:
            new = str(index - 1 if index > 0 else index + 1)
            yield self._replaced(node.slice, new, "index")
            yield from self.faults_of(node.value)
            return
        yield from self._own(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list", "defaults", "kw_defaults"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        yield from self.faults_of(child)

    def _own(self, node: ast.AST) -> Iterator[Fault]:
        match node:
            case ast.BinOp(left, op, right) if not (_is_text(left) or _is_text(right)):
                yield from self._operator(left, op, right)
            case ast.BoolOp(op, values):
                for left, right in pairwise(values):
                    yield from self._operator(left, op, right)
            case ast.Compare(left, ops, others):
                for one, op, other in zip([left, *others], ops, others, strict=False):
                    yield from self._operator(one, op, other)
            case ast.UnaryOp(ast.USub()):
                start = self._at(node.lineno, node.col_offset)
                yield Fault(node.lineno, start, start + 1, "", "minus")
            case ast.Constant(value) if type(value) in (int, float) and not 0 < value < LEAST_CONSTANT:
                new = str(value + 1) if isinstance(value, int) else str(2 * value or 1.0)
                yield self._replaced(node, new, "constant")

    def _of_call(self, node: ast.Call) -> Iterator[Fault]:
        function = node.func
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        if name in EXTREMES:
            assert function.end_lineno is not None
            assert function.end_col_offset is not None
            end = self._at(function.end_lineno, function.end_col_offset)
            yield Fault(function.end_lineno, end - len(name), end, EXTREMES[name], "extreme")
        if name in UNCOUNTED_CALLS:
            return
        yield from self.faults_of(function)
        for argument in node.args:
            yield from self.faults_of(argument)
        for keyword in node.keywords:
            if keyword.arg not in UNCOUNTED_KEYWORDS:
                yield from self.faults_of(keyword.value)

    def _operator(self, left: ast.expr, op: ast.AST, right: ast.expr) -> Iterator[Fault]:
        """Faults of an operator, which stands between its operands."""
        assert left.end_lineno is not None
        assert left.end_col_offset is not None
        start = self._at(left.end_lineno, left.end_col_offset)
        between = self.content[start : self._at(right.lineno, right.col_offset)].decode()
        for old, others in OPERATORS.get(type(op), {}).items():
            if "#" in between:
                continue  # a comment may have the same sign
            at = start + len(between[: between.index(old)].encode())
            line = left.end_lineno + between[: between.index(old)].count("\n")
            for new in others:
                yield Fault(line, at, at + len(old), new, "operator")

    def _replaced(self, node: ast.expr, new: str, kind: str) -> Fault:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)
        return Fault(node.lineno, start, end, new, kind)

    def _at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column


def _index(node: ast.expr) -> int | None:
    """A constant index."""
    match node:
        case ast.Constant(value) if type(value) is int:
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(value)) if type(value) is int:
            return -value
    return None


def _is_text(node: ast.expr) -> bool:
    """True of what is joined or formatted and not computed with, as far as one sees."""
    is_text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    return is_text or isinstance(node, ast.List | ast.Tuple | ast.ListComp)
