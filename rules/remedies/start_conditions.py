"""What must be done before a node is started, stopped or restarted, because that would destroy something.

What can be destroyed:

- the only copy of acknowledged records: a replica that was in the ISR or ELR before an unclean election (KIP-704,
  KIP-966) truncates its log to the new leader's when it starts;
- records that only the replica has for which a partition without a leader waits: a broker that starts before may be
  elected without them;
- the records of a replica whose log directory is missing when its broker, the only one in sync, starts: it leads an
  empty log, to which the others truncate theirs;
- the only in-sync copy of a RECOVERING partition, on a broker that runs;
- the copy of a replica that runs without a leader, when the one starts that was elected uncleanly before;
- the copy of a replica whose leader came back without its log directory: until that one is stopped, and before that one
  starts again;
- lost metadata: a node that follows the new log truncates its copy of `__cluster_metadata`, or a broker takes the new
  log for the end of its own, because a quorum that was restored uses its epoch numbers again;
- the voter set: a voter that a forced change removed still has the former voter set on its disk;
- the quorum: a controller that starts from before a record that Kafka cannot replay ends, each time;
- nothing, but it does not end: a broker that was unregistered while it runs;
- the majority: if too few voters fetch, or the names of their endpoints do not resolve, a node that is restarted is
  missing until it fetches again.

Every remedy that starts or restarts a node begins with these steps (`rules.evaluate.results_of`). They are one plan for
all findings: none waits for what another one forbids (`tests.remedy_conflicts`). So the only in-sync copy of one
partition keeps a broker running only if the broker need not be stopped for the records of another one.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import nsmallest
from itertools import chain

from rules.claims.claim import NONE_MAY_FAIL
from rules.claims.statement import Statement, statement
from rules.claims.words import clause, do_not_restart
from rules.facts.asked_once import asked_once
from rules.facts.endpoint import EndpointFault
from rules.facts.new_quorum import may_be_restored
from rules.facts.node import NodeFacts, Process
from rules.facts.offline_partitions import circle_of
from rules.facts.only_copies import PartitionDirectory
from rules.facts.other_quorums import metadata_losses
from rules.facts.quorum import Facts
from rules.facts.unreplayable import ReplayEnd
from rules.formatting import and_join, numbered, plural
from rules.model.identifiers import NodeId
from rules.model.membership import majority
from rules.model.quorum import Quorum
from rules.remedies.step import Act, Action, Ends, Plan, Step, forbids, keeps_running

_MOST_LISTED = 8
"""How many directories a step names, and how many nodes have a step each."""
COPY_METADATA_FIRST = forbids(
    statement(
        "# ",
        do_not_restart(None, "start, restart or format", named="any node"),
        " before you have copied __cluster_metadata-0 of every controller and broker: the copies show what was "
        "committed, and a node that follows the new log truncates its own",
    ),
    Act.START,
    (None,),
    (Act.COPY, (None,)),
    ends=Ends.METADATA,
)

IF_RESTORED = (
    "# If the controllers were restored from copies or formatted again, move __cluster_metadata-0 of each broker away "
    "before it starts: it may have newer records, which `kraftwatch rescue plan` with the log directories of the "
    "broker and of the controllers shows, and would mix both logs"
)


def start_conditions(facts: Facts, nodes: Iterable[NodeId]) -> tuple[str, ...]:
    """Returns the first steps of a remedy that starts or restarts these nodes, in the order of their importance.

    Takes a few steps for each node, and a pass over the recovering partitions once for each quorum.
    """
    ordered = tuple(sorted({*nodes}))
    return _start_conditions(facts, ordered) if ordered else ()


@asked_once
def _start_conditions(facts: Facts, ordered: tuple[NodeId, ...]) -> tuple[str, ...]:
    steps = list(before_a_start(facts, ordered))
    fetching, missing = facts.voters_fetching
    if any(node in fetching or _may_run(facts, node) for node in ordered):
        steps += _wait_for_regressed(facts.quorum, ordered)
        steps += resolve_names_first(facts)
        steps += _first([*_serve_first(facts, ordered)])
    if not fetching.isdisjoint(ordered):
        steps += _keep_majority(fetching, missing)
    steps += _kill_late([node for node in ordered if node in facts.unregistered_running])
    return tuple(steps)


def before_a_start(facts: Facts, nodes: Iterable[NodeId], *, unchanged: bool = False) -> tuple[str, ...]:
    """Returns the steps without which a start or restart of these nodes may destroy data, or the voter set.

    `unchanged`: they keep their roles, so one that runs as a controller only does not touch its replicas.
    """
    ordered = sorted({*nodes})
    steps: list[str] = [COPY_METADATA_FIRST] if facts.metadata_contradicts else []
    if (end := facts.replay_end) is not None and end.lasts and not facts.known_controllers.isdisjoint(ordered):
        steps.append(start_no_controller(facts, end))
    steps += _metadata_away(facts, ordered)
    steps += _first([*brokers_first(facts, ordered)])
    brokers = [node for node in ordered if not unchanged or node not in facts.controllers_only]
    led = facts.led_at_a_start
    steps += _of_each(_mount_first, facts, [node for node in brokers if node in led])
    steps += _of_each(_copy_first, facts, [node for node, _ in _held(facts, brokers)])
    steps += _first(
        [
            _copy_running(facts, node, holder, directories)
            for node in brokers
            for holder, directories in sorted(facts.copied_before.get(node, {}).items())
        ]
    )
    stopped_first, awaited, in_sync = facts.stopped_before, facts.records_awaited, facts.only_in_sync_copies
    steps += _first(
        [
            _stop_first(facts, node, leader, directories)
            for node in brokers
            for leader, directories in sorted(stopped_first.get(node, {}).items())
        ]
    )
    steps += _of_each(_records_first, facts, [node for node in brokers if node in awaited])
    steps += _of_each(_keep_running, facts, [node for node in ordered if node in in_sync])
    steps += _of_each(_keep_log, facts, [node for node in ordered if node in facts.elected_recovered])
    former = facts.former_voters
    steps += _first([_format_first(node) for node in ordered if node in former])
    return tuple(steps)


def start_no_controller(facts: Facts, end: ReplayEnd) -> Statement:
    """Returns the step that keeps controllers from a start that ends at a record which cannot be replayed."""
    controllers = facts.known_controllers
    forbidden = do_not_restart(controllers, "start or restart")
    until = f" before a snapshot past {end.short} is on its disk: Kafka cannot replay it, and the start ends"
    return forbids(statement("# ", forbidden, until), Act.START, sorted(controllers), (Act.SNAPSHOT, (None,)))


def _metadata_away(facts: Facts, nodes: Iterable[NodeId]) -> Iterable[str]:
    """Returns the steps that keep a broker from mixing its metadata log with that of controllers which lack its end."""
    quorum = facts.quorum
    brokers = [node for node in nodes if node not in facts.known_controllers]
    if metadata_losses(quorum):
        return _first([_move_first(facts, node) for node in brokers])
    if brokers and may_be_restored(quorum):
        return [IF_RESTORED]
    return []


def _wait_for_regressed(quorum: Quorum, nodes: Sequence[NodeId]) -> Iterable[str]:
    voting = {} if quorum.poll is None else {row.key.id: quorum.histories.get(row.key) for row in quorum.poll.voters}
    for node, history in voting.items():
        others = voting.keys() - {node}
        if history is not None and history.lacks_records and not others.isdisjoint(nodes):
            yield keep_until_caught_up(node, others)


def keep_until_caught_up(node: NodeId, others: Iterable[NodeId]) -> str:
    """Returns the step that keeps the other voters running while one whose log went back lacks records."""
    until = f" until controller {node} has caught up"
    return keeps_running(statement("# ", do_not_restart([*others], "stop or restart"), until), (Act.FETCH, (node,)))


def _may_run(facts: Facts, node: NodeId) -> bool:
    """Returns whether a node's process runs, or may run behind an endpoint that does not answer."""
    broker, controller = facts.quorum.brokers.get(node), facts.nodes.get(node)
    of_broker = broker is not None and broker.alive
    runs = of_broker or (controller is not None and controller.process is not Process.DOWN)
    return runs or node in facts.nodes.fetching


