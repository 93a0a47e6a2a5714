"""No controller leads the metadata quorum, or the one that leads commits nothing.

What it means
    At least one controller answers that it knows no leader, or every voter refuses connections where the log records
    it, or answers that it does not lead. Or a leader answers, and no majority of the voters replicates its log: it has
    committed nothing since its election, or its high watermark does not move although its log grows. No metadata change
    is possible: no topic is created, no broker joins, no partition gets a new leader, although every process may look
    healthy. Produce and fetch continue where a partition's leader is alive, until the next broker fails.

    The alert is one until something is committed: leaders that are elected and resign again change its text. A healthy
    quorum commits twice a second even when it is idle (NoOpRecord, KIP-835), unless NoOps are switched off.

    If kraftwatch only cannot observe the quorum (timeouts, names, permissions, a login that a majority rejects),
    `monitor-blind` fires instead; also while a voter that may lead was not reached. A voter with an expired certificate
    may lead only if it led before: no other voter can begin to fetch from it. If a majority of the voters follow a
    leader, the quorum has one, even if that leader does not answer kraftwatch.

    Where no leader has answered yet, because kraftwatch was started during the outage, only `bootstrap` is known. The
    alert fires if three controllers or more are configured and all of them refuse connections, but for fewer names that
    do not resolve (not with `vantage: outside`); if those that answer name a leader that refuses connections; or if
    they do not lead, and so many of the others refuse that no majority is left. With fewer addresses `monitor-blind`
    fires: there may be other controllers.

    Several addresses of one controller are one voter. A leader whose endpoint refuses connections is down; this alert
    also fires if a firewall refuses kraftwatch's connections to the leader alone, or drops those to a majority of the
    voters.

    Where the hosts of controllers report to the job what they see (`kraftwatch witness`), the alert says who does not
    reach whom, at which step and why. A controller whose authorizer denied what the others send, when it last answered,
    is named although it is down: each controller that it denied has ended.

What to do
    A leader is elected within seconds once a majority of the voters run and reach each other at the endpoints recorded
    in the log.

    1. Start the controllers that are down.
    2. A controller that accepts connections and does not answer is hung: take a thread dump of it, then restart it.
       If connections to it time out, check its host first. One that answers late runs: its disk or host is slow, and a
       restart does not help.
    3. Restore names and ports that were removed: the endpoints in the log count, not those in the configuration.
    4. Replace a certificate that the other controllers do not accept: expired, for another host name, or not of a
       trusted certificate authority.
    5. If a majority runs and there is still no leader, check the network between the controllers, and read in their
       logs which voter rejects which vote request. A controller whose log directory was formatted again is no longer
       the recorded voter, and has no vote: give it the former directory back. If it was formatted over the same log,
       write the former `directory.id` back: `kraftwatch rescue plan` compares the logs. In a static quorum each
       controller counts votes by its own `controller.quorum.voters`: all need the same list, with names that they can
       resolve.
    6. "failed authentication" or "SSL handshake failed" in their logs: correct the logins and certificates. SCRAM works
       between them only while there is a leader: its credentials are in the metadata log, and a restarted controller
       reads them when it has found one. Give their listener PLAIN, GSSAPI or mutual TLS.
    7. AuthorizerNotReadyException or ClusterAuthorizationException: add the principals of all controllers to
       `super.users` of each controller. ACLs are in the metadata log too.
    8. If a controller leads and commits nothing, find in the evidence which voters do not fetch. One that answers and
       does not fetch reaches no leader, or one of them rejects the other: compare certificates, trust stores, logins,
       `super.users` and firewalls, from its host to the leader's endpoint. If all voters fetch and nothing is
       committed, the leader itself is stuck: restart it, so that another voter is elected.
    9. If controllers run at other endpoints for good, stop them all and write the new endpoints into each:
       `kraftwatch rescue plan` reads a copy of every metadata.log.dir and prints the procedure; the alert holds the
       list of this cluster. `kraftwatch what-if` predicts from the copies who can be elected.

    If a host is lost and its disk is not, start the controller from that disk at the same endpoint. If so many voters
    are gone for good, with their disks, that no majority can run, new endpoints do not help. `kraftwatch rescue plan
    --lost` makes a quorum of the voters that are left, and says before anything is written what may be lost.

What not to do
    Do not format or wipe a controller to "start afresh": a majority of the logs is the cluster's metadata.
    Do not restart the controllers that still answer, or a voter that is in sync, except the leader in step 8.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from rules.answers.forecast import forecast_election
from rules.answers.leader import CommitsNothing, LeaderUnknown, Leads, leader
from rules.answers.now import in_sync_text, leads
from rules.answers.part import electors
from rules.claims.claim import NO, YES, At, Question, claim
from rules.claims.statement import Statement, joined, statement
from rules.claims.words import (
    clause,
    controllers_are,
    elects_none,
    no_leader,
    reached_at_most,
    sentence,
    silent,
    take_no_part,
    unresolved,
)
from rules.facts.endpoint import EndpointFault
from rules.facts.endpoint_text import certificate_text, endpoint_kind, evidence_of, faults_text
from rules.facts.following import Following
from rules.facts.following_text import follows_sentence, follows_text, voters_in_sync
from rules.facts.leadership import Leaderless
from rules.facts.node import NodeFacts, Process
from rules.facts.node_claims import answers_claim, in_sync_count, leader_claim
from rules.facts.quorum import Facts
from rules.facts.reported_leaders import epochs_in_vain, last_leader, last_leader_answer_ms
from rules.facts.witnesses import unreached_text
from rules.finding import HOLD, Finding, Plain, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import and_join, needed_text, numbered, plural, utc_text
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import majority
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.outage_steps import (
    SILENT,
    all_accept,
    commit_steps,
    does_not_answer,
    down_voters,
    election_steps,
    late_voters,
    reached_voters,
)
from rules.rule import Rule

_START_HOLD_MS: Final = Millis(30_000)
"""The least hold while every configured controller refuses connections and none has answered yet: kraftwatch may be
started together with them."""
_STILL = Threshold(
    name="still",
    default=10.0,
    meaning="how long the high watermark must not move, while a leader that has committed something in its epoch "
    "answers, before the condition begins. An idle quorum commits every half second, so the default is twenty missed "
    "commits",
)
_STILL_HOLD = Threshold(
    name="still_hold",
    default=20.0,
    meaning="how long that must last: a leader without a majority resigns within seconds (check quorum), and an "
    "election takes one or two",
)
_AT = {Process.DOWN: At.REFUSES, Process.HUNG: At.HANGS, Process.NOT_REACHED: At.UNREACHED}
"""What answers at the endpoint of a voter that takes part in no election (`SILENT`)."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the quorum while nobody leads, or who leads commits nothing."""
    match leader(facts, still_ms=thresholds.ms(_STILL.name)):
        case LeaderUnknown(why=why):
            yield UnknownResult(why=why)
        case Leaderless() as state:
            yield _nobody_leads(facts, state, thresholds)
        case CommitsNothing() as state:
            yield _nothing_committed(facts, state, thresholds)
        case Leads():
            return


