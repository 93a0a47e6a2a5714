"""Servers of sinks that answer what a service never does: each call ends by its deadline and holds nobody else up."""

import os
import time
from functools import partial
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch

from connectors.errors import UsageError
from connectors.sinks.sink import Delivered, Rejected, Retry, Sink
from rules.notifications.notification import single_alert_notification
from tests.hostile.section import SectionResult
from tests.sinks.server import DRIPPING_BODIES, DRIPS, Behaviour, HttpReply, ReceivedRequest, serving
from tests.sinks.sink_kind import SECRET
from tests.sinks.subjects import SINK_KINDS
from tests.unit.connectors.kafka.certificates import authority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

DEADLINE_S: Final = 1.0
LATE_S: Final = 2.0
"""A call that ends later than this after its deadline holds up the other notifications of its sink."""
ANSWERS: Final = 200
_MOST_BYTES: Final = 1 << 20
_PIECES: Final = (
    b"a.",
    b"://",
    b"a@",
    b"token=",
    b"password ",
    b'"',
    b"\\",
    b"{",
    b"[",
    b"<",
    b"\n",
    b"\0",
    b"\xff",
    b" ",
)
_STATUSES: Final = (100, 200, 200, 202, 204, 301, 302, 400, 401, 403, 404, 413, 422, 429, 500, 503, 511)


def answers_and_drips(seed: int, folder: Path) -> tuple[SectionResult, SectionResult]:
    """Calls each kind of sink, over TLS, while its server answers at random, and while its answer never ends."""
    rng = Random(seed)
    trusted = authority(folder)
    ca_file = Path(trusted.file)
    answers, drips = SectionResult(name="answers"), SectionResult(name="drips")
    slowest_s = latest_s = 0.0
    drip_kinds = {**DRIPS, **DRIPPING_BODIES}
    # For a library that has no option for certificate authorities.
    certificates = patch.dict(os.environ, REQUESTS_CA_BUNDLE=trusted.file)
    with certificates, serving(trusted.server(trusted.issue("server"))) as server:
        for kind in SINK_KINDS:
            sink = kind.open(server.url, ca_file, folder)
            for _ in range(ANSWERS // len(SINK_KINDS)):
                reply = _reply(rng)
                server.behave = partial(_always, reply)
                cpu_s, _, problem = _call(sink)
                answers.tried += 1
                slowest_s = max(slowest_s, cpu_s)
                if problem is None and cpu_s > DEADLINE_S:
                    problem = f"took {cpu_s:.1f} s of CPU"
                answers.problems += [] if problem is None else [f"{kind}: {problem}; status {reply.status}"]
            for name, drip in drip_kinds.items():
                server.behave = partial(_always, drip)
                _, wall_s, problem = _call(sink)
                drips.tried += 1
                latest_s = max(latest_s, wall_s - DEADLINE_S)
                if problem is None and wall_s > DEADLINE_S + LATE_S:
                    problem = f"ended {wall_s - DEADLINE_S:.1f} s after its deadline"
                drips.problems += [] if problem is None else [f"{kind}: {name}: {problem}"]
    answers.figure = f"the slowest took {slowest_s:.2f} s of CPU, the server included"
    drips.figure = f"the latest call ended {max(latest_s, 0):.1f} s after its deadline"
    return answers, drips


def _always(behaviour: Behaviour, _: ReceivedRequest) -> Behaviour:
    return behaviour


def _reply(rng: Random) -> HttpReply:
    body = b"".join(rng.choices(_PIECES, k=rng.choice((0, 3, 50, 2_000))))
    if body and rng.random() < 0.3:
        body *= _MOST_BYTES // len(body)
    return HttpReply(status=rng.choice(_STATUSES), body=body)


def _call(sink: Sink) -> tuple[float, float, str | None]:
    """Returns the seconds of CPU and of the clock that a call takes, and what is wrong with its outcome."""
    cpu_s, began_s, problem = time.process_time(), time.monotonic(), None
    try:
        (outcome,) = sink.send([single_alert_notification(alert())], sent_at_ms=NOON_MS, deadline_s=DEADLINE_S)
        match outcome:
            case Delivered():
                pass
            case Retry(reason=reason) | Rejected(reason=reason):
                if SECRET in reason:
                    problem = "a secret is in its outcome"
                elif "\n" in reason or len(reason) > 2_000:
                    problem = f"its outcome is not one sentence: {reason[:200]!r}"
    except UsageError as error:
        problem = f"refused: {error}"
    except Exception as error:  # noqa: BLE001 - it would have ended the sink's worker
        problem = f"{type(error).__name__}: {error}"
    return time.process_time() - cpu_s, time.monotonic() - began_s, problem
