"""The commands for the registrations of controllers and brokers: starts, restarts, fencing, versions."""

from dataclasses import replace

from rules.model.identifiers import Millis, NodeId
from rules.model.witness import DialStep, PeerDial, Reached, WitnessRow
from tests.commands import Words, broker_endpoints, endpoint, milliseconds, numbers
from tests.situation.registry import age, command, run
from tests.situation.situation import (
    NOW,
    SECOND,
    Situation,
    controller_endpoint,
    supporting,
)


@command("registers")
def registers(made: Situation, words: Words) -> None:
    """registers 9 [at c9:19093] [since 80000s] [level 27] [protocol SSL] [incarnation x]: a controller registers.

    `protocol SSL,PLAINTEXT` is one for each of its listeners.
    """
    at_ms, level, where = age(words, "since", "80000s"), words.number("level"), words.option("at")
    incarnation, protocol = words.option("incarnation"), words.option("protocol")
    node = int(words.word())
    if where is None:
        listeners = made.listeners.get(node, (controller_endpoint(node),))
    else:
        listeners = tuple(map(endpoint, where.split(",")))
    if protocol:
        protocols = protocol.split(",")
        each = protocols if len(protocols) > 1 else protocols * len(listeners)
        listeners = tuple(replace(one, protocol=name) for one, name in zip(listeners, each, strict=True))
    features = made.supported(node) if level is None else supporting(level)
    made.write(
        at_ms,
        lambda log: log.controller(
            node, where=listeners, incarnation=incarnation or f"controller-{node}", features=features
        ),
    )


@command("never-registers")
def never_registers(made: Situation, words: Words) -> None:
    """never-registers 2: the log has no registration of this node."""
    made.unregistered.update(numbers(words.word()))


@command("starts")
def starts(made: Situation, words: Words) -> None:
    """starts 2 240s 120s 0s: a new process of the controller registers then; starts 101 fenced 9s 3s: of the broker."""
    fenced = words.flag("fenced")
    node = int(words.word())
    for count, ago in enumerate(words.rest()):
        registers = f"broker {node} fenced" if fenced else f"registers {node}"
        run(made, f"{registers} since {ago} incarnation {node}-{count}")


@command("restarts")
def restarts(made: Situation, words: Words) -> None:
    """restarts 1,2,101 5 [every 1h] [apart 40s] [down 20s] [planned] [last 0s]: all are restarted in turn, 5 times.

    A broker is fenced `down` before it is back (0s: it never is), if planned after a controlled shutdown.
    """
    every, last, apart, down = (
        milliseconds(words.option(name) or default)
        for name, default in (("every", "1h"), ("last", "0s"), ("apart", "40s"), ("down", "20s"))
    )
    planned = words.flag("planned")
    in_turn, times = numbers(words.word()), int(words.word())
    for turn in range(times, 0, -1):
        for place, node in enumerate(reversed(in_turn)):
            ago = last + (turn - 1) * every + place * apart
            if node in made.voters:
                run(made, f"registers {node} since {ago}ms incarnation c{node}-{turn}-{ago}")
            if node in made.brokers:
                for change in (("shut-down",) if planned else ()) + (("fence",) if down else ()):
                    run(made, f"append {change} {node} since {ago + down}ms")
                run(made, f"broker {node} fenced since {ago}ms incarnation b{node}-{turn}-{ago}")
                run(made, f"append unfence {node} since {ago}ms")


@command("broker")
def broker_(made: Situation, words: Words) -> None:
    """broker 103 [fenced] [since 80000s] [level 27] [dirs a,b] [incarnation x] [at b3:9092,X://e3:9094]: registers.

    [rack a] [protocol SSL]. `zookeeper` is one in ZooKeeper mode, which takes part in a migration (KIP-866).
    """
    rack, protocol = words.option("rack"), words.option("protocol")
    at_ms, level, dirs = age(words, "since", "80000s"), words.number("level"), words.directories("dirs")
    zookeeper = words.flag("zookeeper")
    fenced, incarnation, where = words.flag("fenced"), words.option("incarnation"), words.option("at")
    node = int(words.word())
    features = made.supported(node) if level is None else supporting(level)
    made.write(
        at_ms,
        lambda log: log.broker(
            node,
            fenced=fenced,
            where=tuple(replace(one, protocol=protocol) for one in broker_endpoints(where or f"b{node}:9092")),
            incarnation=incarnation or f"broker-{node}",
            features=features,
            log_dirs=dirs or (),
            zookeeper_mode=zookeeper,
            rack=rack,
        ),
    )