def resolve_names_first(facts: Facts) -> tuple[str, ...]:
    """Returns the step that keeps nodes from a restart while the name of a voter's endpoint does not resolve."""
    hosts = facts.nodes.unresolved_hosts
    if not hosts:
        return ()
    names = f" until {and_join(hosts, 4)} {'resolve' if len(hosts) > 1 else 'resolves'} again: "
    forbidden = do_not_restart(None, named="any controller or broker")
    step = statement("# ", forbidden, names, "restarted, it could not find the leader")
    return (keeps_running(step, (Act.RESOLVE, (None,))),)


def _serve_first(facts: Facts, nodes: Sequence[NodeId]) -> Iterable[str]:
    restarted = {voter.id for voter in facts.nodes.voters if voter.id in nodes and not voter.only_its_restart_helps}
    for voter in facts.nodes.voters if restarted else ():
        if EndpointFault.NOT_SERVING in voter.faults:
            yield keep_others_running(facts, voter)


def keep_others_running(facts: Facts, voter: NodeFacts) -> Step:
    """Returns the step that keeps the others running while a voter serves no new connection; those that serve none
    either are restarted one by one."""
    others = [each for each in facts.nodes.voters if each is not voter]
    forbidden = do_not_restart([each.id for each in others], named="another voter")
    why = f": it could not connect to controller {voter.id}, nor get its vote"
    kept = (each.id for each in others if not each.only_its_restart_helps)
    return forbids(statement("# ", forbidden, why), Act.STOP, kept)


