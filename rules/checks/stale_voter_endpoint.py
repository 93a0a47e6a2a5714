"""The endpoint that the log records for a voter no longer leads to it.

What it means
    Controllers find each other for an election by the endpoints in the committed VotersRecord, and by nothing else. One
    of them is stale: its name is gone, something else answers there, the controller registered itself with another
    one, or it refuses connections although the voter fetches. Established connections do not ask DNS, so the
    quorum may work for days and die at the next restart.

    - Warning: some controller could still win an election if all restarted now.
    - Critical: none could; or nobody leads already, a controller answers, and so many voters' endpoints refuse that no
      majority is left: those voters are dead or moved, which looks alike from outside.

Evidence
    The recorded and the registered endpoint; what the newest look found, and from which vantage point; whether the
    voter fetches; who could win an election, with whose votes, and why not with the others'. Seen from outside the
    cluster's network, what rests on probing alone is at most a warning.

What to do
    1. Restart nothing yet.
    2. Vanished names: make them resolve again, everywhere.
    3. Restart the controllers one by one under their new names, the leader last, and wait each time until the new
       endpoint is recorded. Only then drop the old names.

    One changed endpoint heals by itself within seconds where the controller can reach the leader's recorded endpoint.

What not to do
    Never restart a controller while the old names are gone: it cannot come back. Do not drop the old names early.

Thresholds
    hold (30 s): a controller that restarts with a new endpoint corrects the record within seconds. clear (10 s). silent
    (10 s): when a voter counts as not fetching. poll_age (10 s) and probe_age (30 s): what is older says nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rules.analysis.electability import Electability, electability, stands
from rules.analysis.endpoint_status import Flaw, Look, elsewhere, looks, remembered, seen_there
from rules.analysis.freshness import (
    POLL_AGE,
    PROBE_AGE,
    SILENT,
    fresh_poll,
    last_seen_at_ms,
    leaderless,
    no_voters_record,
)
from rules.finding import Finding, Plain, Rule, RuleResult, Severity, Thresholds, UnknownResult, clear, hold
from rules.formatting import listed
from rules.model.identifiers import NodeId
from rules.model.monitoring import Answer, Vantage
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "stale-voter-endpoint"
_ELECTION_MS = 5_000
"""While nobody has led for less than this, it is an election: a leader that restarts refuses connections, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """All voters' endpoints together: what one voter's finding needs of the others."""

    quorum: Quorum
    looks: tuple[Look, ...]
    election: Electability
    severity: Severity
    nobody_leads: bool
    dead_or_moved: bool
    """Nobody leads, a controller answers, and too many endpoints refuse."""

    @property
    def leader(self) -> Look | None:
        """The look at the leader's endpoint, where the leader is a voter."""
        leader = self.quorum.poll.leader_id if self.quorum.poll else self.quorum.leader_id
        return next((look for look in self.looks if look.voter.key.id == leader), None)

    @property
    def nameless(self) -> tuple[Look, ...]:
        """The voters whose names are gone."""
        return tuple(look for look in self.looks if Flaw.NAME_GONE in look.flaws)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a voter whose recorded endpoint is stale; all of one severity, that of an election held now."""
    hindrance = no_voters_record(ID, quorum)
    if hindrance is not None:
        yield hindrance
        return
    scene = _scene(quorum, thresholds)
    for look in scene.looks:
        if look.flaws or (scene.dead_or_moved and look.refused):
            yield _finding(scene, look)
        elif look.blind is not None:
            yield UnknownResult(rule=ID, subject=look.subject, why=look.blind)


def _scene(quorum: Quorum, thresholds: Thresholds) -> _Scene:
    nobody = leaderless(quorum)
    if nobody is None:
        seen = looks(quorum, fresh_poll(quorum, thresholds), thresholds)
    else:
        seen = remembered(quorum, thresholds)
    election = electability(stands(quorum, seen))
    answers = nobody is not None and (bool(nobody.answered) or any(_answers(look) for look in seen))
    last = last_seen_at_ms(quorum)
    electing = last is not None and quorum.now_ms - last < _ELECTION_MS
    lost = any(look.refused for look in seen) and sum(look.leads for look in seen) < election.majority
    dead_or_moved = answers and lost and not electing
    return _Scene(
        quorum=quorum,
        looks=seen,
        election=election,
        severity=_severity(quorum, seen, election, dead_or_moved=dead_or_moved),
        nobody_leads=nobody is not None,
        dead_or_moved=dead_or_moved,
    )


def _answers(look: Look) -> bool:
    return look.probe is not None and look.probe.answer is Answer.THIS_CLUSTER


def _severity(quorum: Quorum, seen: tuple[Look, ...], election: Electability, *, dead_or_moved: bool) -> Severity:
    if election.electable and not dead_or_moved:
        return Severity.WARNING
    if quorum.vantage is Vantage.INSIDE:
        return Severity.CRITICAL
    # From outside only what the log itself says can make it critical.
    by_the_log = electability(stands(quorum, seen, by_probes=False))
    return Severity.WARNING if by_the_log.electable else Severity.CRITICAL


def _finding(scene: _Scene, look: Look) -> Finding:
    return Finding(
        rule=ID,
        subject=look.subject,
        severity=scene.severity,
        summary=_summary(scene, look),
        evidence=_evidence(scene, look),
        remedy=tuple(_remedy(scene, look)),
    )


def _summary(scene: _Scene, look: Look) -> str:
    voter = f"voter {look.voter.key.id}'s recorded endpoint {look.endpoint}"
    what = listed(_said(flaw, look) for flaw in look.flaws) if look.flaws else "refuses connections: dead or moved"
    if scene.dead_or_moved:
        then = "no controller leads, and none can be elected until a majority is reachable where it is recorded"
    elif scene.election.electable:
        then = "a leader could still be elected if all controllers restarted now"
    else:
        then = "no leader could be elected if the controllers restarted now"
    return f"{voter} {what}; {then} (seen from {scene.quorum.vantage.value} the cluster's network)"


def _said(flaw: Flaw, look: Look) -> str:
    match flaw:
        case Flaw.NAME_GONE:
            return "is lost: the name no longer exists"
        case Flaw.LEADS_ELSEWHERE:
            return f"leads elsewhere: {elsewhere(look.probe) if look.probe else 'another node'} answers there"
        case Flaw.REGISTRATION_DIFFERS:
            return f"is outdated: the controller registered itself at {look.registered}"
        case Flaw.REFUSED_WHILE_FETCHING:
            return "refuses connections although the voter lives and fetches"


def _evidence(scene: _Scene, look: Look) -> dict[str, Plain]:
    quorum, election, probe = scene.quorum, scene.election, look.probe
    registration = quorum.controllers.get(look.voter.key.id)
    best = election.best
    return {
        "voter": str(look.voter.key),
        "recorded_endpoint": str(look.endpoint),
        "listener": look.endpoint.listener if look.endpoint else None,
        "voters_record_offset": quorum.committed.offset if quorum.committed else None,
        "stale_because": [flaw.value for flaw in look.flaws] or ["dead-or-moved"],
        "registered_endpoint": str(look.registered) if look.registered else None,
        "registered_at_offset": registration.offset if registration else None,
        "vantage": quorum.vantage.value,
        "seen_there": seen_there(look),
        "looked_at_ms": probe.observed_at_ms if probe else None,
        "resolved_to": list(probe.addresses) if probe else [],
        "voter_is": look.liveness.value + " when last described" * scene.nobody_leads,
        "leader": quorum.poll.leader_id if quorum.poll else None,
        "electable_if_all_restarted": election.electable,
        "majority": election.majority,
        "best_candidate": str(best.key) if best else None,
        "its_votes": [str(key) for key in best.reached] if best else [],
        "not_its_votes": {str(key): why for key, why in best.barred.items()} if best else {},
        "endpoints": {str(each.voter.key): f"{each.endpoint}: {seen_there(each)}" for each in scene.looks},
    }


def _remedy(scene: _Scene, look: Look) -> Iterable[str]:
    if scene.nameless:
        yield from _names(scene)
    elif scene.dead_or_moved:
        yield from _dead_or_moved(scene)
    else:
        for flaw in look.flaws:
            yield from _step(scene, look, flaw)
    yield "# See what is recorded now: CurrentVoters must name each controller's true endpoint"
    yield describe_status(scene.quorum, besides=look.voter.key.id)


def _names(scene: _Scene) -> Iterable[str]:
    """Scene 8 of what a real quorum does: with the old names back each restart rewrites one endpoint in seconds."""
    yield "# Restart no controller until the old names resolve again: without them it cannot come back"
    for host in sorted({look.endpoint.host for look in scene.nameless if look.endpoint}):
        was = scene.quorum.addresses.get(host)
        known = f", which was {listed(was)}," if was else ""
        yield f"# Make {host}{known} resolve again on every controller and broker"
    leader = scene.leader
    last = f", the leader (controller {leader.voter.key.id}) last" if leader else ", the leader last"
    yield (
        f"# Then restart the controllers one by one under their new names{last}, each time waiting until the new "
        "endpoint is recorded, which takes about ten seconds"
    )
    yield "# Only when all new endpoints are recorded drop the old names"


def _dead_or_moved(scene: _Scene) -> Iterable[str]:
    refusing = [look for look in scene.looks if look.refused]
    yield (
        f"# See on their hosts whether controllers {listed(look.voter.key.id for look in refusing)} run: from here "
        "a dead controller and a moved one look alike"
    )
    for look in refusing:
        yield (
            f"# Controller {look.voter.key.id} must be reachable at {look.endpoint}: start it there, or give it that "
            "name and port back if it was moved"
        )
    needed = f"{scene.election.majority} of {len(scene.looks)} voters"
    yield f"# A leader follows within seconds once {needed} reach each other"
    yield "# After that move one controller at a time, waiting until its new endpoint is recorded"


def _step(scene: _Scene, look: Look, flaw: Flaw) -> Iterable[str]:
    node, endpoint = look.voter.key.id, look.endpoint
    match flaw:
        case Flaw.NAME_GONE:
            return
        case Flaw.LEADS_ELSEWHERE:
            yield f"# Make {endpoint} lead to controller {node} again, by name or port mapping: another answers there"
        case Flaw.REFUSED_WHILE_FETCHING:
            yield f"# See on controller {node}'s host what it listens on: it lives, but nothing listens at {endpoint}"
            yield f"# Open {endpoint} to it again, by port mapping or listener"
            yield (
                f"# If it has moved for good, restart controller {node} with advertised.listeners naming its new "
                "endpoint: it then rewrites its record by itself"
            )
        case Flaw.REGISTRATION_DIFFERS:
            yield from _deliver_the_new_one(scene, node)


def _deliver_the_new_one(scene: _Scene, node: NodeId) -> Iterable[str]:
    leader = scene.leader
    if leader is not None and leader.voter.key.id != node:
        yield (
            f"# Make {leader.endpoint} reachable from controller {node}'s host: it is the leader's recorded endpoint, "
            f"and controller {node} sends its new one there by itself every few seconds"
        )
    yield f"# If its record has not changed a minute later, restart controller {node}"


RULE = Rule(
    id=ID,
    title="A voter's recorded endpoint is stale",
    text=__doc__ or "",
    thresholds=(hold(30.0), clear(), SILENT, POLL_AGE, PROBE_AGE),
    evaluate=evaluate,
)