def _nobody_leads(facts: Facts, state: Leaderless, thresholds: Thresholds) -> Finding:
    voters = tuple(facts.nodes[node] for node in sorted(facts.quorum.voter_ids))
    return Finding(
        subject=Subject("quorum"),
        severity=Severity.CRITICAL,
        summary=_summary(facts, state, voters),
        evidence=_evidence(facts, state, voters),
        remedy=election_steps(facts, state, voters),
        starts=tuple(voter.id for voter in voters if not voter.reachable or does_not_answer(voter)),
        hold_ms=max(thresholds.ms(HOLD), _START_HOLD_MS) if state.never_answered else None,
    )


def _nothing_committed(facts: Facts, state: CommitsNothing, thresholds: Thresholds) -> Finding:
    quorum, poll, voters = facts.quorum, state.poll, facts.nodes.polled_voters
    end = None if poll.leader is None else poll.leader.log_end_offset
    committed, number = quorum.high_watermark, majority(len(voters))
    uncommitted = None if end is None or committed is None else end - committed
    but = ""
    if state.elected_since:
        but = f"{_in_vain(quorum)}, and has committed nothing since its election"
    elif uncommitted is not None:
        but = f", with {plural(uncommitted, 'uncommitted record')}"
    missing = [voter for voter in voters if not state.follows(voter)]
    fetched: Statement | str = voters_in_sync(facts.nodes)
    if state.elected_since:
        having = len(voters) - len(missing)
        fetched = f"{having} of {plural(len(voters), 'voter')} {'has' if having == 1 else 'have'} its records"
    against = [*_obstacles(facts, voters), *_reached_and_silent(facts, state, missing)]
    return Finding(
        subject=Subject("quorum"),
        severity=Severity.CRITICAL,
        summary=statement(
            f"Nothing is committed since {utc_text(state.since_ms)}: ",
            clause(claim(Question.COMMITS, NO)),
            ". ",
            sentence(clause(leader_claim(facts.nodes)), f" in epoch {poll.leader_epoch}{but}. "),
            joined(against),
            " " if against else "",
            fetched,
            f"; {needed_text(number)}.",
            _denials(facts),
            _unreached(facts),
        ),
        evidence={
            "high_watermark": committed,
            "high_watermark_since_ms": quorum.high_watermark_since_ms,
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
            "leader_log_end_offset": end,
            "uncommitted_records": uncommitted,
            "voters_in_sync": in_sync_count(voters),
            "majority": number,
            "voters": {
                str(voter.key): f"{follows_text(facts.nodes, voter)}; log ends at {_or_unknown(voter.log_end_offset)}"
                for voter in voters
            },
        },
        remedy=commit_steps(facts, poll.leader_id, missing),
        starts=tuple(voter.id for voter in missing if voter.following is not Following.LAGGING) or (poll.leader_id,),
        hold_ms=None if state.elected_since else max(thresholds.ms(HOLD), thresholds.ms(_STILL_HOLD.name)),
    )


