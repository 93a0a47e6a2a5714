"""Which transitions a sink was sent, whether it confirmed them or not."""

from alembic import op
from sqlalchemy import Boolean, Column, false

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Creates the column. What is pending of an incident that the sink was sent may have been sent too."""
    op.add_column("deliveries", Column("sent", Boolean, nullable=False, server_default=false()))
    op.execute(
        "UPDATE deliveries SET sent = true WHERE status = 'pending' AND EXISTS ("
        "SELECT 1 FROM alerts JOIN notified ON notified.incident = alerts.incident "
        "WHERE alerts.number = deliveries.number AND notified.sink = deliveries.sink)"
    )
