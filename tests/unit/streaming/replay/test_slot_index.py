"""The slot index finds every key, also after its runs were merged."""

import numpy as np
import pytest

from streaming.replay import slot_index
from streaming.replay.slot_index import NO_SLOT, SlotIndex


def test_every_key_is_found_after_runs_were_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_index, "_MERGED_FROM", 4)
    index = SlotIndex()
    for first in range(0, 60, 6):
        keys = np.arange(first, first + 6)
        index.add(keys, keys.astype(np.int32))

    assert index.find(np.arange(61)).tolist() == [*range(60), NO_SLOT]
