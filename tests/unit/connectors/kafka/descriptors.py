"""Takes every file descriptor of the test's process, for a while."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Lowers the limit and takes every descriptor below it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as taken:
        first = taken.enter_context(socket.socket())
        resource.setrlimit(resource.RLIMIT_NOFILE, (first.fileno() + 20, hard))
        try:
            while True:
                taken.enter_context(socket.socket())
        except OSError:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
