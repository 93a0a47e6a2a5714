"""Reads claims from the product's own sentences: summaries, steps of remedies, reasons, notes, resolved texts.

`SENTENCES` has a pattern for each kind of sentence, and what it says. A sentence that no pattern knows makes no claim.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tests.agreement.claim import NO, NOBODY, YES, About, Answers, Claim, Follows, Value, at_most, one_of

_NODES = r"\d+(?:(?:, | and )\d+)*"
_ADDRESS = r"[^\s,]+:\d+"
_ADDRESSES = rf"{_ADDRESS}(?:(?:, | and ){_ADDRESS}(?! \())*"


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What a sentence is read with."""

    output: str
    node: int | None = None
    """The node that the output is about; a sentence may name another one."""
    controllers: frozenset[int] = frozenset()
    voters: frozenset[int] = frozenset()
    node_at: Mapping[str, int]
    """The voter by the HOST:PORT at which others dial it."""

    def of(self, output: str, node: int | None) -> "Reader":
        """Returns the same for an output that is about this node."""
        return replace(self, output=output, node=node)


Said: TypeAlias = tuple[About, int | None, frozenset[Value]]
"""What is said, of which node, and the values that agree with it."""
_Meaning: TypeAlias = Callable[[re.Match[str], Reader], Iterable[Said]]


def read(text: str, reader: Reader) -> Iterator[Claim]:
    """Yields the claims of a text, each with its sentence."""
    node = reader.node
    for sentence in re.split(r"(?<=\.) (?=[A-Z\d])", text):
        if named := re.match(r"(?:Voter|Controller) (\d+)\b", sentence):
            node = int(named.group(1))
        about = reader.of(reader.output, node)
        for pattern, meaning in SENTENCES:
            for match in pattern.finditer(sentence):
                counted = match.groupdict().get("of")
                of = None if counted is None else int(counted)
                for kind, of_node, values in meaning(match, about):
                    yield Claim(about=kind, node=of_node, of=of, values=values, output=reader.output, said=sentence)


def _says(about: About, values: frozenset[Value]) -> _Meaning:
    """The whole quorum."""
    return lambda _match, _reader: ((about, None, values),)


def _of_node(*said: tuple[About, frozenset[Value]]) -> _Meaning:
    """The node that the sentence names, else the one that it is about."""

    def meaning(match: re.Match[str], reader: Reader) -> Iterator[Said]:
        named = match.group(1) if match.re.groups else None
        node = reader.node if named is None else int(named)
        if node is not None:
            yield from ((about, node, values) for about, values in said)

    return meaning


def _of_each(about: About, *values: Value) -> _Meaning:
    """Each node of a list such as `1, 2 and 3`."""

    def meaning(match: re.Match[str], _reader: Reader) -> Iterator[Said]:
        for number in re.findall(r"\d+", match.group(1)):
            yield about, int(number), one_of(*values)

    return meaning


def _number(about: About) -> _Meaning:
    return lambda match, _reader: ((about, None, one_of(int(match.group(1)))),)


def _leader(match: re.Match[str], _reader: Reader) -> Iterable[Said]:
    return ((About.LEADER, None, one_of(int(match.group(1)))),)


def _failures(match: re.Match[str], _reader: Reader) -> Iterable[Said]:
    left = match.group(1)
    return ((About.FAILURES, None, at_most(0) if left in ("no", "0") else one_of(int(left))),)


def _not_restarted(match: re.Match[str], reader: Reader) -> Iterator[Said]:
    """`Do not restart ...` and what follows: which controllers it forbids to restart."""
    object_ = match.group(1)
    if re.match(r"(?:or format )?any (?:controller|node)|a controller", object_):
        forbidden = reader.controllers
    elif re.match(r"another controller|no other controller|the others", object_):
        forbidden = reader.controllers - {reader.node or 0}
    elif object_.startswith("another voter"):
        forbidden = reader.voters - {reader.node or 0}
    else:
        named = re.match(rf"(?:controllers?|brokers?) ({_NODES})", object_)
        forbidden = frozenset(map(int, re.findall(r"\d+", named.group(1)))) if named else frozenset()
    for node in sorted(forbidden & reader.controllers):
        yield About.RESTART, node, one_of(NO)


