"""`kraftwatch status`, `replication`, `partitions`: the quorum for people and programs, without Spark."""

from streaming.cli import given


def status(
    config: given.ConfigFile = None,
    cluster: given.Clusters = None,
    journal: given.Journal = None,
    setting: given.Settings = None,
    resolve: given.Resolve = None,
    hosts_file: given.HostsFile = None,
    timeout: given.Timeout = given.TIMEOUT_S,
    *,
    as_json: given.AsJson = False,
    watch: given.Watching = False,
) -> None:
    """The quorum at one look: leader, votes, voters and where they are recorded, and what is wrong.

    Says what `kafka-metadata-quorum describe --status` says, and beyond it: who could be a voter, committed and
    pending voters, every recorded endpoint with its verdict, registrations without a vote, how many may still fail,
    recovering partitions. Works without a leader: every controller is asked, and with --journal the recorded state
    is shown and how old it is.

    Exit codes: 0 it was shown, whatever it is; 2 something given cannot be. For a verdict: kraftwatch check.
    """
    # Kafka's client takes a second to import: help and mistakes should not wait for it.
    from streaming.cli import glance
    from streaming.oncall import overview, tables

    wanted = glance.Wanted(
        config=config,
        cluster=cluster,
        setting=setting,
        resolve=resolve,
        hosts_file=hosts_file,
        timeout=timeout,
        journal=journal,
        watch=watch,
    )
    glance.show(wanted, overview.status, tables.status, as_json=as_json)


def replication(
    config: given.ConfigFile = None,
    cluster: given.Clusters = None,
    journal: given.Journal = None,
    setting: given.Settings = None,
    resolve: given.Resolve = None,
    hosts_file: given.HostsFile = None,
    timeout: given.Timeout = given.TIMEOUT_S,
    *,
    as_json: given.AsJson = False,
    watch: given.Watching = False,
) -> None:
    """Every replica of the metadata log: how far it is, and whether it takes part.

    Has the rows of `kafka-metadata-quorum describe --replication`, and beyond them lag as time, the age of the last
    fetch by the leader's clock, and the endpoint that is recorded for each voter.

    Exit codes: 0 it was shown, whatever it is; 2 something given cannot be.
    """
    from streaming.cli import glance
    from streaming.oncall import overview, tables

    wanted = glance.Wanted(
        config=config,
        cluster=cluster,
        setting=setting,
        resolve=resolve,
        hosts_file=hosts_file,
        timeout=timeout,
        journal=journal,
        watch=watch,
    )
    glance.show(wanted, overview.replication, tables.replication, as_json=as_json)


def partitions(
    config: given.ConfigFile = None,
    cluster: given.Clusters = None,
    journal: given.Journal = None,
    setting: given.Settings = None,
    resolve: given.Resolve = None,
    hosts_file: given.HostsFile = None,
    timeout: given.Timeout = given.TIMEOUT_S,
    *,
    as_json: given.AsJson = False,
    watch: given.Watching = False,
) -> None:
    """The partitions that are recovering from an unclean election, longest first.

    Each with since when, which of its replicas' brokers are alive, and who was in sync before: the only copies that
    may hold what was lost. No Kafka tool shows them.

    Exit codes: 0 it was shown, whatever it is; 2 something given cannot be.
    """
    from streaming.cli import glance
    from streaming.oncall import overview, tables

    wanted = glance.Wanted(
        config=config,
        cluster=cluster,
        setting=setting,
        resolve=resolve,
        hosts_file=hosts_file,
        timeout=timeout,
        journal=journal,
        watch=watch,
    )
    glance.show(wanted, overview.partitions, tables.partitions, as_json=as_json)
