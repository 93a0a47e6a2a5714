"""`kraftwatch status`, `replication`, `partitions`: the quorum for people and programs, without Spark.

Kafka's client takes a second to import, so each verb imports what it needs itself: help and mistakes do not wait.
"""

from streaming.cli import options


@options.options(options.Shown)
def status(wanted: options.Shown) -> None:
    """The quorum at one look: leader, votes, voters and where they are recorded, and what is wrong.

    Says what `kafka-metadata-quorum describe --status` says, and beyond it: who
    could be a voter, committed and pending voters, every recorded endpoint with
    its verdict, registrations without a vote, how many may still fail,
    recovering partitions. Works without a leader: every controller is asked,
    and with --journal (or --config) the recorded state is shown and how old it
    is. Works with no controller at all: --log-dir reads one's disk.

    Exit codes: 0 it was shown, whatever it is; 2 something given cannot be. For
    a verdict: kraftwatch check.

      kraftwatch status --cluster prod=c1:9093,c2:9093,c3:9093

      kraftwatch status --journal DIR --at 2026-11-20T08:15:00Z

      kraftwatch status --log-dir /var/lib/kafka/metadata
    """
    from streaming.cli import cluster_query
    from streaming.status.status_json import status_json
    from streaming.status.status_tables import status_table

    cluster_query.show(wanted, status_json, status_table)


@options.options(options.Shown)
def replication(wanted: options.Shown) -> None:
    """Every replica of the metadata log: how far it is, and whether it takes part.

    Has the rows of `kafka-metadata-quorum describe --replication`, and beyond
    them lag as time, the age of the last fetch by the leader's clock, and the
    endpoint that is recorded for each voter.

    Exit codes: 0 it was shown, whatever it is; 2 something given cannot be.

      kraftwatch replication --cluster prod=c1:9093,c2:9093,c3:9093 --watch
    """
    from streaming.cli import cluster_query
    from streaming.status.status_json import replication_json
    from streaming.status.status_tables import replication_table

    cluster_query.show(wanted, replication_json, replication_table)


@options.options(options.Shown)
def partitions(wanted: options.Shown) -> None:
    """The partitions that are recovering from an unclean election, longest first.

    Each with since when, which of its replicas' brokers are alive, and who was
    in sync before: the only copies that may hold what was lost. No Kafka tool
    shows them.

    Exit codes: 0 it was shown, whatever it is; 2 something given cannot be.

      kraftwatch partitions --cluster prod=c1:9093,c2:9093,c3:9093
    """
    from streaming.cli import cluster_query
    from streaming.status.status_json import partitions_json
    from streaming.status.status_tables import partitions_table

    cluster_query.show(wanted, partitions_json, partitions_table, recovering_limit=None)
