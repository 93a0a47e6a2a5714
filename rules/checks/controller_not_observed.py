"""One of several controllers does not answer the monitor, or no controller answers a new connection of it.

What it means
    The quorum is observed, by the other controllers or by connections that are open. The subject is one of these:

    - `controller N`: one of several voters does not answer the monitor (its login or TLS fails, a permission is denied
      there, or it is silent) while others do, and it fetches. If it becomes the leader, the quorum is not observed. A
      voter that is down, or whose recorded endpoint is stale, is reported by the rules for that instead.
      Also one that fetches and answers no new connection of the monitor.
    - `connections`: no voter answers a new connection of the monitor, while those that are open are answered: the path
      from this host changed, or something limits connections.

    It is unknown, and its alerts stay active, while the quorum itself is not observed (`monitor-blind`).

What to do
    1. Compare the settings of the controller with those of the others: listeners, certificates, logins, authorizer.
    2. Fix what the reason names: the remedy says how.

What not to do
    Do not stop or restart another controller before you know whether this one rejects the other controllers too: it may
    end those that ask it for its vote.
"""

from collections.abc import Collection, Iterable, Sequence

from rules.answers.now import over
from rules.claims.statement import statement
from rules.claims.words import do_not_restart, listen, not_a_voter, not_counted, predicate
from rules.facts.doubts import About
from rules.facts.endpoint_text import probe_outcome
from rules.facts.following import following
from rules.facts.freshness import fresh_poll, unanswered_sources
from rules.facts.node import NodeFacts
from rules.facts.node_claims import follows_claim
from rules.facts.outdated_settings import outdated_settings
from rules.facts.quorum import Facts
from rules.facts.silent_controllers import SilentController, silent_controllers
from rules.finding import Finding, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join, utc_text
from rules.model.identifiers import NodeId
from rules.model.subject import Subject
from rules.remedies.access_steps import controller_access_steps
from rules.remedies.remedy_commands import describe_status
from rules.remedies.step import Act, forbids, keeps_running
from rules.rule import Rule

_CONNECTIONS = Subject("connections")
_COMPARE = "# Compare controller {}'s listeners, certificates, logins, authorizer and super.users with those of {}"
_DETAIL = 200
"""Maximum number of characters of a failure's detail."""


