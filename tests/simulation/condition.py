"""A condition of the simulated quorum: what a rule must report, or may report, now."""

from typing import NamedTuple


class Condition(NamedTuple):
    """One subject of one rule, by the ground truth."""

    rule: str
    subject: str
    must: bool = True
    """Whether the alert must fire if this lasts; False: it may fire, because the gatherer may observe it or not."""
    which: object = None
    """Distinguishes two occurrences of a condition: the hold starts again with each."""
