"""`kraftwatch status`, `replication`, `partitions`, `check`: the quorum now, without Spark.

Each verb imports its modules itself: the client before the query, and what evaluates and prints the answers after it.
"""

import typer

from streaming.cli.options import LookBackOptions, StatusOptions, with_options
from streaming.cli.output import print_json, print_text


@with_options(StatusOptions)
def status(opts: StatusOptions) -> None:
    """Show the quorum: leader, voters, recorded endpoints, and what is wrong.

    Shows what `kafka-metadata-quorum describe --status` shows, and also:
    controllers that could be voters, committed and pending voter sets, every
    recorded endpoint with its probe result, registrations without a vote, the
    failure tolerance, and recovering partitions. Works without a leader: every
    controller is queried, after what a job on this machine (or of --journal or
    --config) has recorded. Works without any controller: --log-dir reads a disk.

    Exit codes: 0 the status was printed, whatever it is; 2 invalid usage. For
    an exit code by health: kraftwatch check.

      kraftwatch status --cluster prod=c1:9093,c2:9093,c3:9093

      kraftwatch status --journal DIR --at 2026-11-20T08:15:00Z

      kraftwatch status --log-dir /var/lib/kafka/metadata
    """
    from streaming.cli import cluster_query

    def views() -> cluster_query.Views:
        from streaming.status.cluster_status import status_json
        from streaming.status.status_tables import status_table

        return status_json, status_table

    cluster_query.print_status(opts, views)


@with_options(StatusOptions)
def replication(opts: StatusOptions) -> None:
    """Show every replica of the metadata log: its lag and whether it is fetching.

    Has the rows of `kafka-metadata-quorum describe --replication`, and also the
    lag as time, the age of the last fetch by the leader's clock, and the
    recorded endpoint of each voter.

    Exit codes: 0 the replicas were printed; 2 invalid usage.

      kraftwatch data replication --cluster prod=c1:9093,c2:9093,c3:9093 --watch
    """
    from streaming.cli import cluster_query

    def views() -> cluster_query.Views:
        from streaming.status.cluster_status import replication_json
        from streaming.status.status_tables import replication_table

        return replication_json, replication_table

    cluster_query.print_status(opts, views)


@with_options(StatusOptions)
def partitions(opts: StatusOptions) -> None:
    """Show partitions recovering from an unclean election, longest first.

    Shows for each partition since when, which brokers of its replicas are
    alive, and which replicas were in sync before: only these may hold the lost
    records. No Kafka tool shows these partitions.

    Exit codes: 0 the partitions were printed; 2 invalid usage.

      kraftwatch data partitions --cluster prod=c1:9093,c2:9093,c3:9093
    """
    from streaming.cli import cluster_query

    def views() -> cluster_query.Views:
        from streaming.status.cluster_status import partitions_json
        from streaming.status.status_tables import partitions_table

        return partitions_json, partitions_table

    cluster_query.print_status(opts, views, all_recovering=True)


@with_options(LookBackOptions)
def check(opts: LookBackOptions) -> None:
    """Query once and evaluate all rules; for scripts, probes and cron.

    Holds do not apply: every condition that is present now is a finding.
    Unknown is not healthy: the exit code is 3 if the result of a rule is
    unknown, or if no leader answers and no controller reports that there is
    none, unless a warning or critical finding exists.

    With --log-dir, the rules are evaluated on the log of one controller's
    disk. Rules that need an answer from the quorum are then unknown.

    Exit codes: 0 healthy, 1 warning, 2 critical (or invalid usage), 3 unknown.
    For several clusters the worst, in the order critical, warning, unknown.

      kraftwatch check --cluster prod=c1:9093,c2:9093,c3:9093

      kraftwatch check --config kraftwatch.yaml --only prod --json
    """
    from streaming.cli import cluster_query

    states = cluster_query.query_once(opts)
    from streaming.status import check_output
    from streaming.status.build_status import cluster_status
    from streaming.status.health import health, worst

    statuses = cluster_query.with_job_alerts([cluster_status(state) for state in states], opts)
    for one, status in zip(states, statuses, strict=True):
        if opts.as_json:
            print_json(check_output.check_json(one, status))
        else:
            print_text(check_output.check_text(one, status))
    raise typer.Exit(worst(map(health, statuses)).exit_code)
