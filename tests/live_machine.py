"""A machine as `planner live` might have measured it; the figures are made up."""

from planner.hybrid.machine import CoreRates, KernelRates, MachineDescription

MACHINE = MachineDescription("Some Processor", "Linux 6", "3.11.7", "2.4.6", 2, 16 * 10**9)
CORE = CoreRates(
    {1: 6.6e9, 2: 7e9, 4: 1.1e10, 16: 3.9e10, 64: 8.8e10, 256: 1.3e11, 1536: 1.35e11, 4096: 1.4e11},
    1.5e11,
    1.37e10,
    1e-6,
    8e8,
)
KERNELS = KernelRates(5.3e10, 1.1e9, 9.2e10, 2.0e10, 6.1e9)
