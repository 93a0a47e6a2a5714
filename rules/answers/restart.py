"""Whether one node may be restarted now: what the quorum would be without it, and what must be fixed first.

Of a controller, safe means: the voters that remain are a majority, fetch, have caught up and could elect a leader
among themselves; every voter's endpoint reaches it, and it accepts there what the others send, so that the restarted
voter finds the others and they find it (KIP-853); no other controller is down; no disk replacement and no change of the
voter set is in progress. Of a broker, `broker_restart` says it; a node of both roles needs both answers. Not safe means
that one of these is known to be otherwise; unknown, that one of them is not known.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from rules.answers.broker_restart import NO_TERMS, AffectedPartitions, BrokerRestart, RestartTerms, broker_restart
from rules.answers.forecast import forecast_election
from rules.answers.part import Elector, Part, electors
from rules.answers.refusal import Against, Refusal, being_restarted, decided
from rules.answers.worlds import ONE_WAY
from rules.claims.claim import NOBODY, Claim, Directory, Follows, Question, claim, of_each, yes_or_no
from rules.claims.statement import claims_of, part_of, statement
from rules.claims.words import clause, it_leads, new_directory, not_counted, predicate
from rules.facts.asked_once import asked_once
from rules.facts.doubts import IN_DOUBT, UNPROVED, About, Doubt, of_start
from rules.facts.endpoint import EndpointFault
from rules.facts.endpoint_text import certificate_text, endpoint_kind, faults_text
from rules.facts.following import Following, following
from rules.facts.freshness import NO_VOTERS_RECORD, POLLS_ONLY, fresh_poll, log_read_problem, poll_problem
from rules.facts.node import NodeFacts
from rules.facts.node_claims import answers_claim, follows_claim, leader_claim
from rules.facts.quorum import Facts
from rules.facts.voter_changes import half_done
from rules.facts.witnesses import why_unreached
from rules.finding import Finding, Thresholds
from rules.formatting import and_join, ms_text, needed_text, numbered, plural
from rules.model.history import NodeKind
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.membership import majority
from rules.model.replica import Poll
from rules.model.witness import DialStep
from rules.remedies.start_conditions import before_a_start, resolve_names_first

ONLY_VOTER = "it is the only voter: the quorum has no leader until it is back"
"""Why the restart of a single controller is not safe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartSafety:
    """Whether a restart is safe, with the reasons."""

    node: NodeId
    roles: tuple[NodeKind, ...]
    """The roles of which the restart was evaluated."""
    against: tuple[Refusal, ...]
    """Why it is not safe, the most important reason first; empty if nothing is known against it."""
    left_out: tuple[Refusal, ...] = ()
    """The reasons that the person who asks leaves out."""
    unobserved: tuple[str, ...] = ()
    """What is not observed and may make it unsafe."""
    undecided: tuple[Doubt, ...] = ()
    """The doubts about controllers that may make it unsafe."""
    notes: tuple[str, ...]
    """What to know besides; these do not make a restart unsafe."""
    remaining: tuple[NodeId, ...] | None
    """The other voters that fetch, have caught up and accept connections; None if unknown, and of a broker alone."""
    votes_needed: int | None
    partitions: AffectedPartitions | None = None
    """Of a broker; None if unknown."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """What is not known and may make it unsafe, each with what to do to find out."""
        return (*self.unobserved, *(f"{_text(doubt)}; to find out, {doubt.find_out}" for doubt in self.undecided))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The answer and all that it rests on, as values."""
        undecided = tuple(doubt.node for doubt in self.undecided)
        answer = Claim(question=Question.RESTART, node=self.node, answer=yes_or_no(self.safe), undecided=undecided)
        follow = of_each(Question.FOLLOWS, self.remaining or (), Follows.IN_SYNC)
        return (answer, *follow, *claims_of((*(one.why for one in self.against), *self.notes)))

    @property
    def safe(self) -> bool | None:
        """Whether the restart is safe; None if nothing speaks against it, and not all is known that it needs."""
        return False if self.against else None if self.unknown else True