def brokers_first(facts: Facts, nodes: Iterable[NodeId]) -> Iterable[str]:
    """Yields the steps that name the brokers which must be back before one of these nodes starts."""
    quorum = facts.quorum
    required = facts.brokers_before
    for node in nodes:
        if node not in required or node in facts.records_awaited:
            continue
        starts = (Action(Act.START, node),)
        if circle := circle_of(required, node):
            yield Step(
                f"# Do not start broker {node} before unclean.leader.election.enable is false for every topic: "
                f"{numbered('broker', sorted({node, *circle}))} each have records that the others may lack",
                Plan(forbids=starts, until=(Action(Act.FORBID_UNCLEAN, None),), ends=Ends.RECORDS),
            )
            continue
        before, count = sorted(required[node]), sum(required[node].values())
        yield Step(
            f"# Do not start broker {node} before {_are_back(quorum, before)}: {plural(count, 'offline partition')} of "
            f"broker {node} {'waits' if count == 1 else 'wait'} for {'it' if len(before) == 1 else 'them'}, and broker "
            f"{node} may lack acknowledged records: with unclean.leader.election.enable it would lead without them",
            Plan(forbids=starts, until=tuple(Action(Act.START, each) for each in before), ends=Ends.RECORDS),
        )


def first_sentence(facts: Facts, node: NodeId) -> str:
    """Returns the sentence for a summary that says what must be before a broker starts: which brokers are back.

    It begins with a space; empty if there are none, or each would have to be before the other.
    """
    if node in facts.records_awaited:
        which = _names(facts.records_awaited[node], 4)
        return (
            f" Do not start it before its former disk is mounted or another replica leads {which}: it lost the records."
        )
    required = facts.brokers_before
    before = sorted(required.get(node, ()))
    if not before or circle_of(required, node):
        return ""
    it_has = "it has" if len(before) == 1 else "they have"
    return f" Bring {numbered('broker', before, 4)} back first: {it_has} records that broker {node} may lack."


def _are_back(quorum: Quorum, before: Collection[NodeId]) -> str:
    are = "is" if len(before) == 1 else "are"
    if all(node not in quorum.brokers or quorum.brokers[node].fenced for node in before):
        return f"{numbered('broker', before)} {are} back"
    return f"{numbered('broker', before)} {are} back with the log directories that are offline"


def start_as_broker(node: NodeId) -> str:
    """Returns the step that makes a node that runs as a controller only a broker again, as a part of a sentence."""
    return f"add broker to process.roles of node {node}, with a broker listener and its former log.dirs, and restart it"


def copy_sentence(facts: Facts, nodes: Iterable[NodeId]) -> str:
    """Returns one sentence for a summary if one of these brokers may hold the only copy of acknowledged records.

    It begins with a space; empty if none does.
    """
    return _copy_sentence(facts, tuple(sorted({*nodes})))


@asked_once
def _copy_sentence(facts: Facts, nodes: tuple[NodeId, ...]) -> str:
    held = _held(facts, nodes)
    if not held:
        return ""
    controllers = [f"node {node} as a broker" for node, _ in held if node in facts.controllers_only]
    brokers = f"{'broker' if len(held) == 1 else 'brokers'} {and_join((node for node, _ in held), 4)}"
    one = len(held) == len(controllers) == 1
    directories = {directory for _, of_node in held for directory in of_node}
    kept = [node for node, _ in held] if not controllers else []
    return statement(
        " ",
        do_not_restart(kept, "start" if one else "start or restart", named=controllers[0] if one else brokers),
        f" before you have copied {_names(directories, 4)}: {'it' if len(held) == 1 else 'they'} may hold the only "
        "copy of acknowledged records.",
    )


