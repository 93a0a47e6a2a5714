"""Faults that can be planted in the simulated quorum, by name: what each breaks."""

FAULTS: dict[str, str] = {
    "double-vote": "grants every vote it is asked for, however often in an epoch",
    "old-epoch": "stands for election without raising its epoch",
    "refuses-strangers": "votes only as a voter, and only for one, by its own log",
    "minority-commit": "a leader takes what it alone holds for committed",
    "forgets-committed": "a crash loses the newest records of the log, committed ones with them",
    "two-changes": "a leader takes a voter change while another one is not committed",
    "keeps-voters": "a log that is cut keeps the voter sets that stood in what was cut off",
    "mark-beyond": "a follower takes the leader's high watermark for its own, beyond its log",
    "isr-grows": "the active controller grows the ISR of a partition that stays RECOVERING",
    "leader-alone": "the active controller changes the leader of a RECOVERING partition, and not its ISR",
}
