"""Hardware profiles: physical peaks of one accelerator, each figure with its source and basis."""

from typing import Literal

from pydantic import ConfigDict, Field

from planner.profiles.base import Precision, Profile, Text
from planner.profiles.efficiency import Efficiencies
from planner.profiles.figure import Count, Figure, Year
from planner.schema import StrictModel
from planner.units import GB, MIB, TERA, bytes_per_s

MHZ = 1e6


class Figures(StrictModel):
    """Figures of one accelerator; peaks are dense and not derated; what is unknown is absent."""

    bf16_tflops: Figure | None = None
    """Dense bf16 peak [TFLOP/s]."""
    fp8_tflops: Figure | None = None
    """Dense fp8 peak [TFLOP/s]."""
    fp4_tflops: Figure | None = None
    """Dense fp4 peak [TFLOP/s]."""
    int8_tops: Figure | None = None
    """Dense int8 peak [TOP/s]."""
    memory_gb: Figure | None = None
    """Memory for weights and caches as it is sold [GB, 1e9 bytes]."""
    reported_memory_mib: Figure | None = None
    """Memory as the device reports it, nvidia-smi's total [MiB]; absent: what it is sold with is what fits."""
    memory_bandwidth_tb_per_s: Figure | None = None
    """Peak bandwidth of that memory [TB/s]."""
    n_sm: Count | None = None
    """Streaming multiprocessors, or the vendor's like."""
    boost_clock_mhz: Figure | None = None
    """Clock at which the peaks hold, or the highest the device reports [MHz]."""
    scaleup_gb_per_s: Figure | None = None
    """Scale-up link (NVLink and its like), one direction per accelerator [GB/s]."""
    scaleup_domain_accelerators: Count | None = None
    """Accelerators joined by the scale-up link; 1 when there is none."""
    nic_gbps: Figure | None = None
    """Network of one accelerator, one direction [Gbps]."""
    pcie_gb_per_s: Figure | None = None
    """Host link of one accelerator, one direction [GB/s]."""
    tdp_w: Figure | None = None
    """Board power limit [W]."""
    accelerators_per_node: Count | None = None
    """Accelerators in one server."""
    release_year: Year | None = None
    """Year of release."""
    card_price_usd: Figure | None = None
    """Price of one accelerator [USD]."""
    rent_low_usd_per_hour: Figure | None = None
    """Low end of on-demand rent of one accelerator [USD/h]."""
    rent_high_usd_per_hour: Figure | None = None
    """High end of on-demand rent of one accelerator [USD/h]."""


class HardwareProfile(Profile):
    """One accelerator as sold or announced."""

    model_config = ConfigDict(populate_by_name=True)

    schema_id: Literal["planner.hardware/1"] = Field(alias="schema")
    """Format of the file."""
    vendor: Text
    """Who sells it."""
    status: Literal["available", "announced"]
    """Whether it can be had today."""
    generation: Text
    """Architecture family in lower case, such as hopper."""
    figures: Figures
    """Its figures."""
    efficiency: Efficiencies = Field(default_factory=Efficiencies)
    """What kernels were measured to reach of them."""

    def peak_flop_per_s(self, precision: Precision) -> float | None:
        """Dense peak of one accelerator at a precision [FLOP/s, OP/s for integers]; None when not published."""
        figures = self.figures
        peaks = {"bf16": figures.bf16_tflops, "fp8": figures.fp8_tflops, "fp4": figures.fp4_tflops}
        return _scaled({**peaks, "int8": figures.int8_tops}.get(precision), TERA)

    @property
    def memory_bytes(self) -> float | None:
        """Memory of one accelerator as it reports it, or else as it is sold [bytes]."""
        return _scaled(self.figures.reported_memory_mib, MIB) or _scaled(self.figures.memory_gb, GB)

    @property
    def memory_bytes_per_s(self) -> float | None:
        """Peak memory bandwidth of one accelerator [bytes/s]."""
        return _scaled(self.figures.memory_bandwidth_tb_per_s, TERA)

    @property
    def scaleup_bytes_per_s(self) -> float | None:
        """Scale-up link of one accelerator, one direction [bytes/s]."""
        return _scaled(self.figures.scaleup_gb_per_s, GB)

    @property
    def nic_bytes_per_s(self) -> float | None:
        """Network of one accelerator, one direction [bytes/s]."""
        return _scaled(self.figures.nic_gbps, bytes_per_s(1.0))

    @property
    def pcie_bytes_per_s(self) -> float | None:
        """Host link of one accelerator, one direction [bytes/s]."""
        return _scaled(self.figures.pcie_gb_per_s, GB)

    @property
    def boost_clock_hz(self) -> float | None:
        """Boost clock [Hz]."""
        return _scaled(self.figures.boost_clock_mhz, MHZ)

    @property
    def tdp_w(self) -> float | None:
        """Board power limit [W]."""
        return _value(self.figures.tdp_w)

    @property
    def card_price_usd(self) -> float | None:
        """Price of one accelerator [USD]."""
        return _value(self.figures.card_price_usd)

    @property
    def rent_low_usd_per_hour(self) -> float | None:
        """Low end of on-demand rent of one accelerator [USD/h]."""
        return _value(self.figures.rent_low_usd_per_hour)

    @property
    def rent_high_usd_per_hour(self) -> float | None:
        """High end of on-demand rent of one accelerator [USD/h]."""
        return _value(self.figures.rent_high_usd_per_hour)

    @property
    def n_sm(self) -> int | None:
        """Streaming multiprocessors, or the vendor's like."""
        return None if self.figures.n_sm is None else self.figures.n_sm.value

    @property
    def n_scaleup_domain_accelerators(self) -> int | None:
        """Accelerators joined by the scale-up link."""
        domain = self.figures.scaleup_domain_accelerators
        return None if domain is None else domain.value

    @property
    def n_accelerators_per_node(self) -> int | None:
        """Accelerators in one server."""
        node = self.figures.accelerators_per_node
        return None if node is None else node.value


def _value(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value


def _scaled(figure: Figure | None, si: float) -> float | None:
    return None if figure is None else figure.value * si
