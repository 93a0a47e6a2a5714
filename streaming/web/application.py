"""The Flask application: /healthz and /readyz, the checks of the Host header and the tokens, and all headers."""

import gzip
import ipaddress
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, g, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from connectors.errors import UsageError
from connectors.gather.gatherer_stats import gatherer_problem
from connectors.process.wall_clock import wall_ms
from connectors.store.durable_file import full_disk
from rules.formatting import and_join
from streaming.status.status_store import CountingEngine
from streaming.web.page_access import PageAccess, Permission, is_bearer

HEALTH_PATHS = ("/healthz", "/readyz")
"""They are answered without a token, because a kubelet cannot send one, and show no detail of a cluster."""
STALE_S = 90.0
"""A healthy job evaluates within ten seconds; if Spark does not for a minute, the understudy begins within seconds."""
START_S = 900.0
"""How long a job may take to its first evaluation: minutes where many processes share a core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHealth:
    """What shows at one time that the job runs."""

    since: float
    """When it began to run, in monotonic seconds."""
    last_batch_at: float | None = None
    """When it finished its newest batch; None before the first one."""
    last_evaluated_at: float | None = None
    """When it finished the newest evaluation, of Spark or of its understudy; None before the first one."""
    engine: CountingEngine | None = None
    """Which of the two counts."""
    gatherer_runs: bool | None = None
    """None: it has not been started yet."""
    gatherer_stalled_s: float | None = None
    """For how long the gatherer's event loop has not run; None where its gatherer has not reported yet."""
    folder: Path | None = None
    """Where the job writes; None: it does not yet."""
    waits_for: Mapping[str, float] = field(default_factory=dict)
    """What is missing, and for how many seconds it has been."""

    @property
    def batch_age_s(self) -> float:
        """Seconds since the newest finished batch; before the first one, since the start."""
        return time.monotonic() - (self.since if self.last_batch_at is None else self.last_batch_at)

    @property
    def full_disk(self) -> str | None:
        """That the job's own disk is full, as a sentence's part; None if it has room. A disk may not answer."""
        return None if self.folder is None else full_disk(self.folder)

    @property
    def evaluation_age_s(self) -> float:
        """Seconds since the newest evaluation; before the first one, since the start."""
        return time.monotonic() - (self.since if self.last_evaluated_at is None else self.last_evaluated_at)

    @property
    def is_starting(self) -> bool:
        """Whether the job waits for its first batch, and may still do so: Spark starts, and the gatherer runs."""
        return self.last_batch_at is None and self.is_alive

    @property
    def is_alive(self) -> bool:
        """Whether the rules are evaluated, or the first evaluation may still come, and the gatherer runs."""
        return self.problem is None

    @property
    def problem(self) -> str | None:
        """Why the job does not work; None if it does."""
        if self.evaluation_age_s > (START_S if self.last_evaluated_at is None else STALE_S):
            return "nothing has been evaluated for too long"
        return self._gatherer_problem

    @property
    def health_problem(self) -> str | None:
        """Why /healthz answers 503; None if it does not.

        A restart changes nothing about what is missing, unless it is Spark: for as long as a start may take, the job
        waits for it.
        """
        if self.waits_for.keys() - {"spark"} and self.evaluation_age_s < START_S:
            return self._gatherer_problem
        return self.problem

    @property
    def _gatherer_problem(self) -> str | None:
        runs = self.gatherer_runs
        return None if runs is None else gatherer_problem(runs=runs, stalled_s=self.gatherer_stalled_s)


def health_endpoints(read: Callable[[], JobHealth]) -> Blueprint:
    """Returns two paths, which read the health: 200 when healthy, 503 with the reason when not.

    /healthz is 200 during the start too.
    """
    blueprint = Blueprint("health", __name__)

    @blueprint.get("/healthz")
    def healthz() -> ResponseReturnValue:
        health = read()
        stalled_s, problem, missing = health.gatherer_stalled_s, health.health_problem, health.waits_for
        status = "starting" if health.last_batch_at is None else "ok"
        if missing:
            status = f"waiting for {and_join(missing)}"
        body = {
            "status": problem or status,
            "waits_for_seconds": {name: round(seconds, 1) for name, seconds in missing.items()},
            "seconds_since_last_batch": round(health.batch_age_s, 1),
            "seconds_since_last_evaluation": round(health.evaluation_age_s, 1),
            "engine": None if health.engine is None else health.engine.name,
            "engine_seconds": None if health.engine is None else (wall_ms() - health.engine.since_ms) / 1_000,
            "gatherer": health.gatherer_runs,
            "gatherer_stalled_seconds": None if stalled_s is None else round(stalled_s, 1),
        }
        return body, 200 if problem is None else 503

    @blueprint.get("/readyz")
    def readyz() -> ResponseReturnValue:
        health = read()
        if health.last_batch_at is None:
            return {"status": "waiting for the first batch"}, 503
        if (problem := health.full_disk) is not None:
            return {"status": problem}, 503
        return {"status": "ready"}

    return blueprint


