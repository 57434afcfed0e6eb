"""Counts from shapes equal those derived independently from the same published configs, and the published totals."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from planner.errors import InputError
from planner.profiles import (
    active_parameters,
    attention_parameters,
    check_profiles,
    missing_shapes,
    model_profile,
    parameters_by_part,
    profile_names,
    total_parameters,
)
from planner.profiles.folders import profile_dir
from planner.profiles.projections import required
from tests.model_counts import moe_parameters, mtp_parameters

CONTRACT = [
    "kimi-linear-48b",
    "mimo-v2-flash",
    "qwen3.5-397b",
    "ring-2.5-1t",
    "minimax-m2.5",
    "qwen3-235b",
    "qwen3-32b",
    "qwen3-next-80b",
    "deepseek-v3",
    "deepseek-v3.2",
    "kimi-k2",
    "kimi-k3",
    "glm-4.5",
    "glm-5",
    "gpt-oss-120b",
    "llama-3.1-8b",
    "llama-3.1-70b",
    "llama-3.1-405b",
    "nemotron-3-super-120b",
    "jamba-v0.1",
    "prfaas-1t",
    "prfaas-1t-inferred",
]


class Reference(NamedTuple):
    """Counts derived elsewhere from the published config: the reference files of the project's workplace."""

    total: int
    active: int
    mtp: int | None
    moe_layer: int | None
    attention_layers: list[int]
    kv_bytes_per_token: int
    fixed_state_bytes: int


REFERENCES = {
    "deepseek-v3.2": Reference(
        671_877_944_064, 37_477_128_448, 11_624_027_648, 11_320_164_608, [201_066_752], 70_272, 0
    ),
    "deepseek-v3": Reference(671_026_419_200, 36_625_603_584, 11_610_068_224, 11_320_164_608, [187_107_328], 70_272, 0),
    "glm-4.5": Reference(352_797_829_024, 32_856_305_664, None, 3_799_285_920, [136_329_472], 376_832, 0),
    "glm-5": Reference(743_911_218_432, 40_833_126_912, 9_952_920_576, 9_702_998_272, [174_394_112], 89_856, 0),
    "gpt-oss-120b": Reference(116_829_156_672, 5_132_849_472, None, 3_186_524_288, [26_550_144], 36_864, 4_718_592),
    "jamba-v0.1": Reference(
        51_570_323_328, 11_841_875_840, None, 2_818_637_824, [41_943_040, 105_308_448], 16_384, 16_056_320
    ),
    "kimi-k2": Reference(1_026_408_232_448, 31_687_072_768, 0, 16_958_226_816, [101_124_096], 70_272, 0),
    "kimi-k3": Reference(
        2_779_481_465_440, 104_186_519_648, None, 29_784_933_248, [232_196_096, 443_740_384], 27_648, 449_372_160
    ),
    "kimi-linear-48b": Reference(
        49_122_681_728, 3_106_965_888, None, 1_819_607_296, [29_114_880, 39_514_272], 8064, 43_417_600
    ),
    "llama-3.1-405b": Reference(405_853_388_800, 403_752_042_496, None, None, [570_425_344], 516_096, 0),
    "llama-3.1-70b": Reference(70_553_706_496, 69_503_033_344, None, None, [150_994_944], 327_680, 0),
    "llama-3.1-8b": Reference(8_030_261_248, 7_504_924_672, None, None, [41_943_040], 131_072, 0),
    "mimo-v2-flash": Reference(
        308_778_780_864, 14_820_972_992, None, 6_443_499_776, [89_128_960, 94_371_904], 23_040, 25_559_040
    ),
    "minimax-m2.5": Reference(228_689_764_864, 10_415_940_608, None, 3_624_665_344, [44_047_360], 253_952, 0),
    "nemotron-3-super-120b": Reference(
        120_668_707_840, 12_233_346_048, None, 2_873_098_752, [35_651_584, 109_635_968], 8192, 170_229_760
    ),
    "qwen3-235b": Reference(235_093_634_560, 21_568_433_664, None, 2_416_443_392, [71_303_424], 192_512, 0),
    "qwen3-32b": Reference(32_762_123_264, 31_984_210_944, None, None, [94_372_096], 262_144, 0),
    "qwen3-next-80b": Reference(
        79_674_391_296, 3_563_764_480, None, 1_614_809_088, [27_263_488, 33_718_464], 24_576, 77_266_944
    ),
    "qwen3.5-397b": Reference(
        396_346_350_336, 16_331_922_176, None, 6_457_135_104, [104_858_112, 118_014_208], 30_720, 192_061_440
    ),
    "ring-2.5-1t": Reference(
        1_012_231_160_320, 62_292_588_032, None, 12_937_330_944, [111_675_392, 335_552_768], 11_520, 293_601_280
    ),
}
KNOWN = [name for name in profile_names("model") if not missing_shapes(model_profile(name).architecture)]


