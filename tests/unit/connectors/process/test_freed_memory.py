"""`keep_freed_memory` in a process of its own: what it sets lasts as long as the process."""

import ctypes
import subprocess
import sys

import pytest

ARRAYS = """
import resource, sys
import numpy as np
from connectors.process.freed_memory import keep_freed_memory

if sys.argv[1] == "kept":
    keep_freed_memory()

def use_arrays():
    return [np.ones(size) for size in (100_000, 200_000, 400_000)]

use_arrays()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    use_arrays()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    ended = subprocess.run([sys.executable, "-c", ARRAYS, how], capture_output=True, text=True, check=True)
    return int(ended.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no mallopt")
def test_arrays_reuse_the_memory_of_freed_ones() -> None:
    assert page_faults("kept") < page_faults("returned") / 10
