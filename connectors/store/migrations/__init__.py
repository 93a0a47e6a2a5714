"""Alembic's environment, and the migrations of a job's tables."""