def test_every_promised_model_is_shipped() -> None:
    assert set(CONTRACT) <= set(profile_names("model"))


@pytest.mark.parametrize(("name", "reference"), REFERENCES.items(), ids=REFERENCES)
def test_counts_from_shapes_are_the_references_to_the_last_parameter(name: str, reference: Reference) -> None:
    model = model_profile(name)
    assert total_parameters(model) == reference.total
    assert active_parameters(model) == reference.active
    if reference.mtp is not None:
        assert mtp_parameters(model) == reference.mtp


@pytest.mark.parametrize(("name", "reference"), REFERENCES.items(), ids=REFERENCES)
def test_each_layer_has_the_references_parameters(name: str, reference: Reference) -> None:
    model = model_profile(name)
    shapes, hidden = model.architecture, model.architecture.hidden_size
    assert hidden
    found = {attention_parameters(group, hidden) for group in shapes.attention}
    assert found == set(reference.attention_layers)
    if reference.moe_layer is not None:
        assert shapes.moe
        assert moe_parameters(model) == reference.moe_layer


@pytest.mark.parametrize("name", KNOWN)
def test_totals_are_the_published_ones_within_their_digits(name: str) -> None:
    model = model_profile(name)
    published, total = model.published.total_parameters, total_parameters(model)
    assert total
    if published is None:
        assert name == "kimi-k3"
    else:
        assert abs(total - published.value) <= published.tolerance


def test_kimi_linear_has_exactly_its_published_parameters() -> None:
    model = model_profile("kimi-linear-48b")
    assert model.published.total_parameters
    assert total_parameters(model) == model.published.total_parameters.value == 49_122_681_728


@pytest.mark.parametrize("name", KNOWN)
def test_parts_add_up_to_the_total_and_active_are_fewer(name: str) -> None:
    model = model_profile(name)
    total, active = total_parameters(model), active_parameters(model)
    assert sum(parameters_by_part(model.architecture).values()) == total
    assert active
    assert total
    assert active < total


def test_unknown_shapes_give_no_count_and_are_named() -> None:
    model = model_profile("prfaas-1t")
    assert (total_parameters(model), active_parameters(model), mtp_parameters(model)) == (None, None, None)
    assert "attention[1].n_heads" in missing_shapes(model.architecture)
    with pytest.raises(InputError, match="hidden_size: is unknown"):
        parameters_by_part(model.architecture)
    assert required(3, "n") == 3


def test_inferred_shapes_span_25_to_50_billion_active_by_experts_per_token() -> None:
    model = model_profile("prfaas-1t-inferred")
    shapes = model.architecture
    assert shapes.basis == "inferred"
    assert shapes.how
    assert shapes.moe
    active = []
    for n in (4, 8, 14):
        moe = shapes.moe.model_copy(update={"n_experts_per_token": n})
        changed = shapes.model_copy(update={"moe": moe})
        active.append(active_parameters(model.model_copy(update={"architecture": changed})))
    assert [round((count or 0) / 1e9, 1) for count in active] == [25.6, 35.5, 50.3]


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
        ("moonshotai/Kimi-K2.5", "kimi-k2"),
        ("moonshotai/Kimi-K2-Thinking", "kimi-k2"),
        ("meta-llama/Llama-3.1-70B", "llama-3.1-70b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "qwen3-235b"),
    ],
)
def test_checkpoints_of_the_same_shapes_are_aliases(alias: str, name: str) -> None:
    assert model_profile(alias).name == name


