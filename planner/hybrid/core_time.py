"""Time of cores, as the system counts it: how much of it the hypervisor gave to others."""

from collections.abc import Iterable
from dataclasses import dataclass

PROC_STAT = "/proc/stat"
STEAL = 7
"""Column of a core's line, after its name: user, nice, system, idle, iowait, irq, softirq, steal, then guests, who are
counted in user and nice already."""


@dataclass(frozen=True)
class CoreTimes:
    """Ticks since the system started, of some cores together."""

    total: int
    steal: int

    def steal_fraction_since(self, earlier: "CoreTimes | None") -> float | None:
        """Share of the time since then that others had the cores for; None where nothing has passed.

        >>> CoreTimes(300, 30).steal_fraction_since(CoreTimes(100, 10))
        0.1
        """
        if earlier is None or self.total <= earlier.total:
            return None
        return (self.steal - earlier.steal) / (self.total - earlier.total)


def core_times(cores: Iterable[int]) -> CoreTimes | None:
    """Ticks of some cores; None where the system does not tell."""
    try:
        with open(PROC_STAT, encoding="ascii") as file:
            text = file.read()
    except OSError:
        return None
    return core_times_of(text, cores)


def core_times_of(text: str, cores: Iterable[int]) -> CoreTimes | None:
    """Ticks of some cores from the text of /proc/stat; None where it names none of them.

    >>> core_times_of("cpu 9 9\\ncpu0 4 0 1 4 0 0 0 1 2 0\\ncpu1 5 0 0 5 0 0 0 0 0 0", [0])
    CoreTimes(total=10, steal=1)
    """
    names = {f"cpu{core}" for core in cores}
    rows = [line.split() for line in text.splitlines() if line.split(maxsplit=1)[:1] and line.split()[0] in names]
    ticks = [[int(cell) for cell in row[1 : STEAL + 2]] for row in rows]
    if not ticks or any(len(row) <= STEAL for row in ticks):
        return None
    return CoreTimes(sum(map(sum, ticks)), sum(row[STEAL] for row in ticks))
