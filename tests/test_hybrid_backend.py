"""Which backend a live run may ask for, and what it says where that is not there."""

import sys

import pytest
from typer.testing import CliRunner

from planner.cli import app
from planner.errors import InputError, UsageError
from planner.hybrid import hybrid_model, shrunk
from planner.hybrid.arrays import NUMPY, Backend
from planner.profiles import ModelProfile, model_profile


def small() -> ModelProfile:
    sizes = {"n_layers": 4, "hidden_size": 32, "n_heads": 2, "head_dim": 16, "n_experts": 4, "vocab_size": 64}
    return shrunk(model_profile("kimi-linear-48b"), "small", **sizes)


@pytest.mark.parametrize("missing", ["torch", "array_api_compat"])
def test_a_missing_library_is_named_with_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        InputError, match=r"backend: torch: cannot be imported: .*pip install 'prefill-planner\[torch\]'"
    ):
        hybrid_model(small(), backend=Backend("torch"))


def test_a_device_that_is_not_there_is_refused_before_anything_is_built() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("a CUDA device is there")
    found = CliRunner().invoke(app, ["live", "--backend", "torch", "--device", "cuda"])
    assert isinstance(found.exception, InputError)
    assert "sees no CUDA device" in str(found.exception)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_numpy_takes_no_device(device: str) -> None:
    found = CliRunner().invoke(app, ["live", "--device", device])
    assert isinstance(found.exception, UsageError)
    assert str(found.exception) == f"--device {device}: only with --backend torch; NumPy computes on the processor"


def test_numpy_is_there_without_either_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "array_api_compat"):
        monkeypatch.setitem(sys.modules, name, None)
    NUMPY.check()
    assert hybrid_model(small()).backend == NUMPY
