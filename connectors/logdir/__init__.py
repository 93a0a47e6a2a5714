"""Reads the metadata log directory of a controller or broker offline, and never writes to it.

Raft commits by majority, so one disk cannot show what is committed: records near its end may have been overwritten
since, or may never be committed. Only its snapshots hold nothing but committed records.
"""
