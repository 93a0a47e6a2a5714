"""What one output claims: a claim, and which output makes it."""

from collections.abc import Iterable
from dataclasses import dataclass

from rules.claims.claim import NO, YES, Claim, Question, Value

_MOST = 64
"""More than a quorum has voters."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """One claim of one output."""

    claim: Claim
    output: str
    """Which output makes it: `no-leader quorum`, `status`, `safe-to-restart 1`."""

    @property
    def question(self) -> Question:
        """What it answers."""
        return self.claim.question

    @property
    def node(self) -> int | None:
        """The node that it is about."""
        return self.claim.node

    @property
    def values(self) -> frozenset[Value]:
        """Each value that agrees with it; empty if the answer is unknown."""
        return frozenset(self.claim.answer)

    @property
    def subject(self) -> str:
        """What it is about, with its node."""
        return self.question if self.node is None else f"{self.question} of node {self.node}"

    @property
    def text(self) -> str:
        """The answer."""
        return " or ".join(map(str, self.claim.answer)) or "unknown"

    @property
    def denies(self) -> bool:
        """Whether it says no."""
        return self.values == {NO}

    @property
    def affirms(self) -> bool:
        """Whether it says yes."""
        return self.values == {YES}

    @property
    def lowest(self) -> int:
        """The lowest number that agrees with it."""
        return min((one for one in self.values if isinstance(one, int)), default=-_MOST)

    @property
    def highest(self) -> int:
        """The highest number that agrees with it."""
        return max((one for one in self.values if isinstance(one, int)), default=_MOST)


def of_nodes(said: Iterable[Said], question: Question) -> dict[int, Said]:
    """Returns by node the first answer to this question that is no."""
    found: dict[int, Said] = {}
    for one in said:
        if one.question is question and one.denies and one.node is not None:
            found.setdefault(one.node, one)
    return found
