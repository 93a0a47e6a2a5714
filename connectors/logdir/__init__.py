"""A controller's (or broker's) metadata log directory, read where it lies: offline, and never written to.

Raft commits by majority, so one disk cannot tell what is committed: what is read up to its end may have been
overwritten since, or may never come to be. Only its snapshots hold nothing but what is committed.
"""
