"""The gatherer: one process that looks at every cluster and records what it sees.

`python -m connectors.gather` reads its settings as one JSON line from stdin and ends when stdin closes. It alone
writes the journal; it prints one line, `ready`, once it holds the journal's lock.
"""
