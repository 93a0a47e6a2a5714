"""One cluster: where the way to its controllers is barred, which rights lack, and what is not seen for it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from connectors.errors import UnseenError
from connectors.event import QuorumPolled
from connectors.gather.connectivity_check import Checkup, Secured, Served
from connectors.kafka.cluster_id_lookup import ClusterDescribed
from connectors.kafka.credentials import certificate_ends_at
from connectors.kafka.messages import FetchAnswer
from rules.evaluate import evaluate, thresholds_for
from rules.model.monitoring import NO_LEADER_REASONS, Reason
from rules.remedy_commands import LEGEND, allow
from streaming.config import ClusterSection
from streaming.doctor.check_result import Check, Verdict
from streaming.replay.machine import Machine

RELEASES = {7: "3.3", 8: "3.4", 11: "3.5", 14: "3.6", 19: "3.7", 20: "3.8", 21: "3.9", 25: "4.0", 27: "4.1", 29: "4.2"}
"""The newest level of metadata.version that each Kafka works with (MetadataVersion.LATEST_PRODUCTION)."""
NEWEST = (30, "4.3")
CERTIFICATE_DAYS = 30
SKEW_MS = 2_000
_DAY_S = 86_400
_MEND = {
    Reason.UNRESOLVABLE: "correct the address in bootstrap, or give the name an address with resolve or hosts_file",
    Reason.RESOLVER_FAILED: "mend this machine's name service (/etc/resolv.conf), or use resolve or hosts_file",
    Reason.REFUSED: "see that the controller runs and listens there, and that this is the controllers' listener",
    Reason.TIMED_OUT: "see whether a firewall drops what comes from this machine, or the node hangs",
    Reason.UNREACHABLE: "see that there is a route from this machine to that network",
    Reason.CLOSED: "see the node's log: it hangs up on us, as a listener with TLS does on whoever comes without",
    Reason.UNDECODABLE: "give the address of a controller's listener: what answers there is none that we can read",
    Reason.TLS_FAILED: "correct the TLS settings (security_protocol, ssl_cafile, ssl_certfile) or the bootstrap name",
    Reason.NOT_AUTHENTICATED: "correct the login: security_protocol, sasl_mechanism, the user, its password or token",
    Reason.NOT_READY: "wait until a leader is elected; a user of super.users is answered even now",
    Reason.WRONG_CLUSTER: "correct the address or the cluster_id",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A cluster's configuration and what came of asking its addresses."""

    section: ClusterSection
    checkups: Sequence[Checkup]
    recorded: str | None = None
    """The cluster id that the checkpoint remembers."""

    def checks(self) -> Iterator[Check]:
        """Every check, the addresses' first."""
        for one in self.checkups:
            yield from self._way(one)
        yield from self._ours()
        yield from self._rights()
        yield from self._quorum()

    def _check(self, subject: str, name: str, verdict: Verdict, said: str, *mend: str) -> Check:
        return Check(of=self.section.name, subject=subject, name=name, verdict=verdict, said=said, mend=mend)

    def _way(self, one: Checkup) -> Iterator[Check]:
        """DNS, TCP and TLS, login: up to what bars the way."""
        where = str(one.address)
        # One of several that fails leaves the others; one that the quorum names is not asked at the start.
        bad = Verdict.FAILS if one.configured and not self._answered() else Verdict.WARNING
        for name, outcome in (("dns", one.resolved), ("connection", one.secured), ("login", one.served)):
            match outcome:
                case None:
                    return
                case UnseenError():
                    yield self._check(where, name, bad, str(outcome), _MEND.get(outcome.reason, "see the node's log"))
                case Secured(certificate_ends_at=ends_at):
                    yield self._certificate(where, ends_at)
                case Served(metadata_version=level):
                    yield self._check(where, name, Verdict.OK, f"{self._login()}; {_release(level)}")
                case _:
                    yield self._check(where, name, Verdict.OK, ", ".join(outcome))

    def _certificate(self, where: str, ends_at: float | None) -> Check:
        tls = self.section.security_protocol in ("SSL", "SASL_SSL")
        if ends_at is None:
            return self._check(where, "connection", Verdict.OK, "TCP and TLS" if tls else "TCP, without TLS")
        said, mend = "TCP and TLS, its certificate", "renew the node's certificate before it ends"
        return self._good_for(where, "connection", said, ends_at, mend)

    def _good_for(self, subject: str, name: str, what: str, ends_at: float, mend: str) -> Check:
        days = int((ends_at - time.time()) // _DAY_S)
        said = f"{what} is good for {days} days"
        if days >= CERTIFICATE_DAYS:
            return self._check(subject, name, Verdict.OK, said)
        return self._check(subject, name, Verdict.WARNING, said, mend)

    def _ours(self) -> Iterator[Check]:
        """Our own certificate, before it keeps us out; once it does, the connection says so."""
        file = self.section.ssl_certfile
        ends_at = None if file is None else certificate_ends_at({"ssl_certfile": file})
        if ends_at is not None and ends_at > time.time():
            mend = "renew it before it ends, by a file of the same name: it is read again for each connection"
            yield self._good_for("ssl_certfile", "certificate", "our certificate", ends_at, mend)

    def _login(self) -> str:
        section = self.section
        if section.sasl_mechanism is None:
            return "our certificate" if section.ssl_certfile is not None else "no login"
        return f"{section.sasl_mechanism} as {section.access.principal or 'whom the token names'}"

    def _answered(self) -> list[Checkup]:
        return [one for one in self.checkups if isinstance(one.served, Served)]

    def _rights(self) -> Iterator[Check]:
        """DescribeQuorum, Fetch and DescribeCluster: each may be denied by itself."""
        asked = self._answered()
        if not asked:
            said = "no address could be asked: the job would be blind"
            yield self._check("CLUSTER", "rights", Verdict.FAILS, said, "mend the way to one of them first")
            return
        polls = [one.polled for one in asked]
        yield self._right("DescribeQuorum", "Describe", polls, Verdict.FAILS, "leader, voters, observers, lag")
        if self.section.metadata_log:
            logs = [one.fetched for one in asked]
            yield self._right("Fetch", "ClusterAction", logs, Verdict.WARNING, "the metadata log")
        else:
            yield self._check("Fetch", "rights", Verdict.OK, "not asked for: metadata_log is false")
        yield self._identity(asked)
        yield from self._unseen(asked)

    def _right(self, request: str, operation: str, outcomes: Sequence[object], bad: Verdict, what: str) -> Check:
        denied = [one for one in outcomes if isinstance(one, UnseenError) and one.reason is Reason.DENIED]
        failures = [one for one in outcomes if isinstance(one, UnseenError) and one.reason not in NO_LEADER_REASONS]
        if denied:
            said = f"{denied[0].detail}: {what} cannot be read"
            return self._check(request, "rights", bad, said, *self._acl(operation))
        if failures and len(failures) == len(outcomes):
            mend = "give the controllers' addresses, if a firewall lets you" if request == "Fetch" else "see its log"
            return self._check(request, "rights", bad, str(failures[0]), mend)
        return self._check(request, "rights", Verdict.OK, f"allowed: {what}")

    def _acl(self, operation: str) -> tuple[str, ...]:
        section = self.section
        machine = Machine(section.name, section.cluster_id, tuple(section.bootstrap), section.vantage)
        machine.access, hint = section.access, tuple[str, ...]()
        if section.sasl_mechanism is None and section.ssl_certfile is None:
            machine.access = replace(section.access, principal="User:ANONYMOUS")
        elif section.access.principal is None:
            # After a certificate or a token only Kafka knows the name: its authorizer's log says it.
            machine.access = replace(section.access, principal="User:NAME")
            hint = ("# User:NAME is what the controllers' kafka-authorizer.log calls us",)
        commands = allow(machine.quorum(), [operation])
        return (*hint, *commands, *((LEGEND,) if section.access.secured else ()))

    def _identity(self, asked: Sequence[Checkup]) -> Check:
        told = sorted({one.identified.cluster_id for one in asked if isinstance(one.identified, ClusterDescribed)})
        known = {"cluster_id": self.section.cluster_id, "the checkpoint": self.recorded}
        for who, expected in known.items():
            if expected is not None and told and told != [expected]:
                said = f"it is cluster {told[0]}, and {who} says {expected}"
                return self._check("DescribeCluster", "identity", Verdict.FAILS, said, _MEND[Reason.WRONG_CLUSTER])
        if told:
            return self._check("DescribeCluster", "identity", Verdict.OK, f"cluster {told[0]}")
        for who, expected in known.items():
            if expected is not None:
                said = f"not told to us, and not needed: {who} says {expected}"
                return self._check("DescribeCluster", "identity", Verdict.OK, said)
        mend = "write its cluster_id, which stands in every node's meta.properties, into the cluster's section"
        said = "nobody tells us which cluster this is: a new checkpoint cannot begin"
        return self._check("DescribeCluster", "identity", Verdict.FAILS, said, mend)

    def _unseen(self, asked: Sequence[Checkup]) -> Iterator[Check]:
        """The rules that cannot judge without the log."""
        if any(isinstance(one.fetched, FetchAnswer) for one in asked) and self.section.metadata_log:
            yield self._check("rules", "sight", Verdict.OK, "all rules can judge")
            return
        machine = Machine(self.section.name, None, tuple(self.section.bootstrap), self.section.vantage)
        machine.access = replace(self.section.access, log=False)
        blind = [one.rule for one in evaluate(machine.quorum(), thresholds_for({})).not_applicable]
        verdict = Verdict.WARNING if self.section.metadata_log else Verdict.OK
        yield self._check("rules", "sight", verdict, f"without the metadata log these cannot judge: {', '.join(blind)}")

    def _quorum(self) -> Iterator[Check]:
        polls = [(one, one.polled) for one in self.checkups if isinstance(one.polled, QuorumPolled)]
        if not polls:
            if any(
                isinstance(one.polled, UnseenError) and one.polled.reason in NO_LEADER_REASONS for one in self.checkups
            ):
                yield self._check("quorum", "leader", Verdict.WARNING, "nobody that we can ask leads")
            return
        one, polled = max(polls, key=lambda each: each[1].leader_epoch)
        said = f"controller {polled.leader_id} leads in epoch {polled.leader_epoch}, {len(polled.voters)} voters"
        yield self._check("quorum", "leader", Verdict.OK, said)
        if one.skew_ms is None:
            return
        ahead = (
            f"the leader's clock is {abs(one.skew_ms) / 1000:.1f} s {'ahead of' if one.skew_ms > 0 else 'behind'} ours"
        )
        if abs(one.skew_ms) > SKEW_MS:
            yield self._check(
                "quorum", "clock", Verdict.WARNING, ahead, "let both keep time by NTP: ages are judged by it"
            )
        else:
            yield self._check("quorum", "clock", Verdict.OK, ahead)


def _release(level: int | None) -> str:
    if level is None:
        return "its Kafka is not told"
    if level >= NEWEST[0]:
        return f"Kafka {NEWEST[1]}{'' if level == NEWEST[0] else ' or newer'}"
    release = next((name for newest, name in RELEASES.items() if level <= newest), NEWEST[1])
    return f"Kafka {release}"