def _in_vain(quorum: Quorum) -> str:
    """Returns after which epoch nothing was committed any more, with how many; empty for the next epoch."""
    epochs = epochs_in_vain(quorum)
    return f", {epochs} epochs after the last one in which something was committed" if epochs else ""


def _reached_and_silent(facts: Facts, state: CommitsNothing, missing: list[NodeFacts]) -> Iterable[str]:
    """Yields the voters that answer and do not follow: nothing else says why."""
    for voter in missing:
        if voter.process is not Process.RUNNING or voter.faults or voter.following is Following.LAGGING:
            continue
        if state.elected_since:
            yield f"Voter {voter.id} answers, and has not fetched from controller {state.poll.leader_id}."
        else:
            yield follows_sentence(facts.nodes, voter)


def _or_unknown(value: int | None) -> str:
    return "an unknown offset" if value is None else str(value)


def _summary(facts: Facts, state: Leaderless, voters: tuple[NodeFacts, ...]) -> Statement:
    quorum = facts.quorum
    at, in_vain = last_leader_answer_ms(quorum), _in_vain(quorum)
    since = "" if at is None else f" since {utc_text(at)}"
    if in_vain and at is not None and quorum.high_watermark_since_ms is not None:
        # Leaders have answered since, and none of them was followed.
        since = f" that commits since {utc_text(min(at, quorum.high_watermark_since_ms))}"
    first_ms = min((failure.first_at_ms for failure in state.failures), default=quorum.watched_since_ms)
    if at is not None and at < quorum.watched_since_ms <= first_ms:
        # Nobody knows how long the quorum still had a leader while the monitor did not observe it.
        since = f" at least since {utc_text(quorum.watched_since_ms)}"
    led = last_leader(quorum)
    last = "" if led is None else f" The last leader was controller {led}{in_vain}."
    if state.rejecting:
        reasons = and_join(sorted({failure.reason for failure in state.failures}))
        return statement(
            no_leader(f" is known{since}"),
            f": the controllers at {and_join(state.rejecting, 4)} were down, run again, and reject the monitor "
            f"({reasons}). If they reject each other as well, none of them is elected.{last}",
        )
    if state.never_answered:
        return statement(
            no_leader(" is known"),
            f": the configured controllers at {and_join(state.refused, 4)} refuse connections, and none has answered "
            f"yet. If there are no others, {clause(claim(Question.COMMITS, NO))!s}.",
        )
    return statement(
        no_leader(since),
        ": ",
        clause(claim(Question.COMMITS, NO)),
        ". ",
        _voters(facts, state, voters),
        _uncommitted_voters(quorum),
        _denials(facts),
        _unreached(facts),
        last,
    )


