"""Finds where the records of many batches begin, by numpy instead of one step of Python a record.

Each position whose bytes look like the beginning of a record is a candidate. The candidates of a batch are its records
if each ends where the next begins, the first begins where the batch's records begin, the last ends where the batch
ends, and their number is the batch's record count. Any other batch is left to the caller, who follows its lengths.
"""

from typing import Final

import numpy as np

from connectors.event_block import Flags, Octets, Positions

_BLOCK: Final = 1 << 17
"""Bytes searched at a time, so that the intermediate arrays stay in the processor's cache."""
_LOOKAHEAD: Final = 8
"""The bytes of a record's beginning that are compared: attributes to frame version."""
_SHORTEST: Final = 6
"""Bytes of a record without key and value, after its length."""
_PRUNINGS: Final = 3
"""Rounds in which candidates are dropped that do not end where another begins."""
_CONTINUES: Final = 0x80


def find_record_starts(octets: Octets, first: Positions, end: Positions, count: Positions) -> tuple[Positions, Flags]:
    """Finds the records of batches.

    Args:
        octets: the bytes of the batches, and at least 8 bytes after them.
        first: where the records of each batch begin, ascending; at least 2 bytes are before each.
        end: where each batch ends.
        count: the number of records of each batch, at least 1.

    Returns:
        Where each record of the batches begins whose records were found, its length included; and for which batches
        they were found.
    """
    after_length = _candidates(octets[: int(end[-1]) + _LOOKAHEAD])
    if len(after_length) > 4 * int(count.sum()) + 1024:
        # Zeros and ones that are no records, as no Kafka writes them: too many to look at each.
        return np.zeros(0, np.int64), np.zeros(len(count), np.bool_)
    start, next_start = _spans(octets, after_length, first)
    for _ in range(_PRUNINGS):
        kept = _that_end_at_another(start, next_start, end)
        if kept is None:
            break
        start, next_start = start[kept], next_start[kept]
    low, high = np.searchsorted(start, first), np.searchsorted(start, end)
    found: Flags = high - low == count
    rows = _rows(low[found], count[found], len(start))
    start, next_start = start[rows], next_start[rows]
    last = np.cumsum(count[found]) - 1
    linked = np.empty(len(start), np.bool_)
    linked[:-1] = next_start[:-1] == start[1:]
    linked[last] = next_start[last] == end[found]
    linked[last - count[found] + 1] &= start[last - count[found] + 1] == first[found]
    if not linked.all():
        batch = np.repeat(np.flatnonzero(found), count[found])
        found[batch[~linked]] = False
        start = start[found[batch]]
    return start, found


def _candidates(octets: Octets) -> Positions:
    """Returns the positions of two zeros, of attributes and timestamp delta, before what may follow them in a record.

    That is an offset delta of one to three bytes, a null key (1), a length of one or two bytes, the frame version (1).
    """
    found = []
    for base in range(0, len(octets) - _LOOKAHEAD, _BLOCK):
        block = octets[base : base + _BLOCK + _LOOKAHEAD]
        size = len(block) - _LOOKAHEAD
        zero, one = block == 0, block == 1
        key = one[2:-1] | one[3:]
        key &= one[:-3]
        match = key[3 : 3 + size] | key[4 : 4 + size]
        match |= key[5:]
        match &= zero[:size]
        match &= zero[1 : 1 + size]
        found.append(np.flatnonzero(match) + base)
    return np.concatenate(found)


def _spans(octets: Octets, after_length: Positions, first: Positions) -> tuple[Positions, Positions]:
    """Returns where each candidate begins that has a valid length of one or two bytes before it, and where it ends."""
    last, before_last = octets[after_length - 1], octets[after_length - 2]
    width = 1 + (before_last >= _CONTINUES).astype(np.int64)
    # Before a record is the zero that ends another; before the first of a batch is the header's record count.
    at = np.searchsorted(after_length, first + 1)
    known = at < len(after_length)
    at = at[known]
    width[at[after_length[at] == first[known] + 1]] = 1
    length = last.astype(np.int64)
    rows = np.flatnonzero(width == 2)
    length[rows] = length[rows] << 7 | before_last[rows] & 0x7F
    valid = np.flatnonzero((last < _CONTINUES) & (length & 1 == 0) & (length >= 2 * _SHORTEST))
    return (after_length - width)[valid], (after_length + (length >> 1))[valid]


def _that_end_at_another(start: Positions, next_start: Positions, end: Positions) -> Flags | None:
    """Returns which candidates end where another begins or a batch ends; None if all do."""
    doubtful = np.flatnonzero(next_start[:-1] != start[1:])
    target = next_start[doubtful]
    ends_well = (start[np.searchsorted(start[:-1], target)] == target) | (
        end[np.searchsorted(end[:-1], target)] == target
    )
    if ends_well.all():
        return None
    kept: Flags = np.ones(len(start), np.bool_)
    kept[doubtful[~ends_well]] = False
    return kept


def _rows(low: Positions, count: Positions, available: int) -> Positions | slice:
    """Returns the indices from each `low` on, `count` of them; no two of these ranges share an index."""
    total = int(count.sum())
    if total == available:
        return slice(None)
    return np.arange(total) + np.repeat(low - np.cumsum(count) + count, count)
