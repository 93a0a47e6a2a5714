"""Finds claims of one moment that cannot all be true.

Two claims about the same thing contradict each other if no value agrees with both. Some claims follow from others: a
quorum that has lost two of three voters can elect no leader, whatever else is said of it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations

from rules.claims.claim import At, Follows, Question, Value
from rules.formatting import and_join
from tests.agreement.said import Said, of_nodes


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


_KINDS: Mapping[Question, Kind] = {
    Question.LEADER: Kind.LEADER,
    Question.REACHED: Kind.REACHED,
    Question.RUNNING: Kind.REACHED,
    Question.ACTIVE: Kind.IN_SYNC,
    Question.IN_SYNC: Kind.IN_SYNC,
    Question.FAILURES: Kind.FAILURES,
    Question.COMMITS: Kind.COMMITS,
    Question.ELECTABLE: Kind.ELECTABLE,
    Question.WITHOUT: Kind.ELECTABLE,
    Question.FAILS: Kind.ELECTABLE,
    Question.RESTARTED: Kind.ELECTABLE,
    Question.RESTART: Kind.RESTART,
    Question.ENDPOINT: Kind.ENDPOINT,
    Question.REACHES: Kind.ENDPOINT,
    Question.FOLLOWS: Kind.FOLLOWS,
    Question.DIRECTORY: Kind.DISK,
    Question.CHANGE: Kind.DISK,
}


_ANSWERED_ONCE = frozenset({Question.FAILURES, Question.ELECTABLE})
"""The questions of which no output may know the answer where another one does not."""
_NONE_MAY_FAIL = {frozenset[Value](), frozenset[Value]({0})}
"""That none may fail is known where it is unknown whether there still is a majority."""
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


def contradictions(claims: Collection[Said]) -> list[Contradiction]:
    """Returns each contradiction once, between the first outputs that say each side of it; empty if all agree."""
    asked = _Claims(claims=tuple(claims))
    found = [*_direct(asked), *_by_count(asked), *_of_restarts(asked), *_of_elections(asked)]
    return [*{(one.kind, one.subject, one.quoted[1:]): one for one in reversed(found)}.values()][::-1]


@dataclass(frozen=True, kw_only=True)
class _Claims:
    claims: tuple[Said, ...]

    def about(self, *questions: Question) -> Iterator[Said]:
        """Returns the claims about any of these."""
        return (one for one in self.claims if one.question in questions)

    @cached_property
    def voters(self) -> frozenset[int]:
        """The nodes that vote."""
        return frozenset(one.node for one in self.about(Question.VOTER) if one.affirms and one.node is not None)

    @property
    def majority(self) -> int:
        """Votes that win an election."""
        return len(self.voters) // 2 + 1

    @cached_property
    def lost(self) -> dict[int, Said]:
        """By voter: the claim that it can neither vote nor lead."""
        return {node: one for node, one in of_nodes(self.claims, Question.VOTES).items() if node in self.voters}

    @cached_property
    def unreached(self) -> dict[int, Said]:
        """By voter: the claim that others do not reach it, or that it can neither vote nor lead."""
        return {
            node: one
            for node, one in (of_nodes(self.claims, Question.REACHES) | self.lost).items()
            if node in self.voters
        }


def _found(kind: Kind, claim: Said, others: Iterable[Said], because: str = "") -> Contradiction:
    subject = f"{claim.subject}{f' ({because})' if because else ''}"
    quoted = dict.fromkeys((one.output, one.text) for one in (claim, *others))
    return Contradiction(kind=kind, subject=subject, quoted=tuple(quoted))


def _direct(asked: _Claims) -> Iterator[Contradiction]:
    """Yields the pairs about the same thing with which no value agrees: the first claim of each set of values."""
    by_subject: dict[tuple[Question, int | None, int | None], dict[frozenset[Value], Said]] = {}
    for one in asked.claims:
        if one.values or one.question in _ANSWERED_ONCE:
            by_subject.setdefault((one.question, one.node, one.claim.of), {}).setdefault(one.values, one)
    for (about, _, _), by_values in by_subject.items():
        for one, other in combinations(by_values.values(), 2):
            if one.values.isdisjoint(other.values) and {one.values, other.values} != _NONE_MAY_FAIL:
                yield _found(_KINDS.get(about, Kind.ELECTABLE), one, [other])


def _by_count(asked: _Claims) -> Iterator[Contradiction]:
    """Yields numbers of voters that are higher than what is said of each voter permits."""
    voters = len(asked.voters)
    if not voters:
        return
    for about, missing in ((Question.REACHED, asked.unreached), (Question.RUNNING, asked.lost)):
        most = voters - len(missing)
        for one in asked.about(about):
            if one.lowest > most:
                yield _found(Kind.REACHED, one, missing.values(), f"at most {most} of {voters}")
    for one in asked.about(Question.FAILURES):
        if asked.lost and one.lowest > 0 and voters - len(asked.lost) - one.lowest < asked.majority:
            yield _found(Kind.FAILURES, one, asked.lost.values(), _lost_text(asked))
    active = [*asked.about(Question.ACTIVE)]
    for one in asked.about(Question.IN_SYNC):
        for other in active:
            if one.claim.of == other.claim.of and one.lowest > other.highest:
                yield _found(Kind.IN_SYNC, one, [other])


def _lost_text(asked: _Claims) -> str:
    nodes = f"{'voter' if len(asked.lost) == 1 else 'voters'} {and_join(sorted(asked.lost))}"
    return f"{nodes} of {len(asked.voters)} can neither vote nor lead"


def _of_restarts(asked: _Claims) -> Iterator[Contradiction]:
    """Yields SAFE answers that other claims do not permit."""
    fatal = of_nodes(asked.claims, Question.FAILS) | of_nodes(asked.claims, Question.RESTARTED)
    none_left = [one for one in asked.about(Question.FAILURES) if one.highest <= 0]
    failing = {
        *asked.unreached,
        *(one.node for one in asked.about(Question.FOLLOWS) if Follows.IN_SYNC not in one.values),
        *(one.node for one in asked.about(Question.VOTES) if not one.affirms),
        *(one.node for one in asked.about(Question.ENDPOINT) if At.LISTENS not in one.values),
    }
    for safe in asked.about(Question.RESTART):
        node = safe.node
        if not safe.affirms or node is None or node not in asked.voters:
            continue
        if node in fatal:
            yield _found(Kind.RESTART, safe, [fatal[node]])
        if none_left and node not in failing:
            yield _found(Kind.RESTART, safe, none_left[:1], f"voter {node} is in sync")
        if asked.lost and len(asked.voters - {*asked.lost, node}) < asked.majority:
            yield _found(Kind.RESTART, safe, asked.lost.values(), _lost_text(asked))
        yield from (_found(Kind.RESTART, safe, [one]) for one in asked.about(Question.LISTS))
    unsafe = {one.node: one for one in asked.about(Question.RESTART) if one.denies and one.output.startswith(_COMMAND)}
    for advised in asked.about(Question.ADVISED):
        if advised.node in unsafe:
            yield _found(Kind.ADVISED, advised, [unsafe[advised.node]])


def _of_elections(asked: _Claims) -> Iterator[Contradiction]:
    """Yields elections that are said to succeed, which other claims do not permit."""
    fatal = [*of_nodes(asked.claims, Question.FAILS).values()]
    disputed = [*asked.about(Question.LISTS)]
    failures = [one for one in asked.about(Question.FAILURES) if one.lowest > 0]
    for one in failures:
        yield from (_found(Kind.FAILURES, one, [other]) for other in (*fatal[:1], *disputed))
    electable = [one for one in asked.about(Question.ELECTABLE) if one.affirms]
    without = [one for one in asked.about(Question.WITHOUT) if one.affirms]
    never = [one for one in asked.about(Question.ELECTABLE) if one.denies]
    for one in electable:
        if len(asked.voters - {*asked.lost}) < asked.majority and asked.lost:
            yield _found(Kind.ELECTABLE, one, asked.lost.values(), _lost_text(asked))
        yield from (_found(Kind.ELECTABLE, one, [other]) for other in disputed)
        yield from (_found(Kind.WON, one, [other]) for other in asked.about(Question.WON))
    for one in without:
        # A controller that takes no part may be what ends each candidate.
        yield from (_found(Kind.ELECTABLE, one, [other]) for other in never[:1] if one.node not in asked.lost)
        if asked.lost and one.node is not None and len(asked.voters - {*asked.lost, one.node}) < asked.majority:
            yield _found(Kind.ELECTABLE, one, asked.lost.values(), _lost_text(asked))