@pytest.mark.parametrize("name", CONTRACT)
def test_every_model_says_where_its_precision_is_from_and_cites_every_source(name: str) -> None:
    model = model_profile(name)
    assert model.checkpoint
    assert model.checkpoint.note
    cited = re.findall(r'"source":"([^"]+)"|\[([^][" ]+)\]', model.model_dump_json())
    assert set(model.sources) <= {field or note for field, note in cited}


PLANTED = {
    "experts": (
        "deepseek-v3",
        "n_experts = 256",
        "n_experts = 128",
        "published.total_parameters.value",
        "but the shapes give 344018811136",
    ),
    "width": (
        "kimi-linear-48b",
        "expert_intermediate_size = 1024",
        "expert_intermediate_size = 1032",
        "published.total_parameters.value",
        "within 0.10%",
    ),
    "count": (
        "llama-3.1-70b",
        "total_parameters = { value = 70_600_000_000",
        "total_parameters = { value = 80_600_000_000",
        "published.total_parameters.value",
        "shapes give 70553706496",
    ),
    "letter lost": (
        "kimi-linear-48b",
        '"KKKAKKKA',
        '"KKKAKKA',
        "architecture.pattern",
        "has 26 letters for 27 layers",
    ),
    "letter changed": ("mimo-v2-flash", '"FSSSSF', '"FSSSSS', "architecture.pattern", "has 8 F, 40 S (9 F, 39 S)"),
    "group grown": (
        "qwen3-next-80b",
        "n_layers = 36",
        "n_layers = 37",
        "architecture.attention[0].n_layers",
        "is 37 (36, as the pattern has L)",
    ),
    "letter of two": (
        "gpt-oss-120b",
        'kind = "swa"\nn_layers = 18\nsymbol = "S"',
        'kind = "swa"\nn_layers = 18\nsymbol = "F"',
        "architecture.attention[0].symbol",
        "a letter of its own",
    ),
    "moe only": (
        "nemotron-3-super-120b",
        "n_sparse_layers = 40",
        "n_sparse_layers = 41",
        "architecture.mlp_only",
        "holds other layers than the pattern",
    ),
    "offset": ("jamba-v0.1", "layer_offset = 1", "layer_offset = 2", "architecture.moe.layer_offset", "less than"),
    "groups": (
        "nemotron-3-super-120b",
        "n_groups = 8",
        "n_groups = 7",
        "architecture.attention[0].n_groups",
        "a divisor of n_heads = 128",
    ),
    "key heads": (
        "qwen3-next-80b",
        "n_key_heads = 16",
        "n_key_heads = 15",
        "architecture.attention[0].n_key_heads",
        "a divisor of n_value_heads = 32",
    ),
    "indexer": (
        "deepseek-v3.2",
        "q_lora_rank = 1536\n",
        "",
        "architecture.attention[0].q_lora_rank",
        "the indexer's queries",
    ),
    "part": (
        "gpt-oss-120b",
        "attention = { bf16 = 1.0 }",
        "atention = { bf16 = 1.0 }",
        "checkpoint.formats.atention",
        "'attention'",
    ),
}


@pytest.mark.parametrize(("name", "old", "new", "key", "says"), PLANTED.values(), ids=PLANTED)
def test_a_wrong_shape_is_found_at_its_key(name: str, old: str, new: str, key: str, says: str, tmp_path: Path) -> None:
    text = (profile_dir("model") / f"{name}.toml").read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = tmp_path / f"{name}.toml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    problems = {problem.key: problem for problem in check_profiles([path]).problems}
    assert key in problems
    assert says in str(problems[key])
    assert problems[key].line
