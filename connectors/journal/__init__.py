"""The journal: every observation, once, in order, durable before a reader can use it.

A journal is a folder beside the checkpoint:

- `lock`: held (flock) by the one process that writes, the gatherer;
- `published`: the sequence up to which readers may read, written after the rows are on disk (`position_file`);
- `restart`: written by a repair that had no state left: the sequence from which on the logs were read again
  (`position_file`);
- `committed`: the sequence up to which the reader has finished, written by the reader (`position_file`);
- `<first sequence>.seg`: the rows, append-only; each file begins with the follow positions of all clusters
  (`segment`, `frame`);
- `<first sequence>.idx`: a sparse index of the segment; it may be missing or wrong and is always verified (`segment`).

The writer writes the rows, calls fdatasync, and then publishes the end. A reader uses published rows only. So a
published row never changes, and it is not deleted before it is committed.
"""