def _cannot_connect(match: re.Match[str], reader: Reader) -> Iterator[Said]:
    """After a restart two voters cannot connect: neither that of the one nor that of the other is safe."""
    one = reader.node
    forbidden = reader.voters
    if match.group(0).startswith("It "):
        forbidden = frozenset({one or 0})
    elif "each other" not in match.group(0):
        forbidden -= {one or 0}
    for node in sorted(forbidden):
        yield About.RESTART, node, one_of(NO)


def _rejected(match: re.Match[str], reader: Reader) -> Iterator[Said]:
    """A process runs that rejects the monitor."""
    for address in re.findall(_ADDRESS, match.group(1)):
        if address in reader.node_at:
            yield About.ENDPOINT, reader.node_at[address], one_of(Answers.LISTENS)


def _denies(match: re.Match[str], reader: Reader) -> Iterator[Said]:
    """What a controller answers to the monitor it answers to the other controllers too."""
    for address in re.findall(_ADDRESS, match.group(1)):
        if reader.node_at.get(address) == reader.node is not None:
            yield About.VOTES, reader.node, one_of(NO)


def _all_accept(_match: re.Match[str], reader: Reader) -> Iterator[Said]:
    for node in sorted(set(reader.node_at.values())):
        yield About.ENDPOINT, node, one_of(*_ACCEPTS)


_ACCEPTS = (Answers.LISTENS, Answers.HANGS, Answers.OTHER)
_STALE = (About.REACHES, one_of(NO))
_NO_VOTE = (About.VOTES, one_of(NO))


def _fault(words: str, *values: Value, votes: bool = True) -> tuple[str, _Meaning]:
    """What is wrong with the endpoint of the voter that the sentence is about."""
    said = [_STALE, *([(About.ENDPOINT, one_of(*values))] if values else []), *([] if votes else [_NO_VOTE])]
    return rf"endpoint \S+ (?:.* and )?{words}", _of_node(*said)


