"""The register of the commands of a situation, and what several of them need."""

from collections.abc import Iterable
from dataclasses import replace

from rules.model.identifiers import ReplicaKey
from rules.model.membership import Voter
from tests.commands import Commands, Words, milliseconds, replica_key, voter
from tests.situation.situation import NOW, Situation, controller_endpoint, controller_key

command: Commands[Situation] = Commands("a situation: what happened to a cluster until now")
run = command.run


def run_all(made: Situation, texts: Iterable[str]) -> None:
    """Runs commands in their order."""
    for text in texts:
        run(made, text)


def age(words: Words, name: str, default: str = "0s") -> int:
    """Takes an option that is an age, and returns the time."""
    return NOW - milliseconds(words.option(name) or default)


# --- the cluster ----------------------------------------------------------------------------------------------------


def replica(made: Situation, words: Words) -> ReplicaKey:
    """Takes `2` or `2-new`; `2-none` has no directory id."""
    text = words.word()
    key = replica_key(text)
    if key.directory_id == "none":
        return replace(key, directory_id=None)
    if key.directory_id is not None:
        return key
    return made.voting_key(key.id) if key.id in made.voters else controller_key(key.id)


def full_voter(text: str) -> Voter:
    one = voter(text)
    return one if one.key.directory_id else replace(one, key=controller_key(one.key.id))


def address(made: Situation, node: int) -> str:
    return str(made.listeners.get(node, (controller_endpoint(node),))[0])
