"""What is done once in each of Spark's Python workers."""

import gc

_frozen = False


def freeze_imports() -> None:
    """Excludes everything imported so far from garbage collection, once per process.

    Spark's daemon runs a full collection after each task. Traversing the 100,000 permanent objects of pandas, pyarrow
    and pydantic took four fifths of an idle worker's CPU time.
    """
    global _frozen
    if not _frozen:
        _frozen = True
        gc.collect()
        gc.freeze()
