"""The first version of the tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates the tables."""
    op.create_table(
        "entries",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("collection", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("value", sa.JSON, nullable=False),
        sa.UniqueConstraint("collection", "name"),
    )
    op.create_table(
        "alerts",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("recorded_at_ms", sa.BigInteger, nullable=False),
        sa.Column("incident", sa.String, nullable=False),
        sa.Column("escalations", sa.Integer, nullable=False),
        sa.Column("alert", sa.JSON, nullable=False),
    )
    op.create_table(
        "sinks",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
    )
    op.create_table(
        "deliveries",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("sink", sa.String, primary_key=True),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("token", sa.BigInteger),
    )
    op.create_table(
        "notified",
        sa.Column("sink", sa.String, primary_key=True),
        sa.Column("incident", sa.String, primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("evaluated_ms", sa.BigInteger, nullable=False),
        sa.Column("sinks_fail", sa.Boolean, nullable=False),
    )
    _create_audits()


def _create_audits() -> None:
    op.create_table(
        "audits",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("audited_at_ms", sa.BigInteger, nullable=False),
        sa.Column("suite", sa.String, nullable=False),
        sa.Column("contract", sa.String, nullable=False),
        sa.Column("severity", sa.String, nullable=False),
        sa.Column("checked_rows", sa.BigInteger, nullable=False),
        sa.Column("broken_rows", sa.BigInteger, nullable=False),
        sa.Column("clusters", sa.JSON, nullable=False),
        sa.Column("example", sa.String),
    )