def _denials(facts: Facts) -> str:
    """Returns which controllers deny what a candidate sends; it begins with a space, and is empty without any."""
    seen = facts.witnesses.denied
    by_their_hosts = "".join(
        f" Controller {node} denied {numbered('controller', others)} when it last answered, as seen from their hosts: "
        "a controller that it denies ends."
        for node, others in sorted(seen.items())
    )
    found = {node: why for node, why in facts.denied_before_outage.items() if node not in seen}
    return by_their_hosts + _denials_of_monitor(found)


def _denials_of_monitor(found: Mapping[NodeId, str]) -> str:
    if len(found) > 1:
        nodes = numbered("controller", sorted(found)).capitalize()
        return (
            f" {nodes} deny the monitor, or did when they last answered, and maybe the other controllers (their "
            "authorizers deny CLUSTER_ACTION): a controller that they deny ends."
        )
    return "".join(f" Controller {node} {why}: a controller that it denies ends." for node, why in found.items())


def _unreached(facts: Facts) -> str:
    """Returns who does not reach whom, as their own hosts see it: why elections are in vain, or why none is followed.

    It begins with a space, and is empty without any.
    """
    seen, voters = facts.witnesses, (voter.id for voter in facts.nodes.voters if not voter.is_down)
    texts = (unreached_text(seen, of, seen.unreached_by(of)) for of in voters)
    return "".join(f" {text}" for text in texts if text)


def _uncommitted_voters(quorum: Quorum) -> str:
    """Returns which votes are needed by the newest voter set of the last leader: replicas use it before it commits."""
    poll, committed = quorum.poll, quorum.committed
    if poll is None or committed is None or poll.voter_keys == committed.keys:
        return ""
    if poll.high_watermark is None or poll.high_watermark <= committed.offset:
        # The newest poll is from before the committed change.
        return ""
    nodes = sorted(key.id for key in poll.voter_keys)
    return (
        f" The last leader's change of the voters to {and_join(nodes)} may not be committed: with it "
        f"{majority(len(nodes))} of these {len(nodes)} votes are needed."
    )


def _voters(facts: Facts, state: Leaderless, voters: tuple[NodeFacts, ...]) -> str:
    if not voters:
        if not state.answered:
            return "Every configured controller refuses connections."
        refused = f" Connections are refused at {and_join(state.refused, 4)}." if state.refused else ""
        return f"Reported by {and_join(state.answered, 3)}.{refused}{_silent_text(facts)}"
    sentences = [*_obstacles(facts, voters)]
    running, needed = reached_voters(facts, voters), majority(len(voters))
    if not sentences:
        accepting = [one for voter in voters for one in answers_claim(voter)] if all_accept(voters) else []
        if epochs_in_vain(facts.quorum):
            return "No majority follows a controller that is elected."
        return statement(elects_none(len(voters), accepting), ".")
    reached = claim(Question.REACHED, running, of=len(voters))
    counted = reached_at_most(reached) if facts.replaced_disks else clause(reached)
    return statement(joined(sentences), " ", counted, f"; {needed_text(needed)}.")


def _silent_text(facts: Facts) -> str:
    silent = facts.who_leads.silent
    places, reasons = sorted({one.endpoint for one in silent}), sorted({one.reason for one in silent})
    return f" No answer from {and_join(places, 4)} ({and_join(reasons)})." if silent else ""


def _obstacles(facts: Facts, voters: tuple[NodeFacts, ...]) -> Iterable[str]:
    """Yields what is known against the voters: why one does not vote, is not reached, or cannot lead."""
    processes = {voter.id: voter.process for voter in voters}
    missing = [node for node, process in processes.items() if process in SILENT]
    lost = [voter.id for voter in voters if EndpointFault.NAME_NOT_FOUND in voter.faults]
    yield from _without_vote(facts, len(voters))
    for state, answer in _AT.items():
        if nodes := [node for node in missing if processes[node] is state]:
            yield statement(silent(nodes, answer), ".")
    yield from _late(late_voters(voters), of=len(voters))
    yield from _refusing_elsewhere(voters)
    if lost:
        yield unresolved(lost)
    for voter in voters:
        if not voter.can_lead and voter.probe:
            found = f"The certificate of controller {voter.id} {certificate_text(voter.probe)}: it "
            yield statement(found, take_no_part((voter.id,)), ".")
    for voter in voters:
        if EndpointFault.OTHER_RESPONDER in voter.faults and voter.id not in missing:
            endpoint = f"{endpoint_kind(facts.quorum)} endpoint {voter.endpoint}"
            yield statement(f"Voter {voter.id}'s {endpoint} ", faults_text(voter), ".")


