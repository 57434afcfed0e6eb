"""Layouts of an instance that a model and an accelerator allow."""

from collections.abc import Iterator

from planner.profiles import HardwareProfile, ModelProfile
from planner.roofline.layout import Layout

NODE = 8
"""Accelerators of a server, which tensor parallelism spans also without fast links."""
MOST_ACCELERATORS = 64
MOST_STAGES = 8


def layouts(model: ModelProfile, hardware: HardwareProfile) -> Iterator[Layout]:
    """Parallel sizes for instances of 1, 2, 4 accelerators and so on.

    Tensor parallelism over a server or what fast links join, pipeline stages within it and beyond, and attention
    replicas with experts dealt out over all ranks. Left out is what is the same as something else: without replicas
    times do not depend on whether ranks share experts or each has some, and replicas of a model without experts are
    instances of their own.

    Args:
        model: the model.
        hardware: the accelerator.

    Returns:
        Every layout once, the smallest instances first; whether its memory holds the model is not looked at.

    Source: what vLLM and SGLang take as tensor, data, expert and pipeline parallel sizes.

    >>> from planner.profiles import hardware_profile, model_profile
    >>> h20 = hardware_profile("h20-96gb")
    >>> [str(layout) for layout in layouts(model_profile("llama-3.1-8b"), h20)][:4]
    ['tp=1,ep=1,dp=1,pp=1', 'tp=2,ep=1,dp=1,pp=1', 'tp=1,ep=1,dp=1,pp=2', 'tp=4,ep=1,dp=1,pp=1']
    """
    domain = _domain(hardware)
    has_experts = model.architecture.moe is not None
    n = 1
    while n <= largest_instance(hardware):
        yield from _staged(n, domain, model.architecture.n_layers)
        if has_experts:
            yield from _replicated(n, domain)
        n *= 2


def largest_instance(hardware: HardwareProfile) -> int:
    """Accelerators of the largest instance that `layouts` has."""
    return max(_domain(hardware), 2 * NODE)


def _domain(hardware: HardwareProfile) -> int:
    """Accelerators that tensor parallelism may span."""
    return min(max(hardware.n_scaleup_domain_accelerators or NODE, NODE), MOST_ACCELERATORS)


def _staged(n: int, domain: int, n_layers: int) -> Iterator[Layout]:
    """Tensor parallelism and pipeline stages, the fewest stages first."""
    stages = 1
    while stages <= min(n, n_layers, MOST_STAGES):
        if n // stages <= domain:
            yield Layout(tp_size=n // stages, pp_size=stages)
        stages *= 2


def _replicated(n: int, domain: int) -> Iterator[Layout]:
    """Attention replicas with experts over all ranks, the most replicas first."""
    tp = 1
    while tp <= min(n // 2, domain, NODE):
        yield Layout(tp_size=tp, dp_size=n // tp, ep_size=n)
        tp *= 2
