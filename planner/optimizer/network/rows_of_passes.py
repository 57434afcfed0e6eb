"""Rows of a network's program about colocated pools: the passes that they make, and what they decode of their own."""

from __future__ import annotations

from collections.abc import Iterator

from planner.optimizer.batching import decoding_work
from planner.optimizer.network.batch_needs import Need, serves_alone
from planner.optimizer.network.cells import Array, Use
from planner.optimizer.network.indices import CellChoice, PoolInSituation, PrefillUse
from planner.optimizer.network.lateness import requests_of_use
from planner.optimizer.network.loads import BatchLimit
from planner.optimizer.network.program import MixedIntegerProgram, cell_of, known_rate
from planner.optimizer.network.rows_of_work import Terms, limits_of_size, within_size
from planner.optimizer.pass_facets import PassFacet

TINY = 1e-7
CHOSEN = 0.5
"""Choice of a cell from which on it is chosen."""


def bound_passes(program: MixedIntegerProgram) -> None:
    """Passes of a colocated pool of all prompts that it computes and all sequences that it decodes fit its instances.

    Equation:
        sum of x_qska (a new + e keys) + sum of d_qsi (b steps + c context) <= n_i, for every facet (a, e, b, c) of the
        pool's passes; in plans for the one that is greatest for the mix of the period, times the factor by which the
        model of batches is slower

    Args:
        program: the program; its columns of rates are there.
    """
    spec = program.spec
    for at, uses in _uses(program).items():
        pool = program.problem.pools[at.pool]
        if pool.batching is None:
            continue
        known = spec.loads.batch_limit(at.pool, spec.situations[at.situation].period)
        facets = pool.batching.facets[known.facet : known.facet + 1] if spec.is_conservative else pool.batching.facets
        limit = known if spec.is_conservative else BatchLimit()
        (size,) = limits_of_size(program, at, limit.most_busy * spec.loads.grid[None, :], not spec.is_conservative)
        first = len(program.rows.row_names)
        for f, facet in enumerate(facets):
            terms = [(column, limit.factor * seconds) for column, seconds in _terms(program, at, uses, facet)]
            within_size(program, f"bound_passes_{at.pool}_{at.situation}_{f}", at, terms, size)
        program.prefill_rows[at] = list(range(first, len(program.rows.row_names)))


def need_instances(program: MixedIntegerProgram) -> None:
    """A colocated pool that serves one class has the instances that the model of batches asks for in a chosen cell.

    Equation:
        w d_qsi <= n_i + w U_q (1 - y_gsk): w the instances for a request per second, U_q the most that the stream
        serves

    Args:
        program: the program.
    """
    spec, problem = program.spec, program.problem
    top = program.rows.highs[program.scale]
    for (q, s, i), column in program.decode_rates.items() if spec.needs else ():
        at, group, rate = PoolInSituation(i, s), problem.group_of[q], known_rate(program, q, s)
        for k, cell in enumerate(spec.cells[group, spec.situations[s].period]):
            each = spec.needs.get(Need(i, q, cell, rate))
            if each is not None:
                most = each * (rate or top * problem.peak_req_per_s[q])
                unless = [(column, each), (program.cell_choices[CellChoice(group, s, k)], most)]
                (size,) = limits_of_size(program, at, spec.loads.grid[None, :], True)
                within_size(program, f"need_instances_{q}_{s}_{i}_{k}", at, unless, size, most)


def stated_needs(program: MixedIntegerProgram, values: Array) -> Iterator[tuple[Need, bool]]:
    """Needs that a bound has of colocated pools that serve one class, and might have of other ways to run them.

    Args:
        values: its columns, shape (columns,).

    Returns:
        Needs in the cells that it chose, and whether the pool is in use.
    """
    spec, problem = program.spec, program.problem
    for (q, s, i), column in program.decode_rates.items():
        if serves_alone(problem, i) != q:
            continue
        group = problem.group_of[q]
        for k, cell in enumerate(spec.cells[group, spec.situations[s].period]):
            if values[program.cell_choices[CellChoice(group, s, k)]] > CHOSEN:
                yield Need(i, q, cell, known_rate(program, q, s)), bool(values[column] > TINY)


