"""The API: what the page shows, as JSON; acknowledgements and silences, also to be changed; its OpenAPI document.

`OPERATIONS` is the only list of what it offers: the routes and the document are made of it. Programs rely on the names
of fields (`api_objects`).
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any, Final, TypeVar

from flask import Blueprint, request
from flask.typing import ResponseReturnValue
from pydantic import BaseModel, TypeAdapter, ValidationError

from connectors.errors import StoreError, UsageError
from connectors.settings.sections import unmatched
from connectors.sinks.alert_json import SilenceObject, described, silence_to_json
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.collection import SilenceStore
from connectors.witness.witness_row import parsed_row
from rules.alert import Alert
from rules.answers.refusal import EXCLUDABLE
from rules.evaluate import ALL_RULES
from rules.finding import Plain, Severity
from rules.formatting import and_join, iso
from rules.model.identifiers import Millis, NodeId
from rules.model.job_state import JOB_CLUSTER_ID
from rules.model.witness import WitnessRow
from rules.notifications.acknowledgement import Acknowledgement
from rules.notifications.route import LONGEST_MS, Silence, matches_any_name
from streaming.query.past_replay import StoredCluster
from streaming.status.cluster_status import ClusterStatus, schema_with_iso_times, status_adapter
from streaming.status.restart_output import RESTARTS_LIMIT, check_despite
from streaming.web import api_objects as objects
from streaming.web.application import add_response_headers
from streaming.web.cluster_view import restart_json
from streaming.web.fleet_view import NO_CLUSTER, FleetView, fleet_json, time_parameter
from streaming.web.past_states import ReplayingError
from streaming.web.witness_reports import ACCEPTED, NOT_TAKEN, other_cluster

BodyT = TypeVar("BodyT", bound=BaseModel)
DOCUMENT_PATH: Final = "/api/openapi.json"
_JSON = "application/json"
_SCHEMAS = "#/components/schemas/{model}"


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Where acknowledgements and silences are written, and what controllers' hosts report."""

    acknowledgements: AcknowledgementStore
    silences: SilenceStore
    report_witness: Callable[[str, WitnessRow], bool] | None
    """Passes on what a controller's host of this cluster saw, and returns whether it is taken; None: relays gather."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    """As in the document, with `{name}` for a part that varies."""
    summary: str
    answer: Any
    """The type of the answer."""
    does: Callable[..., ResponseReturnValue]
    """Takes the API and the parts of the path that vary."""
    body: Any = None
    """The type of the body; None: it has none."""
    status: int = 200
    query: dict[str, str] | None = None
    """The parameters of the query: what each means."""
    refuses: tuple[int, ...] = ()
    """The status of each refusal, besides 401, 403 and 421."""

    @property
    def names(self) -> Sequence[str]:
        """The parts of the path that vary."""
        return [each[1:-1] for each in self.path.split("/") if each.startswith("{")]

    @property
    def route(self) -> str:
        """The path as Flask writes it."""
        return "/".join(f"<path:{each[1:-1]}>" if each.startswith("{") else each for each in self.path.split("/"))


class Api:
    """Answers the operations. `changes`: None while the job starts, or where nothing may be changed."""

    def __init__(self, view: FleetView, changes: Changes | None) -> None:
        self.view, self._changes = view, changes

    def clusters(self) -> ResponseReturnValue:
        """Returns all clusters."""
        return fleet_json(self.view)

    def cluster(self, name: str) -> ResponseReturnValue:
        """Returns one cluster, now or at a past time."""
        try:
            found = self.view.requested(name)
        except ReplayingError as problem:
            return _replaying(problem)
        return (NO_CLUSTER, 404) if found is None else found[0].to_json()

    def safe_to_restart(self, name: str, node: str) -> ResponseReturnValue:
        """Returns whether a node may be restarted, by the newest status of its cluster."""
        since_ms, despite, found = time_parameter("since"), request.args.get("despite"), self.view.present(name)
        check_despite(despite)
        if found is None:
            return NO_CLUSTER, 404
        if found.status is None:
            raise _NotReadyError
        silences = self.view.silences(self.view.now_ms())
        answer = restart_json(found, node, since_ms, despite=despite, silences=silences)
        if answer is not None:
            return answer
        if len(found.status.restarts) == RESTARTS_LIMIT:
            why = f"the job answers for {RESTARTS_LIMIT} nodes of a cluster, and node {node[:64]} is none of them"
            return {"status": f"{why}: ask kraftwatch safe-to-restart"}, 404
        return {"status": f"cluster {name} has no node {node[:64]}"}, 404

    def recorded(self, name: str) -> ResponseReturnValue:
        """Returns what the job has recorded of one cluster, for a command that continues it."""
        if self.view.past is None or name not in self.view.store.names:
            return NO_CLUSTER, 404
        try:
            found = self.view.past.newest(name)
        except ReplayingError as problem:
            return _replaying(problem)
        stored: dict[str, Plain] = TypeAdapter(StoredCluster).dump_python(found, mode="json")
        return stored

    def acknowledgements(self) -> ResponseReturnValue:
        """Returns those of firing alerts."""
        now_ms = self.view.now_ms()
        active = {
            acknowledgement.alert_id: acknowledgement
            for acknowledgement in self.view.acknowledgements()
            if acknowledgement.active(now_ms)
        }
        firing = [alert for alert in self.view.firing() if alert.alert_id in active]
        return [_acknowledgement_json(alert, active[alert.alert_id]) for alert in firing]

    def acknowledge(self) -> ResponseReturnValue:
        """Acknowledges a firing alert."""
        body, now_ms = _body(objects.NewAcknowledgement), self.view.now_ms()
        until_ms = None if body.until is None else _end_ms(body.until, now_ms)
        alert = self._firing(body.fingerprint)
        if alert is None:
            return _no_alert(body.fingerprint)
        (added,) = self._stored.acknowledgements.add(
            [alert], by=body.by, now_ms=now_ms, until_ms=until_ms, comment=body.comment
        )
        return _acknowledgement_json(alert, added), 201

    def end_acknowledgement(self, fingerprint: str) -> ResponseReturnValue:
        """Ends the acknowledgement of a firing alert."""
        alert, now_ms = self._firing(fingerprint), self.view.now_ms()
        if alert is None:
            return _no_alert(fingerprint)
        stored = self._stored.acknowledgements
        found = next(
            (
                acknowledgement
                for acknowledgement in stored.read()
                if acknowledgement.alert_id == alert.alert_id and acknowledgement.active(now_ms)
            ),
            None,
        )
        if found is None:
            return {"status": f"the alert {fingerprint} is not acknowledged"}, 404
        stored.end([alert.alert_id], now_ms=now_ms)
        return _acknowledgement_json(alert, found)

    def silences(self) -> ResponseReturnValue:
        """Returns active and future silences, those of maintenance windows included."""
        now_ms = self.view.now_ms()
        return [
            silence_to_json(silence, now_ms) for silence in self.view.silences(now_ms) if silence.ends_at_ms > now_ms
        ]

    def silence(self) -> ResponseReturnValue:
        """Silences alerts."""
        body, now_ms = _body(objects.NewSilence), self.view.now_ms()
        known = {
            "cluster": [*self.view.store.names, JOB_CLUSTER_ID],
            "rule": [*ALL_RULES],
            "severity": [*map(str, Severity)],
        }
        for name, values in known.items():
            if problem := unmatched(getattr(body, name), values, name):
                raise UsageError(f"{name}: {problem}")
        if all(map(matches_any_name, (body.cluster, body.rule, body.subject, body.severity))):
            raise UsageError("this would silence every alert: give cluster, rule, subject or severity")
        silence = Silence(
            id=secrets.token_hex(4),
            **body.model_dump(include={"cluster", "rule", "subject", "severity"}),
            starts_at_ms=now_ms,
            ends_at_ms=_end_ms(body.ends_at, now_ms),
            author=body.author,
            comment=body.comment,
        )
        self._stored.silences.add(silence, now_ms=now_ms)
        return silence_to_json(silence, now_ms), 201

    def end_silence(self, id: str) -> ResponseReturnValue:  # noqa: A002 - the name in the path
        """Ends a silence."""
        now_ms, stored = self.view.now_ms(), self._stored.silences
        try:
            ended = stored.end(id, now_ms=now_ms)
        except StoreError:
            raise
        except UsageError as problem:
            return {"status": str(problem)}, 404
        return [silence_to_json(silence, now_ms) for silence in ended]

    def report_witness(self, name: str) -> ResponseReturnValue:
        """Takes what the host of a controller sees of the others as an observation of the cluster."""
        report = self._stored.report_witness
        if report is None:
            return {"status": "relays gather this job's clusters: report to them (--listen of the relay)"}, 501
        row, status, known = parsed_row(request.get_data()), self._status(name), self.view.store.names
        if status is None and name not in known and all(map(self._status, known)):
            return NO_CLUSTER, 404
        if status is None or status.cluster_id is None or not _voters(status):
            return {"status": f"the voters of {name} are not known yet: try again"}, 503
        if (problem := _foreign(row, status)) is not None:
            return {"status": problem}, 409
        if not report(status.cluster, row):
            return NOT_TAKEN
        return ACCEPTED

    def document(self) -> ResponseReturnValue:
        """Returns the OpenAPI document."""
        return openapi()

    def _status(self, name: str) -> ClusterStatus | None:
        """Returns the newest status of the cluster with this name, or with this cluster id."""
        found = filter(None, map(self.view.store.newest, self.view.store.names))
        return next((one.status for one in found if name in (one.status.cluster, one.status.cluster_id)), None)

    def _firing(self, fingerprint: str) -> Alert | None:
        return next((alert for alert in self.view.firing() if alert.fingerprint == fingerprint), None)

    @property
    def _stored(self) -> Changes:
        if self._changes is None:
            raise _NotReadyError
        return self._changes


class _NotReadyError(Exception):
    """The job starts."""


OPERATIONS: Final[Sequence[Operation]] = (
    Operation(
        method="get",
        path="/api/clusters",
        summary="All clusters, worst first",
        answer=objects.FleetObject,
        does=Api.clusters,
    ),
    Operation(
        method="get",
        path="/api/clusters/{name}",
        summary="One cluster",
        answer=objects.ClusterObject,
        does=Api.cluster,
        query={"at": "A past time that the journal holds: ISO 8601, or milliseconds since the epoch"},
        refuses=(400, 404, 503),
    ),
    Operation(
        method="get",
        path="/api/clusters/{name}/safe-to-restart/{node}",
        summary="Whether a node may be restarted now, by the job's newest status",
        answer=objects.RestartObject,
        does=Api.safe_to_restart,
        query={
            "since": "Count only what was observed since: ISO 8601, or milliseconds since the epoch. Without it the "
            "answer may be from before what has just been done",
            "despite": f"Leave out the reason of this name: {', '.join(EXCLUDABLE)}",
        },
        refuses=(400, 404, 503),
    ),
    Operation(
        method="get",
        path="/api/recorded/{name}",
        summary="What the job has recorded of one cluster, for `kraftwatch` commands with --job",
        answer=objects.RecordedObject,
        does=Api.recorded,
        refuses=(400, 404, 503),
    ),
    Operation(
        method="get",
        path="/api/acknowledgements",
        summary="The acknowledgements of firing alerts",
        answer=list[objects.AcknowledgementObject],
        does=Api.acknowledgements,
    ),
    Operation(
        method="post",
        path="/api/acknowledgements",
        summary="Acknowledge a firing alert",
        body=objects.NewAcknowledgement,
        answer=objects.AcknowledgementObject,
        does=Api.acknowledge,
        status=201,
        refuses=(400, 404, 503),
    ),
    Operation(
        method="delete",
        path="/api/acknowledgements/{fingerprint}",
        summary="End the acknowledgement of a firing alert; the answer is what it was",
        answer=objects.AcknowledgementObject,
        does=Api.end_acknowledgement,
        refuses=(404, 503),
    ),
    Operation(
        method="get",
        path="/api/silences",
        summary="Active and future silences, those of maintenance windows included",
        answer=list[SilenceObject],
        does=Api.silences,
    ),
    Operation(
        method="post",
        path="/api/silences",
        summary="Silence alerts from now on",
        body=objects.NewSilence,
        answer=SilenceObject,
        does=Api.silence,
        status=201,
        refuses=(400, 503),
    ),
    Operation(
        method="delete",
        path="/api/silences/{id}",
        summary="End a silence; the answer is what it was",
        answer=list[SilenceObject],
        does=Api.end_silence,
        refuses=(404, 503),
    ),
    Operation(
        method="post",
        path="/api/clusters/{name}/witness",
        summary="Report what the host of a node sees of the controllers, as `kraftwatch witness --json` prints it",
        body=WitnessRow,
        answer=objects.Problem,
        does=Api.report_witness,
        status=202,
        refuses=(400, 404, 409, 501, 503),
    ),
    Operation(method="get", path=DOCUMENT_PATH, summary="This document", answer=dict[str, Any], does=Api.document),
)


def api(view: FleetView, changes: Changes | None = None) -> Blueprint:
    """Returns the paths of `OPERATIONS`."""
    blueprint, answers = Blueprint("api", __name__), Api(view, changes)

    def answering(operation: Operation) -> Callable[..., ResponseReturnValue]:
        def answer(**names: str) -> ResponseReturnValue:
            try:
                return operation.does(answers, **names)
            except StoreError as problem:
                return {"status": str(problem)}, 503
            except UsageError as problem:
                return {"status": str(problem)}, 400
            except _NotReadyError:
                return {"status": "the job starts: try again"}, 503

        return answer

    for each in OPERATIONS:
        endpoint = each.does.__name__
        blueprint.add_url_rule(each.route, endpoint, answering(each), methods=[each.method.upper()])
    blueprint.after_request(add_response_headers)
    return blueprint


def openapi() -> dict[str, Any]:
    """Returns the OpenAPI document of the API (https://spec.openapis.org/oas/v3.1.1)."""
    types = {f"{at} {kind}": getattr(one, kind) for at, one in enumerate(OPERATIONS) for kind in ("answer", "body")}
    adapters = [
        (name, "serialization" if name.endswith("answer") else "validation", TypeAdapter(one))
        for name, one in types.items()
        if one is not None
    ]
    problem = ("problem", "serialization", TypeAdapter(objects.Problem))
    found, shared = TypeAdapter.json_schemas([*adapters, problem], ref_template=_SCHEMAS)  # type: ignore[list-item]
    schemas = {key: schema for (key, _), schema in found.items()}
    defs, parts = shared.get("$defs", {}), {"ClusterStatus", *status_adapter().json_schema()["$defs"]}
    defs["ClusterObject"] = described(defs["ClusterObject"], defs["ClusterRow"])
    paths: dict[str, Any] = {}
    for at, one in enumerate(OPERATIONS):
        codes = {*one.refuses, 401, 403, 421, *([413] if one.body else [])}
        refusals = {str(code): _content(_REFUSALS[code], schemas["problem"]) for code in sorted(codes)}
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in one.names
        ]
        parameters += [
            {"name": name, "in": "query", "description": what, "schema": {"type": "string"}}
            for name, what in (one.query or {}).items()
        ]
        operation = {
            "operationId": one.does.__name__,
            "summary": one.summary,
            "parameters": parameters,
            "responses": {str(one.status): _content(one.summary, schemas[f"{at} answer"]), **refusals},
        }
        if one.body is not None:
            body = {"required": True, "content": {_JSON: {"schema": schemas[f"{at} body"]}}}
            operation["requestBody"] = body
        paths.setdefault(one.path, {})[one.method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "kraftwatch", "version": version("kraftwatch")},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {name: schema_with_iso_times(one) if name in parts else one for name, one in defs.items()},
        },
    }