_ALL: tuple[tuple[str, _Meaning], ...] = (
    # Who leads.
    (r"^No leader\b", _says(About.LEADER, one_of(NOBODY))),
    (r"no controller leads the quorum", _says(About.LEADER, one_of(NOBODY))),
    (r"(?:behind|has not fetched from|voter \d+ ->) leader (\d+)", _leader),
    (r"but controller (\d+) leads epoch", _leader),
    (r"^Controller (\d+) leads(?: in epoch \d+)?[:.]", _leader),
    (r"Leader: controller (\d+)", _leader),
    (r"Controller (\d+) does not answer here, but .* as leader", _leader),
    (r"clock of controller (\d+), the leader", _leader),
    (r"^Leader (\d+) has taken no", _leader),
    (r"^Controller (\d+) is active and answers", _leader),
    (r"none of them wins an election|None of the \d+ voters wins an election", _says(About.WON, one_of(NO))),
    # How many.
    (r"(\d+) of \d+ voters (?:can be reached|run with their recorded disk at most)", _number(About.REACHED)),
    (r"(\d+) of the \d+ voters run already", _number(About.RUNNING)),
    (r"(\d+) of (?P<of>\d+) voters are active", _number(About.ACTIVE)),
    (r"(?<!until )\b(\d+) of (?P<of>\d+) voters? (?:is|are) in sync", _number(About.IN_SYNC)),
    (r"tolerates (no|\d+) further failures?\b(?! reliably)", _failures),
    (r"Failures tolerated: (\d+) instead of", _failures),
    (r"has no majority in sync", _says(About.FAILURES, at_most(0))),
    # Elections and commits.
    (r"a leader could still be elected", _says(About.ELECTABLE, one_of(YES))),
    (r"restarted now, no leader could be elected", _says(About.ELECTABLE, one_of(NO))),
    (rf"If (?:controller|any of controllers) ({_NODES}) stopped too, no leader", _of_each(About.WITHOUT, NO)),
    (r"Two majorities are possible", _says(About.LISTS, one_of(NO))),
    (r"no metadata change is possible|No metadata change takes effect", _says(About.COMMITS, one_of(NO))),
    (r"metadata changes are possible|^Records are committed", _says(About.COMMITS, one_of(YES))),
    # One node.
    (r"^Voter (\d+) has not fetched", _of_node((About.FOLLOWS, one_of(Follows.NOT_FETCHING)))),
    (r"^Voter (\d+) fetches, but (?:has lagged|lags)", _of_node((About.FOLLOWS, one_of(Follows.LAGGING)))),
    (r"^Voter (\d+) is in sync", _of_node((About.FOLLOWS, one_of(Follows.IN_SYNC)))),
    (r"controller (\d+) does not fetch", _of_node((About.FOLLOWS, one_of(Follows.NOT_FETCHING)))),
    (r"controller (\d+) is .* behind the leader", _of_node((About.FOLLOWS, one_of(Follows.LAGGING)))),
    (r"voter (\d+)-\S+ is not fetching", _of_node((About.FOLLOWS, one_of(Follows.NOT_FETCHING)))),
    (r"^It fetches, and controllers?", _of_node((About.FOLLOWS, one_of(Follows.IN_SYNC, Follows.LAGGING)))),
    (rf"Controllers? ({_NODES}) (?:is|are) down", _of_each(About.ENDPOINT, Answers.REFUSES)),
    (rf"Controllers? ({_NODES}) (?:is|are) (?:hung|down|not reached)", _of_each(About.VOTES, NO)),
    (rf"Controllers? ({_NODES}) (?:is|are) hung", _of_each(About.ENDPOINT, Answers.HANGS)),
    (rf"Controllers? ({_NODES}) (?:is|are) not reached", _of_each(About.ENDPOINT, Answers.UNREACHED)),
    (rf"Controllers? ({_NODES}) (?:is|are) running with", _of_each(About.VOTES, NO)),
    (rf"recorded name of controller ({_NODES}) does not resolve", _of_each(About.REACHES, NO)),
    (rf"certificate of controller ({_NODES}) (?:expired|is not|has expired)", _of_each(About.VOTES, NO)),
    (r"^All \d+ voters accept connections", _all_accept),
    (rf"(?:not-authenticated|not-ready|denied)(?: \([^)]*\))? at ({_ADDRESSES})", _rejected),
    (rf"does not answer the monitor: (?:not-authenticated|denied)(?: \([^)]*\))? at ({_ADDRESSES})", _denies),
    (r"A node of another cluster answers at controller (\d+)'s", _of_node((About.ENDPOINT, one_of(Answers.OTHER)))),
    (r"Controller (\d+) takes no part in the quorum and its vote is missing", _of_node(_NO_VOTE)),
    (r"[Ii]t grants no vote and cannot lead", _of_node(_NO_VOTE)),
    (r"controller (\d+) refuses connections at", _of_node((About.ENDPOINT, one_of(Answers.REFUSES)))),
    (r"voter (\d+)'s (?:recorded|configured) endpoint \S+ is stale", _of_node(_STALE)),
    (r"[Vv]oter (\d+) can be reached at its", _of_node((About.REACHES, one_of(YES)))),
    _fault("does not resolve", Answers.UNRESOLVED),
    _fault("is outdated"),
    _fault("is served by another process", Answers.OTHER),
    _fault("refuses connections although", Answers.REFUSES),
    _fault("serves no new connection", Answers.HANGS, Answers.UNREACHED, votes=False),
    _fault("presents a certificate that", votes=False),
    (r"controller (\d+) serves no new connection at", _of_node(_NO_VOTE)),
    # What a person is to do.
    (r"(?:Do not|do not) (?:stop or |start or |start, )?restart (.*)", _not_restarted),
    (r"Restart (no other controller)(?! while these run)", _not_restarted),
    (r"^Restart controller (\d+)(?:$|[:,])", _of_node((About.ADVISED, one_of(YES)))),
    (r"(?:It|They) cannot connect to (?:it|them|each other) after a restart", _cannot_connect),
    (r"Other voters cannot dial it after a restart", _cannot_connect),
    (r"Two processes run with node\.id (\d+)", _of_node((About.DIRECTORY, one_of("a copy runs")))),
    (r"controller (\d+) has a new directory id", _of_node((About.DIRECTORY, one_of("its disk was replaced")))),
    (r"^Controller (\d+) has a new directory id", _of_node((About.DIRECTORY, one_of("its disk was replaced")))),
    (r"Do not add or remove controller (\d+)", _of_node((About.CHANGE, one_of(NO)))),
    (r"controller (\d+) has .*: finish the disk replacement first", _of_node((About.CHANGE, one_of(YES)))),
)
SENTENCES: tuple[tuple[re.Pattern[str], _Meaning], ...] = tuple(
    (re.compile(pattern), meaning) for pattern, meaning in _ALL
)
"""Each kind of sentence, and what it says."""