def safe_to_restart(
    facts: Facts,
    node: NodeId,
    thresholds: Thresholds,
    findings: Iterable[Finding],
    terms: RestartTerms = NO_TERMS,
) -> RestartSafety:
    """Evaluates the restart of one of `restartable(facts)`. `findings`: those of all rules."""
    roles, poll = roles_of(facts, node), usable_poll(facts)
    if isinstance(poll, Unusable):
        return RestartSafety(
            node=node,
            roles=roles,
            against=poll.against,
            unobserved=poll.unknown,
            notes=(),
            remaining=None,
            votes_needed=None,
        )
    found = [*findings]
    if NodeKind.CONTROLLER in roles:
        controller = _controller_restart(facts, node, poll, thresholds, found)
    else:
        against = (*_unreached_leader(facts, poll, node), *map(_must_run, resolve_names_first(facts)))
        controller = _ControllerRestart(against=against)
    broker = broker_restart(facts, node, terms) if NodeKind.BROKER in roles else BrokerRestart()
    refusals = (*_forbidden(facts, node, found), *controller.against, *broker.against)
    others = being_restarted(node, terms.announced, facts.quorum.now_ms)
    counted = decided((*refusals, *others), terms.despite, terms.announced)
    return RestartSafety(
        node=node,
        roles=roles,
        against=counted.against,
        left_out=counted.left_out,
        unobserved=(*controller.unobserved, *broker.unobserved),
        undecided=controller.undecided,
        notes=(*controller.notes, *broker.notes, *counted.notes),
        remaining=controller.remaining,
        votes_needed=controller.votes_needed,
        partitions=broker.partitions,
    )


def restart_thresholds(thresholds: Mapping[str, Thresholds]) -> Thresholds:
    """Returns the thresholds by which a restart is evaluated, from those of all rules."""
    disk, endpoint = thresholds["voter-disk-replaced"], thresholds["stale-voter-endpoint"]
    return Thresholds(values={**disk.values, **endpoint.values})


def with_reasons_against(
    facts: Facts, findings: Sequence[Finding], thresholds: Mapping[str, Thresholds]
) -> Sequence[Finding]:
    """Returns the findings. Before a step that restarts a node, its remedy says all that `safe-to-restart` has against
    it: a rule knows only its own fault.
    """

    @cache
    def against(node: NodeId) -> tuple[str, ...]:
        answer = safe_to_restart(facts, node, restart_thresholds(thresholds), findings)
        return tuple(map(str, answer.against))

    return [_with_reasons(facts, one, against) if _advised(one.claims) else one for one in findings]


def _advised(claims: Iterable[Claim]) -> list[NodeId]:
    return [one.node for one in claims if one.question is Question.ADVISED and one.node is not None]


def _with_reasons(facts: Facts, finding: Finding, against: Callable[[NodeId], tuple[str, ...]]) -> Finding:
    remedy, said = dict[str, None](), "\n".join(finding.remedy)
    for step in finding.remedy:
        for node in _advised(claims_of((step,))):
            roles = roles_of(facts, node)
            name = f"{roles[0].value if len(roles) == 1 else 'node'} {node}"
            reasons = (reason for reason in against(node) if reason not in said)
            remedy |= dict.fromkeys(
                statement(f"# What speaks against a restart of {name} now: ", reason) for reason in reasons
            )
        remedy[step] = None
    return replace(finding, remedy=(*remedy,), claims=tuple(dict.fromkeys((*finding.claims, *claims_of(remedy)))))


def roles_of(facts: Facts, node: NodeId) -> tuple[NodeKind, ...]:
    """Returns the roles in which this node is known; a registration as a broker that is left over is none."""
    controller, broker = node in facts.known_controllers, node in facts.quorum.brokers
    kinds = ((NodeKind.CONTROLLER, controller), (NodeKind.BROKER, broker and node not in facts.leftover_brokers))
    # Before anything is known, any node may be a controller.
    return tuple(kind for kind, known in kinds if known) or (NodeKind.CONTROLLER,)


