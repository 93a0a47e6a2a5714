"""Maps every failure of a request to a `rules.model.monitoring.Reason` and a detail that contains no secret.

kafka-python wraps exceptions: the cause may be the exception, its `__cause__`, its `__context__` or one of its
arguments, so all of them are searched, the most specific rule first. Each mapping was observed on a real quorum (wrong
CA, wrong host name, expired certificate, plaintext client and TLS listener and the reverse, missing client certificate,
wrong password, connection refused, no answer, half-open connection, ...).
"""

import errno
import ssl
from collections.abc import Iterator

from kafka import errors as kafka_errors

from connectors.errors import ObservationError
from connectors.kafka.error_code import NOT_LEADER, ErrorCode, error_name
from rules.model.monitoring import CertificateFault, Reason

_CERTIFICATE = {
    9: (CertificateFault.NOT_YET_VALID, "the node's certificate is not yet valid (or this machine's clock is wrong)"),
    10: (CertificateFault.EXPIRED, "the node's certificate has expired"),
    62: (CertificateFault.WRONG_HOST, "the node's certificate is for another host name"),
    64: (CertificateFault.WRONG_HOST, "the node's certificate is for another address"),
}
_UNTRUSTED = (2, 7, 18, 19, 20, 21, 24, 79)
"""OpenSSL's verify codes for no issuer, no trusted issuer or a self-signed certificate, of the node or in its chain.
Others, such as those about revocation lists, may be faults of the monitor's own files."""
_CLIENT_CERTIFICATE = {
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the node rejected the client certificate (unknown CA, or expired)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the client certificate was revoked",
    "TLSV1_ALERT_UNKNOWN_CA": "the node does not trust the CA of the client certificate",
}
CLIENT_CERTIFICATE_DETAILS = frozenset(_CLIENT_CERTIFICATE.values())
"""Details of failures that an expired client certificate can explain."""
_ALERT = {
    **_CLIENT_CERTIFICATE,
    "SSLV3_ALERT_BAD_CERTIFICATE": "the node requires a client certificate (ssl_certfile)",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the node requires a client certificate (ssl_certfile)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": (
        "the node ended the TLS handshake: no client certificate (ssl_certfile)? no common cipher?"
    ),
    "NO_CERTIFICATE_OR_CRL_FOUND": "a configured certificate file holds no certificate",
    "KEY_VALUES_MISMATCH": "ssl_keyfile is not the key of ssl_certfile",
}
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
NO_TLS = "the listener does not use TLS, but security_protocol does"
"""Detail of a WRONG_PROTOCOL."""
_UNREACHABLE = {
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.EHOSTDOWN,
    errno.ENETDOWN,
    errno.EADDRNOTAVAIL,
    errno.EACCES,
    errno.EPERM,
    # A link-local IPv6 address without its interface.
    errno.EINVAL,
    # Local failures: no memory for a socket.
    errno.ENOBUFS,
    errno.ENOMEM,
}
_DESCRIPTORS = {
    errno.EMFILE: "this process has no file descriptor left for a socket: raise its limit (ulimit -n, LimitNOFILE)",
    errno.ENFILE: "this machine has no file descriptor left for a socket: raise its limit (fs.file-max)",
}
MOST_SPECIFIC_FIRST = (
    Reason.WRONG_CLUSTER,
    Reason.WRONG_PROTOCOL,
    Reason.DENIED,
    Reason.NOT_AUTHENTICATED,
    Reason.TLS_FAILED,
    Reason.NOT_READY,
    Reason.INVALID_RESPONSE,
    Reason.UNDECODABLE,
    Reason.UNSUPPORTED,
    Reason.NO_LEADER,
    Reason.TOO_FEW_DESCRIPTORS,
    Reason.UNRESOLVABLE,
    Reason.RESOLVER_FAILED,
    Reason.REFUSED,
    Reason.CLOSED,
    Reason.TIMED_OUT,
    Reason.UNREACHABLE,
)
"""Of several failures, the one whose reason comes first is reported."""
_TLS_RECORD_TYPES = range(0x14, 0x18)


def classify(problem: BaseException) -> ObservationError:
    """Maps an exception of the connection layer to an ObservationError; one among its causes is returned unchanged."""
    chain = list(_causes(problem))
    for rule in _RULES:
        for cause in chain:
            if (match := rule(cause)) is not None:
                return match
    if isinstance(problem, kafka_errors.KafkaConnectionError | kafka_errors.Cancelled):
        return ObservationError(Reason.CLOSED, "the node closed the connection")
    return ObservationError(Reason.CLOSED, f"the connection ended: {type(problem).__name__}")


def error_from_errno(number: int, where: str) -> ObservationError:
    """Maps an errno of connect() or of a socket to an ObservationError; `where` is the address."""
    name = errno.errorcode.get(number, str(number))
    if number == errno.ECONNREFUSED:
        return ObservationError(Reason.REFUSED, f"{where} refuses connections")
    if number == errno.ETIMEDOUT:
        return ObservationError(Reason.TIMED_OUT, f"{where}: no answer ({name})")
    if number in _DESCRIPTORS:
        return ObservationError(Reason.TOO_FEW_DESCRIPTORS, f"{where}: {_DESCRIPTORS[number]} ({name})")
    if number in _UNREACHABLE:
        return ObservationError(Reason.UNREACHABLE, f"{where} cannot be reached from this machine ({name})")
    return ObservationError(Reason.CLOSED, f"{where}: the connection ended ({name})")


