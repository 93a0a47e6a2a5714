"""The tables of version 0.1."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Boolean, Column, DateTime, Integer, String, UniqueConstraint

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates the tables."""
    op.create_table(
        "entries",
        Column("number", Integer, primary_key=True),
        Column("collection", String, nullable=False),
        Column("name", String, nullable=False),
        Column("value", JSON, nullable=False),
        UniqueConstraint("collection", "name"),
    )
    op.create_table(
        "alerts",
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("recorded_at_ms", BigInteger, nullable=False),
        Column("incident", String, nullable=False),
        Column("escalations", Integer, nullable=False),
        Column("alert", JSON, nullable=False),
    )
    op.create_table(
        "sinks",
        Column("number", Integer, primary_key=True),
        Column("name", String, nullable=False, unique=True),
    )
    op.create_table(
        "deliveries",
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("sink", String, primary_key=True),
        Column("status", String, nullable=False),
    )
    op.create_table(
        "notified",
        Column("sink", String, primary_key=True),
        Column("incident", String, primary_key=True),
        Column("at_ms", BigInteger, nullable=False),
    )
    op.create_table(
        "leases",
        Column("name", String, primary_key=True),
        Column("owner", String, nullable=False),
        Column("token", BigInteger, nullable=False),
        Column("expires_at", DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "jobs",
        Column("id", String, primary_key=True),
        Column("seen_at", DateTime(timezone=True), nullable=False),
        Column("evaluated_ms", BigInteger, nullable=False),
        Column("sinks_fail", Boolean, nullable=False),
    )
    op.create_table(
        "audits",
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
