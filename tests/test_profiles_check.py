"""The gate finds every planted fault, at its line, and says what would be right."""

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.profiles import check_profiles
from planner.profiles.catalogue import read_profile
from tests.planted import Planted, assert_found_alone, shipped_text, written

H200, KIMI, PRFAAS, QWEN = "h200-sxm", "kimi-linear-48b", "prfaas-1t", "qwen3-235b"
BF16 = 'bf16_tflops = { value = 989.0, source = "ml-engineering"'
T5_SECONDS = "seconds = [0.44, 0.72, 1.84, 7.40]"
T5_PREFILL = f"tokens = [1024, 8192, 32000, 130000]\n{T5_SECONDS}"
ALIASES = 'aliases = ["h200_sxm", "h200"]'
T6_HOW = 'how = "The paper prints no curve for this instance'

PLANTED = {
    "negative figure": Planted(
        H200, BF16, BF16.replace("989.0", "-989.0"), "figures.bf16_tflops.value", "greater than 0"
    ),
    "zero figure": Planted(H200, "{ value = 141.0", "{ value = 0.0", "figures.memory_gb.value", "greater than"),
    "not a number": Planted(
        H200, "{ value = 4.8", "{ value = nan", "figures.memory_bandwidth_tb_per_s.value", "finite"
    ),
    "text for a number": Planted(H200, "{ value = 700.0", '{ value = "700"', "figures.tdp_w.value", "valid number"),
    "fraction for a count": Planted(H200, "{ value = 132,", "{ value = 132.5,", "figures.n_sm.value", "valid integer"),
    "odd year": Planted(
        H200, "{ value = 2024", "{ value = 24", "figures.release_year.value", "greater than or equal to 2000"
    ),
    "unknown figure": Planted(H200, "tdp_w = {", "tpd_w = {", "figures.tpd_w", "did you mean 'tdp_w'?"),
    "unknown figure field": Planted(
        H200, BF16, BF16.replace("source", "sauce = 1, source"), "figures.bf16_tflops.sauce", "unknown key"
    ),
    "unlisted source": Planted(
        H200, BF16, BF16.replace("ml-eng", "ml-emg"), "figures.bf16_tflops.source", "did you mean 'ml-engineering'?"
    ),
    "missing source": Planted(H200, BF16, "bf16_tflops = { value = 989.0", "figures.bf16_tflops.source", "is required"),
    "unknown basis": Planted(
        H200, '"lead"', '"rumour"', "figures.rent_high_usd_per_hour.basis", "allowed: 'datasheet'"
    ),
    "fp8 below bf16": Planted(
        H200,
        "fp8_tflops = { value = 1979.0",
        "fp8_tflops = { value = 197.9",
        "figures.fp8_tflops.value",
        "is not 2 x bf16_tflops = 989",
    ),
    "rent upside down": Planted(
        H200,
        "rent_high_usd_per_hour = { value = 7.91",
        "rent_high_usd_per_hour = { value = 0.79",
        "figures.rent_high_usd_per_hour.value",
        "less than rent_low_usd_per_hour = 2.5",
    ),
    "unknown status": Planted(H200, '"available"', '"rumoured"', "status", "'available' or 'announced'"),
    "unknown schema": Planted(H200, "planner.hardware/1", "planner.hardware/2", "schema", "planner.model/1"),
    "missing schema": Planted(H200, 'schema = "planner.hardware/1"\n', "", "schema", "is required", at="name ="),
    "name unlike file": Planted(H200, 'name = "h200-sxm"', 'name = "h200"', "name", "the file's name, 'h200-sxm'"),
    "empty alias": Planted(H200, ALIASES, 'aliases = [""]', "aliases[0]", "at least 1 character"),
    "alias twice": Planted(H200, ALIASES, 'aliases = ["h200_sxm", "H200_sxm"]', "aliases[1]", "already names"),
    "alias is name": Planted(H200, ALIASES, 'aliases = ["h200-sxm"]', "aliases[0]", "already names"),
    "not TOML": Planted(H200, 'vendor = "NVIDIA"', "vendor = NVIDIA", "", "is not valid TOML"),
    "array left open": Planted(
        PRFAAS, "tokens = [10224, 27486, 62410]", "tokens = [10224", "", "is not valid TOML", at="seconds = [1.8"
    ),
    "TOML cut short": Planted(
        PRFAAS,
        shipped_text(PRFAAS)[shipped_text(PRFAAS).index("[measured.table-5]") :],
        "open = [1,\n",
        "",
        "is not valid TOML",
        at="open =",
    ),
    "layers do not sum": Planted(KIMI, "n_layers = 27", "n_layers = 28", "architecture.n_layers", "groups hold 27"),
    "unknown attention": Planted(
        KIMI, 'kind = "kda"', 'kind = "mamba"', "architecture.attention[0].kind", "'gqa', 'mla', 'kda'"
    ),
    "shape of another kind": Planted(
        KIMI,
        "conv_kernel = 4",
        "conv_kernel = 4\nn_kv_heads = 4",
        "architecture.attention[0].n_kv_heads",
        "did you mean 'n_heads'?",
        at="n_kv_heads",
    ),
    "shape missing": Planted(
        KIMI, "conv_kernel = 4\n", "", "architecture.attention[0].conv_kernel", "is required", at="[[architecture.att"
    ),
    "heads do not divide": Planted(
        QWEN, "n_kv_heads = 4", "n_kv_heads = 5", "architecture.attention[0].n_kv_heads", "a divisor of n_heads = 64"
    ),
    "more experts per token than experts": Planted(
        KIMI,
        "n_experts_per_token = 8",
        "n_experts_per_token = 800",
        "architecture.moe.n_experts_per_token",
        "at most n_experts = 256",
    ),
    "more dense layers than layers": Planted(
        KIMI,
        "n_dense_first_layers = 1",
        "n_dense_first_layers = 28",
        "architecture.moe.n_dense_first_layers",
        "at most n_layers = 27",
    ),
    "dense layer without width": Planted(
        KIMI,
        "intermediate_size = 9216\n",
        "",
        "architecture.intermediate_size",
        "is required for the dense layers",
        at="[architecture]",
    ),
    "published without hidden size": Planted(
        QWEN, "hidden_size = 4096\n", "", "architecture.hidden_size", "is required when basis", at="[architecture]"
    ),
    "inferred shapes without how": Planted(
        KIMI, 'basis = "published"', 'basis = "inferred"', "architecture.how", "is required", at="[architecture]"
    ),
    "unlisted parameter source": Planted(
        KIMI, 'source = "readme"', 'source = "blog"', "published.active_parameters.source", "known: hf-config"
    ),
    "unknown precision": Planted(
        KIMI, 'precision = "bf16"\n\n', 'precision = "bf61"\n\n', "precision", "'bf16', 'fp8'"
    ),
    "fewer seconds than tokens": Planted(
        PRFAAS,
        T5_PREFILL,
        T5_PREFILL.replace("0.44, ", ""),
        "measured.table-5.prefill.seconds",
        "has 3 values for 4 tokens",
        at="seconds = [0.72",
    ),
    "one point": Planted(
        PRFAAS,
        T5_PREFILL,
        "tokens = [1024]\nseconds = [0.44]",
        "measured.table-5.prefill.tokens",
        "has 1 points (a curve has at least 2",
    ),
    "tokens fall": Planted(
        PRFAAS,
        T5_PREFILL,
        T5_PREFILL.replace("8192", "512"),
        "measured.table-5.prefill.tokens[1]",
        "is 512 after 1024 (tokens must strictly increase)",
    ),
    "tokens repeat": Planted(
        PRFAAS,
        "[10224, 27486, 62410]",
        "[10224, 10224, 62410]",
        "measured.table-6-h20.prefill.tokens[1]",
        "is 10224 after 10224",
    ),
    "seconds fall": Planted(
        PRFAAS,
        T5_SECONDS,
        T5_SECONDS.replace("1.84", "0.184"),
        "measured.table-5.prefill.seconds[2]",
        "is 0.184 after 0.72 (seconds must not decrease with tokens)",
    ),
    "bytes fall": Planted(
        PRFAAS, "735366348.8", "73536634.8", "measured.table-5.kv.bytes[2]", "bytes must not decrease with tokens"
    ),
    "seconds not positive": Planted(
        PRFAAS, T5_SECONDS, T5_SECONDS.replace("0.44", "0.0"), "measured.table-5.prefill.seconds[0]", "greater than"
    ),
    "unknown interpolation": Planted(
        KIMI, '"monotone-cubic"', '"cubic"', "measured.table-3.prefill.interpolation", "'monotone-cubic' or 'linear'"
    ),
    "inferred point without how": Planted(
        PRFAAS,
        T6_HOW,
        T6_HOW.replace("how", "note"),
        "measured.table-6-h20.how",
        "is required",
        at="[measured.table-6-h20]",
    ),
    "instance without figures": Planted(
        KIMI,
        shipped_text(KIMI)[shipped_text(KIMI).index("[measured.table-3.prefill]") :],
        "",
        "measured.table-3",
        "holds no figures",
        at="[measured.table-3]",
    ),
    "unlisted measured source": Planted(
        KIMI,
        'basis = "measured"\nsource = "prfaas"',
        'basis = "measured"\nsource = "praas"',
        "measured.table-3.source",
        "did you mean 'prfaas'?",
        at='source = "praas"',
    ),
    "unknown hardware": Planted(
        PRFAAS, '"h20-141gb"', '"h20-144gb"', "measured.table-6-h20.hardware", "did you mean 'h20-141gb'?"
    ),
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_fault_is_found_alone_at_its_line(planted: Planted, tmp_path: Path) -> None:
    assert_found_alone(planted, tmp_path)


def test_faults_of_every_sort_in_one_file_are_reported_together(tmp_path: Path) -> None:
    text = shipped_text(KIMI)
    for planted in (
        PLANTED["unlisted parameter source"],
        PLANTED["unknown precision"],
        Planted(KIMI, 'name = "kimi-linear-48b"', 'name = "kimi"', "name", "the file's name"),
        PLANTED["more experts per token than experts"],
        PLANTED["unknown interpolation"],
        PLANTED["unlisted measured source"],
    ):
        assert text.count(planted.old) == 1
        text = text.replace(planted.old, planted.new)
    found = check_profiles([written(tmp_path, KIMI, text)])
    assert {problem.key for problem in found.problems} == {
        "published.active_parameters.source",
        "name",
        "precision",
        "architecture.moe.n_experts_per_token",
        "measured.table-3.prefill.interpolation",
        "measured.table-3.source",
    }


def test_an_ill_formed_name_is_reported(tmp_path: Path) -> None:
    text = shipped_text(H200).replace('name = "h200-sxm"', 'name = "H200 SXM"')
    (problem,) = check_profiles([written(tmp_path, "H200 SXM", text)]).problems
    assert (problem.key, problem.line) == ("name", 2)
    assert "should match pattern" in problem.message


def test_loading_refuses_what_the_check_finds(tmp_path: Path) -> None:
    planted = PLANTED["unlisted source"]
    path = written(tmp_path, planted.name, planted.text())
    with pytest.raises(InputError, match="names no listed source") as caught:
        read_profile(path)
    assert caught.value.problems == check_profiles([path]).problems


def test_problems_of_all_files_come_in_order_of_file_and_line(tmp_path: Path) -> None:
    for planted in (PLANTED["odd year"], PLANTED["layers do not sum"]):
        written(tmp_path, planted.name, planted.text())
    found = check_profiles([tmp_path])
    assert found.n_files == 2
    assert [Path(problem.file).name for problem in found.problems] == ["h200-sxm.toml", "kimi-linear-48b.toml"]


def test_an_alias_of_two_files_is_reported_where_it_comes_second(tmp_path: Path) -> None:
    written(tmp_path, "h100-sxm", shipped_text("h100-sxm"))
    text = shipped_text(H200).replace(ALIASES, 'aliases = ["h200_sxm", "H100_sxm"]')
    written(tmp_path, H200, text)
    (problem,) = check_profiles([tmp_path]).problems
    assert (Path(problem.file).name, problem.key) == ("h200-sxm.toml", "aliases[1]")
    assert problem.line == text[: text.index("aliases")].count("\n") + 1
    assert "already names" in problem.message
    assert "h100-sxm.toml" in problem.message


def test_two_files_of_one_name_are_reported(tmp_path: Path) -> None:
    paths = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths.append(written(tmp_path / folder, H200, shipped_text(H200)))
    problems = check_profiles(paths).problems
    assert [problem.key for problem in problems] == ["name", "aliases[0]", "aliases[1]"]
    assert {problem.file for problem in problems} == {str(paths[1])}


def test_a_model_may_share_a_label_with_hardware(tmp_path: Path) -> None:
    written(tmp_path, H200, shipped_text(H200))
    text = shipped_text(QWEN).replace('"Qwen/Qwen3-235B-A22B",', '"h200_sxm",')
    written(tmp_path, QWEN, text)
    assert check_profiles([tmp_path]).holds


def test_hardware_checked_along_or_beside_is_known_to_the_models(tmp_path: Path) -> None:
    chip = shipped_text(H200).replace('name = "h200-sxm"', 'name = "my-chip"')
    (tmp_path / "chips").mkdir()
    written(tmp_path / "chips", "my-chip", chip)
    model = written(tmp_path, KIMI, shipped_text(KIMI).replace('"h200-sxm"', '"my-chip"'))
    assert check_profiles([tmp_path]).holds
    assert [problem.key for problem in check_profiles([model]).problems] == ["measured.table-3.hardware"]
    written(tmp_path, "my-chip", chip)
    assert check_profiles([model]).holds


def test_a_file_named_twice_is_checked_once(tmp_path: Path) -> None:
    path = written(tmp_path, H200, shipped_text(H200))
    found = check_profiles([path, tmp_path])
    assert (found.n_files, found.problems) == (1, ())


@pytest.mark.parametrize("name", ["nowhere.toml", "empty-folder"])
def test_a_path_with_nothing_to_check_is_a_problem(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty-folder").mkdir()
    (problem,) = check_profiles([tmp_path / name]).problems
    assert problem.message.startswith("cannot be read")


def test_a_file_that_is_not_text_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    (problem,) = check_profiles([path]).problems
    assert "is not UTF-8 text" in problem.message


def test_files_under_the_current_folder_are_named_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "profiles").mkdir()
    planted = PLANTED["zero figure"]
    path = written(tmp_path / "profiles", planted.name, planted.text())
    monkeypatch.chdir(tmp_path)
    (problem,) = check_profiles([path]).problems
    assert problem.file == "profiles/h200-sxm.toml"
