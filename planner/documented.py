"""Text on every field of a record: the string beneath it, read from the source when somebody asks for it.

Pydantic can do so itself (`use_attribute_docstrings`), but then reads the sources of all records at every start, which
takes longer than a small plan.
"""

import ast
import inspect
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema


def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """The string beneath each field, those of the classes it inherits from included."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _texts_of(base)
    return found


def documented_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a record, every field described."""
    return model.model_json_schema(schema_generator=_Documented)


class _Documented(GenerateJsonSchema):
    """Describes every field that does not describe itself."""

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """Of one record."""
        content = super().model_schema(schema)
        model, properties = schema["cls"], content.get("properties", {})
        texts = field_texts(model)
        for name, field in model.model_fields.items():
            key = field.alias if self.by_alias and field.alias else name
            if name in texts and key in properties:
                properties[key].setdefault("description", texts[name])
        return content


@cache
def _texts_of(cls: type[BaseModel]) -> dict[str, str]:
    """Strings beneath the fields that a class itself states."""
    node = _classes(cls.__module__).get(cls.__qualname__)
    texts = {}
    for field, below in pairwise(node.body if node else ()):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                texts[field.target.id] = inspect.cleandoc(text)
    return texts


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Classes at the top of a module, by name."""
    tree = ast.parse(inspect.getsource(import_module(module)))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
