"""The printed steps, followed in their order by a simulated operator, lose no acknowledged record that a disk has."""

import pytest

from tests.simulation.simulated_operator import FollowedCount, followed


def assert_saved(count: FollowedCount) -> None:
    """Asserts that no cluster lost a record, and that the test could have found it."""
    assert not count.lost, count.report
    assert count.lost_otherwise > count.clusters / 20, count.report
    assert {"broker-disk-replaced", "broker-fenced", "partitions-offline"} <= count.acts.keys()


def test_who_follows_the_steps_loses_no_record_that_some_disk_has() -> None:
    """Seeds 37, 249, 290 and 436 lost some: a broker started without its disk, or with its former one too late.

    In 1136 and 1387 the former disk also held what another replica led meanwhile: its broker truncated that.
    """
    assert_saved(followed((*range(30, 56), 249, 290, 436, 632, 1136, 1387)))


@pytest.mark.long
@pytest.mark.timeout(14_400)
def test_who_follows_the_steps_in_thousands_of_clusters_loses_no_record() -> None:
    """Without the conditions of the steps it is one of five."""
    count = followed(range(1_000, 6_000))

    assert_saved(count)
    print(count.report)  # noqa: T201
