"""Columns of many records at once: those of some records are read or written together, while they are in the cache.

A record is wider than a line of the processor's cache. One column after another would fetch all of memory for each.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.executor.kernel.records import Records

AT_ONCE = 2048
"""Records that fit into a cache."""


def columns_of(records: Records, names: Iterable[str], chosen: NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """Copies of columns, each in one piece.

    Args:
        records: shape (n,).
        names: of the columns.
        chosen: of which records; None: of all.
    """
    found = {name: np.empty(len(records), dtype=records.dtype[name]) for name in names}
    for first in range(0, len(records), AT_ONCE):
        some = records[first : first + AT_ONCE]
        for name, column in found.items():
            column[first : first + AT_ONCE] = some[name]
    if chosen is None or chosen.all():
        return found
    return {name: column[chosen] for name, column in found.items()}


def filled(records: Records, blank: Records, columns: Mapping[str, ArrayLike]) -> Records:
    """The records, all made as a blank one but for some columns.

    Args:
        records: shape (n,); overwritten.
        blank: one record, shape (1,).
        columns: what stands in which column, each of shape (n,).
    """
    as_bytes, values = np.dtype((np.void, records.itemsize)), {k: np.asarray(v) for k, v in columns.items()}
    for first in range(0, len(records), AT_ONCE):
        some = records[first : first + AT_ONCE]
        some.view(as_bytes)[:] = blank.view(as_bytes)  # a record is copied whole, not field by field
        for name, column in values.items():
            some[name] = column[first : first + AT_ONCE]
    return records
