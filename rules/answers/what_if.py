"""Would there be a leader after controllers were moved, lost or restarted?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rules.answers.election import NO_ENDPOINTS, electorate_now
from rules.answers.forecast import ElectionForecast
from rules.answers.part import Elector, Electorate, Part, after_starts
from rules.answers.worlds import Answer, World, best, decide, world
from rules.claims.claim import Claim, Question, claim, yes_or_no
from rules.facts.quorum import Facts
from rules.formatting import and_join
from rules.model.identifiers import Endpoint, NodeId
from rules.model.membership import VoterSet
from rules.model.witness import DialStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What would happen to the controllers."""

    moved: Mapping[NodeId, tuple[str, int]] = field(default_factory=dict)
    """The new host and port of each controller that is moved; it is restarted with it."""
    lost: frozenset[NodeId] = frozenset()
    """Controllers that do not come back."""
    restarted: frozenset[NodeId] | None = None
    """Controllers that are restarted; None: all."""

    @property
    def nodes(self) -> frozenset[NodeId]:
        """The controllers that it names."""
        return frozenset({*self.moved, *self.lost, *(self.restarted or ())})


@dataclass(frozen=True, slots=True, kw_only=True)
class Controllers:
    """The controllers of one cluster as they are."""

    cluster: str
    voters: VoterSet | None
    """The newest voter set; None if none is known: a static quorum has none before Kafka 3.9."""
    electorate: Electorate
    leader: NodeId | None = None
    """The leader that runs; None if none does, or if disks were read."""
    assumed: tuple[str, ...] = ()
    """What is not known and was assumed, as sentences."""
    elsewhere: frozenset[NodeId] = frozenset()
    """The controllers that report another leader, or none: that they fetch is older than their report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The answer."""

    controllers: Controllers
    """Before the change."""
    answer: Answer[bool]
    """Whether the quorum has or elects a leader after the change."""
    leader_stays: NodeId | None
    """The leader that is neither restarted nor lost and keeps a majority; None if there has to be an election or if it
    is unknown whether there is a leader."""
    forecast: ElectionForecast
    """The election, if each doubt turns out well."""

    @property
    def electable(self) -> bool | None:
        """Whether there is a leader after the change; None if it is unknown."""
        return self.answer.value

    def claims(self, question: Question, node: NodeId | None = None) -> tuple[Claim, ...]:
        """Returns the answer as values, where the change asks this question about this node."""
        undecided = self.answer.decided_by
        answer = Claim(question=question, node=node, answer=yes_or_no(self.electable), undecided=undecided)
        return (answer,) if self.leader_stays is None else (answer, claim(Question.LEADER, self.leader_stays))

    @property
    def unknown(self) -> str | None:
        """Why the outcome is not certain, as a sentence; None if it is, or if the quorum has no voter set."""
        return self.answer.why_unknown or None

    @property
    def majority(self) -> int | None:
        """Votes needed in the newest voter set; None if no voter set is known."""
        return None if self.controllers.voters is None else self.controllers.voters.majority


def controllers_of_quorum(facts: Facts) -> Controllers:
    """Returns the controllers as a query or a journal shows them: a voter that does not fetch counts as down.

    Those of a static quorum dial the endpoints that DescribeQuorum has from Kafka 3.9 on.
    """
    now, voters = electorate_now(facts), facts.nodes.dialled
    if voters is None:
        now = Electorate(electors=())
    return Controllers(
        cluster=facts.quorum.cluster,
        voters=voters,
        electorate=now,
        leader=facts.current_leader,
        assumed=tuple(_assumed(now)),
        elsewhere=frozenset(view.node for view in facts.disagreeing_views if view.node is not None),
    )


def _assumed(now: Electorate) -> Iterator[str]:
    if unknown := [one.key.id for one in now.electors if one.log_end is None]:
        yield f"where the logs of {and_join(unknown)} end is unknown: assumed not to be ahead"


