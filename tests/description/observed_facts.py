"""Describes what the monitor observes beside polls: probes, leader views, failures, and what must never be."""

from collections.abc import Iterator

from rules.model.monitoring import (
    ContractViolation,
    DamagedBatch,
    FailedObservation,
    LeaderLog,
    LeaderView,
    Probe,
    Reason,
    ServerCertificate,
    Snapshot,
)
from rules.model.quorum import Quorum
from tests.description.fact_words import Fact, Times, endpoints, known, listed, voter


def observed_facts(quorum: Quorum, times: Times) -> Iterator[Fact]:
    """Yields probes, kept addresses, leader views, failing data sources and violations."""
    for name, probe in sorted(quorum.probes.items()):
        yield Fact(f"probe {name}", _probe(name, probe, times))
    yield from _kept_addresses(quorum)
    for endpoint, view in sorted(quorum.leader_views.items()):
        yield Fact(f"view of {endpoint}", _view(endpoint, view, times))
    for place, at_ms in sorted(quorum.unanswered_since.items()):
        yield Fact(f"unanswered at {place}", f"{place} not answering since {times.at(at_ms)}")
    for place, at_ms in sorted(quorum.late_answers.items()):
        yield Fact(f"late at {place}", f"{place} answered late at {times.at(at_ms)}")
    for failed in quorum.failures:
        yield _failing(failed, times)
    for violated in quorum.invariant_violations:
        when = f"{violated.invariant} in epoch {violated.epoch} at {times.at(violated.observed_at_ms)}"
        yield Fact(f"violation of {when}", f"violated {when}: {violated.detail}")
    for broken in quorum.contract_violations:
        yield Fact(f"contract {broken.contract}", _contract(broken, times))
    for row in quorum.witnesses:
        yield Fact(f"witness {row.node}", f"witness {row}")


def _probe(name: str, probe: Probe, times: Times) -> str:
    addresses = f" to {listed(probe.addresses)}" if probe.addresses else ""
    words = [
        f"probe {name}: {probe.resolution}{addresses}",
        str(probe.connection),
        str(probe.answer) + ("" if probe.answered_by is None else f" by {probe.answered_by}"),
        f"at {times.at(probe.observed_at_ms)}",
    ]
    if f"{probe.node}@{endpoints([probe.endpoint])}" != name:
        words.append(f"of node {probe.node} at {endpoints([probe.endpoint])}")
    if probe.detail:
        words.append(probe.detail)
    if probe.reason is not None:
        words.append(f"because of {probe.reason}")
    if probe.settings is not None:
        words.append(f"with settings {listed(f'{name}={value}' for name, value in sorted(probe.settings.items()))}")
    if probe.former_reason is not None:
        words.append(f"answered before with {probe.former_reason}")
    words += ["starting"] if probe.starting else []
    if probe.returned_at_ms:
        words.append(f"started at {listed(times.at(at_ms) for at_ms in probe.returned_at_ms)}")
    if probe.certificate is not None:
        words.append(_certificate(probe.certificate, times))
    if probe.newest_certificate not in (None, probe.certificate):
        words.append(f"presented before: {_certificate(probe.newest_certificate, times)}")
    if probe.certificate_since_ms is not None:
        words.append(f"another certificate since {times.at(probe.certificate_since_ms)}")
    return ", ".join(words)


def _certificate(one: ServerCertificate, times: Times) -> str:
    verified = "verified" if one.verified else "not verified"
    fault = "" if one.fault is None else f" because it is {one.fault}"
    issuer = "" if one.authority is None else f" of {one.authority}"
    valid = f"valid {times.at(one.valid_from_ms)} to {times.at(one.expires_at_ms)}"
    key = "" if one.key is None else f", key {one.key}"
    usages = f", for {listed(one.usages)}" if one.usages else ""
    chain = f", sent with those of {listed(one.chain)}" if one.chain else ""
    suite = "" if one.suite is None else f", by {one.suite}"
    return f"certificate{issuer} {valid}, {verified}{fault}{key}{usages}{chain}{suite}"


def _kept_addresses(quorum: Quorum) -> Iterator[Fact]:
    """Yields the addresses that a host last resolved to, where no current probe has them."""
    resolved = {probe.endpoint.host: probe.addresses for probe in quorum.probes.values() if probe.addresses}
    for host in sorted({*quorum.addresses, *resolved}):
        kept = quorum.addresses.get(host, ())
        if kept != resolved.get(host):
            yield Fact(f"addresses of {host}", f"{host} last resolved to {listed(kept)}")


def _view(endpoint: str, view: LeaderView, times: Times) -> str:
    node = "" if view.node is None else f" (node {view.node})"
    leader = "no leader" if view.leader_id is None else f"leader {view.leader_id}"
    words = [f"view of {endpoint}{node}: {leader} in epoch {known(view.leader_epoch)} since {times.at(view.since_ms)}"]
    words.append(f"polled at {times.at(view.observed_at_ms)}")
    if view.endpoint != endpoint:
        words.append(f"at {view.endpoint}")
    if not view.this_cluster:
        words.append("of another cluster")
    if view.other_voters:
        words.append(f"leads the other voters {listed(view.other_voters)}")
    if view.log is not None:
        words += _log(view.log, times)
    return ", ".join(words)


def _log(log: LeaderLog, times: Times) -> Iterator[str]:
    begins = "" if log.begins_timestamp_ms is None else f" at {times.at(log.begins_timestamp_ms)}"
    yield f"its log begins with {known(log.start_offset)}{begins}"
    yield "no snapshot" if log.snapshot is None else _snapshot(log.snapshot, times)
    if not log.tells_absence:
        yield "which proves nothing"


def _snapshot(one: Snapshot, times: Times) -> str:
    voters = "" if one.voters is None else f" with voters {'; '.join(map(voter, one.voters)) or 'none'}"
    newest = times.at(one.last_contained_timestamp_ms)
    return f"snapshot up to {one.end_offset} in epoch {one.epoch}, its newest time {newest}{voters}"


def _failing(one: FailedObservation, times: Times) -> Fact:
    source = f"{one.source} at {one.endpoint or 'no endpoint'}"
    lost = " lost metadata" if one.reason is Reason.METADATA_LOST else ""
    node = "" if one.node is None else f" of node {one.node}"
    span = times.span(one.first_at_ms, one.last_at_ms)
    named = "" if one.leader_id is None else f", names leader {one.leader_id}"
    damage = _damage(one.damage)
    words = f"{one.reason} {span}, {one.detail or 'no detail'}{named}{damage}"
    return Fact(f"failing {source}{lost}{damage.partition(' to ')[0]}", f"failing {source}{node}: {words}")


def _damage(one: DamagedBatch | None) -> str:
    if one is None:
        return ""
    snapshot = "" if one.snapshot is None else f" of snapshot {one.snapshot.end_offset}-{one.snapshot.epoch}"
    place = "" if one.position is None else f" at byte {one.position}"
    batch = f"{known(one.offset)} to {known(one.last_offset)} in epoch {known(one.epoch)}"
    checksum = " outside its checksum" if one.outside_checksum else ""
    return f", damaged{snapshot}{place}: {batch}{checksum}, served at high watermark {known(one.high_watermark)}"


def _contract(one: ContractViolation, times: Times) -> str:
    grave = "broken gravely" if one.grave else "broken"
    row = "" if one.sequence is None else f" in row {one.sequence}"
    span = times.span(one.first_at_ms, one.last_at_ms)
    return f"contract {one.contract} {grave} in {one.rows} rows {span}: {one.example}{row}; promised: {one.promise}"
