"""How no alert is lost and none told twice.

`delivery` writes every alert to the `ledger` first, then asks each sink, then notes in the ledger what each of
them answered. So a crash anywhere leaves either an alert that is still to be told, or one that was told and not
yet noted; the second kind is why a sink that can (`jsonl`) looks up what it already holds, and why the others
are told at least once, with a key to tell the copies by.
"""