def unflushed_sentence(leaders: Iterable[NodeId], *, only_replica: bool) -> str:
    """Returns what can be lost if these brokers, which led last or have the only replicas, were elected."""
    nodes = sorted({*leaders})
    one = len(nodes) == 1
    brokers = f"Broker {nodes[0]}" if one else f"Brokers {and_join(nodes, 6)}"
    which = f"{'has' if one else 'have'} the only replica" if only_replica else "led last"
    they = "it" if one else "they"
    return f"{brokers} {which}: only records that {they} had not flushed to disk when {they} crashed can be lost."


def restored_sentence(leaders: Iterable[NodeId]) -> str:
    """Returns what can be lost of brokers whose log directory is back, after they had led without it."""
    nodes = sorted({*leaders})
    they, their, is_ = (
        ("it", "its log directory", "is") if len(nodes) == 1 else ("they", "their log directories", "are")
    )
    return (
        f"{numbered('Broker', nodes, 6)} led last, and {their} {is_} back with what was acknowledged before: only "
        f"records that {they} had not flushed to disk, or that clients wrote while {they} led without, can be lost."
    )


def _names(directories: Collection[PartitionDirectory], most: int) -> str:
    shown = [directory.text for directory in nsmallest(most, directories)]
    more = len(directories) - len(shown)
    return and_join([*shown, f"{more} more"] if more else shown, most + 1)


def _held(facts: Facts, nodes: Iterable[NodeId]) -> list[tuple[NodeId, frozenset[PartitionDirectory]]]:
    held = facts.only_copies
    return [(node, held[node]) for node in nodes if node in held]


def _keep_majority(fetching: frozenset[NodeId], missing: tuple[NodeId, ...]) -> tuple[str, ...]:
    if not missing or len(fetching) > majority(len(fetching) + len(missing)):
        return ()
    until = f" before {and_join(missing)} {'fetches' if len(missing) == 1 else 'fetch'} again: "
    step = statement("# ", do_not_restart(fetching), until, clause(NONE_MAY_FAIL))
    return (keeps_running(step, (Act.FETCH, missing)),)


def _do_not_start(facts: Facts, node: NodeId) -> Statement:
    if node in facts.controllers_only:
        return do_not_restart((), "start", named=f"node {node} as a broker")
    return do_not_restart((node,), "start or restart", named=f"broker {node}")


def _texts(directories: Collection[PartitionDirectory]) -> frozenset[str]:
    return frozenset(directory.text for directory in directories)


@asked_once
def _copy_first(facts: Facts, node: NodeId) -> str:
    directories = facts.only_copies[node]
    why = (
        f" before you have copied {_names(directories, _MOST_LISTED)} from its log.dirs: it may hold the only copy of "
        "acknowledged records, and it truncates them when it starts"
    )
    copied = Action(Act.COPY, node, _texts(directories))
    text = statement("# ", _do_not_start(facts, node), why)
    return forbids(text, Act.START, (node,), copied, ends=Ends.RECORDS)


def _copy_running(facts: Facts, node: NodeId, holder: NodeId, directories: Collection[PartitionDirectory]) -> str:
    why = (
        f" before you have copied {_names(directories, _MOST_LISTED)} from the log.dirs of broker {holder}, which "
        f"runs: it may hold the only copy of acknowledged records, and it truncates them as soon as broker {node} leads"
    )
    copied = Action(Act.COPY, holder, _texts(directories))
    text = statement("# ", _do_not_start(facts, node), why)
    return forbids(text, Act.START, (node,), copied, ends=Ends.RECORDS)


def _move_first(facts: Facts, node: NodeId) -> str:
    why = (
        " before its copied __cluster_metadata-0 is moved away: it fetches the new log then; with the former one it "
        "may mix both, and have topics that the controllers do not know"
    )
    text = statement("# ", _do_not_start(facts, node), why)
    return forbids(text, Act.START, (node,), (Act.MOVE, (node,)), ends=Ends.METADATA)


def _stop_first(facts: Facts, node: NodeId, leader: NodeId, directories: Collection[PartitionDirectory]) -> str:
    why = (
        f" before broker {leader} is stopped: it leads {_names(directories, _MOST_LISTED)} without the records that it "
        f"lost with a log directory, and broker {node} would truncate its own"
    )
    text = statement("# ", _do_not_start(facts, node), why)
    return forbids(text, Act.START, (node,), (Act.STOP, (leader,)), ends=Ends.RECORDS)


