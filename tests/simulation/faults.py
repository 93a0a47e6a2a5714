"""Faults that can be planted in the simulated quorum, by name: what each breaks."""

FAULTS: dict[str, str] = {
    "double-vote": "grants every vote it is asked for, however often in an epoch",
    "old-epoch": "stands for election without raising its epoch",
    "minority-commit": "a leader takes what it alone holds for committed",
    "forgets-committed": "a crash loses the newest records of the log, committed ones with them",
    "isr-grows": "the active controller grows the ISR of a partition that stays RECOVERING",
}
