"""The four scenes of the demo, each reproduced on a real quorum before it was told here."""

from collections.abc import Sequence

from streaming.demo.job_process import Told
from streaming.demo.scenario import Expectation, Play, Scene

TOPICS = ("orders", "payments")


def names_vanish(play: Play) -> None:
    """Drop every controller's name while all connections stand."""
    play.say("the controllers' DNS names are dropped; no process is touched, every connection stands")
    play.lab.names.drop(*controller_names(play))


def names_mended(play: Play, told: Sequence[Told]) -> None:
    """The printed procedure: old names back, restart one by one under new names, leader last, then drop the old."""
    lab = play.lab
    old = controller_names(play)
    play.say("the old names resolve again, and new ones beside them")
    lab.names.add(*old, *(renamed(name) for name in old))
    for node in [*followers(play), leader(play)]:
        name = renamed(lab.node(node).host)
        play.say(f"controller {node} restarts as {name}; waiting for its VotersRecord")
        lab.stop(node)
        lab.rename(node, name)
        lab.start(node)
        lab.await_state(
            lambda state, node=node: lab.node(node).endpoint in state.endpoints.get(node, ()),  # type: ignore[misc]
            what=f"the new endpoint of voter {node}",
        )
    play.say("the old names are dropped for good")
    lab.names.drop(*old)


def controller_names(play: Play) -> list[str]:
    """The names that the controllers advertise now."""
    return [play.lab.node(node).host for node in play.lab.controllers]


def renamed(name: str) -> str:
    """The same host in the new domain."""
    host, _, domain = name.partition(".")
    return f"{host}-new.{domain}"


def disk_replaced(play: Play) -> None:
    """Stop a follower, wipe its disk, start it again."""
    node = followers(play)[0]
    play.say(f"controller {node} is stopped, its disk replaced and formatted, and it is started again")
    play.lab.stop(node)
    play.lab.wipe_disk(node)
    play.lab.start(node)


def disk_mended(play: Play, told: Sequence[Told]) -> None:
    """Run exactly what the alert printed."""
    alert = next(each for each in told if each.rule == "voter-disk-replaced")
    node = int(alert.subject.removeprefix("controller "))
    for line in alert.remedy:
        if not line.startswith("#"):
            play.say(f"$ {line}")
            play.lab.run_remedy(line, node_properties=play.lab.node(node).properties_file)


def partitions_stranded(play: Play) -> None:
    """Two topics of two replicas; the one that knows everything dies; the other is elected uncleanly."""
    play.say(f"topics {' and '.join(TOPICS)}: one broker falls behind, the other dies, and an unclean election follows")
    play.lab.strand_recovering(*TOPICS)


def partitions_mended(play: Play, told: Sequence[Told]) -> None:
    """The dead broker comes back."""
    for broker in play.lab.brokers:
        if not play.lab.node(broker).running:
            play.say(f"broker {broker} is started again")
            play.lab.start(broker)


def everything_moved(play: Play) -> None:
    """Every controller stopped, every endpoint changed, everything started."""
    lab, watcher = play.lab, play.watcher
    told = len(watcher.told())
    play.say("all controllers are stopped")
    # All in one moment: one that still answered while others refuse would be a scene of its own.
    lab.kill(*lab.controllers)
    watcher.wait_for("no-leader", since=told, within_s=120)
    lab.move_endpoint(*lab.controllers)
    play.say("the monitor is given the new addresses and goes on from its recorded state")
    watcher.stop()
    watcher.bootstrap = lab.bootstrap
    watcher.start()
    play.say("all controllers are started at their new ports: nobody finds anybody")
    lab.start(*lab.controllers)


def leader(play: Play) -> int:
    """The controller that leads now."""
    return play.lab.await_state(lambda state: True, what="a leader").leader_id


def followers(play: Play) -> list[int]:
    """The controllers that do not lead."""
    leading = leader(play)
    return [node for node in play.lab.controllers if node != leading]


SCENES = (
    Scene(
        name="names vanish",
        title="The controllers' DNS names vanish while everything is healthy",
        story="Someone cleaned up a zone. The quorum does not notice: established connections do not ask DNS. "
        "The day the controllers restart, none finds another.",
        hurt=names_vanish,
        expected=(
            Expectation(rule="stale-voter-endpoint", subject="voter 1", severity="critical"),
            Expectation(rule="stale-voter-endpoint", subject="voter 2", severity="critical"),
            Expectation(rule="stale-voter-endpoint", subject="voter 3", severity="critical"),
        ),
        mending="the printed procedure: old names back first, then controllers restarted one by one, the leader last",
        mend=names_mended,
    ),
    Scene(
        name="disk replaced",
        title="A controller's disk is replaced",
        story="The pod is green and the process runs, but its new directory id is no voter's: of three voters two "
        "are left.",
        hurt=disk_replaced,
        expected=(Expectation(rule="voter-disk-replaced", severity="warning"),),
        mending="exactly the printed commands",
        mend=disk_mended,
    ),
    Scene(
        name="stuck RECOVERING",
        title="Partitions of two topics stuck RECOVERING",
        story="After an unclean election the new leader serves clients as if nothing had been. No metric and no Kafka "
        "tool shows that records may be gone.",
        hurt=partitions_stranded,
        expected=tuple(Expectation(rule="partition-stuck-recovering", subject=topic) for topic in TOPICS),
        also=("unclean-election",),
        mending="the broker with the other replica comes back",
        mend=partitions_mended,
    ),
    Scene(
        name="all endpoints moved",
        title="Every endpoint moved at once",
        story="A migration done in one go. The voters' endpoints in the log lead nowhere, and without a leader nobody "
        "can correct the log.",
        hurt=everything_moved,
        expected=(
            Expectation(rule="no-leader", severity="critical"),
            *(Expectation(rule="stale-voter-endpoint", subject=f"voter {node}", severity="critical") for node in "123"),
        ),
        mending="this quorum is dead: explained from the recorded state, the only description of it that is left",
        mend=None,
    ),
)
