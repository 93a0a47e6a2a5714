"""The folder that Data Docs are written into: one that holds nothing else."""

from pathlib import Path

from connectors.errors import UsageError

OURS = ".kraftwatch-audit"
"""Marks a folder that an audit wrote, and may write again."""


def make_ours(folder: Path) -> None:
    """Make the folder and mark it as ours; one that holds something else is refused.

    Raises:
        UsageError: it does, is no folder, or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--docs {folder} is no folder: name one that is new, empty, or of an audit before")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / OURS).exists():
        raise UsageError(f"--docs {folder} holds other files: name a folder that is new or empty")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OURS).touch()
    except OSError as problem:
        reason = (problem.strerror or "unusable").lower()
        raise UsageError(f"--docs {folder}: {reason}; name a folder that can be written") from None
