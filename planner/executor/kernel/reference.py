"""The world by reference: compiled functions hand on one pointer, not the hundreds of numbers that its arrays are.

numba passes a tuple of arrays as the pointer, size and strides of each, packed and unpacked at every call: that was
most of what there was to compile. Where the arrays lie never changes in a run, so that what is read through the pointer
may be kept in registers as before; the loads say so.
"""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model

from planner.executor.kernel.records import World


class WorldReference(types.Type):
    """Pointer to a world that stays where it is."""

    def __init__(self, world: Any) -> None:
        self.world = world
        super().__init__(name=f"reference({world.name})")

    def field(self, name: str) -> Any:
        """Type of a field."""
        return self.world.types[self.world.fields.index(name)]


@register_model(WorldReference)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, known: WorldReference) -> None:
        super().__init__(manager, known, manager[known.world].get_value_type().as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = WorldReference

    def _resolve(self, known: WorldReference, name: str) -> Any:
        return known.field(name) if name in known.world.fields else None

    generic_resolve = cast(Any, _resolve)


@lower_getattr_generic(WorldReference)
def _field(_: Any, builder: Any, known: WorldReference, pointer: Any, name: str) -> Any:
    """A field, read number by number."""
    place = cgutils.gep_inbounds(builder, pointer, 0, known.world.fields.index(name))
    return _loaded(builder, place)


def _loaded(builder: Any, place: Any) -> Any:
    """The value at a place that is never written again."""
    kind = place.type.pointee
    if isinstance(kind, ir.LiteralStructType | ir.ArrayType):
        value = ir.Constant(kind, ir.Undefined)
        for i in range(len(kind)):
            value = builder.insert_value(value, _loaded(builder, cgutils.gep_inbounds(builder, place, 0, i)), i)
        return value
    found = builder.load(place)
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    return found


def _by_reference(_: Any, world: Any) -> Any:
    def pointer(_: Any, builder: Any, __: Any, given: Any) -> Any:
        place = cgutils.alloca_once(builder, given[0].type)
        builder.store(given[0], place)
        return place

    return WorldReference(world)(world), pointer


by_reference = cast(Callable[[World], World], intrinsic(_by_reference))
"""A world as the functions of the event loop hand it on; it stays where it is as long as the caller runs."""
