"""What the log of a controller that ends at its start says, why, and what to do: a table.

Phrases are what Kafka writes, as it writes it: people search for it. Almost every such log also says "Encountered fatal
fault", which tells nothing: the exception below it does.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rules.facts.quorum import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPhrase:
    """Phrases of a log that have one cause."""

    says: Mapping[str, str]
    """By phrase: the Kafka version in which a real controller wrote it (`tests/kafka/test_start_log_live.py`)."""
    cause: str
    """A clause."""
    step: str
    """What to do, as an imperative; `{level}` and `{listener}` are those of this quorum."""
    fits: Callable[[Facts], bool] = lambda _: True
    """Whether it can be the reason, by what is known of the quorum."""


def _listener(facts: Facts) -> str | None:
    """Returns the name of the listener at which the voters dial each other."""
    recorded = (facts.quorum.recorded_endpoint(node) for node in sorted(facts.quorum.voter_ids))
    return next((endpoint.listener for endpoint in recorded if endpoint), None)


_NEWEST = "4.4.0"
LOG_PHRASES = (
    LogPhrase(
        # InternalError of a memory-mapped index for which the file system has no block: from the second start on.
        says={"No space left on device": _NEWEST, "a fault occurred in": _NEWEST},
        cause="its disk is full",
        step="make room and start it, and format nothing: its log is intact",
    ),
    LogPhrase(
        says={"No readable meta.properties files found": _NEWEST, "doesn't match previous node id": _NEWEST},
        cause="its disk is not mounted, or is another node's",
        step="mount its own (log.dirs, metadata.log.dir), and format only a new one",
    ),
    LogPhrase(
        says={"Address already in use": _NEWEST, "Failed to acquire lock on file .lock": _NEWEST},
        cause="another process has its port or its disk",
        step="end that one, such as an earlier start of this controller",
    ),
    LogPhrase(
        says={"CorruptRecordException": _NEWEST, "Unknown metadata version": _NEWEST},
        cause="its newest .checkpoint in __cluster_metadata-0 is damaged",
        step="move that file away and start it, it then uses the one before and the log",
    ),
    LogPhrase(
        says={"No MetadataVersion with": "4.3.1", "only supports versions": "4.3.1", "Can't read version": "4.1.2"},
        cause="its version is too old",
        step="start it in the version of the others, which supports metadata.version {level}",
        fits=lambda facts: facts.quorum.metadata_version is not None,
    ),
    LogPhrase(
        says={"OutOfMemoryError": _NEWEST},
        cause="its heap is too small",
        step="raise -Xmx (KAFKA_HEAP_OPTS)",
    ),
    LogPhrase(
        says={"Unknown endpoint for leader": _NEWEST},
        cause="its controller listener has another name than those of the others",
        step="name it {listener} in listeners, advertised.listeners and controller.listener.names",
        fits=lambda facts: _listener(facts) is not None,
    ),
    LogPhrase(
        says={"must be included in the set of voters": _NEWEST},
        cause="its controller.quorum.voters lacks it",
        step="give it the list of the others",
        fits=lambda facts: facts.quorum.is_static,
    ),
    LogPhrase(
        says={"Failed to load SSL": _NEWEST},
        cause="its keystore or truststore is missing or damaged",
        step="correct ssl.keystore.* and ssl.truststore.*",
        fits=lambda facts: facts.quorum.access.tls,
    ),
    LogPhrase(
        says={"entry in the JAAS configuration": _NEWEST},
        cause="its listener has no credentials",
        step="set sasl.jaas.config of its listener and mechanism",
        fits=lambda facts: facts.quorum.access.protocol.startswith("SASL_"),
    ),
    LogPhrase(
        says={"ConfigException": _NEWEST, "requirement failed": _NEWEST},
        cause="a setting is missing or wrong, which the exception names",
        step="undo its last change",
    ),
)
"""In the order in which they are compared with a log: the first one that is in it counts."""
_STARTS = ("# Start controller", "# Start the controller", "# Then restart controller")
_WHERE = (
    "# If a controller does not stay up, or is started again and again already (one that ends before it listens looks "
    "as if it were down), the last exception in its server.log says why (systemd: journalctl -u SERVICE; Kubernetes: "
    "kubectl logs POD --previous)"
)


def log_lines(facts: Facts) -> Iterable[str]:
    """Yields a line of a remedy for each cause that fits what is known of the quorum."""
    level, listener = facts.quorum.metadata_version, _listener(facts)
    for one in LOG_PHRASES:
        if one.fits(facts):
            says = " or ".join(f'"{phrase}"' for phrase in one.says)
            yield f"# {says} in its log: {one.cause}; {one.step.format(level=level, listener=listener)}"


def with_log_lines(facts: Facts, remedy: Iterable[str]) -> Iterable[str]:
    """Yields the remedy; at its end, if it starts a controller, what to do if that one does not stay up."""
    starts = False
    for step in remedy:
        yield step
        starts = starts or step.startswith(_STARTS)
    if starts:
        yield _WHERE
        yield from log_lines(facts)
