"""Every way a look can fail, put into one of `rules.model.quorum.Reason`, in words that hold no secret.

kafka-python wraps: the true cause may be the exception, its `__cause__`, its `__context__` or one of its
arguments, so all of them are searched, the telling ones first. Each line of the table was seen on a real
quorum (wrong CA, wrong name, expired, plaintext against TLS and the reverse, missing client certificate, wrong
password, refused, silent, half-open, ...).
"""

import errno
import ssl
from collections.abc import Callable, Iterator

from connectors.errors import UnseenError
from connectors.kafka.kafka_python import kafka_errors
from rules.model.monitoring import Reason

CLUSTER_AUTHORIZATION_FAILED = 31
NOT_LEADER_OR_FOLLOWER = 6
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
SNAPSHOT_NOT_FOUND = 98
POSITION_OUT_OF_RANGE = 99
INCONSISTENT_CLUSTER_ID = 104

_CERTIFICATE = {
    9: "its certificate is not yet valid (or our clock is wrong)",
    10: "its certificate has expired",
    62: "its certificate is for another host name",
    64: "its certificate is for another address",
}
_NOT_ACCEPTED = {
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept our client certificate (strange CA, or expired)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our client certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "our client certificate was revoked",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the CA of our client certificate",
}
OF_OUR_CERTIFICATE = frozenset(_NOT_ACCEPTED.values())
"""The details of a failure that our own certificate explains."""
_ALERT = {
    **_NOT_ACCEPTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": "it wants a client certificate (ssl_certfile)",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a client certificate (ssl_certfile)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it ended the handshake: no client certificate (ssl_certfile)? no common cipher?",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "RECORD_LAYER_FAILURE": "it does not speak TLS",
    "NO_CERTIFICATE_OR_CRL_FOUND": "a certificate file of ours holds no certificate",
    "KEY_VALUES_MISMATCH": "ssl_keyfile is the key of another certificate than ssl_certfile",
}
_UNREACHABLE = {
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.EHOSTDOWN,
    errno.ENETDOWN,
    errno.EADDRNOTAVAIL,
    errno.EACCES,
    errno.EPERM,
    # Ours alone: no descriptor or memory for a socket.
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOBUFS,
    errno.ENOMEM,
}
_TLS_RECORD_TYPES = range(0x14, 0x18)


def classify(problem: BaseException) -> UnseenError:
    """What an exception of the connection layer means.

    Returns:
        The UnseenError to raise `from` it; an UnseenError found inside is returned as it is.
    """
    chain = list(_causes(problem))
    for rule in _RULES:
        for cause in chain:
            if (found := rule(cause)) is not None:
                return found
    if isinstance(problem, kafka_errors.KafkaConnectionError | kafka_errors.Cancelled):
        return UnseenError(Reason.CLOSED, "it closed the connection")
    return UnseenError(Reason.CLOSED, f"the connection ended: {type(problem).__name__}")


def of_errno(number: int, where: str) -> UnseenError:
    """What an errno of connect() or of a socket means."""
    name = errno.errorcode.get(number, str(number))
    if number == errno.ECONNREFUSED:
        return UnseenError(Reason.REFUSED, f"{where} refuses connections")
    if number == errno.ETIMEDOUT:
        return UnseenError(Reason.TIMED_OUT, f"{where}: nobody answered ({name})")
    if number in _UNREACHABLE:
        return UnseenError(Reason.UNREACHABLE, f"{where} cannot be reached from here ({name})")
    return UnseenError(Reason.CLOSED, f"{where} ended the connection ({name})")


def of_code(code: int, asked: str) -> UnseenError:
    """What an error code in an answer means, where the caller has no use of its own for it."""
    name = kafka_errors.for_code(code).__name__
    match code:
        case -1:
            # Only at top level: AuthorizerNotReadyException. A restarted controller that has met no leader yet.
            return UnseenError(Reason.NOT_READY, f"{asked}: its authorizer is not ready, it knows no leader yet")
        case 31:
            return UnseenError(Reason.DENIED, f"{asked} needs {_RIGHTS.get(asked, 'a right')} on CLUSTER")
        case 6 | 74 | 75:
            return UnseenError(Reason.NO_LEADER, f"{asked}: it does not lead, and names no leader")
        case 104:
            return UnseenError(Reason.WRONG_CLUSTER, f"{asked}: a node of another cluster answers here")
        case 3 | 100:
            return UnseenError(Reason.UNSUPPORTED, f"{asked}: it does not serve the metadata log (a broker?)")
        case 7:
            return UnseenError(Reason.TIMED_OUT, f"{asked}: it waited in vain for the active controller")
        case 33 | 34 | 58:
            return UnseenError(Reason.NOT_AUTHENTICATED, f"{asked}: {name}")
        case _:
            return UnseenError(Reason.UNSUPPORTED, f"{asked}: error {code} ({name})")


