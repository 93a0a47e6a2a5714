"""Busy processes beside a job: a machine on which ten of them share each core."""

import os
import sys
from collections.abc import Sequence

BUSY_PER_CORE = 10
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Ends with its parent."""


def busy_prefix(processes: int = BUSY_PER_CORE * (os.cpu_count() or 1)) -> Sequence[str]:
    """Returns the prefix of a job's command that starts so many busy processes as children of the job.

    They are in the job's session, because Linux may share the CPU among sessions before it shares it among processes.
    """
    busy = f"{sys.executable} -S -c '{BUSY}' & " * processes
    return ["sh", "-c", f'{busy} exec "$@"', "sh"]
