"""Faults that tests can plant in the simulated quorum, by name."""

FAULTS: dict[str, str] = {
    "double-vote": "grants every requested vote, several times in an epoch",
    "old-epoch": "starts an election without raising its epoch",
    "minority-commit": "a leader commits records that only it has",
    "forgets-committed": "a crash loses the newest records of the log, also committed ones",
    "isr-grows": "the active controller grows the ISR of a partition that stays RECOVERING",
    "leader-alone": "the active controller changes the leader of a RECOVERING partition without its ISR",
}