@asked_once
def _records_first(facts: Facts, node: NodeId) -> str:
    directories = facts.records_awaited[node]
    why = (
        f" before its former disk is mounted or another replica leads {_names(directories, _MOST_LISTED)}: it would "
        "lead without the records that it lost with the disk, and every replica that follows it truncates its own"
    )
    text = statement("# ", do_not_restart((node,), "start or restart", named=f"broker {node}"), why)
    return forbids(text, Act.START, (node,), Action(Act.RECOVER, node, _texts(directories)), ends=Ends.RECORDS)


@asked_once
def _mount_first(facts: Facts, node: NodeId) -> str:
    directories = facts.led_at_a_start[node]
    names, holders = _names(directories, _MOST_LISTED), chain.from_iterable(one.holders for one in facts.offline)
    dirs = sorted({holder.directory_id for holder in holders if holder.id == node and holder.directory_id})
    which = f"{'directory' if len(dirs) == 1 else 'directories'} with directory.id {and_join(dirs, 4)}"
    return Step(
        f"# Do not start broker {node} before its log {which if dirs else 'directories'} "
        f"{'is' if len(dirs) == 1 else 'are'} mounted: without, it would lead {names} with an empty log, and every "
        "replica that follows it truncates its own; if the disk is lost, start the brokers of the other replicas "
        "first, without unclean.leader.election.enable, and elect the longest one",
        Plan(
            forbids=(Action(Act.START, node),),
            until=(Action(Act.MOUNT, node, _texts(directories)),),
            ends=Ends.RECORDS,
        ),
    )


@asked_once
def _keep_running(facts: Facts, node: NodeId) -> str:
    directories = facts.only_in_sync_copies[node]
    names, of = _names(directories, _MOST_LISTED), _texts(directories)
    if node in facts.to_be_stopped:
        return Step(
            f"# Stop broker {node} by SIGTERM alone, and elect no other replica of {names} while it is stopped, by "
            "hand or by unclean.leader.election.enable: it holds the only in-sync copy",
            Plan(forbids=(Action(Act.ELECT, node, of),), ends=Ends.RECORDS),
        )
    why = f" until another replica of {names} is in the ISR: it holds the only in-sync copy"
    text = statement("# ", do_not_restart((node,), "stop or restart", named=f"broker {node}"), why)
    return keeps_running(text, Action(Act.JOIN, node, of), ends=Ends.SERVICE)


@asked_once
def _keep_log(facts: Facts, node: NodeId) -> str:
    directories = facts.elected_recovered[node]
    why = (
        f": only its log is known to be that of {_names(directories, _MOST_LISTED)}, which no replica had recovered "
        "when it was elected"
    )
    text = statement("# ", do_not_restart((node,), "stop or restart", named=f"broker {node}"), why)
    return keeps_running(text, ends=Ends.RECORDS)


def _kill_late(nodes: Sequence[NodeId]) -> Iterable[str]:
    if nodes:
        was, it, its = ("was", "it", "its") if len(nodes) == 1 else ("were", "they", "their")
        yield (
            f"# To stop {numbered('broker', nodes)}, send SIGTERM, then SIGKILL after 30 s: {it} {was} unregistered "
            f"while running, so no controller accepts {its} controlled shutdown, and Kafka waits 5 min for that"
        )


def _format_first(node: NodeId) -> str:
    return Step(
        f"# Do not start controller {node} before its disk is formatted again: it still holds the former voter set, "
        "which was changed by force",
        Plan(forbids=(Action(Act.START, node),), until=(Action(Act.FORMAT, node),), ends=Ends.VOTERS),
    )


def _of_each(step: Callable[[Facts, NodeId], str], facts: Facts, nodes: Sequence[NodeId]) -> list[str]:
    """Returns this step of the first nodes, and for how many more it is the same."""
    return [*(step(facts, node) for node in nodes[:_MOST_LISTED]), *_same_for(len(nodes))]


def _first(steps: list[str]) -> list[str]:
    return [*steps[:_MOST_LISTED], *_same_for(len(steps))]


def _same_for(count: int) -> list[str]:
    more = count - _MOST_LISTED
    return [f"# Do the same for {more} more nodes"] if more > 0 else []
