"""A quantised copy is the family's model in the format that its name states; what a row states comes first."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.profiles import model_profile, profile_names
from planner.studies.fidelity import fidelity
from planner.studies.fidelity.cases import case_of, cases_of, family_name, format_in
from tests.fidelity_points import POINT

FORMATS = {
    "FP8": "fp8",
    "fp8": "fp8",
    "FP8-dynamic": "fp8",
    "FP8-block": "fp8",
    "FP8-KV": "fp8",
    "FP4": "fp4",
    "NVFP4": "fp4",
    "NVFP4-v2": "fp4",
    "NVFP4A16": "fp4",
    "MXFP4": "fp4",
    "AWQ": "int4",
    "AWQ-INT4": "int4",
    "GPTQ": "int4",
    "GPTQ-Int4": "int4",
    "GPTQ-Int8": "int8",
    "w8a8": "int8",
    "quantized.w8a8": "int8",
    "quantized.w4a16": "int4",
    "INT8": "int8",
    "bf16": "bf16",
}


@pytest.mark.parametrize(("end", "precision"), FORMATS.items())
@pytest.mark.parametrize("owner", ["Qwen", "RedHatAI", "somebody-else"])
def test_a_copys_name_gives_the_model_and_the_format(owner: str, end: str, precision: str) -> None:
    case = case_of(replace(POINT, model=f"{owner}/Qwen3-32B-{end}", precision=None, n_accelerators=8, tp_size=8))
    assert case.model.name == "qwen3-32b"
    assert (case.precision or case.model.precision) == precision
    assert case.note == f"{owner}/Qwen3-32B-{end}: {precision} by its name, as no precision is stated"


@pytest.mark.parametrize(
    ("model", "stated", "precision", "said"),
    [
        ("Qwen/Qwen3-32B-FP8", "fp8", "fp8", None),
        ("Qwen/Qwen3-32B-FP8", "FP8", "fp8", None),
        ("Qwen/Qwen3-32B-FP8", "bf16", None, "bf16 as stated, though its name says fp8"),
        ("Qwen/Qwen3-32B-NVFP4", "fp8", "fp8", "fp8 as stated, though its name says fp4"),
        ("Qwen/Qwen3-32B", None, None, "bf16, its checkpoint's own, as no precision is stated"),
        ("Qwen/Qwen3-32B", "w8a8", "int8", None),
    ],
)
def test_what_a_row_states_comes_first_and_a_contradiction_is_said(
    model: str, stated: str | None, precision: str | None, said: str | None
) -> None:
    case = case_of(replace(POINT, model=model, precision=stated))
    assert case.precision == precision
    assert case.note == (said and f"{model}: {said}")


def test_notes_count_the_points_that_they_are_of() -> None:
    named = replace(POINT, model="Qwen/Qwen3-32B-FP8", precision=None)
    found = fidelity([POINT, named, named, replace(named, precision="bf16")])
    assert found.notes == (
        "Qwen/Qwen3-32B-FP8: bf16 as stated, though its name says fp8 (1 point) (note: point-precision)",
        "Qwen/Qwen3-32B-FP8: fp8 by its name, as no precision is stated (2 points) (note: point-precision)",
    )
    assert found.n_predicted == 4
    assert [row.label.partition(",")[0] for row in found.points] == ["bf16", "fp8", "fp8", "bf16"]


def test_a_format_in_the_name_predicts_as_the_same_format_stated() -> None:
    bare, named = replace(POINT, precision="fp8"), replace(POINT, model="Qwen/Qwen3-32B-FP8", precision=None)
    rows = fidelity([bare, named]).points
    assert rows[0].predicted_ttft_s == rows[1].predicted_ttft_s
    assert rows[0].predicted_tpot_s == rows[1].predicted_tpot_s


@pytest.mark.parametrize("name", profile_names("model"))
def test_a_copys_own_format_is_the_checkpoints_own_with_its_scales(name: str) -> None:
    model = model_profile(name)
    for label in (model.name, *model.aliases):
        own = format_in(f"{family_name(label)}-{model.precision}")
        assert own == model.precision
        assert family_name(f"{label}-{own}") == family_name(label)


@given(st.text(st.characters(codec="ascii", exclude_characters="-_."), max_size=20))
def test_a_name_without_separators_states_no_format(name: str) -> None:
    assert format_in(name) is None
    assert family_name(name) == name.rpartition("/")[2].casefold()


def test_a_row_that_names_no_precision_has_the_checkpoints_own_and_is_told_of() -> None:
    stated, silent = replace(POINT, precision="bf16"), replace(POINT, precision=None)
    (with_it, without), _ = cases_of([stated, silent])
    assert with_it.precision is without.precision is None
    assert with_it.note is None
    assert without.note == f"{POINT.model}: bf16, its checkpoint's own, as no precision is stated"