def error_from_code(code: int, api: str) -> ObservationError:
    """Maps an error code in a response to an ObservationError; `api` is the request's name."""
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return ObservationError(Reason.DENIED, f"{api} needs {_PERMISSIONS.get(api, 'a permission')} on CLUSTER")
    if code in _LOGIN_CODES:
        return ObservationError(Reason.NOT_AUTHENTICATED, f"{api}: {error_name(code)}")
    reason, detail = _CODES.get(code, (Reason.UNSUPPORTED, error_name(code)))
    return ObservationError(reason, f"{api}: {detail}")


_LOGIN_CODES = {
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
}
_NO_METADATA_LOG = (Reason.UNSUPPORTED, "the node does not serve the metadata log (a broker?)")
_CODES: dict[int, tuple[Reason, str]] = {
    # Only at top level: AuthorizerNotReadyException of a restarted controller that has not found a leader yet.
    ErrorCode.UNKNOWN_SERVER_ERROR: (Reason.NOT_READY, "the authorizer is not ready, the node knows no leader yet"),
    **dict.fromkeys(NOT_LEADER, (Reason.NO_LEADER, "the node is not the leader and names no leader")),
    ErrorCode.INCONSISTENT_CLUSTER_ID: (Reason.WRONG_CLUSTER, "the node belongs to another cluster"),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _NO_METADATA_LOG,
    ErrorCode.UNKNOWN_TOPIC_ID: _NO_METADATA_LOG,
    ErrorCode.REQUEST_TIMED_OUT: (Reason.TIMED_OUT, "the node timed out waiting for the active controller"),
}
_PERMISSIONS = {
    "Fetch": "CLUSTER_ACTION",
    "FetchSnapshot": "CLUSTER_ACTION",
    "DescribeQuorum": "DESCRIBE",
    "DescribeCluster": "ALTER (at a controller)",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
}


def _causes(problem: BaseException) -> Iterator[BaseException]:
    visited: set[int] = set()
    pending: list[BaseException] = [problem]
    while pending:
        one = pending.pop(0)
        if id(one) in visited:
            continue
        visited.add(id(one))
        yield one
        inside = (one.__cause__, one.__context__, *one.args)
        pending.extend(cause for cause in inside if isinstance(cause, BaseException))


def _classified(cause: BaseException) -> ObservationError | None:
    return cause if isinstance(cause, ObservationError) else None


def _tls(cause: BaseException) -> ObservationError | None:
    if isinstance(cause, ssl.SSLWantReadError | ssl.SSLWantWriteError):
        return None  # raised only when the handshake reached its deadline
    if isinstance(cause, ssl.SSLCertVerificationError):
        untrusted = CertificateFault.UNTRUSTED if cause.verify_code in _UNTRUSTED else None
        other = (untrusted, f"the node's certificate is not trusted ({cause.verify_message})")
        fault, why = _CERTIFICATE.get(cause.verify_code, other)
        return ObservationError(Reason.TLS_FAILED, why, certificate_fault=fault)
    if isinstance(cause, ssl.SSLEOFError):
        return ObservationError(Reason.TLS_FAILED, "the node ended the TLS handshake: is this a plaintext listener?")
    if isinstance(cause, ssl.SSLError):
        reason = str(cause.reason or "unknown")
        if reason in _NOT_TLS:
            return ObservationError(Reason.WRONG_PROTOCOL, NO_TLS)
        return ObservationError(Reason.TLS_FAILED, _ALERT.get(reason, reason.replace("_", " ").lower()))
    return None


_LOGIN = {
    kafka_errors.UnsupportedSaslMechanismError: "the node does not offer the configured sasl_mechanism",
    kafka_errors.SaslAuthenticationFailedError: "the node rejected the login",
    kafka_errors.KafkaConfigurationError: "invalid client options: {}",
}


def _login(cause: BaseException) -> ObservationError | None:
    if isinstance(cause, kafka_errors.IllegalSaslStateError):
        return ObservationError(Reason.WRONG_PROTOCOL, "the listener does not use SASL, but security_protocol does")
    detail = next((text.format(cause) for type_, text in _LOGIN.items() if isinstance(cause, type_)), None)
    return None if detail is None else ObservationError(Reason.NOT_AUTHENTICATED, detail)


def _socket(cause: BaseException) -> ObservationError | None:
    # The errno of an SSLError is not a system errno.
    if isinstance(cause, OSError) and cause.errno is not None and not isinstance(cause, TimeoutError | ssl.SSLError):
        return error_from_errno(cause.errno, "the node")
    return None


def _frame(cause: BaseException) -> ObservationError | None:
    if isinstance(cause, kafka_errors.InvalidReceiveError):
        length = int(str(cause.args[0]).rpartition(" ")[2])
        if (length >> 24) & 0xFF in _TLS_RECORD_TYPES:
            detail = "the listener uses TLS, but security_protocol does not"
            return ObservationError(Reason.WRONG_PROTOCOL, detail)
        return ObservationError(
            Reason.UNDECODABLE, f"the node does not speak the Kafka protocol (a frame of {length} bytes)"
        )
    if isinstance(cause, kafka_errors.KafkaProtocolError):
        return ObservationError(Reason.UNDECODABLE, "the response cannot be decoded")
    return None


def _other(cause: BaseException) -> ObservationError | None:
    if isinstance(cause, kafka_errors.IncompatibleBrokerVersion):
        return ObservationError(Reason.UNSUPPORTED, "the node does not support this request")
    if isinstance(cause, kafka_errors.RequestTimedOutError | kafka_errors.KafkaTimeoutError | TimeoutError):
        return ObservationError(Reason.TIMED_OUT, "the node did not answer in time")
    return None


_RULES = (_classified, _tls, _login, _socket, _frame, _other)
