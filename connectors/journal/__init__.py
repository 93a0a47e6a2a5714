"""The recorder and its journal: every observation, once, in order, on disk before anyone plans on it.

A journal is a folder beside the checkpoint:

- `lock`: held (flock) by the one process that writes, the gatherer;
- `published`: how far readers may read, written only after the rows are on disk (`mark`);
- `committed`: how far the reader has finished, written by the reader (`mark`);
- `<first sequence>.seg`: the rows, append-only, each file headed by the clusters' progress (`segment`, `frame`);
- `<first sequence>.idx`: where to start looking in it; may be missing or wrong, never trusted (`segment`).

The order that everything rests on: write the rows, fdatasync, publish the end; only then may a reader plan on
them. So a published row never changes and never goes away before it is committed.
"""
