"""What a number of voters' disks surely holds: the sum that every answer about lost disks rests on.

A record is committed when a majority of the voters has it (KIP-595). So any `n - majority + 1` of n voters' disks hold,
together, every record that was committed: the others are too few to be a majority. A leader needs a majority. For an
odd number of voters both numbers are the same; for an even one half of the disks holds everything and elects nobody.
"""

from dataclasses import dataclass

from rules.formatting import needed_text
from rules.model.membership import majority


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCount:
    """So many of so many voters' disks, each with its whole log."""

    voters: int
    disks: int

    @property
    def majority(self) -> int:
        """How many of the voters commit a record and elect a leader."""
        return majority(self.voters)

    @property
    def needed(self) -> int:
        """How many disks hold every record that was committed, whichever they are."""
        return self.voters - self.majority + 1 if self.voters else 0

    @property
    def holds_all(self) -> bool:
        """Whether these disks hold every record that was committed."""
        return self.disks >= self.needed

    @property
    def electable(self) -> bool:
        """Whether so many voters can elect a leader, if they run and reach each other."""
        return self.disks >= self.majority

    @property
    def held_text(self) -> str:
        """Returns what the disks hold, as a clause about them."""
        if self.holds_all:
            return f"any {self.needed} of {self.voters} hold every record that was committed"
        return "records that were committed may be on the others only"

    def too_few(self, what: str) -> str:
        """Returns, as a clause, that these are no majority, and what they hold; `what`: `disks are given`, for one."""
        return f"only {self.disks} of {self.voters} voters' {what}, {needed_text(self.majority)} to elect a leader"
