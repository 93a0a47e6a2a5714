"""The tables of a job's database."""

from pathlib import Path

from sqlalchemy import JSON, BigInteger, Column, Integer, MetaData, String, Table, UniqueConstraint

from connectors.store.database import Database

TABLES = MetaData()
ENTRIES = Table(
    "entries",
    TABLES,
    # The order in which they were put.
    Column("number", Integer, primary_key=True),
    Column("collection", String, nullable=False),
    Column("name", String, nullable=False),
    Column("value", JSON, nullable=False),
    UniqueConstraint("collection", "name"),
)
"""The values of all collections."""

ALERTS = Table(
    "alerts",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("recorded_at_ms", BigInteger, nullable=False),
    Column("incident", String, nullable=False),
    Column("escalations", Integer, nullable=False),
    Column("alert", JSON, nullable=False),
)
"""Every transition of an alert, until the ledger drops it."""

SINKS = Table(
    "sinks",
    TABLES,
    # The order in which they were added.
    Column("number", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True),
)

DELIVERIES = Table(
    "deliveries",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("sink", String, primary_key=True),
    Column("status", String, nullable=False),
)
"""The status of each transition for each sink."""

NOTIFIED = Table(
    "notified",
    TABLES,
    Column("sink", String, primary_key=True),
    Column("incident", String, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
)
"""When a sink was last notified of an incident."""


def job_database(checkpoint: Path, *, read_only: bool = False) -> Database:
    """Returns the database in a job's checkpoint folder; nothing is opened or created yet."""
    return Database(checkpoint / "kraftwatch.db", TABLES, read_only=read_only)
