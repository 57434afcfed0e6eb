"""c servers with service in two phases and Markovian arrivals, first come first served: solved exactly."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.queueing.erlang import Floats
from planner.queueing.phases import Phases


@dataclass(frozen=True, eq=False)
class Chains:
    """Stationary queues of a pool at b arrival processes, from which its waits follow."""

    waiting_fraction: Floats
    """P(W > 0) as arrivals see it [fraction], shape (b,)."""
    mean_wait_s: Floats
    """E[W] [s], over all requests, shape (b,)."""
    completes_per_s: Floats
    """Rate of completions that let a waiting request in, per number of servers in phase 1 [1/s], shape (c + 1,)."""
    waits_per_s: Floats
    """Matrix T of the wait's phases: its density is start exp(T x) completes [1/s], shape (b, c + 1, c + 1)."""
    start: Floats
    """Servers in phase 1 when a wait begins, in any unit, shape (b, c + 1)."""


def phase_survival(
    waits_per_s: Floats, completes_per_s: Floats, start: Floats, step_s: ArrayLike, n_points: int
) -> Floats:
    """P(W > k step | W > 0) of `Chains` at `n_points` points k = 0, 1, ... of renewal arrivals.

    Equation: start exp(T x) (-T)^-1 completes over its value at 0; products of 2 sqrt(n) vectors give n points.

    Args:
        waits_per_s: matrices T [1/s], shape (b, m, m).
        completes_per_s: rates of completions [1/s], shape (m,).
        start: servers in phase 1 when a wait begins, shape (b, m).
        step_s: distance of the points [s], shape (b,).
        n_points: points [count], the square of a whole number.

    Returns:
        Survival probability [fraction], shape (b, n_points).

    Valid: exact for renewal arrivals; with correlated ones it forgets the arrivals' state when a wait begins.

    Source: Asmussen and O'Cinneide (1998), Queueing Systems 30, 23-33: the wait is phase-type; T as for the age
        of the oldest waiting request, Sengupta (1989), Adv. Appl. Prob. 21, 159-180.

    >>> from planner.queueing.phases import two_phases
    >>> rates = np.array([[[1.5]]])  # Poisson
    >>> found = solved_chains(2, -rates, rates, two_phases(1.0, 1.0, 6.0))
    >>> survival = phase_survival(found.waits_per_s, found.completes_per_s, found.start, [1.0], 4)
    >>> survival.round(6).tolist()  # exponential of rate 2 - 1.5
    [[1.0, 0.606531, 0.367879, 0.22313]]
    """
    from scipy.linalg import expm

    n_steps = round(n_points**0.5)
    ends: Floats = np.broadcast_to(completes_per_s, start.shape)[..., None]
    after: Floats = np.asarray(np.linalg.solve(-waits_per_s, ends)[..., 0], dtype=np.float64)
    one_step = expm(waits_per_s * np.asarray(step_s, dtype=np.float64)[:, None, None])
    row: Floats = start / (start * after).sum(axis=-1, keepdims=True)
    fine = _orbit(row, one_step, n_steps)
    coarse = _orbit(after, np.linalg.matrix_power(one_step, n_steps).swapaxes(-1, -2), n_steps)
    return np.asarray((coarse @ fine.swapaxes(-1, -2)).reshape(len(start), -1))


def solved_chains(n_servers: int, quiet_per_s: Floats, arrive_per_s: Floats, service: Phases) -> Chains:
    """Waiting probabilities and mean waits of MAP/PH/c with two-phase service, for a stack of arrival processes.

    Equation: level = requests present, state = (arrival state, servers in phase 1). Above c the levels repeat, so
        pi(c + k) = pi(c) R^k with R = A0 (-A1 - A0 G)^-1 and G the smallest solution of A2 + A1 G + A0 G^2 = 0, by
        logarithmic reduction; below, levels are eliminated one by one from the empty one up.
        E[W] = pi(c) R (I - R)^-2 1 / lambda (Little).

    Args:
        n_servers: servers c [count], at least 1.
        quiet_per_s: `MarkovArrivals.quiet_per_s` of b arrival processes of a states [1/s], shape (b, a, a).
        arrive_per_s: their `arrive_per_s` [1/s], shape (b, a, a); all below utilisation 1, which is not checked.
        service: two phases.

    Returns:
        The stationary queues, in the order of the arrival processes.

    Valid: exact. Blocks are a (c + 1) square: 4 ms for c = 32 with Poisson arrivals, 8 ms with two arrival states.

    Source: Neuts, Matrix-Geometric Solutions (1981), chapter 3; Latouche and Ramaswami (1993), J. Appl. Prob. 30,
        650-674, for the reduction.

    >>> from planner.queueing.phases import two_phases
    >>> rates = np.array([1.0, 1.5])[:, None, None]  # Poisson
    >>> found = solved_chains(2, -rates, rates, two_phases(1.0, 1.0, 6.0))
    >>> found.waiting_fraction.round(6).tolist(), found.mean_wait_s.round(6).tolist()
    ([0.333333, 0.642857], [0.333333, 1.285714])
    """
    quiet, arrive, states = quiet_per_s, arrive_per_s, np.eye(quiet_per_s.shape[-1])
    moves, leave, join = _levels(n_servers, service)
    up = _kron(arrive, np.eye(n_servers + 1))
    stay = _both(quiet, moves[-1])
    down = _kron(states, leave[-1] @ join[-2])
    growth = up @ np.linalg.inv(-(stay + up @ _first_passage(up, stay, down)))
    censored, back = quiet, []
    for n in range(1, n_servers + 1):
        back.append(_kron(states, leave[n]) @ np.linalg.inv(-censored))
        censored = _both(quiet, moves[n]) + back[-1] @ _kron(arrive, join[n - 1])
    full = _null_vector(censored + growth @ down)
    return _normalised(full, growth, back, (quiet, arrive), moves[-1], leave[-1] @ join[-2])


