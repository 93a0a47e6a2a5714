"""Acknowledgements of alerts, and which of them a sink knows of."""

from alembic import op
from sqlalchemy import BigInteger, Column, String

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Creates the table and the column."""
    op.create_table(
        "acknowledgements",
        Column("fingerprint", String, primary_key=True),
        Column("started_at_ms", BigInteger, primary_key=True, autoincrement=False),
        Column("severity", String, nullable=False),
        Column("by", String, nullable=False),
        Column("at_ms", BigInteger, nullable=False),
        Column("until_ms", BigInteger),
        Column("comment", String, nullable=False),
    )
    op.add_column("notified", Column("acknowledged", String))
