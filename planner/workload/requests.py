"""From a workload as stated to the request mix the optimizer uses."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from planner.curves import FloatArray
from planner.errors import InputError, InputProblem
from planner.schema import is_file
from planner.workload.atom_mix import AtomMix
from planner.workload.distributions import Atoms, Distribution, distribution, mean_tokens
from planner.workload.hits import hit_nodes, ideal_hits
from planner.workload.length_mix import LengthMix
from planner.workload.mix import OutputAtoms, RequestMix
from planner.workload.prefixes import HitDistribution, PrefixHits
from planner.workload.spec import TraceFile, Workload
from planner.workload.traces import Trace, read_trace

N_QUADRATURE_ATOMS = 2**17
MIN_STRATA = 2**10
N_STRATA, N_TAIL_STRATA = 200, 100
"""Of output lengths up to the 99th percentile, and beyond."""
Strata = tuple[FloatArray, FloatArray, FloatArray]
"""Lengths, what they weigh, and the longest of those that each stands for; three arrays of one shape."""


def request_mix(workload: Workload, base_dir: Path, data_dirs: Sequence[Path] = ()) -> RequestMix:
    """The requests of a workload, for the optimizer.

    Without prefix hits, continuous lengths stay continuous (exact by closed forms) and a trace or discrete lengths
    become their own atoms (exact). Hits on a trace pair every request with every node of the hit distribution.
    Hits on continuous lengths take strata of equal probability, each at its mean length, times the nodes of the hit
    distribution: 131,072 atoms. Means of linear functions are then exact; P(U > t) is within 1e-5 for a constant
    fraction, 2e-4 for beta hits of shapes from 0.5 up and 1e-3 for more extreme ones; work within 5e-4 of its total.

    Args:
        base_dir: folder of the scenario, where relative trace paths start.
        data_dirs: further folders in which to look for a trace.

    Raises:
        InputError: when the trace is missing or broken, or lacks the block hashes that ideal hits need.
    """
    if workload.lengths is not None and workload.output_lengths is not None:
        outputs = distribution(workload.output_lengths)
        hits = _stated_hits(workload.prefix_hits)
        mix = _stated_mix(distribution(workload.lengths), mean_tokens(outputs), hits)
        return replace(mix, outputs=_output_atoms(outputs))
    assert workload.trace is not None, "a validated workload has lengths or a trace"
    return trace_mix(recorded_trace(workload.trace, base_dir, data_dirs), workload.prefix_hits)


def recorded_trace(stated: TraceFile, base_dir: Path, data_dirs: Sequence[Path] = ()) -> Trace:
    """The trace that a workload states, read as it says; raises InputError as `trace_path` and `read_trace` do."""
    path = trace_path(stated.path, base_dir, data_dirs)
    return read_trace(path, stated.format, stated.time_unit, stated.block_tokens, skip_invalid=stated.skip_invalid)


def trace_path(path: str, base_dir: Path, data_dirs: Sequence[Path] = ()) -> Path:
    """Where the trace is: an absolute path, else the first that exists in base_dir, a data folder or its `traces`.

    Raises:
        InputError: naming every place that was looked in.
    """
    candidates = [
        Path(os.path.normpath(base_dir / path)),
        *(folder / path for root in data_dirs for folder in (root, root / "traces")),
    ]
    found = next((c for c in candidates if is_file(c)), None)
    if found is None:
        places = ", ".join(dict.fromkeys(map(str, candidates)))
        raise InputError(
            InputProblem(
                path,
                "trace.path",
                f"is not there; looked at {places}",
                "a file there; name a folder of traces in PLANNER_DATA",
            )
        )
    return found


def trace_mix(trace: Trace, prefix_hits: PrefixHits = "none") -> AtomMix:
    """Every request of a trace, equally likely, with the cached tokens that `prefix_hits` means.

    Raises:
        InputError: when ideal hits are asked of a trace without block hashes.
    """
    total, n_output = trace.total_tokens.astype(np.float64), float(trace.output_tokens.mean())
    if prefix_hits == "ideal":
        mix = AtomMix.of(total, _ideal_cached(trace), mean_output_tokens=n_output)
    else:
        mix = _paired((total, np.ones_like(total), total), _stated_hits(prefix_hits), n_output)
    tokens, counts = np.unique(trace.output_tokens, return_counts=True)
    return replace(mix, outputs=OutputAtoms(tokens.astype(np.float64), counts / counts.sum()))


def _output_atoms(outputs: Distribution) -> OutputAtoms:
    """Output lengths themselves where finite, else the means between quantiles, the closer the rarer they are."""
    if isinstance(outputs, Atoms):
        return OutputAtoms(outputs.tokens, outputs.weights / outputs.weights.sum())
    tail = 1 - np.geomspace(1e-2, 1e-9, N_TAIL_STRATA)
    edges = outputs.quantile(np.concatenate([np.linspace(0, tail[0], N_STRATA, endpoint=False), tail, [1.0]]))
    low, high = np.concatenate([[0.0], edges[1:-1]]), edges[1:]
    weights = outputs.partial_moment(0, low, high)
    keep = weights > 0
    tokens = outputs.partial_moment(1, low, high)[keep] / weights[keep]
    return OutputAtoms(tokens, weights[keep] / weights[keep].sum())


def _stated_hits(prefix_hits: PrefixHits) -> HitDistribution | None:
    return None if isinstance(prefix_hits, str) else prefix_hits


def _ideal_cached(trace: Trace) -> FloatArray:
    if trace.blocks is None:
        allowed = 'a trace with hash_ids, or prefix_hits = "none" or a distribution'
        raise InputError(
            InputProblem(trace.name, "prefix_hits", "is ideal, but the trace has no block hashes", allowed)
        )
    return ideal_hits(trace.total_tokens, trace.blocks)


def _stated_mix(lengths: Distribution, n_output: float, hits: HitDistribution | None) -> AtomMix | LengthMix:
    if isinstance(lengths, Atoms):
        return _paired((lengths.tokens, lengths.weights, lengths.tokens), hits, n_output)
    if hits is None:
        return LengthMix(lengths, n_output)
    strata = _strata(lengths, max(MIN_STRATA, N_QUADRATURE_ATOMS // hit_nodes(hits)[0].size))
    return _paired(strata, hits, n_output)


def _paired(strata: Strata, hits: HitDistribution | None, n_output: float) -> AtomMix:
    """Every length with every node of the hit distribution."""
    total_tokens, weights, most_tokens = strata
    fractions, shares = (np.zeros(1), np.ones(1)) if hits is None else hit_nodes(hits)
    total, most = (np.repeat(tokens, fractions.size) for tokens in (total_tokens, most_tokens))
    cached = np.outer(total_tokens, fractions).ravel()
    return AtomMix.of(total, cached, np.outer(weights, shares).ravel(), n_output, most)


def _strata(lengths: Distribution, n: int) -> Strata:
    """Of n strata between quantiles, the mean length, the probability and the end; empty strata are left out."""
    edges = lengths.quantile(np.linspace(0, 1, n + 1))
    low, high = np.concatenate([[0.0], edges[1:-1]]), edges[1:]
    weights = lengths.partial_moment(0, low, high)
    keep = weights > 0
    return lengths.partial_moment(1, low, high)[keep] / weights[keep], weights[keep], high[keep]
