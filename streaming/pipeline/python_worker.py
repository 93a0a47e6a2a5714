"""Spark's Python worker, as long as it lives: what is done once in it."""

import gc

_settled = False


def settle() -> None:
    """Take everything imported so far out of the garbage collector's sight, once.

    Spark's daemon collects all garbage after each task. Walking a hundred thousand objects of pandas, pyarrow and
    pydantic that never go away was four fifths of what an idle worker cost.
    """
    global _settled
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()
