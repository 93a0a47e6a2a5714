"""The steps after which the monitor observes again what it does not: for each reason why an attempt failed."""

from collections.abc import Collection, Iterable, Sequence

from rules.facts.outdated_settings import OutdatedSettings
from rules.facts.quorum import Facts
from rules.facts.silent_controllers import SilentController
from rules.formatting import and_join, numbered
from rules.model.identifiers import NodeId
from rules.model.monitoring import CertificateFault, FailedObservation, ObservationSource, Reason
from rules.model.quorum import Quorum
from rules.remedies.endpoint_steps import trust_steps
from rules.remedies.remedy_commands import allow

ADVICE: dict[Reason, str] = {
    Reason.UNRESOLVABLE: "Look up the controllers' names on the monitor's host, and on their own: no address is found "
    "for {where}",
    Reason.RESOLVER_FAILED: "Fix name resolution on the monitor's host: the resolver failed for {where}",
    Reason.REFUSED: "Check the addresses, whether controllers run, and firewalls: connections are refused at {where}",
    Reason.TIMED_OUT: "Check the network between the monitor and {where}, and whether the processes there hang",
    Reason.UNREACHABLE: "Check routes and firewalls between the monitor and {where}",
    Reason.CLOSED: "Check in the logs at {where} why connections are closed: a TLS listener closes plaintext ones",
    Reason.NO_LEADER: "Add the addresses of all controllers to bootstrap: no leader answers at {where}",
    Reason.NOT_READY: "Wait until startup is complete at {where}: the authorizer is not ready there",
    Reason.DENIED: "Allow the monitor's principal {operations} on CLUSTER: it is denied at {where}",
    Reason.NOT_AUTHENTICATED: "Fix the monitor's login: it is rejected at {where}",
    Reason.TLS_FAILED: "Fix TLS between the monitor and {where}: certificate, certificate authority or host name",
    Reason.WRONG_PROTOCOL: "Correct security_protocol in the monitor's settings: another protocol is used at {where}",
    Reason.WRONG_CLUSTER: "Correct the configured addresses: another cluster answers at {where}; if this cluster was "
    "created again, give it another name in the configuration, or start kraftwatch with a new --checkpoint",
    Reason.UNSUPPORTED: "Check which Kafka version runs at {where}: it does not support the request",
    Reason.UNDECODABLE: "Check that a controller listens at {where}; if one does, report this as a bug of kraftwatch",
    Reason.INVALID_RESPONSE: "Find out what answers at {where}: it sends what no Kafka node sends, and is refused",
    Reason.TOO_FEW_DESCRIPTORS: "Raise kraftwatch's limit of file descriptors (ulimit -n): no socket for {where}",
    Reason.METADATA_LOST: "Find out who restored or rebuilt {where}: committed metadata read before is missing",
    Reason.LOG_DAMAGED: "Restore the metadata log at {where}: the alert metadata-log-damaged says how",
    Reason.RECORDS_KNOWN: "Nothing is to be done: an upgraded kraftwatch reads the metadata log again",
    Reason.RECORDS_MISSING: "Have the log read again: the alert data-contract-broken names the missing offsets",
    Reason.TASK_FAILED: "Report this as a bug of kraftwatch: its own log says where its gatherer failed",
    Reason.INTERRUPTED: "Check in kraftwatch's own log why its gatherer was restarted",
    Reason.CLOCK_STEPPED: "Check the clock of kraftwatch's host (NTP): it was set",
}
"""What to do for each reason."""
_OPERATIONS = {
    ObservationSource.QUORUM: ("DESCRIBE", "Describe"),
    ObservationSource.LOG: ("CLUSTER_ACTION", "ClusterAction"),
}
"""The operation that each observation source needs on CLUSTER: in Kafka's spelling, and in that of kafka-acls."""


