"""Rescues a node on a small disk of its own. Run it as `unshare -rm python -m tests.cli.small_disk NODE DISK`.

For each free size, it writes one line of JSON: how the rescue ended, and what is on the disk. Last, the disk is
read-only.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from connectors.errors import UsageError
from streaming.rescue.apply_voters import apply_voters, undo
from tests.unit.connectors.logdir.log_dirs import MOVED

SIZE = 256 * 1024
BLOCK = 4096


def rescued(node: Path) -> str:
    try:
        apply_voters(node, MOVED, write=True)
    except UsageError as refused:
        return str(refused)
    return "done"


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name not in (".lock", "filler"))


def report(ended: str, disk: Path) -> None:
    sys.stdout.write(json.dumps({"ended": ended, "files": files(disk)}) + "\n")


def main(source: Path, disk: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)], check=True)
    node = disk / source.name
    shutil.copytree(source, node)
    free = shutil.disk_usage(disk).free
    for left in range(0, free + BLOCK, BLOCK):
        (disk / "filler").write_bytes(b"x" * (free - left))
        ended = rescued(node)
        report(ended, disk)
        (disk / "filler").unlink()
        if ended == "done":
            undo(node)
            break
        backup = next(disk.glob("*.before-*"), None)
        if backup is not None:
            shutil.rmtree(backup)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    report(rescued(node), disk)
    report(str(apply_voters(node, MOVED, write=False).written), disk)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
