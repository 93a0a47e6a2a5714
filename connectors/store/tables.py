"""The tables of a job's database. A changed table needs a migration (`connectors.store.revisions`)."""

from pathlib import Path

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    false,
)

from connectors.store.database import Database, SqliteDatabase
from connectors.store.store_place import StorePlace

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
    Column("number", Integer, primary_key=True, autoincrement=False),
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
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("sink", String, primary_key=True),
    Column("status", String, nullable=False),
    # Before the sink was called: it may have the transition.
    Column("sent", Boolean, nullable=False, server_default=false()),
)
"""The status of each transition for each sink."""

NOTIFIED = Table(
    "notified",
    TABLES,
    Column("sink", String, primary_key=True),
    Column("incident", String, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    # The acknowledgements that it knows of (`rules.notifications.acknowledgement.digest`).
    Column("acknowledged", String),
)
"""When a sink was last notified of an incident."""

ACKNOWLEDGEMENTS = Table(
    "acknowledgements",
    TABLES,
    Column("fingerprint", String, primary_key=True),
    Column("started_at_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("severity", String, nullable=False),
    Column("by", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger),
    Column("comment", String, nullable=False),
)
"""The newest acknowledgement of each alert, also one that has ended."""

LEASES = Table(
    "leases",
    TABLES,
    Column("name", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)
"""Which of several jobs notifies, and until when by the clock of the database."""

JOBS = Table(
    "jobs",
    TABLES,
    Column("id", String, primary_key=True),
    Column("seen_at", DateTime(timezone=True), nullable=False),
    # The time of the newest row that it has evaluated.
    Column("evaluated_ms", BigInteger, nullable=False),
    Column("sinks_fail", Boolean, nullable=False),
)
"""The jobs that share the database, as each last reported itself."""

AUDITS = Table(
    "audits",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("audited_at_ms", BigInteger, nullable=False),
    Column("suite", String, nullable=False),
    Column("contract", String, nullable=False),
    Column("severity", String, nullable=False),
    Column("checked_rows", BigInteger, nullable=False),
    Column("broken_rows", BigInteger, nullable=False),
    Column("clusters", JSON, nullable=False),
    Column("example", String),
)
"""What each audit found about each data contract."""


def job_database(place: StorePlace, *, read_only: bool = False) -> Database:
    """Returns the database of a job; nothing is opened or created yet."""
    if isinstance(place, Path):
        return sqlite_database(place, read_only=read_only)
    # Imported here: a job with a file needs no driver of PostgreSQL.
    from connectors.store.postgres import PostgresDatabase

    return PostgresDatabase(place, read_only=read_only)


def sqlite_database(folder: Path, *, name: str = "kraftwatch.db", read_only: bool = False) -> SqliteDatabase:
    """Returns the database in a job's folder; nothing is opened or created yet."""
    return SqliteDatabase(folder / name, read_only=read_only)
