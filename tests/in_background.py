"""Work that goes on in a thread while a test does something else."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event


@contextmanager
def in_background(work: Callable[[Event], None]) -> Iterator[None]:
    """Runs `work` until the block ends, which sets its event; raises what it raised, after the block."""
    ended = Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        working = pool.submit(work, ended)
        try:
            yield
        finally:
            ended.set()
            working.result()
