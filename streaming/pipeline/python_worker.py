"""What is done in each of Spark's Python workers, so that managing memory does not cost more than the work."""

import gc
from typing import Final

from connectors.freed_memory import keep_freed_memory

_TRAVERSED_EVERY: Final = 200
"""Tasks of one worker after which the excluded objects are traversed once: cyclic garbage among them is freed then."""
_tasks = 0


def begin_task() -> None:
    """Keeps freed memory and excludes from garbage collection what is alive now; called as each task begins.

    Spark's daemon runs a full collection after each task, so what is alive when the next one begins is no garbage: the
    imported modules, and in the step the state of every cluster. Traversing the 100,000 permanent objects of pandas,
    pyarrow and pydantic took four fifths of an idle worker's CPU time; traversing the state of 1,000 clusters took
    longer than evaluating them. What is freed later is freed by its reference count.
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