_REFUSALS = {
    400: "The request is invalid",
    401: "The token of listen_token_file or listen_read_token_file is missing",
    403: "The job has no token for it, the token is one for something else, or a browser sent no header of the page",
    404: "There is no such object",
    409: "It is of another cluster, or of no voter of this one",
    413: "The body is too long",
    421: "The host of the request is unknown",
    501: "Relays gather the job's clusters",
    503: "The job starts, replays its journal, or cannot use its database",
}


def _content(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {_JSON: {"schema": schema}}}


def _body(kind: type[BodyT]) -> BodyT:
    """Returns the body of the request. Raises UsageError if it is not such an object."""
    try:
        return kind.model_validate_json(request.get_data())
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{f'{place}: ' if place else ''}{first['msg']}") from None


def _end_ms(end: datetime, now_ms: Millis) -> Millis:
    end_ms = Millis((end - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))
    if not 0 < end_ms - now_ms <= LONGEST_MS:
        raise UsageError("the end must be in the future, at most 366 days from now")
    return end_ms


def _voters(status: ClusterStatus) -> frozenset[NodeId]:
    return frozenset({*(one.id for one in status.endpoints), *(one.id for one in status.current_voters)})


def _foreign(row: WitnessRow, status: ClusterStatus) -> str | None:
    """Returns why a row is none of a cluster; None if it is one."""
    if (problem := other_cluster(row, status.cluster_id)) is not None:
        return problem
    # A broker observes the log, unless it does not reach the leader.
    others = {one.id for one in status.current_observers} | {*(status.brokers.fenced if status.brokers else ())}
    if row.node in _voters(status) | others:
        return None
    return f"node: {row.node} is none of the voters {and_join(sorted(_voters(status)))}, no observer and no broker"


def _replaying(problem: ReplayingError) -> ResponseReturnValue:
    """Returns that the same request succeeds later."""
    return {"status": str(problem), "progress": problem.progress}, 503, {"Retry-After": "1"}


def _no_alert(fingerprint: str) -> ResponseReturnValue:
    return {"status": f"no alert with the fingerprint '{fingerprint[:64]}' is firing"}, 404


def _acknowledgement_json(alert: Alert, one: Acknowledgement) -> objects.AcknowledgementObject:
    return {
        "fingerprint": alert.fingerprint,
        "cluster": alert.cluster,
        "rule": alert.rule,
        "subject": alert.subject,
        "severity": alert.severity,
        "started_at": iso(alert.started_at_ms),
        "by": one.by,
        "at": iso(one.at_ms),
        "until": None if one.until_ms is None else iso(one.until_ms),
        "comment": one.comment,
    }