def access_steps(
    facts: Facts, failures: Sequence[FailedObservation], outdated: OutdatedSettings | None
) -> Iterable[str]:
    """Yields the steps for the reasons of these failures; if kraftwatch's own settings are out of date, to correct them
    alone.
    """
    quorum = facts.quorum
    if outdated is not None:
        yield _correct_settings(quorum, outdated)
        return
    for reason in sorted({failure.reason for failure in failures}):
        endpoints = sorted({failure.endpoint for failure in failures if failure.reason is reason and failure.endpoint})
        where = and_join(endpoints, 4)
        match reason:
            case Reason.NO_LEADER if named := _named_leaders(failures):
                yield f"# {_without_named(failures, named, where)}"
            case Reason.DENIED:
                yield from _allow(facts, failures, where)
            case Reason.UNSUPPORTED if quorum.poll and all(
                failure.source is ObservationSource.LOG for failure in failures
            ):
                yield f"# Configure a controller's address as well: brokers ({where}) do not serve the metadata log"
            case Reason.TLS_FAILED if is_untrusted(quorum, endpoints):
                yield from trust_steps(where)
            case _:
                yield "# " + ADVICE[reason].format(where=where)


def controller_access_steps(
    quorum: Quorum, silent: SilentController, outdated: OutdatedSettings | None
) -> Iterable[str]:
    """Yields the same for one controller that does not answer, while others do."""
    if outdated is not None:
        yield _correct_settings(quorum, outdated)
    elif is_untrusted(quorum, [silent.endpoint]):
        yield from trust_steps(silent.endpoint)
    elif isinstance(silent.reason, Reason):
        yield "# " + ADVICE[silent.reason].format(where=silent.endpoint, operations="CLUSTER_ACTION")
    else:
        yield f"# Check the network, TLS and the login between the monitor and {silent.endpoint}"


def is_untrusted(quorum: Quorum, endpoints: Collection[str]) -> bool:
    """Returns whether the monitor does not trust the authority of the certificates there, and nothing else is wrong."""
    faults = {probe.certificate_fault for probe in quorum.probes.values() if str(probe.endpoint) in endpoints} - {None}
    return faults == {CertificateFault.UNTRUSTED}


def _correct_settings(quorum: Quorum, outdated: OutdatedSettings) -> str:
    bootstrap = ", ".join(f'"{address}"' for address in outdated.addresses)
    protocol = "" if outdated.protocol is None else f" and security_protocol: {outdated.protocol}"
    return f"# Set bootstrap: [{bootstrap}]{protocol} for cluster {quorum.cluster} in kraftwatch's configuration"


def _named_leaders(failures: Iterable[FailedObservation]) -> tuple[NodeId, ...]:
    """Returns which leaders are named by nodes that do not lead."""
    named = (one.leader_id for one in failures if one.reason is Reason.NO_LEADER and one.leader_id != one.node)
    return tuple(sorted({node for node in named if node is not None}))


def _without_named(failures: Sequence[FailedObservation], named: tuple[NodeId, ...], where: str) -> str:
    """Returns the step where the leaders that are named do not answer as leaders."""
    leaders, one = numbered("controller", named), len(named) == 1
    are_named, do = ("is named as leader", "does") if one else ("are named as leaders", "do")
    if not {*named} <= {failure.node for failure in failures}:
        return f"Add the address of {leaders} to bootstrap: {leaders} {are_named} at {where}"
    if not {*named} <= {failure.node for failure in failures if failure.reason is Reason.NO_LEADER}:
        return f"Find out first why {leaders} {do} not answer: {leaders} {are_named} at {where}"
    return f"Read in the controllers' logs why no leader stays: {leaders} {are_named} at {where}, and {do} not lead"


def _allow(facts: Facts, failures: Iterable[FailedObservation], where: str) -> Iterable[str]:
    """Returns which operations are denied, what allowing them means, and the command that allows them."""
    denied = {failure.source for failure in failures if failure.reason is Reason.DENIED}
    missing = [operation for source, operation in _OPERATIONS.items() if source in denied]
    yield "# " + ADVICE[Reason.DENIED].format(operations=and_join(name for name, _ in missing), where=where)
    if ObservationSource.LOG in denied:
        yield "# CLUSTER_ACTION amounts to full administration: without it, polls and half of the rules still work"
    yield from allow(facts, (option for _, option in missing))
