"""Instances that prefill and decode in one batch: waits for a first token, and what prompts cost those that decode."""

from dataclasses import dataclass, replace
from math import copysign, hypot, inf, sqrt
from statistics import NormalDist

import numpy as np

from planner.queueing.colocated_doubts import Doubt, Traits, model_doubts
from planner.queueing.decode import DecodeBatch, decode_batch
from planner.queueing.erlang import Floats
from planner.queueing.pass_chain import PassChain, fewer, pass_chain
from planner.queueing.pass_loop import PassLoop, Prompts
from planner.queueing.preemption import Preemption
from planner.queueing.routed_arrivals import Arrivals
from planner.queueing.service import Service
from planner.queueing.token_lattice import TokenLattice, token_lattice
from planner.queueing.token_times import TokenTimes, answer_lengths, token_times
from planner.queueing.ttft import Path, Ttft
from planner.queueing.wait import NO_WAIT, Wait
from planner.queueing.waits import mgc_wait

N_NODES = 5
"""Batch sizes at which passes are followed one by one; between them, quantities are taken as linear."""
N_ROUNDS = 3
"""Rounds in which what comes to an instance, and how often requests wait there, are made to agree."""
MOST_WAITING = 0.999
NEGLIGIBLE = 1e-9
LEAST_MASS = 1e-4
"""Probability of batch sizes beyond the outermost of those."""


@dataclass(frozen=True, eq=False)
class ColocatedQueue:
    """Steady state of a colocated pool, from `colocated_queue`."""

    utilization: float
    """Rate over `colocated_capacity_req_per_s` [fraction]."""
    ttft: Ttft
    """Time to first token, without what the host needs before."""
    batch: DecodeBatch | None
    """Sequences that decode; None where no answer has a second token, or one request runs at a time."""
    tpot_mean_s: float | None
    """Mean time per token after the first, over requests; None where no answer has one [s]."""

    prompt_jitter_s: float = 0.0
    """Standard deviation of a request's time per token by how many prompts happen to come in its stay [s]."""
    of_classes: tuple[Ttft, ...] = ()
    """Time to first token of the requests of each class of `Prompts.classes`."""
    doubts: tuple[Doubt, ...] = ()
    """Why times may be outside the bands that the model is known to keep; none: within them."""

    @property
    def is_within_bands(self) -> bool:
        """True if times are as near to runs as `tests/campaigns/colocated.md` says of most pools."""
        return not self.doubts

    def tpot_quantile_s(self, q: float) -> float | None:
        """Time per token after the first that a fraction `q` of requests does not exceed [s].

        Equation: m + sqrt((t_q - m)^2 + (z_q j)^2) above the mean m and minus it below: t_q of
            `DecodeBatch.tpot_quantile_s` by how full the batch is, j `prompt_jitter_s`, z_q the normal quantile.

        Args:
            q: probability [fraction], 0 < q < 1.

        Returns:
            Quantile [s]; None where no answer has a second token.

        Raises:
            ValueError: q is outside (0, 1).

        Valid: both causes apart, and normal: answers of some tens of tokens and more.

        Source: variances of independent causes add up.
        """
        if self.batch is None or self.tpot_mean_s is None:
            return self.tpot_mean_s
        z = NormalDist().inv_cdf(q)
        by_batch_s = self.batch.tpot_quantile_s(q) - self.batch.tpot_mean_s
        return self.batch.tpot_mean_s + copysign(hypot(by_batch_s, z * self.prompt_jitter_s), z)


