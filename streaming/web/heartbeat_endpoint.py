"""/heartbeat: where the first job's heartbeat reaches a standby job."""

from collections.abc import Callable

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from connectors.heartbeat_request import HEARTBEAT_HEADER, STARTING


def heartbeat_endpoint(arrived: Callable[[], bool]) -> Blueprint:
    """Returns the path: 200 for a heartbeat, 409 from a job that is not a standby, 400 without the header.

    A page of another origin can make a browser request this path, but not with this header: it would suppress
    notifications.

    Args:
        arrived: is called for each heartbeat; returns whether this job is a standby.
    """
    blueprint = Blueprint("heartbeat", __name__)

    @blueprint.get("/heartbeat")
    def heartbeat() -> ResponseReturnValue:
        if HEARTBEAT_HEADER not in request.headers:
            return {"status": f"not a heartbeat: the header {HEARTBEAT_HEADER} is missing"}, 400
        if request.headers[HEARTBEAT_HEADER] == STARTING:
            # The first job evaluates two rules only, so this job continues to notify.
            return {"status": "ok: not counted while the first job is starting"}
        if not arrived():
            return {"status": "this job is not a standby: set standby: true in its configuration"}, 409
        return {"status": "ok"}

    return blueprint
