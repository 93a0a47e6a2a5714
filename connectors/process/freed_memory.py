"""Keeps freed memory in a process that needs as much again for the next observation.

glibc returns each large freed array to the kernel, which clears the pages before the next array uses them: a tenth of
the CPU time of decoding a snapshot.
"""

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST_KEPT: Final = 8 << 20
_MOST_KEPT: Final = 32 << 20


def keep_freed_memory() -> None:
    """Lets this process keep at most 32 MiB of freed memory. Does nothing where the C library has no mallopt(3)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT)
        mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT)
