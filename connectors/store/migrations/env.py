"""Run by Alembic: applies migrations with the connection of `connectors.store.revisions`, in its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
