"""The gatherer: one process that polls, probes and fetches from every cluster and writes the journal.

`python -m connectors.gather` reads its settings as one JSON line from stdin, prints `ready` once it holds the journal's
lock, and ends when stdin closes. No other process writes the journal.
"""