def evaluate(facts: Facts, _thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns a result for each controller that does not answer, and at most one about new connections."""
    quorum = facts.quorum
    if unanswered_sources(quorum):
        yield UnknownResult(why="fetches of the metadata log or polls have no current answer either")
        return
    silent = [*silent_controllers(facts.nodes)]
    yield from _new_connections(facts, {controller.key.id for controller in silent})
    poll = fresh_poll(quorum)
    faulty = {voter.id for voter in facts.nodes.voters if voter.faults or voter.unserved}
    for each in silent:
        why = None
        if not each.answering:
            why = "no other controller answers either"
        elif each.key.id in faulty:
            why = "stale-voter-endpoint reports its recorded endpoint"
        elif not following(quorum, poll, each.key).fetches:
            why = "it does not fetch, so it may be down"
        if why is None:
            yield _silent(facts, each)
        else:
            yield UnknownResult(subject=Subject("controller", each.key.id), why=why)


def _silent(facts: Facts, silent: SilentController) -> Finding:
    quorum = facts.quorum
    node, detail = silent.key.id, f" ({silent.detail[:_DETAIL]})" if silent.detail else ""
    outdated = outdated_settings(quorum)
    others = f"controller{'s' if len(silent.answering) > 1 else ''} {and_join(silent.answering, 4)}"
    refuses = facts.doubts_about({About.ACCEPTS, About.ACCEPTS_LESS}).get(node)
    denies = refuses is not None and refuses.denies
    return Finding(
        subject=Subject("controller", node),
        severity=Severity.WARNING,
        summary=statement(
            f"Controller {node} does not answer the monitor: {silent.reason}{detail} at {silent.endpoint}. It ",
            predicate(follows_claim(facts.nodes, facts.nodes[node])),
            f", and {others} can be observed. If controller {node} becomes the leader, the quorum is not observed.",
            *((" ", listen((node,)), ", and ", not_counted(node), ".") if denies else ()),
            f" {outdated.sentence}" if outdated else "",
        ),
        evidence={
            "vantage": quorum.vantage.value,
            "controller": node,
            "endpoint": silent.endpoint,
            "reason": silent.reason.value,
            **({"detail": silent.detail[:_DETAIL]} if silent.detail else {}),
            **({"failing_since": utc_text(silent.since_ms)} if silent.since_ms is not None else {}),
            "observed_controllers": [*silent.answering],
            **(outdated.evidence if outdated else {}),
        },
        remedy=(
            *(_settings_first(facts, node, others) if denies else ()),
            *controller_access_steps(quorum, silent, outdated),
            *(() if denies else (_COMPARE.format(node, others),)),
            describe_status(facts, excluding=node),
        ),
    )


def _settings_first(facts: Facts, node: NodeId, others: str) -> Iterable[str]:
    """Yields the first steps about a controller that denies the monitor, and maybe the others, what others permit."""
    yield _COMPARE.format(node, others)
    forbidden = do_not_restart(facts.known_controllers - {node}, "stop or restart", named="another controller")
    why = f" before that: if controller {node} denies the others too, each of them that asks it for its vote ends"
    yield keeps_running(statement("# ", forbidden, why))


def _new_connections(facts: Facts, silent: Collection[NodeId]) -> Iterable[Finding]:
    """Yields the voters that fetch and answer only older connections: one finding if no voter answers a new one."""
    unanswered = [voter for voter in facts.nodes.voters if voter.unanswered and voter.following.fetches]
    unknown = "Whether the other controllers could connect to {}, and get {} vote{}, is unknown."
    if unanswered and not any(voter.answered for voter in facts.nodes.voters):
        yield _unanswered(
            facts,
            _CONNECTIONS,
            unanswered,
            "No controller answers a new connection of the monitor, while older ones are answered: "
            + and_join((f"{controller.endpoint} {probe_outcome(controller)}" for controller in unanswered), 4)
            + f". {unknown.format('them', 'their', 's')}",
        )
        return
    for each in unanswered:
        node = each.id
        if node not in silent and not each.unserved:
            yield _unanswered(
                facts,
                Subject("controller", node),
                [each],
                f"Controller {node} answers no new connection of the monitor, while older ones are answered: "
                f"{each.endpoint} {probe_outcome(each)}. {unknown.format('it', 'its', '')}",
            )


def _unanswered(facts: Facts, subject: Subject, unanswered: Sequence[NodeFacts], summary: str) -> Finding:
    endpoints = and_join((str(controller.endpoint) for controller in unanswered), 4)
    forbidden, silent = do_not_restart(facts.known_controllers, named="a controller"), [one.id for one in unanswered]
    until = " until new connections are answered: it may not be able to rejoin the quorum"
    return Finding(
        subject=subject,
        severity=Severity.WARNING,
        summary=summary,
        evidence={
            "vantage": facts.quorum.vantage.value,
            "unanswered": {
                str(controller.key): f"{controller.endpoint}: {probe_outcome(controller)}" for controller in unanswered
            },
        },
        remedy=(
            f"# Check the network and firewalls between the monitor and {endpoints}, and limits of connections there",
            forbids(statement("# ", forbidden, until), Act.STOP, silent, (Act.ANSWER, silent)),
            describe_status(facts),
        ),
        keep_running=facts.known_controllers,
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    if subject == _CONNECTIONS:
        if any(voter.answered for voter in facts.nodes.voters):
            return "Controllers answer new connections of the monitor."
        return "No controller is known to leave new connections of the monitor unanswered now."
    if subject.kind != "controller":
        return over(subject)
    controller = facts.nodes.get(subject.node)
    if controller is not None and controller.answers_monitor:
        return f"Controller {subject.name} answers the monitor."
    if controller is None or subject.node not in facts.quorum.voting_ids:
        return not_a_voter(subject.node)
    return f"No failed attempt to observe controller {subject.name} is known now."


RULE = Rule(
    title="kraftwatch does not observe a controller",
    resolved=_resolved,
    hold=hold(300.0, "the others are observed, so the default is longer than a restart"),
    about_observation=True,
    grouped_with=("monitor-blind", "resolver-failing"),
)
