"""Layouts of an instance that a model and an accelerator allow."""

from collections.abc import Iterator

from planner.profiles import HardwareProfile, ModelProfile, Speculation
from planner.roofline import Chip, Layout, ServedModel, Stack

NODE = 8
"""Accelerators of a server, which tensor parallelism spans also without fast links."""
MOST_ACCELERATORS = 64
TOGETHER = 4
"""Mean requests that an instance holds at least, beside the weights."""


def layouts(model: ModelProfile, hardware: HardwareProfile) -> Iterator[Layout]:
    """Parallel sizes for instances of 1, 2, 4 accelerators and so on.

    Tensor parallelism over a server or what fast links join, with pipeline stages beyond; and attention replicas with
    experts dealt out over them. Without replicas times are the same whether ranks share experts or each has some.

    >>> from planner.profiles import hardware_profile, model_profile
    >>> h20 = hardware_profile("h20-96gb")
    >>> [str(layout) for layout in layouts(model_profile("llama-3.1-8b"), h20)][:3]
    ['tp=1,ep=1,dp=1,pp=1', 'tp=2,ep=1,dp=1,pp=1', 'tp=4,ep=1,dp=1,pp=1']
    """
    domain = min(max(hardware.n_scaleup_domain_accelerators or NODE, NODE), MOST_ACCELERATORS)
    has_experts = model.architecture.moe is not None
    n = 1
    while n <= max(domain, 2 * NODE):
        if n <= domain:
            yield Layout(tp_size=n)
        elif n // domain <= model.architecture.n_layers:
            yield Layout(tp_size=domain, pp_size=n // domain)
        if has_experts and n > 1:
            yield Layout(dp_size=n, ep_size=n)
            if n >= 2 * NODE:
                yield Layout(tp_size=NODE, dp_size=n // NODE, ep_size=n)
        n *= 2


def served(
    model: ModelProfile,
    hardware: HardwareProfile,
    layout: Layout,
    used: Stack,
    precision: str | None,
    kv: str,
    drafts: Speculation | None = None,
) -> ServedModel:
    """The model on an instance under a stack."""
    return ServedModel(
        model,
        Chip(hardware, used.derated),
        layout,
        used.factors,
        precision,
        kv,
        used.settings.chunk_tokens,
        used.settings.memory_fraction,
        used.runtime_bytes,
        used.traffic,
        used.formats(kv),
        drafts,
    )


def has_room(one: ServedModel, longest_tokens: float, mean_tokens: float) -> bool:
    """Whether weights, the longest request, and some requests of mean length fit."""
    if not one.memory.fits:
        return False
    longest, together = one.largest_batch([longest_tokens, mean_tokens]).tolist()
    return bool(longest >= 1 and together >= TOGETHER)