def steady_pass_s(loop: PassLoop, prompts: Prompts, batch: Floats, again: Preemption | None = None) -> Floats:
    """Seconds from one token of a sequence to its next, where each that ends makes room for another.

    Equation: of B sequences B / (L - 1) end in a step, and as many prompts come: p = n B / (L - 1) tokens, and g B of
        those that gave way, by chance: q = p / m of m tokens each, so that 1 - exp(-q) of the passes have some, of
        t = min(T, max(m, p / (1 - exp(-q)))). Shared passes: s(0, B) + p / t (s(t, B) - s(0, B)); prompts first:
        s(0, B) + p / t s(t).

    Args:
        loop: how passes are made.
        prompts: what requests bring; answers have a second token.
        batch: sequences B that decode [sequences], any shape.
        again: what is computed again of requests that gave way; None: nothing.

    Returns:
        Seconds [s], the shape of `batch`.

    Valid: while a step's prompt tokens fit a pass; without waits.

    Source: conservation of requests; independent arrivals in a pass are Poisson.

    >>> loop = PassLoop(lambda p, b: 0.01 + 1e-5 * p + 1e-4 * b, 8192, 256)
    >>> prompts = Prompts(np.array([1000.0]), np.ones(1), np.array([0.02]), 101.0)
    >>> steady_pass_s(loop, prompts, np.array([10.0])).round(6).tolist()  # a prompt beside 10 sequences, every 10 steps
    [0.012]
    """
    per_token, n_per_token = prompts.mean_tokens / prompts.decoded_tokens, 0.0
    if again is not None and again.recomputed_fraction > 0:
        per_token += again.recomputed_fraction
        n_per_token = again.recomputed_fraction / again.tokens_each
    n_per_token += float(prompts.weights[prompts.tokens > 0].sum()) / prompts.decoded_tokens
    tokens, mean_tokens = per_token * batch, per_token / n_per_token if n_per_token > 0 else 0.0
    with_some = np.maximum(-np.expm1(-n_per_token * batch), NEGLIGIBLE)
    whole = np.clip(tokens / with_some, min(mean_tokens, loop.tokens_per_pass), loop.prompt_budget(batch))
    step_s = loop.pass_s(np.zeros_like(tokens), batch)
    with np.errstate(invalid="ignore", divide="ignore"):
        n_passes = np.where(whole > 0, tokens / whole, 0.0)
    if loop.is_prefill_first:
        return np.asarray(step_s + n_passes * loop.pass_s(whole, np.zeros_like(batch)))
    return np.asarray(step_s + n_passes * (loop.pass_s(whole, batch) - step_s))


def colocated_capacity_req_per_s(loop: PassLoop, prompts: Prompts, tpot_s: float = inf) -> float:
    """Most requests per second of an instance, with no more than a time per token.

    Equation: max over B <= min(limit, tokens / (1 + n / (L - 1))) of B / ((L - 1) s(B)) with s(B) <= limit, s as
        `steady_pass_s`; without a second token, or one request at a time, one over what a request takes. Where memory
        is kept full and requests give way, no more than that batch reaches with what is computed again.

    Args:
        loop: how passes are made.
        prompts: what requests bring.
        tpot_s: longest mean time per token after the first [s].

    Returns:
        Capacity [req/s]; 0 where even one sequence is slower than the limit.

    Valid: a fluid: what no queue reaches.

    Source: conservation of requests; the expected-work rule, as work adds up linearly over prompts.

    >>> loop = PassLoop(lambda p, b: 0.01 + 1e-5 * p + 1e-4 * b, 8192, 100)
    >>> prompts = Prompts(np.array([1000.0]), np.ones(1), np.array([0.02]), 101.0)
    >>> round(colocated_capacity_req_per_s(loop, prompts), 6)  # 100 sequences, steps of 30 ms
    33.333333
    """
    if loop.most_running == 1 or prompts.decoded_tokens <= 0:
        return _serial_capacity(loop, prompts, tpot_s)
    per_step = prompts.mean_tokens / prompts.decoded_tokens
    rows = per_step + (0 if loop.is_prefill_first else 1)
    most = min(float(loop.most_running), loop.tokens_per_pass / rows) if rows > 0 else float(loop.most_running)
    batch = np.append(np.arange(1.0, max(most, 1.0)), max(most, 1.0))
    seconds = steady_pass_s(loop, prompts, batch)
    fits = seconds <= tpot_s
    for last in np.flatnonzero(fits[:-1] & ~fits[1:]):
        # Between two whole numbers a step is all but linear in the mean number of sequences.
        part = (tpot_s - seconds[last]) / (seconds[last + 1] - seconds[last]) * np.array([1 - 1e-9, 0.999, 0.99, 0.9])
        batch = np.append(batch, batch[last] + part * (batch[last + 1] - batch[last]))
    seconds = steady_pass_s(loop, prompts, batch)
    rate = batch / (prompts.decoded_tokens * seconds)
    most_req_per_s = float(np.max(rate[seconds <= tpot_s], initial=0.0))
    return most_req_per_s if loop.preemption is None else min(most_req_per_s, full_instance_rate(loop, prompts)[0])


def full_instance_rate(loop: PassLoop, prompts: Prompts) -> tuple[float, float]:
    """Rate and token time of an instance whose memory is kept full, so that requests give way and are computed again.

    Args:
        loop: how passes are made; memory limits how many run.
        prompts: what requests bring; answers have a second token.

    Returns:
        Requests per second, and the time from one token of a sequence to its next [s].

    Raises:
        ValueError: memory does not limit how many run, or is reserved for whole answers.

    Valid: as `preemption_when_full`; a queue that fills memory is served at this rate, whatever a smaller batch would
        reach.
    """
    if loop.preemption is None:
        raise ValueError("nothing gives way")
    batch = np.array([loop.preemption.batch])
    step_s = float(steady_pass_s(loop, prompts, batch, loop.preemption)[0])
    return loop.preemption.batch / (prompts.decoded_tokens * step_s), step_s


