"""The gatherer process: its first line, exit codes, and the end when stdin closes."""

import subprocess
import sys
from pathlib import Path

from connectors.gather.gatherer_input import GathererSettings, settings_to_line
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_writer import JournalWriter
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from tests.eventually import eventually
from tests.kafka.gatherer_run import GathererRun, run_gatherer
from tests.older_build import build_that_ends_at
from tests.unit.connectors.gather.unreachable import SECRET, unreachable_cluster

COMMAND = (sys.executable, "-m", "connectors.gather")


def test_unreachable_cluster_is_recorded_until_stdin_closes(tmp_path: Path) -> None:
    cluster = unreachable_cluster()
    with run_gatherer(tmp_path, cluster) as gatherer:

        def every_endpoint_refuses() -> None:
            assert {row.kind for row in gatherer.rows()} == {ObservationKind.FAILED}
            failed = [one for one in gatherer.events(ObservationKind.FAILED) if isinstance(one, FailedObservation)]
            for source in (ObservationSource.LOG, ObservationSource.QUORUM):
                refused = {one.endpoint for one in failed if (one.source, one.reason) == (source, Reason.REFUSED)}
                assert refused == {f"{host}:{port}" for host, port in cluster.bootstrap}

        eventually(every_endpoint_refuses, within_s=20)
    assert SECRET not in (tmp_path / "gather.log").read_text()


def test_a_gatherer_that_knows_other_records_announces_that_it_reads_the_log_again_once(tmp_path: Path) -> None:
    cluster = unreachable_cluster()
    read = Observation(
        cluster="a", kind=ObservationKind.RECORDS, observed_at_ms=1_790_000_000_000, base_offset=0, last_offset=7
    )
    with build_that_ends_at("4.3.1"), JournalWriter(tmp_path / "journal") as journal:
        journal.append([read])

    for starts in (1, 2):
        with run_gatherer(tmp_path, cluster) as gatherer:

            def started(run: GathererRun = gatherer, times: int = starts) -> None:
                reasons = [failure.reason for _, failure in run.failures()]
                assert reasons.count(Reason.INTERRUPTED) == times
                assert reasons.count(Reason.RECORDS_KNOWN) == 1

            eventually(started, within_s=30)

    with JournalWriter(tmp_path / "journal") as journal:
        progress = journal.follow_progress("a")
    assert progress is not None and progress.next_offset is None, "it begins at the start of the log"


def test_journal_in_use_is_reported_in_one_sentence_with_exit_code_3(tmp_path: Path) -> None:
    settings = GathererSettings(
        clusters=(unreachable_cluster(),), journal=str(tmp_path / "journal"), lock_timeout_s=0.2
    )
    with JournalWriter(tmp_path / "journal"):
        refused = subprocess.run(COMMAND, input=settings_to_line(settings), capture_output=True, timeout=120)
    assert refused.returncode == 3
    assert refused.stdout.count(b"\n") == 1
    assert b"journal" in refused.stdout


def test_invalid_settings_are_reported_in_one_sentence_with_exit_code_2(tmp_path: Path) -> None:
    refused = subprocess.run(COMMAND, input=b'{"clusters": 7}\n', capture_output=True, timeout=120)
    assert refused.returncode == 2
    assert refused.stdout.count(b"\n") == 1
    assert b"clusters" in refused.stdout


def test_sigterm_ends_the_gatherer_cleanly_while_stdin_is_open(tmp_path: Path) -> None:
    with run_gatherer(tmp_path, unreachable_cluster()) as gatherer:
        eventually(lambda: bool(gatherer.rows()), within_s=20)
        gatherer.process.terminate()

        assert gatherer.process.wait(60) == 0
    assert (tmp_path / "gather.log").read_text() == ""