_RIGHTS = {
    "Fetch": "CLUSTER_ACTION",
    "FetchSnapshot": "CLUSTER_ACTION",
    "DescribeQuorum": "DESCRIBE",
    "DescribeCluster": "ALTER (at a controller)",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
}


def _causes(problem: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException] = [problem]
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inside = (one.__cause__, one.__context__, *one.args)
        waiting.extend(cause for cause in inside if isinstance(cause, BaseException))


def _ours(cause: BaseException) -> UnseenError | None:
    return cause if isinstance(cause, UnseenError) else None


def _tls(cause: BaseException) -> UnseenError | None:
    if isinstance(cause, ssl.SSLWantReadError | ssl.SSLWantWriteError):
        return None  # only where a handshake waited when its time was up
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = _CERTIFICATE.get(cause.verify_code, f"its certificate is not trusted ({cause.verify_message})")
        return UnseenError(Reason.TLS_FAILED, why)
    if isinstance(cause, ssl.SSLEOFError):
        return UnseenError(Reason.TLS_FAILED, "it ended the TLS handshake: is this a plaintext listener?")
    if isinstance(cause, ssl.SSLError):
        reason = str(cause.reason or "unknown")
        return UnseenError(Reason.TLS_FAILED, _ALERT.get(reason, reason.replace("_", " ").lower()))
    return None


def _login(cause: BaseException) -> UnseenError | None:
    if isinstance(cause, kafka_errors.UnsupportedSaslMechanismError):
        return UnseenError(Reason.NOT_AUTHENTICATED, "it does not offer our sasl_mechanism")
    if isinstance(cause, kafka_errors.IllegalSaslStateError):
        return UnseenError(Reason.NOT_AUTHENTICATED, "it wants no SASL login on this listener (security_protocol)")
    if isinstance(cause, kafka_errors.SaslAuthenticationFailedError):
        return UnseenError(Reason.NOT_AUTHENTICATED, "it refused our login")
    if isinstance(cause, kafka_errors.KafkaConfigurationError):
        return UnseenError(Reason.NOT_AUTHENTICATED, f"our own options do not do: {cause}")
    return None


def _socket(cause: BaseException) -> UnseenError | None:
    # An SSLError's errno is none of the system's.
    if isinstance(cause, OSError) and cause.errno is not None and not isinstance(cause, TimeoutError | ssl.SSLError):
        return of_errno(cause.errno, "it")
    return None


def _frame(cause: BaseException) -> UnseenError | None:
    if isinstance(cause, kafka_errors.InvalidReceiveError):
        length = int(str(cause.args[0]).rpartition(" ")[2])
        if (length >> 24) & 0xFF in _TLS_RECORD_TYPES:
            return UnseenError(Reason.TLS_FAILED, "it speaks TLS (security_protocol=SSL or SASL_SSL)")
        return UnseenError(Reason.UNDECODABLE, f"it does not speak Kafka's protocol (a frame of {length} bytes)")
    if isinstance(cause, kafka_errors.KafkaProtocolError):
        return UnseenError(Reason.UNDECODABLE, "its answer cannot be decoded")
    return None


def _version(cause: BaseException) -> UnseenError | None:
    if isinstance(cause, kafka_errors.IncompatibleBrokerVersion):
        return UnseenError(Reason.UNSUPPORTED, "it does not offer this request")
    return None


def _timeout(cause: BaseException) -> UnseenError | None:
    if isinstance(cause, kafka_errors.RequestTimedOutError | kafka_errors.KafkaTimeoutError | TimeoutError):
        return UnseenError(Reason.TIMED_OUT, "it did not answer in time")
    return None


_RULES: tuple[Callable[[BaseException], UnseenError | None], ...] = (
    _ours,
    _tls,
    _login,
    _socket,
    _frame,
    _version,
    _timeout,
)
