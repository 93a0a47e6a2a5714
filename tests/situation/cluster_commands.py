"""The commands for the cluster and its monitor: voters, brokers, versions, how it is observed."""

from dataclasses import replace

from rules.model.monitoring import (
    Vantage,
)
from tests.commands import Words, milliseconds, numbers
from tests.situation.registry import age, command
from tests.situation.situation import (
    NOW,
    Situation,
    controller_key,
)


@command("voters")
def voters(made: Situation, words: Words) -> None:
    """voters 5, voters 1,3,5: the controllers."""
    text = words.word()
    made.voters = tuple(numbers(text)) if "," in text else tuple(range(1, int(text) + 1))


@command("brokers")
def brokers(made: Situation, words: Words) -> None:
    """brokers 101,102,103 or brokers none: those that registered at the beginning, alive."""
    made.brokers = tuple(numbers(words.word()))


@command("leads")
def leads(made: Situation, words: Words) -> None:
    """leads 1: the leader of epoch 7."""
    made.leader = int(words.word())


@command("static")
def static_(made: Situation, _words: Words) -> None:
    """static: the voters are configured (kraft.version 0); they have no directory ids."""
    made.static = True


@command("make-dynamic")
def make_dynamic(made: Situation, words: Words) -> None:
    """make-dynamic [since 1m] [metadata.version 33]: kraft.version was upgraded then, alone or by a release upgrade."""
    level, at_ms = words.number("metadata.version"), age(words, "since", "1m")
    made.static, made.dynamic_ms = True, at_ms
    voters = " ".join(str(controller_key(node)) for node in made.voters)
    finalized = [] if level is None else [f"feature metadata.version {level}"]
    for record in ("kraft-version 1", f"voters {voters}", *finalized):
        made.append(at_ms, record)


@command("configured")
def configured(made: Situation, words: Words) -> None:
    """configured c1:9093 c2:9093: the addresses in the monitor's configuration; else those of the voters."""
    made.bootstrap = tuple(words.rest())


@command("created")
def created(made: Situation, words: Words) -> None:
    """created 30m: the cluster exists for so long, else for six days."""
    made.created_ms = NOW - milliseconds(words.word())


@command("metadata-version")
def level(made: Situation, words: Words) -> None:
    """metadata-version 33, metadata-version none: what is finalized, else 27."""
    text = words.word()
    made.metadata_version = None if text == "none" else int(text)


@command("outside")
def outside(made: Situation, _words: Words) -> None:
    """outside: the monitor is outside the cluster's network and name service."""
    made.vantage = Vantage.OUTSIDE


@command("files-min-isr")
def files_min_isr(made: Situation, words: Words) -> None:
    """files-min-isr 2: min.insync.replicas in the brokers' files, as the monitor is configured."""
    made.min_isr = int(words.word())


@command("access")
def access(made: Situation, words: Words) -> None:
    """access SASL_SSL [principal User:kraftwatch] [scram]: how the monitor connects."""
    principal, scram = words.option("principal"), words.flag("scram")
    made.access = replace(made.access, protocol=words.word(), principal=principal, scram=scram)


@command("polls-only")
def polls_only(made: Situation, _words: Words) -> None:
    """polls-only: the monitor may not read the log, by choice."""
    made.access = replace(made.access, log=False)
    made.log_until_ms = 0


@command("known")
def known(made: Situation, words: Words) -> None:
    """known 2h: the monitor polls for so long, else for a minute."""
    made.steps_of_polls(NOW - milliseconds(words.word()))


@command("unnamed")
def unnamed(made: Situation, _words: Words) -> None:
    """unnamed: no answer has the cluster's id."""
    made.cluster_id = None


@command("noops")
def noops(made: Situation, words: Words) -> None:
    """noops off: metadata.max.idle.interval.ms is 0."""
    made.noops = words.word() != "off"
