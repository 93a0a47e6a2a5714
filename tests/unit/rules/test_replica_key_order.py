"""Replica keys can be sorted, whether or not Kafka names their directory ids."""

from rules.analysis.electability import VoterStanding, electability
from rules.model.identifiers import DirectoryId, NodeId, ReplicaKey

WITHOUT = ReplicaKey(id=NodeId(1))
WITH = ReplicaKey(id=NodeId(1), directory_id=DirectoryId("AAECAwQFBgcICQoLDA0ODw"))
NEXT = ReplicaKey(id=NodeId(2))


def test_a_key_without_directory_id_is_sorted_before_one_with_it() -> None:
    assert sorted([NEXT, WITH, WITHOUT]) == [WITHOUT, WITH, NEXT]


def test_a_key_is_written_with_its_directory_id_if_that_is_known() -> None:
    assert (str(WITHOUT), str(WITH)) == ("1", "1-AAECAwQFBgcICQoLDA0ODw")


def test_an_id_that_is_listed_with_and_without_directory_does_not_stop_the_evaluation() -> None:
    standings = [VoterStanding(key=key, alive=True, reachable=True) for key in (WITH, NEXT, WITHOUT)]

    assert electability(standings).electable
