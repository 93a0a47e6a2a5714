"""Finds claims of one moment that cannot all be true.

Two claims about the same thing contradict each other if no value agrees with both. Some claims follow from others: a
quorum that has lost two of three voters can elect no leader, whatever else is said of it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations

from rules.formatting import and_join
from tests.agreement.claim import About, Answers, Claim, Follows, Value, at_least, of_nodes


class Kind(StrEnum):
    """What a contradiction is about."""

    LEADER = "who leads"
    REACHED = "how many voters can be reached or run"
    IN_SYNC = "how many voters fetch or are in sync"
    FAILURES = "how many may be lost"
    ELECTABLE = "whether a leader could be elected"
    WON = "whether an election is won"
    COMMITS = "whether metadata changes are possible"
    RESTART = "what may be restarted"
    ADVISED = "what is to be restarted"
    ENDPOINT = "what answers at an endpoint"
    FOLLOWS = "how a voter follows"
    DISK = "a second directory"
    REMEDIES = "remedies"


_KINDS: Mapping[About, Kind] = {
    About.LEADER: Kind.LEADER,
    About.REACHED: Kind.REACHED,
    About.RUNNING: Kind.REACHED,
    About.ACTIVE: Kind.IN_SYNC,
    About.IN_SYNC: Kind.IN_SYNC,
    About.FAILURES: Kind.FAILURES,
    About.COMMITS: Kind.COMMITS,
    About.ELECTABLE: Kind.ELECTABLE,
    About.WITHOUT: Kind.ELECTABLE,
    About.FAILS: Kind.ELECTABLE,
    About.RESTARTED: Kind.ELECTABLE,
    About.RESTART: Kind.RESTART,
    About.ENDPOINT: Kind.ENDPOINT,
    About.REACHES: Kind.ENDPOINT,
    About.FOLLOWS: Kind.FOLLOWS,
    About.DIRECTORY: Kind.DISK,
    About.CHANGE: Kind.DISK,
}


_COMMAND = "safe-to-restart "


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """What cannot all be true, as one sentence that quotes it."""

    kind: Kind
    subject: str
    """What it is about, with its node."""
    quoted: tuple[tuple[str, str], ...]
    """Each output, and what it says."""

    def __str__(self) -> str:
        (output, said), *others = self.quoted
        contrary = " and ".join(f'{other} says "{what}"' for other, what in others)
        return f'{self.subject}: {output} says "{said}"' + (f", but {contrary}" if contrary else "")


def contradictions(claims: Collection[Claim]) -> list[Contradiction]:
    """Returns each contradiction once, between the first outputs that say each side of it; empty if all agree."""
    asked = _Claims(claims=tuple(claims))
    found = [*_direct(asked), *_by_count(asked), *_of_restarts(asked), *_of_elections(asked)]
    return [*{(one.kind, one.subject, one.quoted[1:]): one for one in reversed(found)}.values()][::-1]


@dataclass(frozen=True, kw_only=True)
class _Claims:
    claims: tuple[Claim, ...]

    def about(self, *about: About) -> Iterator[Claim]:
        """Returns the claims about any of these."""
        return (one for one in self.claims if one.about in about)

    @cached_property
    def voters(self) -> frozenset[int]:
        """The nodes that vote."""
        return frozenset(one.node for one in self.about(About.VOTER) if one.node is not None)

    @property
    def majority(self) -> int:
        """Votes that win an election."""
        return len(self.voters) // 2 + 1

    @cached_property
    def lost(self) -> dict[int, Claim]:
        """By voter: the claim that it can neither vote nor lead."""
        return {node: one for node, one in of_nodes(self.claims, About.VOTES).items() if node in self.voters}

    @cached_property
    def unreached(self) -> dict[int, Claim]:
        """By voter: the claim that others do not reach it, or that it can neither vote nor lead."""
        return {
            node: one for node, one in (of_nodes(self.claims, About.REACHES) | self.lost).items() if node in self.voters
        }


def _found(kind: Kind, claim: Claim, others: Iterable[Claim], because: str = "") -> Contradiction:
    subject = f"{claim.subject}{f' ({because})' if because else ''}"
    quoted = dict.fromkeys((one.output, one.said) for one in (claim, *others))
    return Contradiction(kind=kind, subject=subject, quoted=tuple(quoted))


def _direct(asked: _Claims) -> Iterator[Contradiction]:
    """Yields the pairs about the same thing with which no value agrees: the first claim of each set of values."""
    by_subject: dict[tuple[About, int | None, int | None], dict[frozenset[Value], Claim]] = {}
    for one in asked.claims:
        by_subject.setdefault((one.about, one.node, one.of), {}).setdefault(one.values, one)
    for (about, _, _), by_values in by_subject.items():
        for one, other in combinations(by_values.values(), 2):
            if one.values.isdisjoint(other.values):
                yield _found(_KINDS.get(about, Kind.ELECTABLE), one, [other])


def _by_count(asked: _Claims) -> Iterator[Contradiction]:
    """Yields numbers of voters that are higher than what is said of each voter permits."""
    voters = len(asked.voters)
    if not voters:
        return
    for about, missing in ((About.REACHED, asked.unreached), (About.RUNNING, asked.lost)):
        most = voters - len(missing)
        for one in asked.about(about):
            if one.lowest > most:
                yield _found(Kind.REACHED, one, missing.values(), f"at most {most} of {voters}")
    for one in asked.about(About.FAILURES):
        if asked.lost and one.lowest > 0 and voters - len(asked.lost) - one.lowest < asked.majority:
            yield _found(Kind.FAILURES, one, asked.lost.values(), _lost_text(asked))
    active = [*asked.about(About.ACTIVE)]
    for one in asked.about(About.IN_SYNC):
        for other in active:
            if one.of == other.of and at_least(one.lowest).isdisjoint(other.values):
                yield _found(Kind.IN_SYNC, one, [other])


def _lost_text(asked: _Claims) -> str:
    nodes = f"{'voter' if len(asked.lost) == 1 else 'voters'} {and_join(sorted(asked.lost))}"
    return f"{nodes} of {len(asked.voters)} can neither vote nor lead"


def _of_restarts(asked: _Claims) -> Iterator[Contradiction]:
    """Yields SAFE answers that other claims do not permit."""
    fatal = of_nodes(asked.claims, About.FAILS) | of_nodes(asked.claims, About.RESTARTED)
    none_left = [one for one in asked.about(About.FAILURES) if one.highest <= 0]
    failing = {
        *asked.unreached,
        *(one.node for one in asked.about(About.FOLLOWS) if Follows.IN_SYNC not in one.values),
        *(one.node for one in asked.about(About.VOTES) if not one.affirms),
        *(one.node for one in asked.about(About.ENDPOINT) if Answers.LISTENS not in one.values),
    }
    for safe in asked.about(About.RESTART):
        node = safe.node
        if not safe.affirms or node is None or node not in asked.voters:
            continue
        if node in fatal:
            yield _found(Kind.RESTART, safe, [fatal[node]])
        if none_left and node not in failing:
            yield _found(Kind.RESTART, safe, none_left[:1], f"voter {node} is in sync")
        if asked.lost and len(asked.voters - {*asked.lost, node}) < asked.majority:
            yield _found(Kind.RESTART, safe, asked.lost.values(), _lost_text(asked))
        yield from (_found(Kind.RESTART, safe, [one]) for one in asked.about(About.LISTS))
    unsafe = {one.node: one for one in asked.about(About.RESTART) if one.denies and one.output.startswith(_COMMAND)}
    for advised in asked.about(About.ADVISED):
        if advised.node in unsafe:
            yield _found(Kind.ADVISED, advised, [unsafe[advised.node]])


def _of_elections(asked: _Claims) -> Iterator[Contradiction]:
    """Yields elections that are said to succeed, which other claims do not permit."""
    fatal = [*of_nodes(asked.claims, About.FAILS).values()]
    disputed = [*asked.about(About.LISTS)]
    failures = [one for one in asked.about(About.FAILURES) if one.lowest > 0]
    for one in failures:
        yield from (_found(Kind.FAILURES, one, [other]) for other in (*fatal[:1], *disputed))
    electable = [one for one in asked.about(About.ELECTABLE) if one.affirms]
    without = [one for one in asked.about(About.WITHOUT) if one.affirms]
    never = [one for one in asked.about(About.ELECTABLE) if one.denies]
    for one in electable:
        if len(asked.voters - {*asked.lost}) < asked.majority and asked.lost:
            yield _found(Kind.ELECTABLE, one, asked.lost.values(), _lost_text(asked))
        yield from (_found(Kind.ELECTABLE, one, [other]) for other in disputed)
        yield from (_found(Kind.WON, one, [other]) for other in asked.about(About.WON))
    for one in without:
        yield from (_found(Kind.ELECTABLE, one, [other]) for other in never[:1])
        if asked.lost and one.node is not None and len(asked.voters - {*asked.lost, one.node}) < asked.majority:
            yield _found(Kind.ELECTABLE, one, asked.lost.values(), _lost_text(asked))
