"""The alerts that belong to recorded rows: those of the ledger beside a journal, or evaluated again."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rules.alert import Alert
from streaming.cli.back_test_settings import back_test_settings
from streaming.report.back_test import back_test
from streaming.report.incident_report import ledger_alerts
from streaming.report.recorded_rows import recorded_rows


def recorded_alerts(
    journal: Path | None,
    log_dir: Path | None,
    setting: Sequence[str],
    *,
    config: Path | None = None,
    say: Callable[[str], None],
) -> Sequence[Alert]:
    """Returns the alerts in order.

    Args:
        journal: a checkpoint folder or the journal in it; None for a log directory.
        log_dir: a metadata.log.dir; None for a journal.
        setting: RULE.NAME=VALUE each, where the rules are evaluated again.
        config: the configuration, where the rules are evaluated again; None: a bundle's, or the defaults.
        say: prints progress.

    Raises:
        UsageError: the ledger cannot be read, or a setting is invalid.
    """
    if journal is not None and (found := ledger_alerts(journal)) is not None:
        return found
    settings = back_test_settings(config, setting, polled=journal is not None, recorded=journal)
    return list(back_test(recorded_rows(journal, log_dir, say=say), settings))
