"""Progress of long work, for whoever waits: what is going on, and how much is done."""

from collections.abc import Callable

Progress = Callable[[str], None]
"""Is told what is going on."""
MeasuredProgress = Callable[[str, float], None]
"""Is told what is going on, and the fraction of all that is done."""
FractionDone = Callable[[float], None]
"""Is told the fraction that is done."""
