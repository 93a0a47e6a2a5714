"""The first version of the tables: until it is released, those of the program. The second version lists them here."""

from alembic import context, op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates the tables."""
    context.config.attributes["tables"].create_all(op.get_bind())