def restartable(facts: Facts) -> frozenset[NodeId]:
    """Returns the nodes whose restart can be evaluated: controllers and registered brokers."""
    return facts.known_controllers | facts.quorum.brokers.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ControllerRestart:
    """What speaks against the restart of a controller, or of a node that must find the leader again."""

    against: tuple[Refusal, ...]
    unobserved: tuple[str, ...] = ()
    undecided: tuple[Doubt, ...] = ()
    notes: tuple[str, ...] = ()
    remaining: tuple[NodeId, ...] | None = None
    votes_needed: int | None = None


def _controller_restart(
    facts: Facts, node: NodeId, poll: Poll, thresholds: Thresholds, found: list[Finding]
) -> _ControllerRestart:
    quorum = facts.quorum
    voters = sorted(quorum.committed.keys if quorum.committed else poll.voter_keys)
    # A leader that stays needs no other one, so that the others can be restarted, which begins their timers again.
    unproved = UNPROVED | {About.TIMERS} if node == poll.leader_id else UNPROVED
    needed, doubts = majority(len(voters)), facts.doubts_about(unproved)
    missing = {key.id: why for key in voters if key.id != node and (why := _missing(facts, poll, facts.nodes[key.id]))}
    useful = [key.id for key in voters if key.id not in {node, *missing}]
    remaining = [other for other in useful if other not in doubts]
    changes = [*_unfinished_changes(facts, poll, thresholds, found)]
    start = of_start(facts.replay_end, node)
    undecided, unobserved = [] if start is None else [start], list[str]()
    if node in {key.id for key in voters}:
        against = [
            *_too_few_voters(missing, len(useful), needed, len(voters)),
            *_endpoint_problems(facts, node),
            *_unreached_leader(facts, poll, node),
            *(_fenced_brokers(facts, node) if node == poll.leader_id else ()),
            *changes,
            *(_unelectable(facts, node) if len(useful) >= needed else ()),
        ]
        undecided += [doubts[other] for other in useful if other in doubts]
        unobserved += _by_chance(facts, node)
        undecided += _unknown_endpoints(facts, node)
        # Started again, it asks any of the bootstrap controllers who leads, also one that has no vote.
        others = facts.denying.keys() - {key.id for key in voters}
        undecided += [facts.denying[other] for other in sorted(others)]
    else:
        # Without a vote its restart does not change the quorum: only an unfinished change is a reason against it, or a
        # leader that it would not find again.
        against = [
            *_unreached_leader(facts, poll, node),
            *changes,
            *map(_must_run, resolve_names_first(facts)),
        ]
    return _ControllerRestart(
        against=tuple(against),
        undecided=tuple(undecided),
        unobserved=tuple(unobserved),
        notes=tuple(_notes(facts, poll, node, voters)),
        remaining=tuple(remaining),
        votes_needed=needed,
    )


def _forbidden(facts: Facts, node: NodeId, findings: Iterable[Finding]) -> Iterable[Refusal]:
    """Yields what must be done before this node starts again, and why others say that it must run on."""
    for step in before_a_start(facts, (node,), unchanged=True):
        yield _must_run(step)
    for finding in findings:
        if node in finding.keep_running:
            past, first = finding.past_failures, finding.summary.partition(". ")[0].removesuffix(".")
            yield Refusal(
                name=finding.rule,
                why=part_of(first, finding.summary),
                until=f"{finding.rule} resolves" if past is None else past.until,
                ends_at_ms=None if past is None else past.ends_at_ms,
                failures=() if past is None else past.times,
                enough=0 if past is None else past.enough,
            )


def _must_run(step: str) -> Refusal:
    return Refusal(name=Against.MUST_RUN, why=part_of(step.removeprefix("# "), step))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """Why nothing can be said of a restart beyond this."""

    against: tuple[Refusal, ...] = ()
    unknown: tuple[str, ...] = ()