_GZIP_FROM = 10_000
_BODY_BYTES = 16_384
"""A request changes one acknowledgement or silence, or reports what one host sees."""
REPORTS: Final = "report_witness"
"""The endpoint of the requests by which controllers' hosts report what they see."""
_TOKENS = "listen_token_file or listen_read_token_file"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def application(
    blueprints: Iterable[Blueprint], *, host: str, page_url: Callable[[], str | None] | None, access: PageAccess
) -> Flask:
    """Returns the blueprints behind the checks: the host must be that of `--listen` or of the page's URL."""
    app = Flask("kraftwatch", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]  # Flask's default provider has it
    app.config["MAX_CONTENT_LENGTH"] = _BODY_BYTES
    for blueprint in blueprints:
        app.register_blueprint(blueprint)

    @app.before_request
    def refuse_unknown_host() -> ResponseReturnValue | None:
        name = _host_of(request.host)
        of_page = None if page_url is None else urlsplit(page_url() or "").hostname
        if name in ("localhost", host.lower(), of_page) or _is_address(name):
            return None
        return {"status": "unknown host: use an IP address, or the host of --listen or page_url"}, 421

    @app.before_request
    def refuse_without_token() -> ResponseReturnValue | None:
        return None if request.path in HEALTH_PATHS else _refusal(access) or _refusal_of_change(access)

    @app.before_request
    def refuse_undecodable_query() -> ResponseReturnValue | None:
        try:
            request.args  # noqa: B018 - werkzeug decodes the query when it is read
        except UnicodeDecodeError:
            return {"status": "bad request: the query is not UTF-8; percent-encode it"}, 400
        return None

    @app.errorhandler(HTTPException)
    def error_as_json(problem: HTTPException) -> ResponseReturnValue:
        paths = sorted(rule.rule for rule in app.url_map.iter_rules())
        known = {
            404: f"not found; the paths are {', '.join(paths)}",
            413: f"the body is longer than {_BODY_BYTES} bytes",
        }
        code = problem.code or 500
        return {"status": known.get(code, problem.name.lower())}, code

    @app.after_request
    def hide_server_version(response: Response) -> Response:
        response.headers["Server"] = "kraftwatch"
        return response

    return app


def _refusal(access: PageAccess) -> ResponseReturnValue | None:
    try:
        permission = access.permission(request.headers.get("Authorization"))
    except UsageError:
        return {"status": f"the job cannot read the file of {_TOKENS}"}, 503
    g.permission = permission
    if permission is Permission.NOTHING:
        headers = {"WWW-Authenticate": 'Basic realm="kraftwatch", charset="UTF-8"', "Cache-Control": "no-store"}
        return {"status": f"send the token of {_TOKENS}: Authorization: Bearer TOKEN"}, 401, headers
    if permission is Permission.WITNESS and not _is_report():
        return {"status": "this token only reports what a controller's host sees"}, 403
    return None


def _is_report() -> bool:
    return (request.endpoint or "").rpartition(".")[2] == REPORTS


def _refusal_of_change(access: PageAccess) -> ResponseReturnValue | None:
    """Returns why this request may change nothing: everyone who can connect could, or any page of a browser.

    A browser adds a login (Basic) to each request, also to one that another site's page makes. That page cannot add a
    header of its own: the browser would ask this server first, which allows nothing.
    """
    if request.method in ("GET", "HEAD", "OPTIONS") or request.routing_exception is not None:
        return None
    tokens = [("listen_token_file", access.token)]
    tokens += [("listen_witness_token_file", access.witness_token)] if _is_report() else []
    named = " or ".join(key for key, _ in tokens)
    if all(token is None for _, token in tokens):
        return {"status": f"nothing can be changed here without a token: set {named}"}, 403
    if g.permission is Permission.READ:
        return {"status": f"this only reads: send the token of {named}"}, 403
    headers = request.headers
    if not is_bearer(headers.get("Authorization")) and headers.get("X-Requested-With") != "kraftwatch":
        return {"status": "send the token as Authorization: Bearer TOKEN, or X-Requested-With: kraftwatch"}, 403
    return None


def _host_of(header: str) -> str:
    """Returns the host of a Host header, without port and without the brackets of an IPv6 address."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
    return name.removeprefix("[").removesuffix("]").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def add_response_headers(response: Response) -> Response:
    """Forbids foreign content, type guessing, caching and framing; compresses large bodies."""
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store"
    body = response.get_data()
    if len(body) >= _GZIP_FROM and request.accept_encodings.quality("gzip"):
        response.set_data(gzip.compress(body, compresslevel=1))
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
    return response
