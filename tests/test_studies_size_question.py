"""What is asked of a size: values in units that nobody means are said, and those beyond any use refused."""

from typing import Any

import numpy as np
import pytest

from planner.studies.size import SizeQuestion
from tests.test_size import a_question


def asked(**stated: Any) -> SizeQuestion:
    """Llama 3.1 8B on H100 for 30 requests a second, with nothing promised but what is stated."""
    return a_question(**{"ttft_s": None, "tpot_s": None, **stated})


def keys(of: SizeQuestion) -> list[str]:
    return [problem.key for problem in of.problems()]


@pytest.mark.parametrize(
    ("stated", "option"),
    [
        ({"ttft_s": 0.5}, None),
        ({"tpot_s": 0.03}, None),
        ({"ttft_s": 500.0}, "slo.ttft_s"),
        ({"ttft_s": 0.0005}, "slo.ttft_s"),
        ({"tpot_s": 30.0}, "slo.tpot_ms"),
        ({"tpot_s": 3e-5}, "slo.tpot_ms"),
        ({"ttft_s": 0.5, "percentile": 0.9}, "slo.ttft_percentile"),
        ({"ttft_s": 0.5, "rate_req_per_s": 50_000.0}, "demand_req_per_s"),
    ],
)
def test_a_value_in_another_unit_is_said(stated: dict[str, Any], option: str | None) -> None:
    found = [str(note) for note in asked(**stated).notes()]
    assert len(found) == (option is not None)
    assert all(option in text for text in found if option)


@pytest.mark.parametrize(
    ("stated", "refused"),
    [
        ({"ttft_s": 0.5}, []),
        ({"ttft_s": 0.0}, ["--ttft-ms"]),
        ({"tpot_s": -1.0}, ["--tpot-ms"]),
        ({"ttft_s": 1e6}, []),
        ({"ttft_s": 1.1e6}, ["--ttft-ms"]),
        ({"rate_req_per_s": np.inf}, ["--rate"]),
        ({"rate_req_per_s": 0.0}, ["--rate"]),
        ({"percentile": 0.0}, ["--percentile"]),
        ({"percentile": 100.0}, ["--percentile"]),
        ({"percentile": 99.99}, []),
        ({"precision": "fp7"}, ["--precision"]),
        ({"kv_precision": "fp8"}, []),
    ],
)
def test_what_cannot_be_asked_is_refused_by_its_option(stated: dict[str, Any], refused: list[str]) -> None:
    assert keys(asked(**stated)) == refused
