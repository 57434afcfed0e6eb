"""The served model of an instance that a question asks about: its software, layout and number formats settled."""

from planner.errors import InputError, InputProblem
from planner.profiles.instance_spec import InstanceSpec
from planner.roofline.chip import Chip
from planner.roofline.engine_memory import memory_settings
from planner.roofline.layout import Layout
from planner.roofline.served_model import InstanceModel
from planner.roofline.stack import Stack, chosen_stack, expert_traffic


def stack_of(asked: InstanceSpec) -> Stack:
    """The software stack of an instance.

    Args:
        asked: the instance.

    Raises:
        InputError: no such framework.
    """
    return chosen_stack(asked.stack, asked.stacks)


def instance_model(asked: InstanceSpec) -> InstanceModel:
    """The roofline of an instance.

    Args:
        asked: the instance.

    Returns:
        Its model on its accelerators, with the factors and settings of its stack.

    Raises:
        InputError: an unknown stack, a layout of another number of accelerators, or shapes that are not known.
    """
    used, layout = stack_of(asked), _layout(asked)
    settings = used.on_layout(layout, asked.hardware)
    return InstanceModel(
        asked.model,
        Chip(asked.hardware, used.derated),
        layout,
        used.factors,
        asked.precision,
        asked.kv_precision,
        asked.tokens_per_pass or settings.chunk_tokens,
        memory_settings(settings),
        expert_traffic(settings),
        used.formats(asked.kv_precision),
        asked.speculation,
    )


def _layout(asked: InstanceSpec) -> Layout:
    if asked.layout is None:
        return Layout(tp_size=asked.n_accelerators)
    layout = Layout.parse(asked.layout)
    if layout.n_accelerators != asked.n_accelerators:
        what = f"is {asked.layout!r}, {layout.n_accelerators} accelerators"
        raise InputError(InputProblem("layout", "", what, f"{asked.n_accelerators}, as accelerators_per_instance"))
    return layout
