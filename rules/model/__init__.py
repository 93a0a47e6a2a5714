"""The values that rules evaluate: a KRaft quorum, its recent history, and how well it is observed."""
