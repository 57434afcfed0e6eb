"""What stderr says besides how far something is, which depends on how fast the machine is."""

import re

PROGRESS = re.compile(r"planner: .*: (\d[\d,]* s so far.*|done after \d[\d,]* s)\n")


def without_progress(stderr: str) -> str:
    """stderr less the lines that tell how long something has taken."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not PROGRESS.fullmatch(line))
