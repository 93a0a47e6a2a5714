"""Cluster ids: 22 characters, as `kafka-storage random-uuid` prints them. Kafka 3.9 and newer accept any text."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import AfterValidator

from rules.formatting import plural

_FORM = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")
"""16 bytes in base64 for URLs, without padding: org.apache.kafka.common.Uuid."""
_ALMOST = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9_+/=-]{18,26}")
_COPY = "copy cluster.id from the meta.properties of a node"


def unusual_ids(cluster_ids: Iterable[str | None]) -> Sequence[str]:
    """Returns a sentence for each cluster's id, in the configuration's order, that Kafka does not generate."""
    return [
        f"clusters.{at}.cluster_id: {each} is not of the form that `kafka-storage random-uuid` prints: it is "
        f"right only if the cluster was formatted with it; {_COPY}"
        for at, each in enumerate(cluster_ids)
        if each is not None and not _FORM.fullmatch(each)
    ]


def _checked(cluster_id: str) -> str:
    if _FORM.fullmatch(cluster_id):
        return cluster_id
    if not cluster_id or re.search(r"[^!-~]|[\"'=]", cluster_id):
        raise ValueError(f"must be one word, without spaces, quotation marks and =: {_COPY}")
    if _ALMOST.fullmatch(cluster_id):
        wrong = (
            f"has {plural(len(cluster_id), 'character')}" if len(cluster_id) != 22 else "is no id that Kafka generates"
        )
        raise ValueError(f"{wrong}, but Kafka's cluster ids have 22 (A-Z a-z 0-9 - _): {_COPY}")
    return cluster_id


ClusterId = Annotated[str, AfterValidator(_checked)]
"""The id of a Kafka cluster."""