@asked_once
def usable_poll(facts: Facts) -> Poll | Unusable:
    """Returns the poll by which a restart is evaluated, or why nothing can be said of one."""
    quorum = facts.quorum
    no_leader = facts.leaderless
    if no_leader is not None:
        reported = f"reported by {and_join(no_leader.answered, 3)}" if no_leader.answered else "all refuse connections"
        leads = statement(clause(claim(Question.LEADER, NOBODY)), f" ({reported})")
        return Unusable(against=(Refusal(name=Against.NO_LEADER, why=leads, until="a controller leads"),))
    unread = log_read_problem(quorum) if quorum.access.log else POLLS_ONLY
    if unread is not None:
        return Unusable(unknown=(unread,))
    poll = fresh_poll(quorum)
    if poll is None:
        return Unusable(unknown=(poll_problem(quorum),))
    if quorum.leader_id is None:
        return Unusable(unknown=("no controller is known to lead now",))
    if quorum.committed is None and quorum.kraft_version:
        return Unusable(unknown=(NO_VOTERS_RECORD,))
    return poll


def _missing(facts: Facts, poll: Poll, voter: NodeFacts) -> str | None:
    """Returns why the quorum cannot count on a voter without another one; None if it can, or that is not proved."""
    in_doubt, kind = facts.doubts_about(IN_DOUBT).get(voter.id), endpoint_kind(facts.quorum)
    if voter.id in facts.without_vote:
        return facts.without_vote[voter.id]
    if in_doubt is not None and voter.id not in facts.doubts_about(UNPROVED):
        return in_doubt.why
    follows = follows_claim(facts.nodes, voter)
    match voter.following:
        case Following.IN_SYNC:
            if EndpointFault.NOT_SERVING in voter.faults:
                return statement(f"has a {kind} endpoint that ", faults_text(voter))
            refuses = (predicate(one) for one in answers_claim(voter) if voter.refused)
            return next((statement(what, f" at its {kind} endpoint") for what in refuses), None)
        case Following.LAGGING:
            return statement(predicate(follows), "" if voter.lag_ms is None else f" by {ms_text(voter.lag_ms)}")
        case Following.NOT_FETCHING | Following.UNKNOWN:
            fetching = (row.key for row in voter.others if following(facts.quorum, poll, row.key).fetches)
            other = next(fetching, None)
            return predicate(follows) if other is None else f"fetches as {other}, with another directory"


def _too_few_voters(missing: Mapping[NodeId, str], remaining: int, needed: int, voters: int) -> Iterable[Refusal]:
    """`missing`: why each other voter that does not count is missing."""
    if voters == 1:
        yield Refusal(name=Against.NO_MAJORITY, why=ONLY_VOTER)
        return
    for node, why in missing.items():
        yield Refusal(
            name=Against.CONTROLLER_MISSING,
            why=statement(f"controller {node} ", why),
            until=f"controller {node} is in sync and answers",
        )
    if remaining < needed:
        left = plural(remaining, "voter")
        text = f"without it {left} of {voters} would remain, caught up and reachable, and {needed_text(needed)}"
        more = plural(needed - remaining, "further voter")
        is_ = "is" if needed - remaining == 1 else "are"
        yield Refusal(name=Against.NO_MAJORITY, why=text, until=f"{more} {is_} in sync and reachable")


def _endpoint_problems(facts: Facts, node: NodeId) -> Iterable[Refusal]:
    for voter, why in _unreached_voters(facts, node):
        yield Refusal(name=Against.VOTER_ENDPOINT, why=why, until=f"voter {voter.id} is reached at {voter.endpoint}")


def _unreached_voters(facts: Facts, node: NodeId) -> Iterable[tuple[NodeFacts, str]]:
    for voter in facts.nodes.voters:
        if _needs_restart(node, voter):
            continue
        if voter.faults:
            endpoint = f"voter {voter.id}'s {endpoint_kind(facts.quorum)} endpoint {voter.endpoint} "
            then = ": a restarted controller may not be able to rejoin the quorum"
            yield voter, statement(endpoint, faults_text(voter), then)


def _unreached_leader(facts: Facts, poll: Poll, node: NodeId) -> Iterable[Refusal]:
    """Yields why a node that is restarted would not find the leader again: it may ask each voter for it."""
    for of, why in _denied_or_unreached(facts, poll, node):
        yield Refusal(
            name=Against.VOTER_ENDPOINT, why=why, until=f"`kraftwatch witness` on its host reaches controller {of}"
        )


