"""The metadata log has a record that no controller can replay: each controller that starts ends.

What it means
    The record is well formed and committed, and the state that it meets refuses it: Kafka's own replay throws, for
    example because a topic is removed that does not exist. The controllers that run have it behind them and go on.
    Each one that starts from a snapshot before it ends with exit code 1, at every start. After a power failure none
    comes back.

    A broker without the controller's role starts: it logs a metadata loading fault, goes on without the record, and
    takes no snapshot until it is started again.

What to do
    1. Restart nothing, and keep all controllers running.
    2. Wait until each running controller has written a snapshot that ends after the record: within an hour by default
       (metadata.log.max.snapshot.interval.ms). A controller that begins with one starts.
    3. Look for it before you start a controller: a .checkpoint in its __cluster_metadata-0 whose name begins with a
       higher offset. For one that has none, copy that of a controller that has.
    4. Report the record to the Kafka project, with a copy of the log.

What not to do
    Do not restart a controller to see whether it starts: it does not, and the quorum has one voter less.
"""

from collections.abc import Iterable

from rules.claims.statement import statement
from rules.claims.words import start_ends
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.facts.unreplayable import ReplayEnd
from rules.finding import Finding, RuleResult, Severity, Thresholds, hold
from rules.model.subject import Subject
from rules.model.unreplayable import CONDITIONS
from rules.remedies.remedy_commands import describe_status
from rules.remedies.start_conditions import start_no_controller
from rules.rule import Rule

SUBJECT = Subject("metadata log")


def evaluate(facts: Facts, _thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the first such record, while no snapshot past it is known."""
    end = facts.replay_end
    if end is not None and end.lasts:
        yield _finding(facts, end)


def _finding(facts: Facts, end: ReplayEnd) -> Finding:
    record = end.record
    condition = CONDITIONS[record.refusal]
    controllers = sorted(facts.known_controllers)
    return Finding(
        subject=SUBJECT,
        severity=Severity.CRITICAL,
        summary=statement(
            f"{end.short.capitalize()} cannot be replayed: ",
            start_ends(controllers),
            f". {record.record} of {record.about}: Kafka requires that {condition.requires}. The controllers that run "
            "have it behind them.",
        ),
        evidence={
            "offset": None if record.snapshot else record.offset,
            "record": record.record,
            "about": record.about,
            "required": condition.requires,
            "thrown_by": condition.thrown_by,
            "records_that_cannot_be_replayed": len(facts.quorum.unreplayable),
        },
        remedy=(
            start_no_controller(facts, end),
            "# Copy __cluster_metadata-0 of every controller",
            "# Wait until a .checkpoint that ends after it is in __cluster_metadata-0 of each controller: within an "
            "hour by default (metadata.log.max.snapshot.interval.ms)",
            "# Before you start a controller without one, copy the .checkpoint of another controller into its "
            "__cluster_metadata-0",
            describe_status(facts),
        ),
    )


def _resolved(facts: Facts, _subject: Subject) -> str:
    end = facts.replay_end
    if end is None:
        return "No record of the metadata log that is read now is one that Kafka cannot replay."
    return (
        f"The leader's newest snapshot is past {end.short}: it starts. Of each other controller, look for a "
        ".checkpoint that ends after it before it is restarted."
    )


RULE = Rule(
    title="A committed record cannot be replayed",
    resolved=_resolved,
    hold=hold(5.0, "a snapshot past a record that was read late is reported with the next poll"),
    needs=(Need.METADATA_LOG,),
    without_leader=True,
)
