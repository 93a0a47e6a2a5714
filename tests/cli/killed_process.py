"""A process that kills itself before one of the operations by which it changes files."""

import os
import signal
from collections.abc import Callable, Iterable
from typing import Any

Operation = tuple[Any, str]
"""An owner, such as the module os, and the name of its function."""


def killed_at(call: int, operations: Iterable[Operation], act: Callable[[], object]) -> bool:
    """Acts in a process that is killed before this call of an operation; returns whether it came that far."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _kill_at(call, operations)
            act()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def _kill_at(call: int, operations: Iterable[Operation]) -> None:
    left = call

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return operation

    for owner, name in operations:
        setattr(owner, name, counted(getattr(owner, name)))
