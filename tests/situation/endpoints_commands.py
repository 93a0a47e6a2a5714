"""The commands for the probes of the voters' endpoints, and their certificates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import (
    CONTROLLER_LOGIN,
    PROCESS_ROLES,
    QUORUM_VOTERS,
    CertificateFault,
    ConnectionResult,
    Probe,
    ProbeAnswer,
    Reason,
    Resolution,
    ServerCertificate,
)
from tests.commands import Words, endpoint, milliseconds, numbers
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
        "connection": ConnectionResult.NOT_TRIED,
        "answer": ProbeAnswer.NOT_ASKED,
        "answered_by": None,
    },
    "resolver-fails": {
        "resolution": Resolution.RESOLVER_FAILED,
        "addresses": (),
        "connection": ConnectionResult.NOT_TRIED,
        "answer": ProbeAnswer.NOT_ASKED,
        "answered_by": None,
    },
    **{
        one.value: {"connection": one, "answer": ProbeAnswer.NOT_ASKED, "answered_by": None}
        for one in (ConnectionResult.REFUSED, ConnectionResult.TIMED_OUT, ConnectionResult.UNREACHABLE)
    },
    **{one.value: {"answer": one, "answered_by": None} for one in ProbeAnswer},
    **{
        one.value: {"answer": ProbeAnswer.NOT_ALLOWED, "answered_by": None, "reason": one}
        for one in (Reason.DENIED, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.WRONG_PROTOCOL, Reason.NOT_READY)
    },
}


@command("probe")
def probe_(made: Situation, words: Words) -> None:
    """probe 1,2 refused [ago 2s] [by 4] [addresses 10.0.0.9] [at c1:9095]: the newest probe of a voter's endpoint.

    The result is ok, name-not-found, resolver-fails, refused, timed-out, unreachable, or what answered: this-cluster,
    other-cluster, other-node, not-kafka, no-answer, late, not-allowed or not-asked; or why it does not allow the
    request: denied, not-authenticated, tls-failed, wrong-protocol, not-ready. `never`: it was not probed. Without `at`
    every recorded endpoint of the voter is probed.
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


_USUAL_CERTIFICATE = ServerCertificate(
    valid_from_ms=Millis(NOW - 60 * DAY),
    expires_at_ms=Millis(NOW + 300 * DAY),
    verified=True,
    authority="CN=ca",
    key="RSA 2048",
    usages=("client", "server"),
    chain=("CN=root",),
    suite="TLSv1.3 TLS_AES_256_GCM_SHA384",
)


@command("certificates")
def certificates(made: Situation, words: Words) -> None:
    """certificates [1=expired] [2=wrong-host,200d] [3=9.5d,CN=b] [4=key:EC]: all endpoints present one.

    Its fault (expired, not-yet-valid, wrong-host, untrusted), days that are left (300), issuer (CN=ca), and key,
    usages, chain or suite. `since 30s`: they are seen since then, and usual ones before.
    """
    made.access = replace(made.access, protocol="SASL_SSL") if not made.access.secured else made.access
    faults: dict[int, CertificateFault] = {}
    left_ms: dict[int, int] = {}
    authorities: dict[int, str] = {}
    others: dict[int, dict[str, Any]] = {}
    since_ms = age(words, "since", f"{DAY}ms")
    for one in words.rest():
        node, _, values = one.partition("=")
        for value in values.split(","):
            if value[0].isdigit() or value[0] == "-":
                left_ms[int(node)] = milliseconds(value)
            elif "=" in value:
                authorities[int(node)] = value
            elif ":" in value:
                name, _, text = value.partition(":")
                listed = tuple(filter(None, text.split("+"))) if name in ("usages", "chain") else text
                others.setdefault(int(node), {})[name] = listed
            else:
                faults[int(node)] = CertificateFault(value)

    def presented(probe: Probe) -> Probe:
        if probe.connection is not ConnectionResult.ACCEPTED:
            return probe
        if probe.observed_at_ms < since_ms:
            return replace(probe, certificate=_USUAL_CERTIFICATE)
        fault = faults.get(probe.node)
        left = left_ms.get(probe.node, -DAY if fault is CertificateFault.EXPIRED else 300 * DAY)
        begins = 2 if fault is CertificateFault.NOT_YET_VALID else -60
        certificate = replace(
            _USUAL_CERTIFICATE,
            valid_from_ms=Millis(NOW + begins * DAY),
            expires_at_ms=Millis(NOW + left),
            fault=fault,
            verified=fault is None,
            authority=authorities.get(probe.node, "CN=ca"),
            **others.get(probe.node, {}),
        )
        answer = ProbeAnswer.NOT_ALLOWED if fault else probe.answer
        return replace(probe, certificate=certificate, answer=answer)

    made.certificates = presented


@command("quorum-voters")
def quorum_voters(made: Situation, words: Words) -> None:
    """quorum-voters 1 1@c1:9093,2@c2:9093 [ago 2s]: controller.quorum.voters of this node, as it answers; or none."""
    at_ms = age(words, "ago", f"{PROBED_AGO_MS}ms")
    node, text = int(words.word()), words.word()
    _answers_setting(made, node, at_ms, QUORUM_VOTERS, "" if text == "none" else text)


@command("roles")
def roles(made: Situation, words: Words) -> None:
    """roles 1 controller [ago 2s]; roles 1 broker,controller: process.roles of this node, as it answers itself."""
    at_ms = age(words, "ago", f"{PROBED_AGO_MS}ms")
    node = int(words.word())
    _answers_setting(made, node, at_ms, PROCESS_ROLES, words.word())


@command("controller-login")
def controller_login(made: Situation, words: Words) -> None:
    """controller-login 1,2 SCRAM-SHA-512 [ago 2s]: how these controllers log in to the others, as they answer it."""
    at_ms = age(words, "ago", f"{PROBED_AGO_MS}ms")
    which, mechanism = numbers(words.word()), words.word()
    for node in which:
        _answers_setting(made, node, at_ms, CONTROLLER_LOGIN, mechanism)


@command("settings")
def settings(made: Situation, words: Words) -> None:
    """settings 1,2 ssl.client.auth=none super.users=hidden [ago 2s]: what these controllers answer of theirs."""
    at_ms = age(words, "ago", f"{PROBED_AGO_MS}ms")
    which = numbers(words.word())
    answered = dict(one.split("=", 1) for one in words.rest())
    for node in which:
        made.probes.setdefault(node, []).append((at_ms, {"settings": answered}))


def _answers_setting(made: Situation, node: int, at_ms: int, name: str, value: str) -> None:
    made.probes.setdefault(node, []).append((at_ms, {"settings": {name: value}}))
