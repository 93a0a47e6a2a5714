"""Who may write to a job's checkpoint: root's files would be unreadable for the job of another user."""

import os
import pwd
from pathlib import Path

from connectors.errors import UsageError


def refuse_root_for_other_owner(checkpoint: Path) -> None:
    """Checks that what this process writes to an existing checkpoint folder can be read by its owner.

    Raises:
        UsageError: this process runs as root, and the folder belongs to another user.
    """
    owner = checkpoint.stat().st_uid
    if os.geteuid() != 0 or owner == 0:
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"#{owner}"
    raise UsageError(
        f"checkpoint {checkpoint} belongs to user {name}, who could not read what root writes: "
        f"run this command as that user, for example with `sudo -u {name}`"
    )
