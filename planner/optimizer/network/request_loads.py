"""Load of a request of a stream on pools and links in a cell of thresholds: seconds, bytes and fractions.

Prompts between the ends of a cell may go either way. Their work in any pool is at least `kappa` times their work in a
pool of reference, where kappa is the least ratio of the two times over the lengths between. So whatever threshold of
the cell divides them, the shares of the work in the pool of reference add up to the whole.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from planner.curves import PrefillService
from planner.optimizer.network.cells import Array, Cell, end_of, lengths_between
from planner.optimizer.problem import Arc, Problem
from planner.optimizer.problem_parts import ClassSpec, Part
from planner.optimizer.room import is_held
from planner.optimizer.work import ROUNDING_OF_SUMS, long_bytes, long_work_s, short_bytes, short_work_s
from planner.roots import EXACT, last_kept
from planner.scenario import CapacityRule

ROUNDING = 1e-3
"""What the least ratio between those lengths may miss: the curves are smooth."""


@dataclass(frozen=True, eq=False)
class RequestLoads:
    """Loads per request of a problem, remembered by what they depend on: equal pools, and equal periods, share them."""

    problem: Problem

    def fraction(self, stream: int, part: Part, cell: Cell) -> float:
        """Least fraction of a stream's requests in a part, over the thresholds of a cell [fraction]."""
        mix = self.class_of(stream).mix
        key = ("fraction", id(mix), part, end_of(part, cell))
        if key not in self.known:
            long = float(mix.long_fraction(end_of(part, cell)))
            of_part = long if part == "long" else 1.0 - long
            self.known[key] = of_part if of_part > ROUNDING_OF_SUMS else 0.0
        return float(self.known[key])

    def holds(self, stream: int, arc: Arc, part: Part, cell: Cell) -> bool:
        """True if a pool has memory for every prompt of a part, under some threshold of a cell."""
        room, mix = self.problem.pools[arc.pool].rates.longest_tokens, self.class_of(stream).mix
        if room == np.inf:
            return True
        key = ("limits", room, id(mix), part)
        if key not in self.known:
            self.known[key] = mix.held_thresholds(*((room, np.inf) if part == "long" else (np.inf, room)))
        return is_held(mix, end_of(part, cell), self.known[key])

    def work_s(self, stream: int, arc: Arc, part: Part, cell: Cell) -> float:
        """Instance-seconds in a pool per request of a stream, at the least over a cell [s].

        Equation:
            E[T; part]: mean prefill time over the requests of the part, times their fraction

        Args:
            stream: the stream.
            arc: the pool and its link.
            part: long or short prompts.
            cell: the cell.
        """
        return self.work_of(self.problem.pools[arc.pool].work, stream, part, cell)

    def work_of(self, service: PrefillService, stream: int, part: Part, cell: Cell) -> float:
        """Mean seconds of some service per request of a stream that is in a part, at the least over a cell [s]."""
        mix = self.class_of(stream).mix
        key = ("work", service, id(mix), part, *self._ends(stream, part, cell))
        if key not in self.known:
            rule, (low, high) = self.rule_of(stream), map(np.array, cell[:2])
            self.known[key] = float(
                long_work_s(rule, service, mix, low, high) if part == "long" else short_work_s(rule, service, mix, low)
            )
        return float(self.known[key])

    def rule_of(self, stream: int) -> CapacityRule:
        """Capacity rule of a stream's work: under an SLO on TTFT by every request, as its queues see it."""
        return "expected-work" if self.class_of(stream).ttft_s is not None else self.problem.scenario.capacity_rule

    def _ends(self, stream: int, part: Part, cell: Cell) -> tuple[object, ...]:
        """Arguments of the least work of a part: of long prompts by mean length both thresholds of a cell."""
        rule = self.rule_of(stream)
        return (rule, *(cell[:2] if part == "long" and rule == "mean-length" else (end_of(part, cell),)))

    def residual_s(self, stream: int, arc: Arc, part: Part, cell: Cell) -> float:
        """Mean residual service time that an arrival finds, at the least over a cell [s]; 0 without requests.

        Equation:
            E[T^2] / (2 E[T]), of a whole prefill: an instance may do several at once

        Args:
            stream: the stream.
            arc: the pool and its link.
            part: long or short prompts.
            cell: the cell.

        Source:
            Residual life in a renewal process (Kleinrock 1975, "Queueing systems", volume 1, section 5.2).
        """
        pool, mix = self.problem.pools[arc.pool], self.class_of(stream).mix
        key = ("residual", id(pool.rates), id(mix), part, end_of(part, cell))
        if key not in self.known:
            work_s, service = self.work_s(stream, arc, part, cell), pool.rates.prefill
            of_part = mix.long_work if part == "long" else mix.short_work
            squares = 0.0 if service is None else float(of_part(service, end_of(part, cell), 2))
            self.known[key] = squares / (2 * work_s * pool.rates.places) if work_s > 0 else 0.0
        return float(self.known[key])

    def sent_bytes(self, stream: int, arc: Arc, part: Part, cell: Cell) -> float:
        """Bytes on a link per request of a stream, at the least over a cell [B]; 0 without a link."""
        if arc.link is None:
            return 0.0
        link, pool = self.problem.links[arc.link], self.problem.pools[arc.pool]
        mix, holds = self.class_of(stream).mix, link.destination_holds_prefix
        key = ("bytes", id(pool.rates), id(mix), part, *self._ends(stream, part, cell), holds)
        if key not in self.known:
            rule, kv, (low, high) = self.rule_of(stream), pool.rates.kv_bytes, map(np.array, cell[:2])
            self.known[key] = float(
                long_bytes(rule, kv, mix, (low, high), holds) if part == "long" else short_bytes(kv, mix, low, holds)
            )
        return float(self.known[key])

    def between_s(self, stream: int, arc: Arc, cell: Cell) -> float:
        """Least instance-seconds in a pool per request of a stream, if the pool took all prompts between a cell's ends
        [s].

        Equation:
            kappa_i E[T_ref; between], kappa_i = min of T_i / T_ref over the lengths between; mean-length: 0, since more
            prompts may shorten their mean

        Args:
            stream: the stream.
            arc: the pool and its link.
            cell: the cell.
        """
        return self.between_of(self.problem.pools[arc.pool].work, stream, cell)

    def between_bytes(self, stream: int, arc: Arc, cell: Cell) -> float:
        """Least bytes on a link per request, if all prompts between a cell's ends took it [B]."""
        if arc.link is None or self.rule_of(stream) == "mean-length":
            return 0.0
        kv, mix = self.problem.pools[arc.pool].rates.kv_bytes, self.class_of(stream).mix
        holds = self.problem.links[arc.link].destination_holds_prefix
        key = ("bytes between", kv, self._reference(stream), mix, *cell[:2], holds)
        if key not in self.known:
            total, cached = lengths_between(mix, cell)
            sent = kv(total) - (kv(cached) - kv(0.0) if holds else 0.0)
            self.known[key] = self._least_between(sent, stream, cell)
        return float(self.known[key])

    def dividing_tokens(self, stream: int, cell: Cell, long: float) -> float:
        """The threshold beyond which lies a part of the work between a cell's ends, in the pool of reference [tokens].

        Equation:
            E[T_ref; t < L <= high] = long E[T_ref; between]

        Args:
            stream: the stream.
            cell: the cell.
            long: that part [fraction].
        """
        mix, reference = self.class_of(stream).mix, self._reference(stream)
        low, high = (float(np.clip(t, 0.0, mix.support[1])) for t in cell[:2])
        beyond, whole = (float(mix.long_work(reference, t)) for t in (high, low))
        aimed = beyond + long * (whole - beyond)
        return last_kept(lambda t: aimed - float(mix.long_work(reference, t)), low, high, EXACT)[0]

    def holds_between(self, stream: int, cell: Cell) -> bool:
        """True if a stream has prompts between the ends of a cell."""
        mix = self.class_of(stream).mix
        if cell.low_tokens == cell.high_tokens:
            return False
        return float(mix.long_fraction(cell.low_tokens) - mix.long_fraction(cell.high_tokens)) > ROUNDING_OF_SUMS

    def between_of(self, service: PrefillService, stream: int, cell: Cell) -> float:
        """Least seconds of some service per request of a stream, of all prompts between a cell's ends [s]."""
        if self.rule_of(stream) == "mean-length":
            return 0.0
        mix = self.class_of(stream).mix
        key = ("between", service, self._reference(stream), mix, *cell[:2])
        if key not in self.known:
            total, cached = lengths_between(mix, cell)
            self.known[key] = self._least_between(np.asarray(service.seconds(total, cached)), stream, cell)
        return float(self.known[key])

    def _least_between(self, amounts: Array, stream: int, cell: Cell) -> float:
        """Least sum of some amount of the prompts between a cell's ends, given at its lengths, per request."""
        mix, reference = self.class_of(stream).mix, self._reference(stream)
        whole_s = float(mix.long_work(reference, cell.low_tokens) - mix.long_work(reference, cell.high_tokens))
        ratios = amounts / np.asarray(reference.seconds(*lengths_between(mix, cell)))
        return whole_s * float(np.min(ratios)) * (1 - ROUNDING)

    def division(self, stream: int) -> tuple[int, int]:
        """Key of a threshold's division of a stream's prompts in a cell: equal for streams that it divides alike."""
        return id(self.class_of(stream).mix), id(self._reference(stream))

    def _reference(self, stream: int) -> PrefillService:
        """Prefill times of the pool of reference: its work says how prompts between a cell's ends are divided."""
        first = next(arc for arcs in self.problem.arcs[stream].values() for arc in arcs)
        service = self.problem.pools[first.pool].rates.prefill
        if service is None:
            raise ValueError("a prefill pool has no prefill times")
        return service

    def decode_s(self, stream: int, pool: int) -> float:
        """Instance-seconds of a decode pool per request of a stream [s].

        Equation:
            T_step L_out / B: time of a decode step, mean output tokens, sequences in the batch

        Args:
            stream: the stream.
            pool: the decode pool.

        Raises:
            ValueError: the pool does not decode.
        """
        return self.problem.pools[pool].decode_s(self.class_of(stream).mix)

    def class_of(self, stream: int) -> ClassSpec:
        """The class of a stream."""
        return self.problem.classes[self.problem.streams[stream].request_class]

    @cached_property
    def known(self) -> dict[tuple[object, ...], Any]:
        """Coefficients that were found before, by what they depend on."""
        return {}