@command("fence")
def fence(made: Situation, words: Words) -> None:
    """fence 101 [since 1h]: the broker is fenced."""
    at_ms = age(words, "since", "1h")
    for node in numbers(words.word()):
        made.append(at_ms, f"fence {node}")


@command("left")
def left(made: Situation, words: Words) -> None:
    """left 101 [since 1h]: it shut down in order, and is fenced."""
    at_ms = age(words, "since", "1h")
    node = int(words.word())
    made.write(at_ms - SECOND, lambda log: log.broker_change(node, shutdown=True))
    made.write(at_ms, lambda log: log.broker_change(node, fenced=True))


@command("fencings")
def fencings(made: Situation, words: Words) -> None:
    """fencings 101 5 [every 60s] [for 4s] [last 60s] [restarted]: fenced so often; `last` is `every`, if not given."""
    every, lasts = milliseconds(words.option("every") or "60s"), milliseconds(words.option("for") or "4s")
    last = milliseconds(words.option("last") or f"{every}ms")
    restarted = words.flag("restarted")
    node, times = int(words.word()), int(words.word())
    for back in range(times, 0, -1):
        at_ms = NOW - last - (back - 1) * every
        made.write(at_ms, lambda log: log.broker_change(node, fenced=True))
        if restarted:
            run(made, f"broker {node} fenced since {NOW - at_ms - lasts}ms incarnation {node}-{back}")
        made.write(at_ms + lasts, lambda log: log.broker_change(node, fenced=False))


@command("installed")
def installed(made: Situation, words: Words) -> None:
    """installed 26 [1,2,101]: what all nodes, or these, supported when they first registered, else 27."""
    level = int(words.word())
    made.levels |= dict.fromkeys(numbers(words.word()) if words else [*made.voters, *made.brokers], level)


@command("upgrade")
def upgrade(made: Situation, words: Words) -> None:
    """upgrade 33 [since 5h] [1,2,101]: all nodes, or these, were started with a version that supports more."""
    since = words.option("since") or "5h"
    level = int(words.word())
    chosen = numbers(words.word()) if words else [*made.voters, *made.brokers]
    for node in chosen:
        of_broker = node in made.brokers
        run(made, f"{'broker' if of_broker else 'registers'} {node} since {since} level {level} incarnation up-{node}")


@command("witness")
def witness(made: Situation, words: Words) -> None:
    """witness 1,2 [since 60s] [not 3=tls] [unknown 3] [of other] [ahead 5s] [every 60s] [as test]: what hosts saw.

    The other voters are reached: where they listen or, with `as test`, at c1.test:9093. `ahead`: by how much the
    leader's clock is, or `none`, if that is not known. `every`: the hosts report it to the job, which observes it.
    `process 5s`: since when the node's process runs.
    """
    every, domain, process = words.option("every"), words.option("as"), words.option("process")
    at_ms, of, failing, unknown = age(words, "since", "0s"), *map(words.option, ("of", "not", "unknown"))
    steps = {
        int(node): DialStep(step) for node, _, step in (one.partition("=") for one in (failing or "").split(",") if one)
    }
    unclear, ahead = set(numbers(unknown or "")), words.option("ahead") or "0s"
    ahead_ms = None if ahead == "none" else milliseconds(ahead)

    def dialled(node: int) -> PeerDial:
        endpoint = str(made.listeners.get(node, (controller_endpoint(node),))[0])
        endpoint = endpoint if domain is None else endpoint.replace(":", f".{domain}:")
        step = steps.get(node)
        reached = Reached.NO if step else Reached.UNKNOWN if node in unclear else Reached.YES
        why = f"the {step} fails" if step else ""
        return PeerDial(node=NodeId(node), endpoint=endpoint, reached=reached, step=step, why=why)

    for by in numbers(words.word()):
        peers = tuple(dialled(node) for node in made.voters if node != by)
        cluster = of or made.cluster_id
        row = WitnessRow(
            node=NodeId(by),
            cluster_id=cluster,
            at_ms=Millis(at_ms),
            login="no login",
            peers=peers,
            leader_ahead_ms=ahead_ms,
            process_since_ms=None if process is None else Millis(at_ms - milliseconds(process)),
            every_ms=None if every is None else milliseconds(every),
        )
        if every is None:
            made.witnesses.append(row)
        else:
            made.observe(at_ms, row)
