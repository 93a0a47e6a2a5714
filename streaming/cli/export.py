"""`kraftwatch data export`: the tables of a job as parquet files, for a data team."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.errors import KraftwatchError, UsageError
from streaming.cli import options
from streaming.cli.output import print_message, print_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.config import Config
    from streaming.dataframes.job_tables import JobTables


def export(
    output: Annotated[
        str,
        typer.Option(help="The folder of the tables: a path, hdfs://… or s3a://…", metavar="URI"),
    ],
    config: options.ConfigFile = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="The job's --checkpoint folder, for a job without a configuration file.", metavar="DIR"),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(help="Only this table: alerts, observations, events or audits. May be repeated.", metavar="NAME"),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only rows from this time on, ISO 8601; default time zone: UTC.", metavar="TIME")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only rows before this time.", metavar="TIME")] = None,
) -> None:
    """Append what is new in a job's tables to parquet files.

    Writes alerts, observations, events and audits to a folder each, partitioned
    by cluster and date; the job may run. Run it again to append what is new. A
    reader finds each file whole or not at all, also after a killed export. Run
    one at a time. Queries no cluster; needs Java.

    Exit codes: 0 exported, 1 Spark failed (run it again), 2 invalid usage.

      kraftwatch data export --config kraftwatch.yaml --output s3a://lake/kw
    """
    if (config is None) == (checkpoint is None):
        raise UsageError("give one place: --config FILE or --checkpoint DIR")
    begin, end = options.parse_time_option("--since", since), options.parse_time_option("--until", until)
    if begin is not None and end is not None and begin >= end:
        raise UsageError("--until is not after --since: give the later time as --until")
    # Imported here: Spark takes a second to import.
    from streaming.config import load
    from streaming.dataframes.job_tables import SCHEMAS, JobTables

    names = [*dict.fromkeys(table or SCHEMAS)]
    for name in names:
        if name not in SCHEMAS:
            raise UsageError(f"--table {name}: there is no such table; the tables are {', '.join(SCHEMAS)}")
    resolved = None if config is None else load(config)
    if resolved is None:
        tables = JobTables.of_folder(options.existing_checkpoint(str(checkpoint)))
    else:
        tables = JobTables.of_config(resolved)
    tables.require(names)
    place = _place(output)
    written = _export(resolved, tables, names, place, (begin, end))
    print_message(f"exported to {output}: {', '.join(f'{rows} {name}' for name, rows in written.items())}")


def _export(
    config: "Config | None", tables: "JobTables", names: Sequence[str], to: str, span: tuple[int | None, int | None]
) -> Mapping[str, int]:
    """Writes the tables, and returns the number of new rows of each; of `events`, that of their observations."""
    from streaming.dataframes import register
    from streaming.dataframes.export import EXPORT_SETTINGS, TableExport
    from streaming.pipeline.spark.errors import SPARK_ERRORS, error_cause
    from streaming.pipeline.spark.hadoop_folder import missing_file_system
    from streaming.pipeline.spark.spark_session import start_spark

    print_progress("starting Spark")
    own = {} if config is None else {**config.pipeline.spark_settings(), **config.spark}
    # Others read an export, unlike a checkpoint.
    umask = os.umask(0o077)
    os.umask(umask)
    settings = {**EXPORT_SETTINGS, "spark.hadoop.fs.permissions.umask-mode": f"{umask:03o}", **own}
    with tempfile.TemporaryDirectory(prefix="kraftwatch-") as logs:
        spark: SparkSession = start_spark(master="local[2]", logs=Path(logs), settings=settings)
        try:
            register(spark)
            since, until = span
            exports = {
                name: TableExport(spark=spark, tables=tables, table=name, to=to, since_ms=since, until_ms=until)
                for name in names
            }
            for name, one in exports.items():
                try:
                    one.check()
                except SPARK_ERRORS as problem:
                    why = missing_file_system(to, problem)
                    why = why or f"Spark cannot read {name} there: {error_cause(problem)}"
                    raise UsageError(f"--output {to}: {why}") from problem
            return {name: one.run(print_progress) for name, one in exports.items()}
        except SPARK_ERRORS as problem:
            raise KraftwatchError(
                f"the export failed; what is in {to} is whole, run it again: {error_cause(problem)}"
            ) from problem
        finally:
            spark.stop()


def _place(to: str) -> str:
    """Returns the URI of the folder, for Spark."""
    from connectors.settings.sections import uri_scheme
    from streaming.config import checkpoint_place

    try:
        place = checkpoint_place(to)
    except ValueError as problem:
        raise UsageError(f"--output: {problem}") from None
    if uri_scheme(place) is not None:
        return place
    return f"file://{options.writable_folder('--output', Path(place).absolute())}"
