"""The commands for the probes of the voters' endpoints, and their certificates.

Each is documented in the function that runs it.
"""

from collections.abc import Mapping
from dataclasses import replace

from rules.model.history import NodeKind
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import (
    Answer,
    CertificateFault,
    Connection,
    Probe,
    Reason,
    Resolution,
    ServerCertificate,
)
from tests.scripts.script_words import Words, endpoint, milliseconds, numbers
from tests.situation.registry import age, command, run
from tests.situation.situation import (
    DAY,
    NOW,
    PROBED_AGO_MS,
    SECOND,
    Situation,
)

_PROBED: Mapping[str, dict[str, object]] = {
    "ok": {},
    "name-not-found": {
        "resolution": Resolution.NAME_NOT_FOUND,
        "addresses": (),
        "connection": Connection.NOT_TRIED,
        "answer": Answer.NOT_ASKED,
        "answered_by": None,
    },
    "resolver-fails": {
        "resolution": Resolution.RESOLVER_FAILED,
        "addresses": (),
        "connection": Connection.NOT_TRIED,
        "answer": Answer.NOT_ASKED,
        "answered_by": None,
    },
    **{
        one.value: {"connection": one, "answer": Answer.NOT_ASKED, "answered_by": None}
        for one in (Connection.REFUSED, Connection.TIMED_OUT, Connection.UNREACHABLE)
    },
    **{one.value: {"answer": one, "answered_by": None} for one in Answer},
    **{
        one.value: {"answer": Answer.NOT_ALLOWED, "answered_by": None, "reason": one}
        for one in (Reason.DENIED, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.WRONG_PROTOCOL, Reason.NOT_READY)
    },
}


@command("probe")
def probe_(made: Situation, words: Words) -> None:
    """probe 1,2 refused [ago 2s] [by 4] [addresses 10.0.0.9] [at c1:9095]: the newest probe of a voter's endpoint.

    The result is ok, name-not-found, resolver-fails, refused, timed-out, unreachable, or what answered: this-cluster,
    other-cluster, other-node, not-kafka, no-answer, not-allowed or not-asked; or why it does not allow the request:
    denied, not-authenticated, tls-failed, wrong-protocol, not-ready. `never`: it was not probed. Without `at` every
    recorded endpoint of the voter is probed.
    """
    at_ms, by, addresses = age(words, "ago", f"{PROBED_AGO_MS}ms"), words.number("by"), words.option("addresses")
    where = words.option("at")
    which, result = numbers(words.word()), words.word()
    changes: dict[str, object] = {"never": True} if result == "never" else dict(_PROBED[result])
    if by is not None:
        changes["answered_by"] = NodeId(by)
    if addresses is not None:
        changes["addresses"] = tuple(addresses.split(","))
    if where is not None:
        changes["at"] = where
    for node in which:
        made.probes.setdefault(node, []).append((at_ms, changes))


@command("listens")
def listens(made: Situation, words: Words) -> None:
    """listens 2 c3:9093,INTERNAL://i2:9094: how the controller was first registered and recorded."""
    node = int(words.word())
    made.listeners[node] = tuple(map(endpoint, words.word().split(",")))


@command("returned")
def returned(made: Situation, words: Words) -> None:
    """returned 1,2 600s 90s: their endpoints accepted connections again at these times, after they had refused them."""
    nodes = words.word()
    for ago in map(milliseconds, words.rest()):
        run(made, f"probe {nodes} refused ago {ago + SECOND}ms")
        run(made, f"probe {nodes} ok ago {ago}ms")


@command("certificates")
def certificates(made: Situation, words: Words) -> None:
    """certificates [1=expired] [2=wrong-host,200d] [3=9.5d,CN=b]: all endpoints present one; its fault, days, issuer.

    The faults: expired, not-yet-valid, wrong-host, untrusted. Without a word, 300 days are left, and CN=ca issued it.
    """
    made.access = replace(made.access, protocol="SASL_SSL") if not made.access.secured else made.access
    faults: dict[int, CertificateFault] = {}
    left_ms: dict[int, int] = {}
    authorities: dict[int, str] = {}
    for one in words.rest():
        node, _, values = one.partition("=")
        for value in values.split(","):
            if value[0].isdigit() or value[0] == "-":
                left_ms[int(node)] = milliseconds(value)
            elif "=" in value:
                authorities[int(node)] = value
            else:
                faults[int(node)] = CertificateFault(value)

    def presented(probe: Probe) -> Probe:
        if probe.connection is not Connection.ACCEPTED:
            return probe
        fault = faults.get(probe.node)
        left = left_ms.get(probe.node, -DAY if fault is CertificateFault.EXPIRED else 300 * DAY)
        begins = 2 if fault is CertificateFault.NOT_YET_VALID else -60
        certificate = ServerCertificate(
            valid_from_ms=Millis(NOW + begins * DAY),
            expires_at_ms=Millis(NOW + left),
            fault=fault,
            verified=fault is None,
            authority=authorities.get(probe.node, "CN=ca"),
        )
        answer = Answer.NOT_ALLOWED if fault else probe.answer
        return replace(probe, certificate=certificate, answer=answer)

    made.certificates = presented


@command("quorum-voters")
def quorum_voters(made: Situation, words: Words) -> None:
    """quorum-voters 1 1@c1:9093,2@c2:9093 [ago 2s]: controller.quorum.voters of this node, as it answers; or none."""
    at_ms = age(words, "ago", f"{PROBED_AGO_MS}ms")
    node, text = int(words.word()), words.word()
    made.probes.setdefault(node, []).append((at_ms, {"quorum_voters": "" if text == "none" else text}))


@command("roles")
def roles(made: Situation, words: Words) -> None:
    """roles 1 controller [ago 2s]; roles 1 broker,controller: process.roles of this node, as it answers itself."""
    at_ms = age(words, "ago", f"{PROBED_AGO_MS}ms")
    node = int(words.word())
    listed = tuple(sorted(map(NodeKind, words.word().split(","))))
    made.probes.setdefault(node, []).append((at_ms, {"roles": listed}))


@command("controller-login")
def controller_login(made: Situation, words: Words) -> None:
    """controller-login 1,2 SCRAM-SHA-512 [ago 2s]: how these controllers log in to the others, as they answer it."""
    at_ms = age(words, "ago", f"{PROBED_AGO_MS}ms")
    which, mechanism = numbers(words.word()), words.word()
    for node in which:
        made.probes.setdefault(node, []).append((at_ms, {"controller_login": mechanism}))
