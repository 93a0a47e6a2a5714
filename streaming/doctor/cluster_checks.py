"""Checks one cluster: connections, logins, permissions, cluster id, clock, and which rules can be evaluated."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.errors import ObservationError
from connectors.gather.connectivity_check import ConnectivityCheck
from connectors.kafka.cluster_id_lookup import ClusterDescription, repeated_ids
from connectors.kafka.credentials import certificate_expires_at
from connectors.kafka.messages import FetchResult
from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.formatting import and_join
from rules.model.ages import SYNCHRONIZED_MS
from rules.model.identifiers import Millis
from rules.model.monitoring import NO_LEADER_REASONS, Reason
from rules.model.replica import Poll
from rules.remedies.remedy_commands import LEGEND, allow
from streaming.config import ClusterSection
from streaming.doctor.check_result import FAILS, OK, WARNING, CheckResult, CheckStatus, check_result
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine

CERTIFICATE_DAYS = 30
_DAY_S = 86_400
_COMPARE = "# Compare authorizer.class.name and super.users of the controllers first: {} may deny the others as well"
_NO_SCRAM = (
    "# Read in the controllers' logs first whether they reject each other (failed authentication): with SCRAM a "
    "controller that was restarted rejects every login until there is a leader"
)
_NO_LEADER = (
    "bring back what fails above: a leader needs the majority of the voters; if a majority answers, read in their logs "
    "why no election is won. `kraftwatch check` says what else is known of the quorum"
)
_ONE_CLUSTER = "give only the controllers of one cluster in bootstrap"
_FIXES = {
    Reason.UNRESOLVABLE: "correct the address in bootstrap, or give the name an address with resolve or hosts_file",
    Reason.RESOLVER_FAILED: "fix this machine's name service (/etc/resolv.conf), or use resolve or hosts_file",
    Reason.REFUSED: "check that the controller runs and that this is the address of its controller listener",
    Reason.TIMED_OUT: "check whether a firewall drops packets from this machine, and whether the node hangs",
    Reason.UNREACHABLE: "check that this machine has a route to that network",
    Reason.CLOSED: "read the node's log: it closes the connection, as a TLS listener does for a client without TLS",
    Reason.UNDECODABLE: "give the address of a controller's listener: this one does not speak the Kafka protocol",
    Reason.INVALID_RESPONSE: "find out what answers there: it sends what no Kafka node sends, and is refused",
    Reason.TOO_FEW_DESCRIPTORS: "raise the file descriptor limit of this process (ulimit -n; LimitNOFILE in systemd)",
    Reason.TLS_FAILED: "correct the TLS settings (security_protocol, ssl_cafile, ssl_certfile) or the bootstrap name",
    Reason.WRONG_PROTOCOL: "correct security_protocol in the settings: the listener uses another protocol",
    Reason.NOT_AUTHENTICATED: "correct the login: security_protocol, sasl_mechanism, user, password, token or keytab",
    Reason.NOT_READY: "wait until a leader is elected; until then only users in super.users get an answer",
    Reason.WRONG_CLUSTER: "correct the address or the cluster_id",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChecks:
    """Evaluates the connectivity checks of one cluster."""

    section: ClusterSection
    connectivity: Sequence[ConnectivityCheck]
    recorded_id: str | None = None
    """The cluster id in the checkpoint."""

    def results(self) -> Iterator[CheckResult]:
        """Yields every result, the addresses first."""
        for check in self.connectivity:
            yield from self._address(check)
        yield from self._client_certificate()
        yield from self._permissions()
        yield from self._quorum()

    def _result(self, subject: str, name: str, status: CheckStatus, message: str, *remedy: str) -> CheckResult:
        return check_result(self.section.name, subject, name, status, message, *remedy)

    def _address(self, one: ConnectivityCheck) -> Iterator[CheckResult]:
        """Yields name resolution, connection and login, until the first failure."""
        address = one.place
        # If another address answers, the job starts. Addresses that the quorum reports are not needed for the start.
        failed = FAILS if one.configured and not self._answering() else WARNING
        level = "unknown" if one.metadata_version is None else one.metadata_version
        for succeeded in (
            self._result(address, "dns", OK, ", ".join(one.addresses)),
            self._connection(address, one.certificate_expires_at_ms),
            self._result(address, "login", OK, f"{self._login()}; metadata.version {level}"),
        ):
            if one.failure is not None and one.failure[0] == succeeded.name:
                problem = one.failure[1]
                fix = _FIXES.get(problem.reason, "read the node's log")
                scram = self.section.access.scram and problem.reason is Reason.NOT_AUTHENTICATED
                outage = (_NO_SCRAM,) if scram and not self._answering() else ()
                yield self._result(address, succeeded.name, failed, str(problem), *outage, fix)
                return
            yield succeeded

    def _connection(self, address: str, expires_at_ms: Millis | None) -> CheckResult:
        tls = self.section.security_protocol in ("SSL", "SASL_SSL")
        if expires_at_ms is None:
            message = "TCP and TLS" if tls else "TCP, without TLS"
            return self._result(address, "connection", OK, message)
        fix = "renew the node's certificate before it expires"
        return self._expiry(address, "connection", "TCP and TLS; the node's certificate", expires_at_ms / 1000, fix)

    def _expiry(self, subject: str, name: str, certificate: str, expires_at: float, fix: str) -> CheckResult:
        days = int((expires_at - time.time()) // _DAY_S)
        message = f"{certificate} is valid for {days} days"
        if days >= CERTIFICATE_DAYS:
            return self._result(subject, name, OK, message)
        return self._result(subject, name, WARNING, message, fix)

    def _client_certificate(self) -> Iterator[CheckResult]:
        """Yields when the client certificate expires; once it has expired, the connection check reports it."""
        file = self.section.ssl_certfile
        expires_at = None if file is None else certificate_expires_at({"ssl_certfile": file})
        if expires_at is not None and expires_at > time.time():
            fix = "renew it before it expires and replace the file: it is read again for each connection"
            yield self._expiry("ssl_certfile", "certificate", "the client certificate", expires_at, fix)

    def _login(self) -> str:
        section = self.section
        if section.sasl_mechanism is None:
            return "client certificate" if section.ssl_certfile is not None else "no login"
        source = "Kerberos ticket" if section.sasl_mechanism == "GSSAPI" else "token"
        return f"{section.sasl_mechanism} as {section.access.principal or f'the principal of the {source}'}"

    def _answering(self) -> list[ConnectivityCheck]:
        return [check for check in self.connectivity if check.failure is None]

    def _permissions(self) -> Iterator[CheckResult]:
        """Yields DescribeQuorum, Fetch and DescribeCluster: each may be denied separately."""
        answering = self._answering()
        if not answering:
            message = "no address answers: the job would observe nothing"
            yield self._result("CLUSTER", "permission", FAILS, message, "fix the connection to one address first")
            return
        polls = {check.place: check.quorum for check in self.connectivity}
        yield self._permission("DescribeQuorum", "Describe", polls, FAILS, "leader, voters, observers and lag")
        if self.section.metadata_log:
            fetches = {check.place: check.fetch for check in self.connectivity}
            yield self._permission("Fetch", "ClusterAction", fetches, WARNING, "the metadata log")
        else:
            yield self._result("Fetch", "permission", OK, "not needed: metadata_log is false")
        yield self._cluster_id(answering)
        yield from self._unknown_rules(answering)

    def _permission(
        self, request: str, operation: str, outcomes: Mapping[str, object], failed: CheckStatus, what: str
    ) -> CheckResult:
        """Returns whether a request is permitted. Each node decides for itself: what is not shown of one is named."""
        errors = {at: one for at, one in outcomes.items() if isinstance(one, ObservationError)}
        denied = {at: error for at, error in errors.items() if error.reason is Reason.DENIED}
        # A node that answers that it does not lead has permitted the request. An authorizer that is not ready has not.
        shown = [at for at, one in outcomes.items() if one is not None and (at not in errors or _permits(errors[at]))]
        unshown = [at for at in outcomes if at not in shown]
        if denied:
            first = next(iter(denied.values()))
            places = and_join(denied, 4)
            where, hint = (f" at {places}", [_COMPARE.format(places)]) if shown else ("", [])
            message = f"missing permission (ACL){where}: {first.detail}; without it {what} cannot be read"
            return self._result(request, "permission", failed, message, *hint, *self._acl_commands(operation))
        if not shown:
            first = next(iter(errors.values()))
            fix = _FIXES[first.reason] if first.reason is Reason.NOT_READY else "read the node's log"
            if request == "Fetch" and first.reason is not Reason.NOT_READY:
                fix = "give the addresses of the controllers, if a firewall permits it: brokers do not serve the log"
            return self._result(request, "permission", failed, str(first), fix)
        unready = [at for at in unshown if at in errors and errors[at].reason is Reason.NOT_READY]
        unshown = [at for at in unshown if at not in errors or errors[at].reason is not Reason.UNSUPPORTED]
        message = f"permitted: {what}" if not unshown else f"permitted at {and_join(shown, 4)}: {what}"
        message += f"; not known at {and_join(unshown, 4)}" if unshown else ""
        fixes = (_FIXES[Reason.NOT_READY],) if unready else ()
        return self._result(request, "permission", WARNING if unready else OK, message, *fixes)

    def _acl_commands(self, operation: str) -> tuple[str, ...]:
        section = self.section
        access, hint = section.access, tuple[str, ...]()
        if section.sasl_mechanism is None and section.ssl_certfile is None:
            access = replace(section.access, principal="User:ANONYMOUS")
        elif section.access.principal is None:
            # Only Kafka knows the principal of a certificate, a token or a ticket; its authorizer logs it.
            access = replace(section.access, principal="User:NAME")
            hint = ("# Replace User:NAME with the principal that the controllers' kafka-authorizer.log shows",)
        machine = Machine(replace(_settings(section), access=access))
        commands = allow(Facts(machine.quorum()), [operation])
        return (*hint, *commands, *((LEGEND,) if section.access.secured else ()))

    def _cluster_id(self, answering: Sequence[ConnectivityCheck]) -> CheckResult:
        reported = sorted(self.reported_ids)
        if len(reported) > 1:
            owners = ", ".join(
                f"{check.place} to {check.cluster.cluster_id}"
                for check in answering
                if check.configured and isinstance(check.cluster, ClusterDescription)
            )
            message = f"the addresses belong to different clusters: {owners}"
            return self._result("DescribeCluster", "identity", FAILS, message, _ONE_CLUSTER)
        source = "the checkpoint" if self.section.cluster_id is None else "cluster_id"
        expected = self.section.cluster_id or self.recorded_id
        if expected is not None and reported and reported != [expected]:
            message = f"it is cluster {reported[0]}, but {source} names {expected}"
            return self._result("DescribeCluster", "identity", FAILS, message, _FIXES[Reason.WRONG_CLUSTER])
        if reported:
            return self._result("DescribeCluster", "identity", OK, f"cluster {reported[0]}")
        if expected is not None:
            message = f"not reported and not needed: {source} names {expected}"
            return self._result("DescribeCluster", "identity", OK, message)
        fix = "set cluster_id in the cluster's section; it is in the meta.properties of every node"
        message = "the cluster id is unknown (DescribeCluster is denied): the job cannot create a checkpoint"
        return self._result("DescribeCluster", "identity", FAILS, message, fix)

    def _unknown_rules(self, answering: Sequence[ConnectivityCheck]) -> Iterator[CheckResult]:
        """Yields whether rules cannot be evaluated without a leader, or without the metadata log."""
        if self._has_no_leader():
            answer = f"{len(answering)} of {len(self.connectivity)} addresses answer"
            message = f"no leader answers ({answer}): most rules cannot be evaluated"
            yield self._result("rules", "observability", WARNING, message, _NO_LEADER)
        elif any(isinstance(check.fetch, FetchResult) for check in answering) and self.section.metadata_log:
            yield self._result("rules", "observability", OK, "all rules can be evaluated")
        else:
            machine = Machine(replace(_settings(self.section), access=replace(self.section.access, log=False)))
            unknown = [
                applicable.rule for applicable in evaluate(Facts(machine.quorum()), thresholds_for({})).not_applicable
            ]
            status = WARNING if self.section.metadata_log else OK
            message = f"without the metadata log these rules cannot be evaluated: {', '.join(unknown)}"
            yield self._result("rules", "observability", status, message)

    def _has_no_leader(self) -> bool:
        """Returns whether nodes answer that they do not lead, and none answers as the leader."""
        outcomes = [check.quorum for check in self.connectivity] + [check.fetch for check in self.connectivity]
        leads = any(
            isinstance(outcome, Poll) or (isinstance(outcome, FetchResult) and not outcome.error)
            for outcome in outcomes
        )
        no_leader = any(
            isinstance(outcome, ObservationError) and outcome.reason in NO_LEADER_REASONS for outcome in outcomes
        )
        return no_leader and not leads

    @property
    def reported_ids(self) -> frozenset[str]:
        """The cluster ids that the addresses report."""
        described = (check.cluster for check in self.connectivity)
        return frozenset(each.cluster_id for each in described if isinstance(each, ClusterDescription))

    def _quorum(self) -> Iterator[CheckResult]:
        polls = [(check, check.quorum) for check in self.connectivity if isinstance(check.quorum, Poll)]
        if not polls:
            if self._has_no_leader():
                yield self._result("quorum", "leader", WARNING, "none of the nodes that answer is the leader")
            return
        one, polled = max(polls, key=lambda each: each[1].leader_epoch)
        message = f"controller {polled.leader_id} leads in epoch {polled.leader_epoch}, {len(polled.voters)} voters"
        yield self._result("quorum", "leader", OK, message)
        if one.skew_ms is not None:
            yield self._clock(one.skew_ms)

    def _clock(self, skew_ms: int) -> CheckResult:
        side = "ahead of" if skew_ms > 0 else "behind"
        message = f"the leader's clock is {abs(skew_ms) / 1000:.1f} s {side} this machine's clock"
        if abs(skew_ms) <= SYNCHRONIZED_MS:
            return self._result("quorum", "clock", OK, message)
        fix = "synchronize both clocks (NTP): the ages of fetches and answers are computed from them"
        return self._result("quorum", "clock", WARNING, message, fix)


def shared_clusters(checks: Iterable[ClusterChecks]) -> Iterator[CheckResult]:
    """Yields a failure for each section whose cluster another section monitors already."""
    ids = ((check.section.name, cluster_id) for check in checks for cluster_id in sorted(check.reported_ids))
    fix = (
        "give each section the controllers of its own cluster in bootstrap; if they are two clusters, the id was "
        "copied: `kraftwatch explain monitor-degraded`"
    )
    for cluster_id, (first, *others) in repeated_ids(ids).items():
        message = f"it has cluster id {cluster_id}, as cluster {first} has"
        yield from (check_result(name, "DescribeCluster", "identity", FAILS, message, fix) for name in others)


def _permits(answer: ObservationError) -> bool:
    """Returns whether a node that gave this answer has authorized the request."""
    return answer.reason is Reason.NO_LEADER


def _settings(section: ClusterSection) -> ClusterSettings:
    return ClusterSettings(
        name=section.name, bootstrap=tuple(section.bootstrap), vantage=section.vantage, access=section.access
    )
