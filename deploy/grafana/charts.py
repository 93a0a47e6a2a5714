"""What the dashboard shows: its rows of charts, each with the questions that it asks Prometheus.

`$cluster` is what was chosen at the top. A metric that is not known is absent, so a gap in a line says that nobody
could tell; it is never a 0.
"""

from deploy.grafana.chart import HALF, OF_CLUSTER, OK_BELOW, THIRD, WHOLE, YES_IS_BAD, Ask, Chart, Look
from deploy.grafana.own_charts import OWN

OF_VOTERS = '{cluster=~"$cluster", role="voter"}'
OF_OBSERVERS = '{cluster=~"$cluster", role="observer"}'
NODE = "{{cluster}} {{node_id}}"

FLEET = (
    Chart(
        title="Critical",
        words="Alerts that fire: get up now. kraftwatch's own sinks told them, with the commands that mend it.",
        asks=(Ask(expr='sum(kraftwatch_alerts_firing{cluster=~"$cluster", severity="critical"})', legend="critical"),),
        look=Look.NUMBER,
        width=4,
        steps=OK_BELOW,
    ),
    Chart(
        title="Warning",
        words="Alerts that fire: look today.",
        asks=(Ask(expr='sum(kraftwatch_alerts_firing{cluster=~"$cluster", severity="warning"})', legend="warning"),),
        look=Look.NUMBER,
        width=4,
        steps=((None, "green"), (1, "orange")),
    ),
    Chart(
        title="What fires",
        words="By cluster and rule: `kraftwatch explain RULE` says what it means and what to do. Empty is well, "
        "unless the cluster is stale.",
        asks=(
            Ask(
                expr=f"sum by (cluster, rule, severity) (kraftwatch_rule_firing{OF_CLUSTER})",
                legend="{{cluster}}: {{rule}} ({{severity}})",
            ),
        ),
        look=Look.STATES,
        width=16,
        steps=((None, "orange"),),
    ),
    Chart(
        title="Clusters",
        words="Each cluster now. An empty cell: nobody can tell.",
        asks=(
            Ask(expr=f"sum by (cluster) (kraftwatch_alerts_firing{OF_CLUSTER})", legend="alerts"),
            Ask(expr=f"max by (cluster) (kraftwatch_current_leader{OF_CLUSTER})", legend="leader"),
            Ask(expr=f"max by (cluster) (kraftwatch_current_epoch{OF_CLUSTER})", legend="epoch"),
            Ask(expr=f"max by (cluster) (kraftwatch_number_of_voters{OF_CLUSTER})", legend="voters"),
            Ask(expr=f"max by (cluster) (kraftwatch_voters_fetching{OF_CLUSTER})", legend="take part"),
            Ask(expr=f"min by (cluster) (kraftwatch_failure_tolerance{OF_CLUSTER})", legend="may fail"),
            Ask(expr=f"max by (cluster) (kraftwatch_recovering_partitions{OF_CLUSTER})", legend="recovering"),
            Ask(expr=f"max by (cluster) (kraftwatch_staleness_seconds{OF_CLUSTER})", legend="seen before (s)"),
        ),
        look=Look.TABLE,
        width=WHOLE,
    ),
)