def _denied_or_unreached(facts: Facts, poll: Poll, node: NodeId) -> Iterable[tuple[NodeId, str]]:
    for of, dial in sorted(facts.witnesses.unreached_from(node).items()):
        named = facts.witnesses.named(node)
        if dial.step is DialStep.PERMISSION:
            yield of, f"controller {of} denies what {named} sends ({dial.why}): restarted, it may end"
        elif of == poll.leader_id:
            comes_back = "rejoin the quorum" if node in facts.known_controllers else "register"
            yield (
                of,
                f"the host of {named} does not reach the leader, controller {of}, at {dial.endpoint} "
                f"({dial.step}: {dial.why}): restarted, it could not {comes_back}",
            )


def _fenced_brokers(facts: Facts, leader: NodeId) -> Iterable[Refusal]:
    """Yields which brokers would be fenced if another controller led: each sends its heartbeats to the leader."""
    seen, brokers = facts.witnesses, facts.quorum.brokers
    for voter in facts.nodes.voters:
        dials = {by: dial for by, dial in seen.unreached_by_all(voter.id).items() if by in brokers}
        if voter.id != leader and not voter.is_down and dials:
            do, are, host = ("does", "is", "its host") if len(dials) == 1 else ("do", "are", "their hosts")
            why = (
                f"{seen.named(*dials)} {do} not reach controller {voter.id} ({why_unreached(dials)}): if that one is "
                f"elected, {numbered('broker', dials)} {are} fenced"
            )
            reaches = "reaches" if len(dials) == 1 else "reach"
            until = f"`kraftwatch witness` on {host} {reaches} controller {voter.id}"
            yield Refusal(name=Against.VOTER_ENDPOINT, why=why, until=until)


def _unknown_endpoints(facts: Facts, node: NodeId) -> Iterable[Doubt]:
    doubts = facts.doubts_about({About.ENDPOINT})
    for voter in facts.nodes.voters:
        known = voter.faults or voter.refused or _needs_restart(node, voter)
        if voter.id in doubts and not known:
            yield doubts[voter.id]


def _text(doubt: Doubt) -> str:
    if doubt.about is About.ENDPOINT:
        return f"unknown whether voter {doubt.node} can be reached: {doubt.detail}"
    return f"controller {doubt.node} {doubt.why}"


def _needs_restart(node: NodeId, voter: NodeFacts) -> bool:
    """Returns whether this is the voter to restart, and what is wrong with it ends with its restart."""
    return voter.id == node and voter.only_its_restart_helps


def _unfinished_changes(
    facts: Facts, poll: Poll, thresholds: Thresholds, findings: Iterable[Finding]
) -> Iterable[Refusal]:
    for why, until in _changes(facts, poll, thresholds, findings):
        yield Refusal(name=Against.VOTER_CHANGE, why=why, until=until)


def _changes(
    facts: Facts, poll: Poll, thresholds: Thresholds, findings: Iterable[Finding]
) -> Iterable[tuple[str, str]]:
    """Yields each change that has begun, and what ends it."""
    twice = {finding.subject.node for finding in findings if finding.rule == "duplicate-node-id"}
    for copied in sorted(twice):
        yield clause(claim(Question.DIRECTORY, Directory.COPY, node=copied)), "the copy is stopped"
    committed = facts.nodes.dialled
    if committed is None:
        return
    for row in poll.observers:
        voter = committed.by_id(row.key.id)
        other_disk = voter is not None and row.key.directory_id not in (None, voter.key.directory_id)
        if other_disk and not following(facts.quorum, poll, row.key).fetches:
            # The directory that was replaced: the leader lists it for 300 s after its last fetch.
            continue
        if row.key.id in twice:
            continue
        if other_disk or (voter is None and half_done(facts.quorum, row.key)):
            yield new_directory(row.key.id), "its disk replacement is finished: the voters have it with this directory"
    latest = poll.voter_keys
    if latest != committed.keys and None not in {key.directory_id for key in latest}:
        changed = sorted(latest ^ committed.keys)
        yield f"a change of the voter set is in progress ({and_join(changed)})", "it is committed"


