"""SlotIndex: from a partition's key, topic number and partition number, to its slot in the partition table."""

from typing import Final

import numpy as np

from connectors.event_block import Numbers, Positions

NO_SLOT: Final = -1
_MERGED_FROM: Final = 65_536
"""Keys of the small run from which on it may be merged into the large one."""
_FEW: Final = 1_024
"""Keys that were added one by one are merged into the small run from this number on."""
_SHARE: Final = 8
"""The small run is merged when it has more than this part of the large one, so that a new key costs little."""


def partition_keys(topics: Numbers, partitions: Numbers) -> Positions:
    """Returns one key for each partition; no two partitions share one."""
    keys: Positions = (topics.astype(np.int64) << 32) | partitions
    return keys


class SlotIndex:
    """Two runs of keys in ascending order, a large one and a small one; new keys go into the small one.

    Keys that are added one by one are collected before.
    """

    def __init__(self) -> None:
        self._added: dict[int, int] = {}
        self._large: tuple[Positions, Numbers] = _run()
        self._small: tuple[Positions, Numbers] = _run()

    def find(self, keys: Positions) -> Numbers:
        """Returns the slot of each key; NO_SLOT where there is none."""
        self._merge_added()
        found: Numbers = np.full(len(keys), NO_SLOT, np.int32)
        for known, slots in (self._large, self._small):
            if len(known):
                at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
                hit = known[at] == keys
                found[hit] = np.maximum(found[hit], slots[at[hit]])
        return found

    def find_one(self, key: int) -> int:
        """Returns the slot of one key; NO_SLOT if there is none."""
        added = self._added.get(key)
        if added is not None:
            return added
        for known, slots in (self._small, self._large):
            at = int(known.searchsorted(key))
            if at < len(known) and known[at] == key and slots[at] != NO_SLOT:
                return int(slots[at])
        return NO_SLOT

    def add(self, keys: Positions, slots: Numbers) -> None:
        """Adds keys that are not in the index."""
        self._small = _merged(self._small, (keys, slots))
        small = len(self._small[0])
        if small > _MERGED_FROM and small > len(self._large[0]) // _SHARE:
            self._large = _merged(self._large, self._small)
            self._small = _run()

    def add_one(self, key: int, slot: int) -> None:
        """Adds a key that is not in the index."""
        self._added[key] = slot
        if len(self._added) >= _FEW:
            self._merge_added()

    def of_topic(self, topic: int) -> Numbers:
        """Returns the slots of a topic's partitions, in no certain order."""
        self._merge_added()
        found = [slots[_range(known, topic)] for known, slots in (self._large, self._small)]
        slots: Numbers = np.concatenate(found)
        kept: Numbers = slots[slots != NO_SLOT]
        return kept

    def remove_topic(self, topic: int) -> None:
        """Removes the keys of a topic."""
        self._merge_added()
        for known, slots in (self._large, self._small):
            slots[_range(known, topic)] = NO_SLOT

    def _merge_added(self) -> None:
        if self._added:
            keys = np.fromiter(self._added.keys(), np.int64, len(self._added))
            slots = np.fromiter(self._added.values(), np.int32, len(self._added))
            self._added = {}
            self.add(keys, slots)


def _run() -> tuple[Positions, Numbers]:
    return np.zeros(0, np.int64), np.zeros(0, np.int32)


def _range(keys: Positions, topic: int) -> slice:
    first, after = np.searchsorted(keys, (topic << 32, (topic + 1) << 32))
    return slice(int(first), int(after))


def _merged(run: tuple[Positions, Numbers], more: tuple[Positions, Numbers]) -> tuple[Positions, Numbers]:
    """Returns the keys of both that have a slot, in ascending order."""
    keys, slots = np.concatenate((run[0], more[0])), np.concatenate((run[1], more[1]))
    kept = np.flatnonzero(slots != NO_SLOT)
    order = kept[np.argsort(keys[kept], kind="stable")]
    return keys[order], slots[order]