QUORUM = (
    Chart(
        title="Leader",
        words="Which node leads. A gap: no leader answers us.",
        asks=(Ask(expr=f"kraftwatch_current_leader{OF_CLUSTER}", legend="{{cluster}}"),),
        look=Look.STATES,
        width=HALF,
    ),
    Chart(
        title="Nobody leads",
        words="Some node says that it knows no leader, or all refuse. An election takes seconds.",
        asks=(Ask(expr=f"kraftwatch_leaderless{OF_CLUSTER}", legend="{{cluster}}"),),
        look=Look.STATES,
        width=HALF,
        values=YES_IS_BAD,
    ),
    Chart(
        title="Voters that may still fail",
        words="At 0 the next one stops the cluster; below 0 nothing can be committed now.",
        asks=(Ask(expr=f"kraftwatch_failure_tolerance{OF_CLUSTER}", legend="{{cluster}}"),),
        steps=((None, "red"), (1, "green")),
    ),
    Chart(
        title="Voters, and those that take part",
        words="Votes needed is the majority of all voters, also of those that are gone.",
        asks=(
            Ask(expr=f"kraftwatch_number_of_voters{OF_CLUSTER}", legend="{{cluster}} voters"),
            Ask(expr=f"kraftwatch_voters_fetching{OF_CLUSTER}", legend="{{cluster}} take part"),
            Ask(expr=f"kraftwatch_votes_needed{OF_CLUSTER}", legend="{{cluster}} needed"),
            Ask(expr=f"kraftwatch_number_of_offline_voters{OF_CLUSTER}", legend="{{cluster}} offline"),
        ),
    ),
    Chart(
        title="Epoch",
        words="Each step is an election. Many steps without a restart: see the rule epoch-churn.",
        asks=(Ask(expr=f"kraftwatch_current_epoch{OF_CLUSTER}", legend="{{cluster}}"),),
    ),
    Chart(
        title="Does the recorded endpoint lead to the voter",
        words="What the other controllers dial after a restart. Red may cost the quorum its next election.",
        asks=(Ask(expr=f"kraftwatch_voter_endpoint_ok{OF_CLUSTER}", legend=NODE),),
        look=Look.STATES,
        width=HALF,
        values=(("0", "no", "red"), ("1", "yes", "green")),
    ),
    Chart(
        title="Change of the voter set under way",
        words="Pending for longer than a minute: see the rule voter-change-stuck.",
        asks=(
            Ask(expr=f"kraftwatch_uncommitted_voter_change{OF_CLUSTER}", legend="{{cluster}} any"),
            Ask(expr=f"kraftwatch_pending_add_voter{OF_CLUSTER}", legend="{{cluster}} add"),
            Ask(expr=f"kraftwatch_pending_remove_voter{OF_CLUSTER}", legend="{{cluster}} remove"),
        ),
        look=Look.STATES,
        width=HALF,
        values=(("0", "no", "green"), ("1", "yes", "orange")),
    ),
    Chart(
        title="Observers",
        words="Possible voters are controllers that fetch without a vote: see the rule observer-could-be-voter.",
        asks=(
            Ask(expr=f"kraftwatch_number_of_observers{OF_CLUSTER}", legend="{{cluster}} observers"),
            Ask(expr=f"kraftwatch_number_of_possible_voters{OF_CLUSTER}", legend="{{cluster}} possible voters"),
        ),
        width=THIRD,
    ),
    Chart(
        title="Partitions in recovery",
        words="After an unclean election (KIP-704). No metric of Kafka's tells them.",
        asks=(Ask(expr=f"kraftwatch_recovering_partitions{OF_CLUSTER}", legend="{{cluster}}"),),
    ),
    Chart(
        title="Fenced brokers",
        words="Registered, and not heard by the active controller.",
        asks=(
            Ask(expr=f"kraftwatch_fenced_brokers{OF_CLUSTER}", legend="{{cluster}} fenced"),
            Ask(expr=f"kraftwatch_registered_brokers{OF_CLUSTER}", legend="{{cluster}} registered"),
        ),
    ),
)

LOG = (
    Chart(
        title="Lag of the voters",
        words="Records of the leader's log that a voter has not fetched. A voter that stays behind cannot commit.",
        asks=(Ask(expr=f"kraftwatch_replica_lag_records{OF_VOTERS}", legend=NODE),),
        width=HALF,
    ),
    Chart(
        title="Voters: last caught up",
        words="How long ago, by the leader's clock. Half a second is nothing: idle followers fetch twice a second.",
        asks=(Ask(expr=f"kraftwatch_replica_lag_seconds{OF_VOTERS}", legend=NODE),),
        width=HALF,
        unit="s",
    ),
    Chart(
        title="Observers furthest behind",
        words="Brokers and waiting controllers: a broker that lags works with old metadata.",
        asks=(Ask(expr=f"topk(10, kraftwatch_replica_lag_seconds{OF_OBSERVERS})", legend=NODE),),
        width=HALF,
        unit="s",
    ),
    Chart(
        title="Appended, fetched and committed",
        words="Records a second. Appended while nothing is committed: see the rule high-watermark-stalled.",
        asks=(
            Ask(expr=f"kraftwatch_append_records_rate{OF_CLUSTER}", legend="{{cluster}} appended"),
            Ask(expr=f"max by (cluster) (kraftwatch_fetch_records_rate{OF_CLUSTER})", legend="{{cluster}} fetched"),
            Ask(expr=f"deriv(kraftwatch_high_watermark{OF_CLUSTER}[2m])", legend="{{cluster}} committed"),
        ),
        width=HALF,
    ),
    Chart(
        title="Commit latency",
        words="How long a majority had been behind the leader, as seen once a second: an estimate from outside.",
        asks=(
            Ask(expr=f"kraftwatch_commit_latency_max_seconds{OF_CLUSTER}", legend="{{cluster}} longest"),
            Ask(expr=f"kraftwatch_commit_latency_avg_seconds{OF_CLUSTER}", legend="{{cluster}} average"),
        ),
        width=HALF,
        unit="s",
    ),
    Chart(
        title="Election latency",
        words="How long the log stood still around the elections of the last 10 minutes.",
        asks=(Ask(expr=f"kraftwatch_election_latency_max_seconds{OF_CLUSTER}", legend="{{cluster}} longest"),),
        width=HALF,
        unit="s",
    ),
)

ROWS = (
    ("The fleet", FLEET),
    ("The quorum", QUORUM),
    ("The log", LOG),
    ("kraftwatch itself", OWN),
)
