"""`kraftwatch status`, `replication`, `partitions`: the state of the quorum for people and programs, without Spark.

Each verb imports its modules itself: kafka-python takes a second to import, and help and errors must not wait for it.
"""

from streaming.cli.options import StatusOptions, with_options


@with_options(StatusOptions)
def status(opts: StatusOptions) -> None:
    """Show the quorum: leader, voters, recorded endpoints, and what is wrong.

    Shows what `kafka-metadata-quorum describe --status` shows, and also:
    controllers that could be voters, committed and pending voter sets, every
    recorded endpoint with its probe result, registrations without a vote, the
    failure tolerance, and recovering partitions. Works without a leader: every
    controller is queried, and with --journal (or --config) the recorded state
    is shown with its age. Works without any controller: --log-dir reads a disk.

    Exit codes: 0 the status was printed, whatever it is; 2 invalid usage. For
    an exit code by health: kraftwatch check.

      kraftwatch status --cluster prod=c1:9093,c2:9093,c3:9093

      kraftwatch status --journal DIR --at 2026-11-20T08:15:00Z

      kraftwatch status --log-dir /var/lib/kafka/metadata
    """
    from streaming.cli import cluster_query
    from streaming.status.cluster_status import status_json
    from streaming.status.status_tables import status_table

    cluster_query.print_status(opts, status_json, status_table)


@with_options(StatusOptions)
def replication(opts: StatusOptions) -> None:
    """Show every replica of the metadata log: its lag and whether it is fetching.

    Has the rows of `kafka-metadata-quorum describe --replication`, and also the
    lag as time, the age of the last fetch by the leader's clock, and the
    recorded endpoint of each voter.

    Exit codes: 0 the replicas were printed; 2 invalid usage.

      kraftwatch replication --cluster prod=c1:9093,c2:9093,c3:9093 --watch
    """
    from streaming.cli import cluster_query
    from streaming.status.cluster_status import replication_json
    from streaming.status.status_tables import replication_table

    cluster_query.print_status(opts, replication_json, replication_table)


@with_options(StatusOptions)
def partitions(opts: StatusOptions) -> None:
    """Show partitions recovering from an unclean election, longest first.

    Shows for each partition since when, which brokers of its replicas are
    alive, and which replicas were in sync before: only these may hold the lost
    records. No Kafka tool shows these partitions.

    Exit codes: 0 the partitions were printed; 2 invalid usage.

      kraftwatch partitions --cluster prod=c1:9093,c2:9093,c3:9093
    """
    from streaming.cli import cluster_query
    from streaming.status.cluster_status import partitions_json
    from streaming.status.status_tables import partitions_table

    cluster_query.print_status(opts, partitions_json, partitions_table, recovering_limit=None)
