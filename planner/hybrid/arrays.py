"""The seam between NumPy's arrays and torch's: computing code asks an array which library it belongs to.

Weights, caches and logits are NumPy arrays, or torch tensors on one device; `FloatArray` stands for both. What is drawn
or counted on the host stays NumPy's.
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from math import prod
from time import perf_counter, thread_time
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, InputProblem

FloatArray = NDArray[np.floating[Any]]
BackendName = Literal["numpy", "torch"]
DeviceName = Literal["cpu", "cuda"]
Part = TypeVar("Part")


@dataclass(frozen=True)
class Backend:
    """A library and the device that it computes on."""

    name: BackendName = "numpy"
    device: DeviceName = "cpu"
    """Always cpu with NumPy."""

    def check(self) -> None:
        """See that it can be used here, before anything is built with it.

        Raises:
            InputError: torch is not installed, or sees no such device.
        """
        if self.name == "numpy":
            return
        try:
            torch, _ = (import_module(name) for name in ("torch", "array_api_compat.torch"))
        except ImportError as error:
            allowed = "numpy, or install the extra: pip install 'prefill-planner[torch]'"
            raise InputError(InputProblem("backend", "torch", f"cannot be imported: {error}", allowed)) from error
        if self.device == "cuda" and not torch.cuda.is_available():
            message = f"torch {torch.__version__} sees no CUDA device here"
            raise InputError(InputProblem("backend", "device", message, "cpu, or a torch built for CUDA with a GPU"))


NUMPY = Backend()
HOST: FloatArray = np.empty(0, np.float32)
"""Stands for NumPy, where an array is asked for whose library is to be used."""


def namespace(x: FloatArray) -> Any:
    """Functions of the array API for an array: NumPy itself, or torch's as array-api-compat names them.

    >>> namespace(np.zeros(2)).__name__
    'numpy'
    """
    if isinstance(x, np.ndarray):
        return np
    from array_api_compat import torch as compatible

    return compatible


def n_values(x: FloatArray) -> int:
    """Values of an array."""
    return x.size if isinstance(x, np.ndarray) else prod(x.shape)


def contiguous(x: FloatArray) -> FloatArray:
    """The same values in order in memory."""
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray(x)
    ordered: FloatArray = x.contiguous()
    return ordered


def to_host(x: FloatArray) -> NDArray[Any]:
    """Values as NumPy's; they are waited for where a device computes them."""
    if isinstance(x, np.ndarray):
        return x
    copied: NDArray[Any] = x.cpu().numpy()
    return copied


def from_host(values: NDArray[Any], like: FloatArray) -> FloatArray:
    """NumPy's values in the library, on the device and in the format of an array."""
    if isinstance(like, np.ndarray):
        return values.astype(like.dtype, copy=False)
    moved: FloatArray = namespace(like).tensor(values, dtype=like.dtype, device=like.device)
    return moved


def index_like(values: NDArray[np.integer[Any]], like: FloatArray) -> Any:
    """Whole numbers of NumPy's as an index into an array."""
    return values if isinstance(like, np.ndarray) else namespace(like).tensor(values, device=like.device)


def computes_elsewhere(like: FloatArray) -> bool:
    """True if products of such arrays run on a device of their own, not on the thread that asks for them."""
    return not isinstance(like, np.ndarray) and str(like.device) != "cpu"


def busy_clock_s(like: FloatArray) -> float:
    """Seconds for which this thread ran; where a device computes, on the wall, once it has done all it was told [s]."""
    if not computes_elsewhere(like):
        return thread_time()
    import torch

    torch.cuda.synchronize(like.device)
    return perf_counter()


def placed(part: Part, backend: Backend) -> Part:
    """A model or a part of it with every array moved to a backend, once.

    Raises:
        InputError: the backend cannot be used here.
    """
    backend.check()
    if backend == NUMPY:
        return part
    import torch

    # A worker is one core, whatever else the machine has.
    torch.set_num_threads(1)
    like: Any = torch.empty(0, device=backend.device)
    moved: Part = _moved(part, like)
    return moved


def _moved(part: Any, like: Any) -> Any:
    if isinstance(part, np.ndarray):
        # The format is the array's own, fp32 or fp64.
        return namespace(like).asarray(part, device=like.device, copy=True)
    if isinstance(part, tuple):
        return tuple(_moved(item, like) for item in part)
    if is_dataclass(part) and not isinstance(part, type):
        changed = {field.name: _moved(getattr(part, field.name), like) for field in fields(part)}
        return replace(part, **changed)
    return part