def _unelectable(facts: Facts, node: NodeId) -> Iterable[Refusal]:
    voters = _without(facts, node)
    if voters and not forecast_election(voters, apart=True).electable:
        where = f"their {endpoint_kind(facts.quorum)} endpoints"
        if unreached := _unreached_pairs(facts):
            where += f" ({unreached})"
        why = f"without it no voter could win an election: the others do not reach each other at {where}"
        yield Refusal(name=Against.NO_MAJORITY, why=why, until="a majority of the others reach each other there")


def _without(facts: Facts, node: NodeId) -> Sequence[Elector]:
    return [replace(voter, runs=Part.LOST) if voter.key.id == node else voter for voter in electors(facts)]


def _by_chance(facts: Facts, node: NodeId) -> Iterable[str]:
    """Yields why it is unknown whether the others elect a leader that is followed."""
    voters = _without(facts, node)
    if forecast_election(voters, apart=True).electable and not forecast_election(voters).electable:
        yield ONE_WAY


def _unreached_pairs(facts: Facts) -> str:
    """Returns who is shown not to reach whom, and why."""
    return "; ".join(
        f"the host of {by} does not reach {of}: {dial.step}, {dial.why}"
        for by, dials in sorted(facts.witnesses.unreached.items())
        for of, dial in sorted(dials.items())
    )


def _differences(facts: Facts, node: NodeId) -> Iterable[str]:
    """Yields what to know of a controller that the others may not be able to use, or that may have no vote."""
    differs, in_doubt = facts.doubts_about(UNPROVED).get(node), facts.doubts_about(IN_DOUBT).get(node)
    if differs is not None:
        first = "; compare its settings with those of the others before you restart it"
        yield statement(f"it {differs.why}: ", not_counted(node), first)
    elif (why := facts.without_vote.get(node) or (in_doubt and in_doubt.why)) is not None:
        yield statement(f"it {why}: ", not_counted(node))


def _answers_badly(facts: Facts, node: NodeId) -> Iterable[str]:
    """Yields what to know of a voter that is not reached itself."""
    voter = next((controller for controller in facts.nodes.voters if controller.id == node), None)
    if voter is None or voter.probe is None:
        return
    if voter.refused:
        yield f"it refuses connections at its {endpoint_kind(facts.quorum)} endpoint: it may be down already"
    if EndpointFault.NOT_SERVING in voter.faults and voter.only_its_restart_helps:
        yield "it serves no new connection: take a thread dump, and count its open files, before you restart it"
    if EndpointFault.CERTIFICATE in voter.faults and voter.only_its_restart_helps:
        yield f"its certificate {certificate_text(voter.probe)}: install a new one before you restart it"


def _notes(facts: Facts, poll: Poll, node: NodeId, voters: list[ReplicaKey]) -> Iterable[str]:
    if node not in {key.id for key in voters}:
        yield f"controller {node} is no voter: the quorum does not need it"
    elif poll.leader_id == node:
        causes = (
            ": its restart causes an election of a second or two; in a rolling restart the leader is restarted last"
        )
        yield statement(it_leads(leader_claim(facts.nodes)), causes)
    yield from _differences(facts, node)
    yield from _answers_badly(facts, node)
    if facts.witnesses.seen_from:
        yield f"seen from the hosts of {facts.witnesses.seen_from}: each reaches each other one"
    elif not facts.quorum.access.anonymous:
        user = facts.quorum.access.principal
        yield (
            f"seen from the monitor's host{f' as {user}' if user else ''}: the controllers have logins and "
            "certificates of their own, and only an election shows how they answer each other"
        )
    left_over = facts.leftover_brokers.get(node)
    if left_over is not None:
        yield f"node {node} {left_over}; its registration as a broker is left over: its restart affects no partition"
    if not facts.nodes.voters:
        yield (
            "DescribeQuorum has no endpoints of a static quorum before Kafka 3.9: whether the controllers find each "
            "other after a restart is not evaluated here"
        )
