"""Accelerator generations: the plausible range of each one's figures, and how its peaks hang together.

Ranges span the generation's parts as they are sold, not only the shipped profiles. FLOP per clock and the ratios of
peaks are the vendors' own, where every part of the generation shares them; `source` says where they are printed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Range:
    """Lowest and highest plausible value of a figure, in the unit of its key."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        """True if a value lies within, the ends included."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        """As a reader would write it."""
        return f"{self.low:.10g}" if self.low == self.high else f"{self.low:.10g} to {self.high:.10g}"


@dataclass(frozen=True)
class Generation:
    """One architecture family."""

    vendors: tuple[str, ...]
    """Who sells its parts; anyone when empty."""
    ranges: Mapping[str, Range]
    """Plausible range by figure, within the general one."""
    peaks_per_bf16: Mapping[str, float] = field(default_factory=dict)
    """Dense peaks as multiples of the bf16 peak, where all parts have the same."""
    lacks: tuple[str, ...] = ()
    """Peaks for which its parts have no unit."""
    bf16_flop_per_clock_per_sm: int | None = None
    """Dense bf16 FLOP of one SM (compute unit, matrix engine) per clock; None where unpublished or not shared."""
    source: str = ""
    """Where ratios and FLOP per clock are printed."""
    variants: tuple[str, ...] = ()
    """Generations of the same name to its vendor; parts are judged by the one that their figures fit best."""


GENERAL: Mapping[str, Range] = {
    "bf16_tflops": Range(10, 20_000),
    "fp8_tflops": Range(10, 50_000),
    "fp4_tflops": Range(100, 90_000),
    "int8_tops": Range(10, 50_000),
    "memory_gb": Range(0.2, 2_000),
    "reported_memory_mib": Range(190, 2_000_000),
    "memory_bandwidth_tb_per_s": Range(0.1, 200),
    "n_sm": Range(1, 1_024),
    "boost_clock_mhz": Range(200, 5_000),
    "scaleup_gb_per_s": Range(10, 5_000),
    "scaleup_domain_accelerators": Range(1, 20_000),
    "nic_gbps": Range(5, 5_000),
    "pcie_gb_per_s": Range(4, 2_000),
    "tdp_w": Range(50, 3_000),
    "accelerators_per_node": Range(1, 128),
    "release_year": Range(2015, 2030),
    "card_price_usd": Range(500, 200_000),
    "rent_low_usd_per_hour": Range(0.05, 50),
    "rent_high_usd_per_hour": Range(0.05, 50),
}
"""Plausible range of every figure of any accelerator of the last years and the next."""


def _ranges(**limits: tuple[float, float]) -> dict[str, Range]:
    return {name: Range(low, high) for name, (low, high) in limits.items()}


_TWICE = {"fp8_tflops": 2.0, "int8_tops": 2.0}

GENERATIONS: Mapping[str, Generation] = {
    "ampere": Generation(
        ("NVIDIA",),
        _ranges(
            bf16_tflops=(62, 312),
            memory_gb=(16, 80),
            memory_bandwidth_tb_per_s=(0.2, 2.04),
            n_sm=(10, 128),
            boost_clock_mhz=(1_000, 1_900),
            scaleup_gb_per_s=(16, 300),
            nic_gbps=(25, 200),
            tdp_w=(60, 500),
            release_year=(2020, 2022),
        ),
        {"int8_tops": 2.0},
        ("fp8_tflops", "fp4_tflops"),
        2_048,
        "NVIDIA A100 Tensor Core GPU Architecture, 2020; S. Bekman, ML Engineering, compute/accelerator",
    ),
    "ada": Generation(
        ("NVIDIA",),
        _ranges(
            bf16_tflops=(60, 370),
            memory_gb=(20, 48),
            memory_bandwidth_tb_per_s=(0.28, 1.01),
            n_sm=(46, 144),
            boost_clock_mhz=(1_500, 2_700),
            scaleup_gb_per_s=(16, 32),
            nic_gbps=(25, 400),
            tdp_w=(70, 450),
            release_year=(2022, 2024),
        ),
        _TWICE,
        ("fp4_tflops",),
        source="NVIDIA Ada GPU Architecture, 2022; FLOP per clock differ between its parts",
    ),
    "hopper": Generation(
        ("NVIDIA",),
        _ranges(
            bf16_tflops=(140, 1_000),
            memory_gb=(64, 144),
            memory_bandwidth_tb_per_s=(2.0, 4.9),
            n_sm=(66, 144),
            boost_clock_mhz=(1_300, 1_980),
            scaleup_gb_per_s=(64, 450),
            nic_gbps=(100, 400),
            tdp_w=(300, 1_000),
            release_year=(2022, 2025),
        ),
        _TWICE,
        ("fp4_tflops",),
        4_096,
        "NVIDIA H100 Tensor Core GPU Architecture, 2022; S. Bekman, ML Engineering, compute/accelerator",
    ),
    "blackwell": Generation(
        ("NVIDIA",),
        _ranges(
            bf16_tflops=(1_700, 2_500),
            memory_gb=(170, 192),
            memory_bandwidth_tb_per_s=(7.0, 8.0),
            boost_clock_mhz=(1_500, 2_100),
            scaleup_gb_per_s=(64, 900),
            nic_gbps=(100, 800),
            tdp_w=(700, 1_200),
            release_year=(2024, 2026),
        ),
        {**_TWICE, "fp4_tflops": 4.0},
        source="NVIDIA Blackwell datasheet, 2024",
        variants=("blackwell-workstation",),
    ),
    # RTX PRO cards with GDDR7. GeForce cards of the family halve products that are summed in fp32: they are `other`.
    "blackwell-workstation": Generation(
        ("NVIDIA",),
        _ranges(
            bf16_tflops=(50, 512),
            fp8_tflops=(100, 1_024),
            fp4_tflops=(200, 2_048),
            int8_tops=(100, 1_024),
            memory_gb=(16, 103),
            memory_bandwidth_tb_per_s=(0.28, 1.8),
            n_sm=(20, 192),
            boost_clock_mhz=(1_500, 2_900),
            scaleup_gb_per_s=(16, 64),
            nic_gbps=(10, 800),
            tdp_w=(70, 600),
            release_year=(2025, 2027),
        ),
        {**_TWICE, "fp4_tflops": 4.0},
        (),
        1_024,
        "NVIDIA's AIConfigurator 0.12, rtx_pro_6000_server: 467.8 dense TFLOP/s of bf16 at 2,430 MHz and 188 SMs, "
        "twice as many of fp8 and int8, four times of fp4; 1.792 TB/s of GDDR7",
    ),
    "blackwell-ultra": Generation(
        ("NVIDIA",),
        _ranges(
            bf16_tflops=(2_200, 2_500),
            fp4_tflops=(12_500, 15_000),
            int8_tops=(150, 170),
            memory_gb=(268, 288),
            memory_bandwidth_tb_per_s=(7.7, 8.0),
            boost_clock_mhz=(1_500, 2_100),
            scaleup_gb_per_s=(900, 900),
            nic_gbps=(400, 800),
            tdp_w=(1_000, 1_400),
            release_year=(2025, 2026),
        ),
        {"fp8_tflops": 2.0},
        source="NVIDIA Blackwell Ultra datasheet, 2025; its fp4 and int8 differ from plain multiples",
    ),
    "rubin": Generation(
        ("NVIDIA",),
        _ranges(
            bf16_tflops=(2_000, 9_000),
            fp8_tflops=(8_000, 25_000),
            fp4_tflops=(15_000, 50_000),
            int8_tops=(200, 10_000),
            memory_gb=(128, 576),
            memory_bandwidth_tb_per_s=(1.5, 23),
            n_sm=(100, 300),
            scaleup_gb_per_s=(1_800, 1_800),
            nic_gbps=(400, 1_600),
            tdp_w=(600, 2_300),
            release_year=(2026, 2027),
        ),
    ),
    "groq": Generation(
        ("Groq", "NVIDIA/Groq"),
        _ranges(
            bf16_tflops=(150, 1_300),
            fp8_tflops=(500, 2_500),
            memory_gb=(0.2, 1),
            memory_bandwidth_tb_per_s=(80, 160),
            boost_clock_mhz=(800, 2_000),
            scaleup_gb_per_s=(100, 1_300),
            tdp_w=(150, 800),
            release_year=(2020, 2027),
        ),
        {"int8_tops": 4.0},
        source="GroqChip processor product brief 1.7: 188 TFLOP/s of fp16 beside 750 TOP/s of int8",
    ),
    "cdna3": Generation(
        ("AMD",),
        _ranges(
            bf16_tflops=(200, 1_308),
            memory_gb=(128, 256),
            memory_bandwidth_tb_per_s=(3.9, 6.0),
            n_sm=(80, 304),
            boost_clock_mhz=(1_300, 2_100),
            scaleup_gb_per_s=(250, 448),
            nic_gbps=(100, 400),
            tdp_w=(500, 1_000),
            release_year=(2023, 2025),
        ),
        _TWICE,
        ("fp4_tflops",),
        2_048,
        "AMD CDNA 3 Architecture white paper, 2023; S. Bekman, ML Engineering, compute/accelerator",
    ),
    "cdna4": Generation(
        ("AMD",),
        _ranges(
            bf16_tflops=(2_300, 2_520),
            memory_gb=(288, 288),
            memory_bandwidth_tb_per_s=(8.0, 8.0),
            n_sm=(256, 256),
            boost_clock_mhz=(2_000, 2_400),
            scaleup_gb_per_s=(448, 540),
            nic_gbps=(200, 800),
            tdp_w=(1_000, 1_400),
            release_year=(2025, 2026),
        ),
        {**_TWICE, "fp4_tflops": 4.0},
        (),
        4_096,
        "AMD CDNA 4 Architecture white paper, 2025; S. Bekman, ML Engineering, compute/accelerator",
    ),
    "gaudi3": Generation(
        ("Intel",),
        _ranges(
            bf16_tflops=(1_600, 1_840),
            memory_gb=(96, 128),
            memory_bandwidth_tb_per_s=(2.9, 3.7),
            n_sm=(8, 8),
            boost_clock_mhz=(1_500, 1_750),
            scaleup_gb_per_s=(500, 600),
            nic_gbps=(200, 600),
            tdp_w=(450, 1_200),
            release_year=(2024, 2025),
        ),
        {"fp8_tflops": 1.0},
        ("fp4_tflops",),
        131_072,
        "Intel Gaudi 3 white paper, 2024: 8 engines of 256 x 256 multiply-adds, fp8 at the rate of bf16",
    ),
    "tpu-v5e": Generation(
        ("Google",),
        _ranges(
            bf16_tflops=(190, 200),
            memory_gb=(16, 17.2),
            memory_bandwidth_tb_per_s=(0.8, 0.83),
            scaleup_gb_per_s=(180, 200),
            nic_gbps=(10, 100),
            tdp_w=(100, 300),
            release_year=(2023, 2023),
        ),
        {"int8_tops": 2.0},
        ("fp8_tflops", "fp4_tflops"),
        source="Google Cloud, TPU v5e",
    ),
    "tpu-v5p": Generation(
        ("Google",),
        _ranges(
            bf16_tflops=(450, 465),
            memory_gb=(95, 103),
            memory_bandwidth_tb_per_s=(2.7, 2.8),
            scaleup_gb_per_s=(540, 600),
            nic_gbps=(10, 200),
            tdp_w=(300, 700),
            release_year=(2023, 2024),
        ),
        {"fp8_tflops": 1.0, "int8_tops": 2.0},
        ("fp4_tflops",),
        source="Google Cloud, TPU7x with a table of earlier TPUs; J. Austin et al., How to Scale Your Model",
    ),
    "tpu-v6e": Generation(
        ("Google",),
        _ranges(
            bf16_tflops=(910, 930),
            memory_gb=(32, 34.4),
            memory_bandwidth_tb_per_s=(1.6, 1.65),
            scaleup_gb_per_s=(360, 450),
            nic_gbps=(10, 400),
            tdp_w=(200, 500),
            release_year=(2024, 2024),
        ),
        {"fp8_tflops": 1.0, "int8_tops": 2.0},
        ("fp4_tflops",),
        source="Google Cloud, TPU v6e, and TPU7x with a table of earlier TPUs",
    ),
    "tpu-v7": Generation(
        ("Google",),
        _ranges(
            bf16_tflops=(2_300, 2_310),
            memory_gb=(192, 207),
            memory_bandwidth_tb_per_s=(7.3, 7.4),
            n_sm=(2, 2),
            scaleup_gb_per_s=(540, 600),
            nic_gbps=(10, 400),
            tdp_w=(600, 1_200),
            release_year=(2025, 2026),
        ),
        {"fp8_tflops": 2.0},
        ("fp4_tflops",),
        source="Google Cloud, TPU7x",
    ),
    "trainium2": Generation(
        ("AWS",),
        _ranges(
            bf16_tflops=(650, 670),
            memory_gb=(96, 104),
            memory_bandwidth_tb_per_s=(2.8, 3.0),
            n_sm=(8, 8),
            scaleup_gb_per_s=(500, 640),
            nic_gbps=(100, 200),
            tdp_w=(350, 600),
            release_year=(2023, 2025),
        ),
        {"fp8_tflops": 2.0},
        ("fp4_tflops",),
        source="AWS Neuron documentation, Trainium2",
    ),
    "trainium3": Generation(
        ("AWS",),
        _ranges(
            bf16_tflops=(660, 680),
            fp8_tflops=(2_500, 2_530),
            fp4_tflops=(2_500, 2_530),
            memory_gb=(144, 155),
            memory_bandwidth_tb_per_s=(4.7, 5.0),
            n_sm=(8, 8),
            scaleup_gb_per_s=(1_000, 1_300),
            nic_gbps=(100, 800),
            tdp_w=(500, 1_200),
            release_year=(2025, 2026),
        ),
    ),
    "ascend-910": Generation(
        ("Huawei",),
        _ranges(
            bf16_tflops=(220, 800),
            int8_tops=(500, 1_600),
            memory_gb=(32, 128),
            memory_bandwidth_tb_per_s=(0.8, 3.2),
            n_sm=(20, 64),
            scaleup_gb_per_s=(150, 400),
            nic_gbps=(100, 400),
            tdp_w=(300, 800),
            release_year=(2019, 2025),
        ),
        {},
        ("fp8_tflops", "fp4_tflops"),
        source="Ascend msmodeling, device profiles: fp16, bf16 and int8 only",
    ),
    "ascend-950": Generation(
        ("Huawei",),
        _ranges(
            bf16_tflops=(370, 500),
            int8_tops=(750, 1_000),
            memory_gb=(112, 144),
            memory_bandwidth_tb_per_s=(1.4, 4.0),
            n_sm=(28, 36),
            scaleup_gb_per_s=(150, 2_000),
            nic_gbps=(200, 800),
            tdp_w=(400, 1_000),
            release_year=(2025, 2027),
        ),
        {"fp8_tflops": 2.0, "fp4_tflops": 4.0},
        source="Huawei's Ascend 950 architecture white paper, as cited by an unattributed file",
    ),
    # One core of a processor, as `planner live` measures it: fp32 products stand for bf16 ones. No accelerator is that
    # slow, so that its ranges reach below the general ones.
    "cpu-core": Generation(
        (),
        _ranges(
            bf16_tflops=(0.005, 2),
            memory_gb=(0.25, 200),
            memory_bandwidth_tb_per_s=(0.001, 0.5),
            nic_gbps=(0.5, 400),
        ),
        {},
        ("fp8_tflops", "fp4_tflops", "int8_tops"),
        source="AVX2 at 2 GHz does 64 GFLOP/s, AVX-512 or AMX several times that; NEON at 1 GHz a tenth",
    ),
    "other": Generation((), {}),
}
"""Known generations; `other` is for a part of none of them, of which only the general ranges are known."""