def _orbit(vector: Floats, matrix: Floats, n_steps: int) -> Floats:
    found = [vector[:, None]]
    for _ in range(n_steps - 1):
        found.append(found[-1] @ matrix)
    return np.concatenate(found, axis=1)


def _both(quiet: Floats, moves: Floats) -> Floats:
    return _kron(quiet, np.eye(len(moves))) + _kron(np.eye(quiet.shape[-1]), moves)


def _kron(left: Floats, right: Floats) -> Floats:
    """Kronecker product of a stack and a matrix; `np.kron` takes ten times as long for matrices this small."""
    size = left.shape[-1] * right.shape[0], left.shape[-1] * right.shape[1]
    return np.asarray((left[..., :, None, :, None] * right[:, None, :]).reshape(*left.shape[:-2], *size))


def _levels(n_servers: int, service: Phases) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """Moves between phases, completions and new starts with n in service, n = 0 to c; states 0 to n in phase 1."""
    rates, leaving, start = service.rates_per_s, service.exit_per_s, service.start
    moves, leave, join = [], [], []
    for n in range(n_servers + 1):
        first = np.arange(n + 1.0)
        second = n - first
        diagonal = np.diag(first * rates[0, 0] + second * rates[1, 1])
        moves.append(diagonal + np.diag(first[1:] * rates[0, 1], -1) + np.diag(second[:-1] * rates[1, 0], 1))
        leave.append(np.diag(first * leaving[0])[:, 1:] + np.diag(second * leaving[1])[:, :-1])
        join.append(start[0] * np.eye(n + 1, n + 2, 1) + start[1] * np.eye(n + 1, n + 2))
    return moves, leave, join


def _first_passage(up: Floats, stay: Floats, down: Floats) -> Floats:
    """G: state in which the next lower level is entered, by logarithmic reduction."""
    inverse, identity = np.linalg.inv(-stay), np.eye(stay.shape[-1])
    rise, fall = inverse @ up, inverse @ down
    passage, weight = fall, rise
    for _ in range(64):
        inverse = np.linalg.inv(identity - rise @ fall - fall @ rise)
        rise, fall = inverse @ (rise @ rise), inverse @ (fall @ fall)
        passage, weight = passage + weight @ fall, weight @ rise
        if np.abs(weight).max() < 1e-15 or np.abs(1 - passage.sum(axis=-1)).max() < 1e-13:
            break
    return passage


def _null_vector(matrices: Floats) -> Floats:
    system = matrices.swapaxes(-1, -2).copy()
    system[:, 0] = 1.0
    return np.asarray(np.linalg.solve(system, np.eye(system.shape[-1])[None, :, :1])[..., 0], dtype=np.float64)


def _normalised(
    full: Floats, growth: Floats, back: list[Floats], arrivals: tuple[Floats, Floats], moves: Floats, passes: Floats
) -> Chains:
    total, level = np.zeros(len(full)), full[:, None]
    for matrix in reversed(back):
        level = level @ matrix
        total = total + level.sum(axis=(1, 2))
    above = np.linalg.inv(np.eye(full.shape[1]) - growth)
    total = total + (full[:, None] @ above).sum(axis=(1, 2))
    full = full / total[:, None]
    arrive = arrivals[1].sum(axis=-1)
    n_batch, n_states, n_phases = len(full), arrive.shape[1], len(moves)
    waiting_states = (full[:, None] @ above).reshape(n_batch, n_states, n_phases).sum(axis=2)
    rate = (arrive * _state_fraction(*arrivals)).sum(axis=1)
    mean_s = (full[:, None] @ growth @ above @ above).sum(axis=(1, 2)) / rate
    busiest = int(np.argmax(arrive[0]))
    blocks = (
        growth.reshape(n_batch, n_states, n_phases, n_states, n_phases)[:, busiest]
        / arrive[:, busiest, None, None, None]
    )
    seen = np.einsum("bs,bpsq->bpq", arrive, blocks)
    waits = moves + seen @ passes
    start = np.einsum("bs,bsp->bp", arrive, full.reshape(n_batch, n_states, n_phases))
    waiting = np.minimum((arrive * waiting_states).sum(axis=1) / rate, 1.0)
    return Chains(waiting, mean_s, passes.sum(axis=1), waits, start)


def _state_fraction(quiet: Floats, arrive: Floats) -> Floats:
    return _null_vector(quiet + arrive)
