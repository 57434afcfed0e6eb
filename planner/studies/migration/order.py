"""An order of steps from one fleet to another in which nothing that is served on the way is lost."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.errors import UndecidedError

Sizes = tuple[int, ...]
MOST_STATES = 20_000
"""Fleets on the way that are looked at, before a search for an order gives up."""


@dataclass(frozen=True)
class Transition:
    """Where an order may lead: from the sizes that stand to those that are wanted."""

    begin: Sizes
    end: Sizes
    fits: Callable[[Sizes], bool]
    """Whether sizes are within what there is; fewer fit too."""
    holds: Callable[[Sizes], bool]
    """Whether sizes serve what they must; more serve it too."""

    def moves(self, sizes: Sizes) -> Iterator[Sizes]:
        """Sizes one instance nearer to the end: additions first, in the order of the pools."""
        for sign in (1, -1):
            for i, (n, wanted) in enumerate(zip(sizes, self.end, strict=True)):
                if sign * (wanted - n) > 0:
                    yield (*sizes[:i], n + sign, *sizes[i + 1 :])

    def allows(self, sizes: Sizes) -> bool:
        """True if a fleet on the way fits, and serves what it must."""
        return self.fits(sizes) and (self.is_enough(sizes) or self.holds(sizes))

    def is_enough(self, sizes: Sizes) -> bool:
        """True if no pool is smaller than at the beginning, or none than at the end: then it serves as much.

        >>> way = Transition((2, 0), (0, 2), lambda _: True, lambda _: False)
        >>> [way.is_enough(sizes) for sizes in ((2, 0), (2, 1), (1, 1), (0, 2))]
        [True, True, False, True]
        """
        return any(all(n >= m for n, m in zip(sizes, ends, strict=True)) for ends in (self.begin, self.end))


def order_of(way: Transition) -> list[Sizes] | None:
    """Fleets from the first to the last, one pool changed from each to the next; None where there is no such order.

    Every fleet in between, instance by instance, fits and serves what it must. Instances are added before any is taken
    out, as far as they fit.

    Args:
        way: where it leads, and what holds on it.

    Raises:
        UndecidedError: MOST_STATES fleets were looked at, or what one of them serves was not found out.

    Valid:
        The search is over every fleet between the two, so that None is a proof, if more instances never serve less.

    >>> way = Transition((2, 0), (0, 2), lambda s: sum(s) <= 3, lambda s: sum(s) >= 2)
    >>> order_of(way)
    [(2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
    """
    path, waiting, seen = [way.begin], [way.moves(way.begin)], {way.begin}
    while path and path[-1] != way.end:
        following = next((sizes for sizes in waiting[-1] if sizes not in seen), None)
        if following is None:
            path.pop()
            waiting.pop()
            continue
        seen.add(following)
        if len(seen) > MOST_STATES:
            raise UndecidedError("there are too many orders to look at them all")
        if way.allows(following):
            path.append(following)
            waiting.append(way.moves(following))
    return _merged(path) if path else None


def _merged(path: Sequence[Sizes]) -> list[Sizes]:
    """A path with the changes of one pool in a row, and in one direction, as one."""
    found = [path[0]]
    for before, here in pairwise(path):
        if len(found) > 1 and _change(found[-2], found[-1]) == _change(before, here):
            found.pop()
        found.append(here)
    return found


def _change(before: Sizes, after: Sizes) -> tuple[int, bool]:
    """The pool that is changed, and whether it grows."""
    return next((i, m > n) for i, (n, m) in enumerate(zip(before, after, strict=True)) if n != m)


def furthest_additions(way: Transition) -> Sizes:
    """The fleet with all instances added that fit, pool by pool, before any is taken out.

    >>> furthest_additions(Transition((2, 0, 1), (0, 2, 3), lambda sizes: sum(sizes) <= 6, lambda _: True))
    (2, 2, 2)
    """
    sizes = way.begin
    while True:
        more = (s for s in way.moves(sizes) if sum(s) > sum(sizes) and way.fits(s))
        following = next(more, None)
        if following is None:
            return sizes
        sizes = following
