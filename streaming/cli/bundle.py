"""`kraftwatch bundle`: what a job recorded, as one file for a colleague."""

from pathlib import Path
from typing import Annotated

import typer

from streaming.cli import options
from streaming.cli.output import print_progress


def bundle(
    checkpoint: Annotated[
        Path, typer.Option(help="The --checkpoint folder of `kraftwatch run`; the job may be running.", metavar="DIR")
    ],
    output: Annotated[Path, typer.Option(help="The file to write, such as incident.tar.gz.", metavar="FILE")],
    config: options.ConfigFile = None,
) -> None:
    """Pack journal, alerts, status, configuration and versions into one file.

    A colleague opens it with --journal FILE: status, replay, timeline, report.
    It holds no secret: credentials are blanked before anything is recorded, and
    of --config only clusters, thresholds, rules and kinds of sinks are taken:
    what opens the file evaluates with them.

    Prints the file's name. Exit codes: 0, or 2 for invalid usage.

      kraftwatch bundle --checkpoint DIR --output incident.tar.gz
    """
    from streaming.cli.config_from_options import resolve_config
    from streaming.cli.recorded_config import recorded_settings
    from streaming.pipeline.checkpoint import Checkpoint
    from streaming.report.bundle import make_bundle
    from streaming.status.build_status import cluster_status
    from streaming.status.cluster_status import status_json
    from streaming.status.from_journal import replay_recording
    from streaming.status.recording import open_journal

    resolved = None if config is None else resolve_config(config=config)
    replayed = replay_recording(open_journal(checkpoint), recorded_settings(config, (), None), say=print_progress)
    states = [status_json(cluster_status(one.state())) for one in replayed.values()]
    make_bundle(Checkpoint(folder=checkpoint), resolved, states, output)
    typer.echo(str(output))
