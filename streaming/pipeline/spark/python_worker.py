"""What each of Spark's Python workers does as a task begins: memory, and whether it shares the driver's folder."""

import gc
import secrets
import socket
from pathlib import Path
from typing import Final

from connectors.errors import UsageError
from connectors.process.freed_memory import keep_freed_memory

_TRAVERSED_EVERY: Final = 200
"""Tasks of one worker after which the excluded objects are traversed once: cyclic garbage among them is freed then."""
_YOUNG_OBJECTS: Final = 50_000
"""A large snapshot becomes millions of objects that live to the end: they are rarely looked through for garbage."""
_tasks = 0


def begin_task(shared: Path | None = None) -> None:
    """Keeps freed memory, excludes from garbage collection what is alive now, and checks the folder; for each task.

    Spark's daemon runs a full collection after each task, so what is alive when the next one begins is no garbage: the
    imported modules, and in the processor the state of every cluster. Traversing the 100,000 permanent objects of
    pandas, pyarrow and pydantic took four fifths of an idle worker's CPU time; traversing the state of 1,000 clusters
    took longer than evaluating them. What is freed later is freed by its reference count.

    Raises UsageError if this worker does not find the file `shared`.
    """
    global _tasks
    _tasks += 1
    if _tasks == 1:
        keep_freed_memory()
        gc.set_threshold(_YOUNG_OBJECTS, 20, 50)
        gc.collect()
    if _tasks % _TRAVERSED_EVERY == 0:
        gc.unfreeze()
    else:
        gc.freeze()
    if shared is not None and not shared.is_file():
        raise UsageError(
            f"the executor on {socket.gethostname()} does not share {shared.parent} with the driver: mount one folder "
            "at the same path on every node of the Spark cluster, and give it as the checkpoint"
        )


def shared_token(empty_folder: Path) -> Path:
    """Makes a file in a folder of the checkpoint that every executor must find, and returns it.

    Otherwise the state lies on an executor's own disk. Spark does not notice it: batches complete until that executor
    is lost, and its state with it. Each start of the job makes another file, so a file server cannot answer from its
    memory.
    """
    token = empty_folder.absolute() / secrets.token_hex(8)
    token.touch()
    return token