def what_if(controllers: Controllers, change: Change) -> WhatIf:
    """Answers for a change of these controllers, which are voters of it."""
    before = controllers.electorate
    after = after_starts(before, (_changed(one, change) for one in before.electors))
    forecast = best(after).forecast
    answer = _answer(controllers, change, after, forecast)
    stays = _staying_leader(controllers, change, world(after, ())) if answer.value else None
    return WhatIf(controllers=controllers, answer=answer, leader_stays=stays, forecast=forecast)


def _answer(controllers: Controllers, change: Change, after: Electorate, forecast: ElectionForecast) -> Answer[bool]:
    if after.unobserved is not None:
        return Answer(None, unobserved=after.unobserved)
    if not after.electors:
        return Answer(None, unobserved=NO_ENDPOINTS)

    def has_leader(one: World) -> bool:
        return one.forecast.electable or _staying_leader(controllers, change, one) is not None

    answer = decide(after, has_leader)
    if answer.value is False and (chance := _chance(forecast, after)):
        return Answer(None, unobserved=chance)
    return answer


def _chance(forecast: ElectionForecast, after: Electorate) -> str:
    """Returns the sentence about the first candidate that may win by chance; empty if none may."""
    if not forecast.uncertain:
        return ""
    candidate = forecast.uncertain[0]
    found = next(one for one in after.electors if one.key == candidate.may_reach[0])
    assert found.last_election is not None
    return (
        f"controller {found.key.id} led epoch {found.last_election.epoch} when it stopped, and controller "
        f"{candidate.key.id} does not know it: for a second or two after its start, {found.key.id} tells its new "
        f"endpoint, and only if {candidate.key.id} asks in that time can it be elected"
    )


_AT_ITS_ADDRESS = frozenset({DialStep.NAME, DialStep.CONNECTION, DialStep.NODE, DialStep.ANSWER})
"""What a controller that is moved leaves behind."""


def _changed(one: Elector, change: Change) -> Elector:
    left = {of for of, step in one.unreached.items() if of in change.moved and step in _AT_ITS_ADDRESS}
    one = replace(one, unreached={of: step for of, step in one.unreached.items() if of not in left}) if left else one
    if one.key.id in change.lost:
        return replace(one, runs=Part.LOST, no_start="")
    if one.key.id not in change.moved:
        return one.restarted if change.restarted is None or one.key.id in change.restarted else one
    endpoints = one.voters.voters[0].endpoints
    host, port = change.moved[one.key.id]
    endpoint = Endpoint(listener=endpoints[0].listener if endpoints else "CONTROLLER", host=host, port=port)
    # A controller that is moved listens at the new endpoint, whatever was wrong with the old one, but its certificate.
    reached = one.reached if one.reached is Part.DOUBTFUL else one.leads
    return replace(one, runs=Part.COUNTS, reached=reached, announced_in_vain=False, endpoint=endpoint).restarted


def _staying_leader(controllers: Controllers, change: Change, after: World) -> NodeId | None:
    """Returns the leader if it runs on and a majority can fetch from it: restarted voters find it (KIP-853)."""
    leader, voters = controllers.leader, controllers.voters
    if leader is None or voters is None or change.restarted is None or leader in change.nodes:
        return None
    known = next((one for one in after.electors if one.key.id == leader), None)
    if known is not None and known.leads is Part.COUNTS and known.announced_in_vain:
        # Whether the others were connected to it before its endpoint ceased to reach it is not known.
        return None
    # Open connections outlast a certificate: a voter that is restarted cannot connect to such a leader again, nor to
    # one that serves no new connection.
    found_again = known is not None and known.leads is Part.COUNTS
    alive = [
        one.key.id
        for one in after.electors
        if one.runs is Part.COUNTS
        and one.key.id not in controllers.elsewhere
        and (one.key.id not in change.restarted or (found_again and after.denied_by <= {one.key.id}))
        and not (one.key.id in change.restarted and leader in one.unreached)
    ]
    return leader if leader in alive and len(alive) >= voters.majority and after.has_majority_of_latest else None
