"""The longest context of a config: its positions, times what its scalings make of them."""

import json
from typing import Any

import pytest

from planner.profiles.hf_config import HfConfig
from planner.profiles.importer import MOST_TOKENS, context_limit_tokens

N = 4096


def limit(**stated: Any) -> tuple[int | None, list[str]]:
    config = HfConfig("config.json", json.dumps({"max_position_embeddings": N, **stated}))
    return context_limit_tokens(config), [problem.key for problem in config.problems]


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (None, N),
        ({"rope_type": "linear", "factor": 4.0}, 4 * N),
        ({"type": "dynamic", "factor": 2}, 2 * N),
        ({"rope_type": "linear"}, N),
        ({"rope_type": "linear", "factor": 0.5}, N // 2),
        ({"rope_type": "yarn", "factor": 4.0}, 4 * N),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1000}, 4000),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1}, 4),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 0}, 4 * N),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": True}, 4 * N),
        ({"rope_type": "linear", "factor": 4.0, "original_max_position_embeddings": 1000}, 4 * N),
        ({"rope_type": "llama3", "factor": 8.0}, N),
        ({"rope_type": "longrope", "factor": 8.0}, N),
        ({"factor": 8.0}, N),
        ({"full": {"rope_type": "linear", "factor": 8.0}, "sliding": {"rope_type": "default"}}, 8 * N),
        ({"full": {"rope_type": "linear", "factor": 0.5}, "sliding": {"rope_type": "default"}}, N),
        ({"rope_type": "linear", "factor": 1e9}, MOST_TOKENS),
    ],
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_positions_are_multiplied_by_what_is_not_counted_in_them(
    key: str, scaling: dict[str, Any] | None, expected: int
) -> None:
    assert limit(**({} if scaling is None else {key: scaling})) == (expected, [])


@pytest.mark.parametrize("factor", [0, -1.0, True, "4", None])
def test_a_factor_that_is_no_number_above_zero_is_refused_and_not_used(factor: Any) -> None:
    found, problems = limit(rope_scaling={"rope_type": "linear", "factor": factor})
    assert (found, problems) == (N, ["rope_scaling.factor"])


def test_positions_that_make_no_sense_are_refused_and_those_of_gemma_are_scaled_already() -> None:
    assert limit(max_position_embeddings=MOST_TOKENS) == (MOST_TOKENS, [])
    assert limit(max_position_embeddings=MOST_TOKENS + 1)[1] == ["max_position_embeddings"]
    assert limit(model_type="gemma3_text", rope_scaling={"rope_type": "linear", "factor": 8.0}) == (N, [])
    assert (
        limit(
            rope_scaling={"rope_type": "linear", "factor": 2.0}, rope_parameters={"rope_type": "linear", "factor": 9.0}
        )[0]
        == 2 * N
    )