def seconds_by_facet(program: MixedIntegerProgram, values: Array) -> dict[PoolInSituation, list[float]]:
    """Seconds of instances per second that a solution asks of every colocated pool in use, by each of its facets.

    Args:
        values: its columns, shape (columns,).
    """
    found = {}
    for at, uses in _uses(program).items():
        how = program.problem.pools[at.pool].batching
        rows = [_terms(program, at, uses, facet) for facet in how.facets] if how else []
        found[at] = [sum(seconds * float(values[column]) for column, seconds in terms) for terms in rows]
    return {at: seconds for at, seconds in found.items() if max(seconds, default=0.0) > 0}


def decode_where_prefilled(program: MixedIntegerProgram) -> None:
    """A colocated pool decodes what it prefills.

    Equation:
        sum of f x_qska over its own arcs a <= d_qsi, f the requests of a use per unit of its rate

    Args:
        program: the program.
    """
    for at, uses in _uses(program).items():
        own: dict[int, Terms] = {}
        for use in uses:
            fewest, _ = requests_of_use(program.spec.loads, *_use(program, use))
            own.setdefault(use.rate.stream, []).append((use.column, fewest))
        for (q, s, i), column in program.decode_rates.items():
            if (i, s) == at and q in own:
                terms = [*own[q], (column, -1.0)]
                program.rows.row(f"decode_where_prefilled_{q}_{s}_{i}", terms, high=0)


def _uses(program: MixedIntegerProgram) -> dict[PoolInSituation, list[PrefillUse]]:
    """Columns of prompts into every colocated pool that some stream may use, by situation."""
    found: dict[PoolInSituation, list[PrefillUse]] = {}
    for _, s, i in program.decode_rates:
        if program.problem.pools[i].batching is not None:
            found.setdefault(PoolInSituation(i, s), [])
    for use in program.prefill_uses:
        if program.problem.pools[use.rate.arc.pool].batching is not None:
            found[PoolInSituation(use.rate.arc.pool, use.rate.situation)].append(use)
    return found


def _use(program: MixedIntegerProgram, use: PrefillUse) -> tuple[Use, bool]:
    (q, s, k, part, arc), is_between = use.rate, use.column in program.between_columns
    return Use(q, arc, part, cell_of(program, q, s, k)), is_between


def _terms(program: MixedIntegerProgram, at: PoolInSituation, uses: list[PrefillUse], facet: PassFacet) -> Terms:
    """Seconds of instances by a facet, of every column of a pool in a situation."""
    loads, terms, how = program.spec.loads, Terms(), program.problem.pools[at.pool].batching
    assert how is not None
    for use in uses:
        own, is_between = _use(program, use)
        mix = loads.class_of(own.stream).mix
        # Where several pools decode a class, this one may decode short requests alone: contexts count by what it takes.
        more_s = facet.context_token_s * decoding_work(mix, 0.0)[0] if _is_divided(program, own.stream) else 0.0
        service = how.work(facet, more_s)
        seconds = (
            loads.between_of(service, own.stream, own.cell)
            if is_between
            else loads.work_of(service, own.stream, own.part, own.cell)
        )
        terms.append((use.column, seconds))
    for (q, s, i), column in program.decode_rates.items():
        if (i, s) == at:
            mix = loads.class_of(q).mix
            steps, context = decoding_work(mix, 0.0 if _is_divided(program, q) else mix.mean_total_tokens)
            terms.append((column, facet.step_s * steps + facet.context_token_s * context))
    return terms


def _is_divided(program: MixedIntegerProgram, stream: int) -> bool:
    """True if several pools of the scenario decode a stream, rather than layouts of one."""
    pools = program.problem.pools
    return len({pools[i].key for i in program.problem.decoders[stream]}) > 1
