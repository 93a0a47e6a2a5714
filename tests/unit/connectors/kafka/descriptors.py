"""The file descriptors of the test's process: none is leaked, or none is left."""

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.eventually import eventually


@contextmanager
def no_descriptor_leaks() -> Iterator[None]:
    """Asserts that soon after the block no more descriptors are open than before it."""

    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    yield
    eventually(lambda: count() <= before, within_s=5)


@contextmanager
def no_descriptor_left() -> Iterator[Callable[[], None]]:
    """Lowers the limit and takes every descriptor below it; yields a function that takes those freed since.

    Another thread, such as a server of a former test, may close a socket at any time.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as taken:
        first = taken.enter_context(socket.socket())

        def take() -> None:
            with suppress(OSError):
                while True:
                    taken.enter_context(socket.socket())

        resource.setrlimit(resource.RLIMIT_NOFILE, (first.fileno() + 20, hard))
        try:
            take()
            yield take
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
