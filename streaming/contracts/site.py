"""The folder that Data Docs are written into: one that holds nothing else."""

from pathlib import Path

from connectors.errors import UsageError

OURS = ".kraftwatch-audit"
"""Marks a folder that an audit wrote, and may write again."""


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds something else.

    Raises:
        UsageError: it does, or is no folder.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--docs {folder} is no folder: name one that is new, empty, or of an audit before")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / OURS).exists():
        raise UsageError(f"--docs {folder} holds other files: name a folder that is new or empty")