def _late(nodes: list[NodeId], *, of: int) -> Iterable[str]:
    """Yields which voters run and answer late."""
    if nodes:
        run, slow = (
            ("runs and answers", "its disk or its host is slow")
            if len(nodes) == 1
            else ("run and answer", "a disk or a host that they share is slow")
        )
        few = ", and too few are in time for an election or a commit" if of - len(nodes) < majority(of) else ""
        yield f"{numbered('controller', nodes).capitalize()} {run} late: {slow}{few}."


def _refusing_elsewhere(voters: tuple[NodeFacts, ...]) -> Iterable[str]:
    """Yields which voters are down by what is at other addresses of theirs: the recorded ones are out of sight."""
    addresses = {voter.id: voter.refuses_elsewhere for voter in voters}
    if nodes := [node for node, refusing in addresses.items() if refusing]:
        where = and_join([address for node in nodes for address in addresses[node]], 4)
        refuse, they = ("refuses", "it") if len(nodes) == 1 else ("refuse", "they")
        controllers = numbered("controller", nodes).capitalize()
        yield f"{controllers} {refuse} connections at {where}, where {they} answered before."


def _without_vote(facts: Facts, voters: int) -> Iterable[str]:
    replaced = facts.replaced_disks
    if replaced:
        ids = "another directory id" if len(replaced) == 1 else "other directory ids"
        run = f"{controllers_are(sorted(replaced))} running with {ids}, {and_join(map(str, replaced.values()))}, and "
        yield statement(run, take_no_part(replaced), ".")


def _evidence(facts: Facts, state: Leaderless, voters: tuple[NodeFacts, ...]) -> dict[str, Plain]:
    quorum = facts.quorum
    at = last_leader_answer_ms(quorum)
    moved = forecast_election(electors(facts))
    down = forecast_election(electors(facts, refusing_are_down=True))
    return {
        "no_leader_reported_by": list(state.answered),
        "polls_refused_by": list(state.refused),
        "connections_refused_by": [
            *sorted({*state.refused, *(str(controller.endpoint) for controller in down_voters(voters))})
        ],
        **({"started_and_rejecting": [*state.rejecting]} if state.rejecting else {}),
        "last_leader": last_leader(quorum),
        "last_leader_epoch": quorum.leader_epoch,
        "last_leader_answer_at_ms": at,
        "last_committed_offset": quorum.last_offset,
        "voters_record_offset": quorum.committed.offset if quorum.committed else None,
        "majority": quorum.committed.majority if quorum.committed else None,
        "electable_if_refusing_voters_moved": moved.electable if voters else None,
        "electable_if_refusing_voters_are_down": down.electable if voters else None,
        "voters": {str(voter.key): _voter(quorum, voter) for voter in voters},
    }


def _voter(quorum: Quorum, voter: NodeFacts) -> dict[str, Plain]:
    history = quorum.histories.get(voter.key)
    return {
        **evidence_of(voter),
        "log_end_offset": history.last_log_end_offset if history else None,
        "log_end_epoch": history.last_leader_epoch if history else None,
    }


def _resolved(facts: Facts, _subject: Subject) -> str:
    quorum = facts.quorum
    leader = "A controller leads the metadata quorum" if quorum.leader_id is None else leads(quorum)
    commits = ""
    risen_ms = quorum.high_watermark_since_ms
    if (
        quorum.high_watermark is not None
        and not quorum.silent_ms
        and risen_ms is not None
        and quorum.is_current(risen_ms, quorum.ages.answer_ms)
    ):
        commits = statement(" and ", clause(claim(Question.COMMITS, YES)))
    counted = in_sync_text(facts)
    return statement(leader, commits, ". ", counted) if counted else statement(leader, commits, ".")


RULE = Rule(
    title="No controller leads the metadata quorum, or nothing is committed",
    resolved=_resolved,
    hold=hold(5.0, "longer than an election"),
    further_thresholds=(_STILL, _STILL_HOLD),
    without_leader=True,
)
