"""Number formats that products run at where the weights' own does not say: attention, weights quantised alone."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.notes import Note, note
from planner.profiles import ModelProfile
from planner.roofline.chip import Chip
from planner.roofline.kv_cache import BYTES_PER_VALUE


@dataclass(frozen=True)
class ProductFormats:
    """Number formats that a stack runs products at."""

    attention: str = "bf16"
    """Of queries with keys and of weights with values."""
    weight_only: str = "bf16"
    """Of products whose weights alone are quantised: the format of their inputs. mxfp8 is fp8 in blocks with a scale
    each, where an accelerator has units for such blocks, as it has for fp4, and bf16 elsewhere."""

    def of(self, chip: Chip, weights: str, model: ModelProfile | None) -> str:
        """Format that products of some weights run at on an accelerator.

        Args:
            chip: the accelerator.
            weights: number format of the weights.
            model: whose checkpoint they are as stored; None: somebody quantised them otherwise, inputs alike.

        Returns:
            The weights' own, or the next wider that the accelerator has; the inputs' where these are wider.

        >>> from planner.profiles import hardware_profile, model_profile
        >>> chip, oss = Chip(hardware_profile("b200-sxm")), model_profile("gpt-oss-120b")
        >>> [ProductFormats(weight_only=inputs).of(chip, "fp4", oss) for inputs in ("bf16", "fp8")]
        ['bf16', 'fp8']
        >>> hopper = Chip(hardware_profile("h200-sxm"))
        >>> [ProductFormats(weight_only="mxfp8").of(each, "fp4", oss) for each in (chip, hopper)]
        ['fp8', 'bf16']
        >>> ProductFormats().of(chip, "fp4", None)
        'fp4'
        """
        checkpoint = None if model is None else model.checkpoint
        if checkpoint is not None and weights in checkpoint.weight_only:
            inputs = self.weight_only
            if inputs == "mxfp8":
                inputs = "fp8" if chip.product_format("fp4") == "fp4" else "bf16"
            return chip.product_format(max(weights, inputs, key=BYTES_PER_VALUE.__getitem__))
        return chip.product_format(weights)


def checkpoint_cache_notes(model: ModelProfile, kv_precision: str, key: str) -> Iterator[Note]:
    """A note where a checkpoint asks for a cache in another format than the one that is counted.

    Args:
        model: the model.
        kv_precision: format that is counted.
        key: option or key that states it.

    >>> from planner.profiles import model_profile
    >>> [*checkpoint_cache_notes(model_profile("gpt-oss-120b"), "fp8", "--kv-precision")]
    []
    """
    asked = model.checkpoint.kv_precision if model.checkpoint else None
    if asked is not None and asked != kv_precision:
        text = f"the cache is in {kv_precision}; the checkpoint of {model.name} asks for {asked} ({key} = {asked})"
        yield note("cache-format-of-checkpoint", text)


IN_BF16 = ProductFormats()
"""Attention in bf16, and bf16 inputs where weights alone are quantised."""
