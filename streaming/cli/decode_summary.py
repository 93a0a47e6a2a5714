"""Prints `kraftwatch decode --summary`: counts of one file of the metadata log, and sums over its partitions."""

import json
import sys

from connectors.metadata.log_summary import LogSummary


def print_summary(name: str, segment: bytes, summary: LogSummary, *, as_json: bool) -> None:
    """Prints the summary of a file, as text or as one JSON object.

    Args:
        name: the file's name.
        segment: its bytes.
        summary: counts of all its records.
        as_json: whether to print JSON.
    """
    # Imported here, because its imports would delay the command's completion and help.
    from streaming.replay.partition_sums import partition_sums

    sums = partition_sums(segment, snapshot=summary.is_snapshot).as_json()
    counts = {
        "file": name,
        "bytes": len(segment),
        "data_records": summary.records.total(),
        "control_records": summary.control_records.total(),
        "undecodable": summary.undecodable,
        "first_offset": summary.first_offset,
        "last_offset": summary.last_offset,
        "last_epoch": summary.last_epoch,
    }
    by_type = dict(sorted(summary.records.items()))
    control_by_type = dict(sorted(summary.control_records.items()))
    if as_json:
        document = counts | {"by_type": by_type, "control_by_type": control_by_type} | sums
        sys.stdout.write(json.dumps(document) + "\n")
        return
    for key, value in counts.items():
        sys.stdout.write(f"{key.replace('_', ' '):<34}  {'-' if value is None else value}\n")
    for title, numbers in (("records", by_type), ("control records", control_by_type), ("resulting partitions", sums)):
        sys.stdout.write(f"\n{title}\n")
        for key, number in numbers.items():
            sys.stdout.write(f"  {key if key.isupper() else key.replace('_', ' '):<32}  {number:>12}\n")