def _serial_capacity(loop: PassLoop, prompts: Prompts, tpot_s: float) -> float:
    """Capacity where requests follow one another, or where there are only prompts."""
    step_s = float(loop.pass_s(np.zeros(1), np.ones(1))[0])
    if prompts.decoded_tokens > 0 and step_s > tpot_s:
        return 0.0
    alone_s = float(prompts.alone_s @ prompts.weights)
    if loop.most_running == 1:
        return 1.0 / (alone_s + prompts.decoded_tokens * step_s)
    full = float(loop.prompt_budget(0.0))
    return full / (prompts.mean_tokens * float(loop.pass_s(np.array([full]), np.zeros(1))[0]))


def colocated_queue(loop: PassLoop, prompts: Prompts, rate_req_per_s: float, n_instances: int = 1) -> ColocatedQueue:
    """Times to first token and per token of instances that prefill and decode in one batch.

    Equation: at each of some batch sizes b, the prompt tokens that wait form a Markov chain from pass to pass (see
        `pass_chain`); its mean seconds per token of a sequence are the stretched step s(b). Requests in the batch are
        the birth-death process of `decode_batch` over s(b). Times to first token are those of arrivals in the chain,
        over the shares of time of b, after the wait for a place in the batch. One request at a time: M/G/1.

    Args:
        loop: how passes are made.
        prompts: what requests bring.
        rate_req_per_s: arrivals at the pool, independent of one another [req/s], above 0.
        n_instances: instances; each request goes to one of the least load.

    Returns:
        The steady state.

    Raises:
        ValueError: the pool cannot serve the rate.

    Valid: passes much shorter than the stay of a request. Against runs pass by pass of random pools
        (`tests/campaigns/colocated.md`) mean TTFT within 8 %, its P90 within 12 % and mean TPOT within 6 % for most of
        those without `doubts`; with them no more than a rough figure.

    Source: chunked prefill: Agrawal et al., Sarathi-Serve (2024); the chain embedded at pass ends: Kendall (1953);
        time scales apart: Courtois, Decomposability (1977).
    """
    each = rate_req_per_s / n_instances
    busy = each / colocated_capacity_req_per_s(loop, prompts)
    if busy >= 1:
        raise ValueError(f"no steady state at {rate_req_per_s} req/s, {busy:.3g} times what the pool serves")
    if loop.most_running == 1:
        return _one_at_a_time(loop, prompts, each, busy)
    prompts = replace(prompts, tokens=_even_tokens(loop, prompts))
    lattice = token_lattice(prompts.tokens, prompts.weights, float(loop.prompt_budget(0.0)), busy)
    if prompts.decoded_tokens <= 0:
        arrivals = _arrivals(loop, lattice, 0.0, each, n_instances)
        path, *of_classes = _first_tokens(loop, prompts, np.ones(1), [_chain(loop, lattice, 0.0, arrivals)])
        return ColocatedQueue(busy, Ttft.of([path]), None, None, of_classes=tuple(Ttft.of([p]) for p in of_classes))
    return _shared(loop, prompts, lattice, rate_req_per_s, n_instances, busy)


def _one_at_a_time(loop: PassLoop, prompts: Prompts, rate: float, busy: float) -> ColocatedQueue:
    """A queue of whole requests; answers of one length."""
    step_s = float(loop.pass_s(np.zeros(1), np.ones(1))[0])
    service = Service.of(prompts.alone_s + prompts.decoded_tokens * step_s, prompts.weights)
    wait = mgc_wait(1, rate, service)
    found = (Ttft.of([Path.of(1.0, prompts.alone_s, w, wait)]) for w in (prompts.weights, *prompts.classes))
    ttft, *of_classes = found
    tpot_s = step_s if prompts.decoded_tokens > 0 else None
    return ColocatedQueue(busy, ttft, None, tpot_s, of_classes=tuple(of_classes))


