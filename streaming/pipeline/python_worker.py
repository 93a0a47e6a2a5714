"""What each of Spark's Python workers does as a task begins: memory, and whether it shares the driver's folder."""

import gc
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.errors import UsageError
from connectors.freed_memory import keep_freed_memory

_TRAVERSED_EVERY: Final = 200
"""Tasks of one worker after which the excluded objects are traversed once: cyclic garbage among them is freed then."""
_tasks = 0


def begin_task(shared: "SharedFolder | None" = None) -> None:
    """Keeps freed memory, excludes from garbage collection what is alive now, and checks the folder; for each task.

    Spark's daemon runs a full collection after each task, so what is alive when the next one begins is no garbage: the
    imported modules, and in the step the state of every cluster. Traversing the 100,000 permanent objects of pandas,
    pyarrow and pydantic took four fifths of an idle worker's CPU time; traversing the state of 1,000 clusters took
    longer than evaluating them. What is freed later is freed by its reference count.

    Raises:
        UsageError: `shared` is given, and this worker does not share that folder.
    """
    global _tasks
    _tasks += 1
    if _tasks == 1:
        keep_freed_memory()
        gc.collect()
    if _tasks % _TRAVERSED_EVERY == 0:
        gc.unfreeze()
    else:
        gc.freeze()
    if shared is not None:
        shared.require()


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A folder of the checkpoint in which the driver has made a file that every executor must find.

    Otherwise the state lies on an executor's own disk. Spark does not notice it: batches complete until that executor
    is lost, and its state with it.
    """

    token: Path
    """The file. Each start of the job makes another one, so a file server cannot answer from its memory."""

    @classmethod
    def made_in(cls, empty_folder: Path) -> "SharedFolder":
        """Makes the file."""
        token = empty_folder.absolute() / secrets.token_hex(8)
        token.touch()
        return cls(token)

    def require(self) -> None:
        """Checks, on an executor, that the driver's file is there.

        Raises:
            UsageError: it is not.
        """
        if not self.token.is_file():
            raise UsageError(
                f"the executor on {socket.gethostname()} does not share {self.token.parent} with the driver: mount one "
                "folder at the same path on every node of the Spark cluster, and give it as the checkpoint"
            )
