"""Alembic executes this file for each command: it gives the connection to Alembic."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
