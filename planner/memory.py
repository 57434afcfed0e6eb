"""Memory that this process may still take: of the machine, of the groups that it is in, and of its own limit."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

KIB = 1024
ROOT = Path("/")
GROUPS = Path("sys/fs/cgroup")
"""Where control groups are mounted: those of version 2 there, those of version 1 below, by what they control."""
VERSION_1 = "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
VERSION_2 = "", "memory.max", "memory.current", "inactive_file"
"""Folder of a version, its files for the limit and for what is used, and the key of what can be given up at once."""


def available_bytes(root: Path = ROOT) -> int | None:
    """Memory that can be taken before something else must go [B]; None where the system does not say.

    Args:
        root: where `proc` and `sys` are.

    Source:
        proc(5), MemAvailable; Linux kernel documentation, cgroup-v1/memory.rst and cgroup-v2.rst; getrlimit(2).
    """
    found = [*_of_machine(root), *_of_groups(root), *_of_process(root)]
    return max(min(found), 0) if found else None


def _of_machine(root: Path) -> Iterator[int]:
    """Memory that is free, and that Linux would give up; elsewhere, as on macOS, all that there is."""
    try:
        yield KIB * _values(root / "proc/meminfo")["MemAvailable"]
    except (OSError, KeyError):
        with suppress(AttributeError, ValueError, OSError):
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups(root: Path) -> Iterator[int]:
    """Memory left to every group that the process is in, and to every one above it."""
    lines: list[str] = []
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text(encoding="ascii", errors="replace").splitlines()
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if controllers and "memory" not in controllers.split(","):
            continue
        below, limit, used, spare = VERSION_1 if controllers else VERSION_2
        mount = root / GROUPS / below
        group = mount / path.strip("/")
        for folder in (group, *(above for above in group.parents if above.is_relative_to(mount))):
            with suppress(OSError, ValueError):  # "max" is none; a container may not see its path
                left = int((folder / limit).read_text()) - int((folder / used).read_text())
                with suppress(OSError, KeyError):
                    left += _values(folder / "memory.stat")[spare]
                yield left


def _of_process(root: Path) -> Iterator[int]:
    """Memory that the limit on the addresses of a process leaves."""
    with suppress(ImportError, OSError, KeyError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield limit - KIB * _values(root / "proc/self/status")["VmSize"]


def _values(path: Path) -> dict[str, int]:
    """Whole numbers of a file of `name: number unit` or `name number` lines."""
    words = (line.replace(":", " ").split() for line in path.read_text(encoding="ascii", errors="replace").splitlines())
    return {found[0]: int(found[1]) for found in words if len(found) > 1 and found[1].isdigit()}
