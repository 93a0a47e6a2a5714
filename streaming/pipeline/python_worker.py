"""What is done in each of Spark's Python workers, so that garbage collection does not cost more than the work."""

import gc
from typing import Final

_TRAVERSED_EVERY: Final = 200
"""Tasks of one worker after which the excluded objects are traversed once: cyclic garbage among them is freed then."""
_tasks = 0


def freeze_survivors() -> None:
    """Excludes everything that is alive now from garbage collection; called at the beginning of each task.

    Spark's daemon runs a full collection after each task, so what is alive when the next one begins is no garbage: the
    imported modules, and in the step the state of every cluster. Traversing the 100,000 permanent objects of pandas,
    pyarrow and pydantic took four fifths of an idle worker's CPU time; traversing the state of 1,000 clusters took
    longer than evaluating them. What is freed later is freed by its reference count.
    """
    global _tasks
    _tasks += 1
    if _tasks == 1:
        gc.collect()
    if _tasks % _TRAVERSED_EVERY == 0:
        gc.unfreeze()
    else:
        gc.freeze()
