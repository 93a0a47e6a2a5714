"""A job that is configured by a file, and the section of a lab's cluster in that file."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.own_network import OwnNetwork


class ConfiguredJob(JobProcess):
    """A job whose only options are a configuration file and the page's address."""

    python = Path(sys.executable)
    """Of the environment with the kraftwatch that the next start runs."""

    @property
    def file(self) -> Path:
        return self.folder / "kraftwatch.yaml"

    def write_config(self, **keys: Any) -> None:
        """Writes the file in place, as an editor does."""
        content = {"checkpoint": str(self.checkpoint), "sinks": [f"jsonl:{self.jsonl}"], **keys}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(yaml.safe_dump(content))

    def logged(self, text: str) -> bool:
        """Whether the job has printed a text."""
        return text in self.log.read_text()

    def command(self) -> list[str]:
        return [str(self.python), "-m", "streaming", "run", "--config", str(self.file), "--listen", self.address]

    def printed(self, verb: str) -> dict[str, Any]:
        """Returns what a one-shot command prints with `--json` for the cluster of this name."""
        options = ["--config", str(self.file), "--only", self.name, "--json", "--timeout", "20"]
        command = [str(self.python), "-m", "streaming", verb, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        document: dict[str, Any] = json.loads(done.stdout)
        return document


@dataclass(kw_only=True)
class SeparateJob(ConfiguredJob):
    """A configured job in a network of its own."""

    network: OwnNetwork

    def __post_init__(self) -> None:
        self.prefix = self.network.prefix
        self.page = self.network.publish()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.page}"


def section(name: str, lab: Lab, **keys: Any) -> dict[str, Any]:
    return {"name": name, "bootstrap": list(lab.bootstrap), **keys}


def second_section(name: str, lab: Lab, hosts_file: Path, **keys: Any) -> dict[str, Any]:
    """Returns a further section of the same lab: it has its own hosts file, because two may not share an address."""
    hosts_file.write_text("" if lab.hosts_file is None else lab.hosts_file.read_text())
    return section(name, lab, hosts_file=str(hosts_file), **keys)
