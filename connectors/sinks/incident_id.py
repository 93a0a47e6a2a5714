"""The id of an incident: `KEY-UNIQUE`, or only `UNIQUE`.

KEY is the fingerprint of the alert that opened the incident. Two jobs that monitor one cluster observe that alert at
different times, but with the same fingerprint: a service that deduplicates by a key gets the same one from both jobs.

A service that pages people pages once for a key, so an incident that escalates has another one: KEY, KEY-1, KEY-2.
"""

from rules.alert import Alert


def incident_id(first: Alert, unique: str) -> str:
    """Returns the id of the incident that an alert opens; `unique` tells it from the alert's earlier incidents."""
    return f"{first.fingerprint}-{unique}"


def deduplication_key(incident: str, escalations: int = 0) -> str:
    """Returns what the ids of the same incident in two jobs have in common; an id without a key is its own."""
    key = incident.partition("-")[0]
    return f"{key}-{escalations}" if escalations else key
