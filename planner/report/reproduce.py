"""The way to make a report again: what stands at its end, and what a stale one is answered with."""

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Reproduction:
    """Inputs of a report beside its scenario."""

    overrides: tuple[str, ...] = ()
    """`KEY=VALUE` changes of the scenario, as `--set` takes them."""
    time_limit_s: float | None = None
    """Longest search for one plan; None: as by default."""
    data: tuple[str, ...] = ()
    """Names of traces that are found in a data folder."""
    inputs: str = ""
    """Digest of scenario, profiles and traces; empty where it is not known."""

    def command(self, scenario: str = "scenario.toml", out: str = ".") -> str:
        """The command for a shell, by default one in the report's folder.

        >>> Reproduction(('slo = {ttft_s = 6}',), 5.0).command()
        "planner report scenario.toml --out . --set 'slo = {ttft_s = 6}' --time-limit 5"
        """
        options = [part for override in self.overrides for part in ("--set", override)]
        options += [] if self.time_limit_s is None else ["--time-limit", f"{self.time_limit_s:.15g}"]
        return shlex.join(["planner", "report", scenario, "--out", out, *options])
