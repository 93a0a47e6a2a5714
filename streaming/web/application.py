"""The Flask application: the checks of the Host header and of the token, and the headers of every response."""

import gzip
import ipaddress
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from connectors.errors import UsageError
from streaming.web.health_endpoints import HEALTH_PATHS
from streaming.web.page_access import PageAccess

_GZIP_FROM = 10_000
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def application(
    blueprints: Iterable[Blueprint], *, host: str, page_url: Callable[[], str | None], access: PageAccess
) -> Flask:
    """Returns the blueprints behind the checks; errors are answered as JSON.

    Args:
        host: the host of `--listen`.
        page_url: returns the URL at which people reach the page; its host is accepted.
        access: the token that all paths but those of the health require.
    """
    app = Flask("kraftwatch", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]  # Flask's default provider has it
    for each in blueprints:
        app.register_blueprint(each)

    @app.before_request
    def refuse_unknown_host() -> ResponseReturnValue | None:
        name = _host_of(request.host)
        if name in ("localhost", host.lower(), urlsplit(page_url() or "").hostname) or _is_address(name):
            return None
        return {"status": "unknown host: use an IP address, or the host of --listen or page_url"}, 421

    @app.before_request
    def refuse_without_token() -> ResponseReturnValue | None:
        return None if request.path in HEALTH_PATHS else _refusal(access, request.headers.get("Authorization"))

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
        if problem.code == 404:
            return {"status": f"not found; the paths are {', '.join(paths)}"}, 404
        return {"status": problem.name.lower()}, problem.code or 500

    @app.after_request
    def hide_server_version(response: Response) -> Response:
        response.headers["Server"] = "kraftwatch"
        return response

    return app


def _refusal(access: PageAccess, authorization: str | None) -> ResponseReturnValue | None:
    """Returns the answer to a request with this Authorization header if it is refused; None if it is not."""
    try:
        if access.accepts(authorization):
            return None
    except UsageError:
        return {"status": "the job cannot read the file of listen_token_file"}, 503
    headers = {"WWW-Authenticate": 'Basic realm="kraftwatch", charset="UTF-8"', "Cache-Control": "no-store"}
    return {"status": "send the token of listen_token_file: Authorization: Bearer TOKEN"}, 401, headers


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
