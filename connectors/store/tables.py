"""The tables of a job's database."""

from pathlib import Path

from sqlalchemy import JSON, Column, Integer, MetaData, String, Table, UniqueConstraint

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


def job_database(checkpoint: Path, *, read_only: bool = False) -> Database:
    """Returns the database in a job's checkpoint folder; nothing is opened or created yet."""
    return Database(checkpoint / "kraftwatch.db", TABLES, read_only=read_only)