def _shared(
    loop: PassLoop, prompts: Prompts, lattice: TokenLattice, rate: float, n_instances: int, busy: float
) -> ColocatedQueue:
    each, every = rate / n_instances, np.arange(1.0, loop.most_running + 1)
    steady_s = steady_pass_s(loop, prompts, every)
    nodes = _nodes(_batch(prompts, rate, steady_s, n_instances), n_instances)
    arrivals = _arrivals(loop, lattice, float(nodes[len(nodes) // 2]), each, n_instances)
    chains = [_chain(loop, lattice, b, arrivals) for b in nodes]
    tokens_s = _tokens_s(prompts, nodes, chains)
    # Against evenly mixed work, which it is near: so it goes on beyond the outermost nodes.
    longer = np.array([one.of_stays_s for one in tokens_s]) / np.interp(nodes, every, steady_s)
    step_s = np.interp(every, nodes, longer) * steady_s
    step_s[-1] = min(step_s[-1], steady_s[-1])  # with all places taken, prompts come as sequences end
    batch = _batch(prompts, rate, step_s, n_instances)
    shares = _node_shares(batch.fractions, nodes, n_instances)
    paths = _first_tokens(loop, prompts, shares, chains)
    by_request = np.array([[one.of_requests_s, one.of_stays_s] for one in tokens_s])
    met, stayed = shares @ by_request
    tpot_s = batch.tpot_mean_s * float(met / stayed)
    alone_s = float(loop.pass_s(np.zeros(1), np.array([batch.mean_batch / n_instances]))[0])
    slowed = batch.tpot_mean_s / alone_s - 1.0
    admission = _admission(loop, prompts, rate, step_s, n_instances, slowed)
    jitter_s = _prompt_jitter_s(prompts, each, batch.tpot_mean_s, slowed)
    traits = Traits(
        _room(loop, batch.mean_batch / n_instances, _peakedness(loop, prompts, slowed)),
        waiting_fraction=float(shares @ [chain.waiting_fraction for chain in chains]),
        burst=float(stayed) / float(shares @ [chain.token_s for chain in chains]) - 1,
        dispersion=_dispersion(prompts),
        passes=lattice.begun_tokens / loop.tokens_per_pass,
        jitter=jitter_s / tpot_s,
        n_instances=n_instances,
        utilization=busy,
        is_prefill_first=loop.is_prefill_first,
    )
    ttft, *of_classes = (Ttft.of([path.then_waiting(admission)]) for path in paths)
    return ColocatedQueue(busy, ttft, batch, tpot_s, jitter_s, tuple(of_classes), model_doubts(traits))


def _room(loop: PassLoop, batch: float, peakedness: float) -> float:
    """Places that are free on average, in standard deviations of how many are taken."""
    return (loop.most_running - batch) / sqrt(max(batch * peakedness, NEGLIGIBLE))


def _tokens_s(prompts: Prompts, nodes: Floats, chains: list[PassChain]) -> list[TokenTimes]:
    """Seconds per token at each batch size; of an empty batch, which has none, those of the next."""
    lengths = answer_lengths(prompts.decoded_tokens, prompts.output_scv)
    found = [token_times(chain, chain.behind(prompts.tokens, prompts.weights), lengths) for chain in chains]
    return [found[1], *found[1:]] if nodes[0] == 0 else found


def _prompt_jitter_s(prompts: Prompts, rate: float, tpot_s: float, slowed: float) -> float:
    """Standard deviation of a request's time per token by the prompts that come while it decodes.

    Equation: prompts make t of t_0, e = t / t_0 - 1; tokens of those in a stay of L t seconds vary by r L t E[n^2]
        about r L t E[n], which is e L t_0: t e sqrt(E[n^2] / (E[n]^2 r L t)); over answers E[1 / L] = (1 + scv) / L, as
        if log-normal.
    """
    if prompts.mean_tokens == 0:
        return 0.0
    in_stay = rate * tpot_s * prompts.decoded_tokens / (1 + prompts.output_scv)
    return tpot_s * slowed * sqrt(_dispersion(prompts) / in_stay)


def _admission(loop: PassLoop, prompts: Prompts, rate: float, step_s: Floats, n_instances: int, slowed: float) -> Wait:
    """Wait for a place among those that run: places and load are those over the peakedness (Hayward)."""
    n_places = max(round(len(step_s) / _peakedness(loop, prompts, slowed)), 1)
    z = len(step_s) / n_places
    steps_s = np.interp(z * np.arange(1, n_places + 1), np.arange(1, len(step_s) + 1), step_s)
    return _batch(prompts, rate / z, steps_s, n_instances).admission


def _peakedness(loop: PassLoop, prompts: Prompts, slowed: float) -> float:
    """Variance of what is taken of the places, over that of a Poisson number of requests that take one each.

    Equation: d + e + e^2 E[n^2] / (2 E[n]^2): a prompt slows all others, by e on average, so that more requests at once
        also stay longer; in memory they take places of unequal sizes, d E[h^2] / E[h]^2.
    """
    return loop.held_dispersion + slowed + slowed**2 * _dispersion(prompts) / 2


def _dispersion(prompts: Prompts) -> float:
    """E[n^2] / E[n]^2 of prompts; 0 where there are none."""
    return float(prompts.tokens**2 @ prompts.weights) / max(prompts.mean_tokens, NEGLIGIBLE) ** 2


def _batch(prompts: Prompts, rate: float, step_s: Floats, n_instances: int) -> DecodeBatch:
    return decode_batch(rate, prompts.decoded_tokens, step_s, n_instances, prompts.output_scv)


def _nodes(batch: DecodeBatch, n_instances: int) -> Floats:
    """Batch sizes of an instance over which nearly all time is spent; 1 too where it may be empty."""
    below = np.cumsum(batch.fractions)
    low, high = np.searchsorted(below, [LEAST_MASS, 1 - LEAST_MASS]) / n_instances
    low, high = max(np.floor(low), 0.0), max(np.ceil(high), 1.0)
    spread = np.round(np.linspace(low, high, N_NODES))
    return np.unique(np.append(spread, 1.0) if low == 0 else spread)


def _node_shares(fractions: Floats, nodes: Floats, n_instances: int) -> Floats:
    """Shares of time by node, each number of sequences between two of them as part of both."""
    each = np.arange(len(fractions)) / n_instances
    shares = np.array([fractions @ np.interp(each, nodes, unit) for unit in np.eye(len(nodes))])
    return np.asarray(shares / shares.sum())


def _chain(loop: PassLoop, lattice: TokenLattice, batch: float, arrivals: Arrivals) -> PassChain:
    beside = 0.0 if loop.is_prefill_first else batch

    def seconds(tokens: Floats) -> Floats:
        return loop.pass_s(tokens, np.where(tokens > 0, beside, batch))

    budget = float(loop.prompt_budget(batch))
    return pass_chain(lattice, seconds, budget, arrivals, idles=batch == 0, is_prefill_first=loop.is_prefill_first)


def _arrivals(loop: PassLoop, lattice: TokenLattice, batch: float, rate: float, n_instances: int) -> Arrivals:
    """Arrivals at an instance of a pool, by how often requests wait at such instances."""
    found = Arrivals.routed(rate, 0.0, 1)
    for _ in range(N_ROUNDS if n_instances > 1 else 0):
        w = min(_chain(loop, lattice, batch, found).waiting_fraction, MOST_WAITING)
        found = Arrivals.routed(rate, w, n_instances)
    return found


def _first_tokens(loop: PassLoop, prompts: Prompts, shares: Floats, chains: list[PassChain]) -> list[Path]:
    """Times to first token over batch sizes and their shares of time: of all requests, and of those of each class."""
    extra_s, paths = prompts.alone_s - _at_mean_depth_s(loop, prompts.tokens), list[Path]()
    for own in (prompts.weights, *prompts.classes):
        if paths and np.allclose(own, prompts.weights, rtol=NEGLIGIBLE, atol=0):  # of the only class
            paths.append(paths[0])
            continue
        found = [chain.first_tokens(prompts.tokens, own, extra_s) for chain in chains]
        weights = np.concatenate([share * w for share, (_, w) in zip(shares, found, strict=True)])
        paths.append(Path.of(1.0, *fewer(np.concatenate([s for s, _ in found]), weights), NO_WAIT))
    return paths


def _even_tokens(loop: PassLoop, prompts: Prompts) -> Floats:
    """Prompts in tokens that cost alike: of a long one, whose tokens attend to more keys, there are more."""
    if prompts.mean_tokens == 0:
        return prompts.tokens
    found = prompts.tokens * prompts.alone_s / _at_mean_depth_s(loop, prompts.tokens)
    return np.asarray(found * (prompts.mean_tokens / float(found @ prompts.weights)))


def _at_mean_depth_s(loop: PassLoop, tokens: Floats) -> Floats:
    """Passes of a prompt alone, as if its tokens attended to as many keys as those of any other do."""
    full, zero = float(loop.prompt_budget(0.0)), np.zeros(1)
    n_full = np.maximum(np.ceil(tokens / full) - 1, 0.0)
    last_s = loop.pass_s(tokens - n_full * full, np.zeros_like(tokens))
    return np.asarray(n_full * loop.pass_s(zero + full, zero) + last_s)
