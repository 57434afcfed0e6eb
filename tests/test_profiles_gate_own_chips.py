"""The gate on chips of one's own: workstation parts of a family, and measurements that nobody has published.

Figures of the RTX PRO 6000 Blackwell Server Edition are those of NVIDIA's AIConfigurator 0.12 (Apache-2.0), systems
file rtx_pro_6000_server.yaml: dense peaks at 2,430 MHz.
"""

import tomllib
from pathlib import Path

import pytest

from planner.errors import InputProblem
from planner.profiles import check_profiles
from planner.profiles.architectures import GENERATIONS
from planner.profiles.folders import profile_paths

ADDRESS = "NVIDIA AIConfigurator, https://github.com/ai-dynamo/aiconfigurator"
RTX_PRO = {
    "bf16_tflops": 467.8,
    "fp8_tflops": 935.6,
    "fp4_tflops": 1871.2,
    "int8_tops": 935.6,
    "memory_gb": 96.0,
    "memory_bandwidth_tb_per_s": 1.792,
    "n_sm": 188,
    "boost_clock_mhz": 2430,
    "scaleup_gb_per_s": 64,
    "scaleup_domain_accelerators": 1,
    "pcie_gb_per_s": 64,
    "nic_gbps": 400,
    "tdp_w": 600,
    "accelerators_per_node": 8,
    "release_year": 2025,
}
PEAKS = ("bf16_tflops", "fp8_tflops", "fp4_tflops", "int8_tops")
OWN = "measured by us, 2026-11-20, nvbandwidth 0.7"


def problems(
    tmp_path: Path,
    figures: dict[str, float],
    generation: str = "blackwell",
    source: str = ADDRESS,
    basis: str = "datasheet",
) -> list[InputProblem]:
    """What the gate says of a chip with these figures, all of one source and basis."""
    lines = [f'{key} = {{ value = {value}, source = "bench", basis = "{basis}" }}' for key, value in figures.items()]
    head = ['schema = "planner.hardware/1"', 'name = "my-chip"', 'title = "My chip"', 'vendor = "NVIDIA"']
    head += ['status = "available"', f'generation = "{generation}"', "[sources]", f'bench = "{source}"', "[figures]"]
    path = tmp_path / "my-chip.toml"
    path.write_text("\n".join([*head, *lines, ""]), encoding="utf-8")
    return [*check_profiles([path]).problems]


@pytest.mark.parametrize("generation", ["blackwell", "blackwell-workstation"])
def test_a_workstation_part_holds_under_either_name_of_its_generation(generation: str, tmp_path: Path) -> None:
    assert problems(tmp_path, RTX_PRO, generation) == []


@pytest.mark.parametrize("generation", ["blackwell", "blackwell-workstation"])
@pytest.mark.parametrize("key", PEAKS)
def test_a_peak_with_sparsity_is_caught_by_itself(generation: str, key: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, RTX_PRO | {key: 2 * RTX_PRO[key]}, generation)
    assert found.key == f"figures.{key}.value"


@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.25])
def test_peaks_that_are_all_with_sparsity_are_caught_on_parts_of_any_size(fraction: float, tmp_path: Path) -> None:
    part = RTX_PRO | {key: fraction * RTX_PRO[key] for key in PEAKS} | {"n_sm": round(fraction * 188)}
    assert problems(tmp_path, part) == []
    doubled = problems(tmp_path, part | {key: 2 * part[key] for key in PEAKS})
    assert {found.key for found in doubled} == {f"figures.{key}.value" for key in PEAKS}
    assert all("with sparsity" in str(found) for found in doubled)
    assert all("in generation blackwell-workstation" in found.allowed for found in doubled if fraction == 1.0)


def test_figures_between_the_parts_of_a_generation_are_of_neither(tmp_path: Path) -> None:
    server = {
        "bf16_tflops": 2250,
        "fp8_tflops": 4500,
        "memory_gb": 180,
        "memory_bandwidth_tb_per_s": 8.0,
        "tdp_w": 1000,
    }
    assert problems(tmp_path, server) == []
    (found,) = problems(tmp_path, server | {"memory_gb": 96})
    assert (found.key, found.allowed.partition(";")[0]) == (
        "figures.memory_gb.value",
        "170 to 192 GB in generation blackwell",
    )


def test_variants_are_generations_of_the_same_vendors() -> None:
    for generation in GENERATIONS.values():
        for variant in generation.variants:
            assert GENERATIONS[variant].vendors == generation.vendors


SMALL = {"bf16_tflops": 100, "memory_gb": 64, "memory_bandwidth_tb_per_s": 1.5}


@pytest.mark.parametrize(
    ("source", "basis", "says"),
    [
        (OWN, "measured", None),
        (OWN, "derived", None),
        (ADDRESS, "measured", None),
        ("measured by us with nvbandwidth", "measured", "gives no day of the measurement"),
        ("measured by us, 2026-13-40", "measured", "gives no day of the measurement"),
        (OWN, "datasheet", "gives no address"),
        (OWN, "quoted", "gives no address"),
        ("Chip specification 0.9, 2026-09-01, internal", "datasheet", None),
        ("Datasheet rev. 3, 2026-10-12, under NDA", "datasheet", None),
        ("Roadmap of 2026-10-12, Confidential", "inferred", None),
        ("Chip specification 0.9, internal", "datasheet", "gives no day of the document"),
        ("Datasheet rev. 3, 2026-10-12", "datasheet", "gives no address"),
        ("Internationally agenda'd, 2026-10-12", "datasheet", "gives no address"),
    ],
)
def test_what_has_no_address_needs_a_day_and_a_document_also_that_it_is_not_public(
    source: str, basis: str, says: str | None, tmp_path: Path
) -> None:
    found = problems(tmp_path, SMALL, "other", source, basis)
    assert [problem.message for problem in found] == ([says] if says else [])
    assert all(problem.key == "sources.bench" and problem.line for problem in found)


@pytest.mark.parametrize(
    ("wider", "key", "most"),
    [
        ("bf16_tflops", "fp8_tflops", 5),
        ("bf16_tflops", "int8_tops", 5),
        ("bf16_tflops", "fp4_tflops", 25),
        ("fp8_tflops", "int8_tops", 5),
        ("fp8_tflops", "fp4_tflops", 5),
    ],
)
def test_a_peak_far_above_that_of_wider_numbers_is_caught_of_a_part_of_no_generation(
    wider: str, key: str, most: int, tmp_path: Path
) -> None:
    def told(ratio: float) -> list[str]:
        chip = {**SMALL, wider: 100.0, key: 100.0 * ratio}
        if wider != "bf16_tflops":
            del chip["bf16_tflops"]
        found = problems(tmp_path, chip, "other")
        return [problem.message for problem in found if " x " in problem.message]

    assert told(most) == told(1.0) == []
    assert told(1.01 * most) == [f"{key} = {101 * most:g} is {1.01 * most:.3g} x {wider} = 100"]


def test_every_source_of_a_shipped_profile_is_public_or_a_lead() -> None:
    for path in profile_paths("hardware"):
        sources = tomllib.loads(path.read_text(encoding="utf-8"))["sources"]
        assert not [name for name, text in sources.items() if "://" not in text and not name.endswith("-lead")]
