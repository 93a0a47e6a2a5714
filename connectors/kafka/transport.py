"""Sockets for kafka-python's connections: connect to resolved addresses, and TCP and TLS transports with fixes.

Defects of kafka-python 3.0.12 that are fixed here:

- It discards bytes that arrive together with the end of the stream, and with them the error message of a failed
  login. Here they are delivered first.
- Its TLS handshake has no deadline, so a stopped controller blocks the connection forever. Here it has one.
- Its TLS context does not support revocation lists and may prompt on the terminal for a password.
  `connectors.kafka.credentials` creates the context instead.
- A response that cannot be decoded ends the reading task without an error. Here it ends the connection.
- It reads 4 KiB at a time, and as long as more arrives. Here it reads 256 KiB, and then lets other connections read.
- It registers a socket with epoll before it writes to it. Here it writes first, and waits only if the socket is full.
"""

import errno
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address
from connectors.kafka.credentials import tls_context, uses_tls
from connectors.kafka.error_classification import MOST_SPECIFIC_FIRST, error_from_errno
from connectors.kafka.event_loop import EventLoop
from rules.model.identifiers import Millis
from rules.model.monitoring import Reason, ServerCertificate

_READ_BYTES = 256 * 1024
_IN_PROGRESS = (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK)


async def connect(loop: EventLoop, addresses: Sequence[str], port: int, *, deadline: float) -> socket.socket:
    """Opens a TCP connection to the first address that accepts one; each gets an equal share of the remaining time.

    Raises:
        ObservationError: the most specific failure; REFUSED is more specific than UNREACHABLE.
    """
    failures = []
    for at, address in enumerate(addresses):
        share = (deadline - loop.now()) / (len(addresses) - at)
        try:
            return await _connect(loop, address, port, deadline=loop.now() + share)
        except ObservationError as problem:
            failures.append(problem)
    raise min(failures, key=lambda failure: MOST_SPECIFIC_FIRST.index(failure.reason))


async def _connect(loop: EventLoop, address: str, port: int, *, deadline: float) -> socket.socket:
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    with ExitStack() as opened:
        try:
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            opened.callback(sock.close)
            code = await _handshake(loop, sock, (address, port), deadline)
        except kafka_errors.KafkaTimeoutError as problem:
            raise ObservationError(Reason.TIMED_OUT, f"{where}: the connection is not accepted") from problem
        except OSError as problem:
            raise error_from_errno(problem.errno or 0, where) from problem
        if code:
            raise error_from_errno(code, where)
        opened.pop_all()
    return sock


async def _handshake(loop: EventLoop, sock: socket.socket, to: tuple[str, int], deadline: float) -> int:
    """Completes the TCP handshake; returns its errno, 0 if connected."""
    sock.settimeout(0)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    code = sock.connect_ex(to)
    if code not in _IN_PROGRESS:
        return code
    await loop.net.wait_write(sock, timeout_at=deadline)
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


class PlainTransport(KafkaTCPTransport):  # type: ignore[misc]
    """TCP transport that delivers the last bytes before it reports the end of the stream."""

    def certificate(self) -> ServerCertificate | None:
        """Returns the node's certificate: there is none without TLS."""
        return None

    def write(self, data: bytes | memoryview) -> None:
        """Sends at once what the socket takes; the rest, and an error, are left to the task that waits for it."""
        if self._write and not self._closed and not self._write_buffer:
            try:
                sent = self._sock.send(data)
            except OSError:
                sent = 0
            if sent == len(data):
                self.last_write = time.monotonic()
                return
            data = memoryview(data)[sent:]
        super().write(data)

    async def _read_from_sock(self) -> None:
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            received, problem = self._sock_recv()
            if received:
                try:
                    self._protocol.data_received(received)
                except Exception as failed:  # noqa: BLE001 - whatever the node sent, the connection must end, not only its reading task
                    self.abort(error=_response_failure(failed))
            if received and problem is not None:
                # Let the coroutine that waits for these bytes run before it learns that the stream has ended.
                await self._net.sleep(0)
            if problem is not None and not self._closed:
                self.abort(error=problem)

    def _sock_recv(self) -> tuple[bytes, BaseException | None]:
        received: list[bytes] = []
        # The selector does not see bytes that TLS has decrypted already: they are read too.
        while not received or getattr(self._sock, "pending", int)():
            try:
                piece = self._sock.recv(_READ_BYTES)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return b"".join(received), None
            except ssl.SSLEOFError:
                piece = b""
            except OSError as problem:
                return b"".join(received), kafka_errors.KafkaConnectionError(problem)
            if not piece:
                return b"".join(received), kafka_errors.KafkaConnectionError("closed by the other side")
            received.append(piece)
        return b"".join(received), None


def _response_failure(problem: BaseException) -> Exception:
    """Returns the error of a response that cannot be used, without the bytes that the frames of its traceback hold."""
    match problem:
        case ObservationError():
            return problem.copy()
        case kafka_errors.KafkaError():
            same: Exception = type(problem)(*problem.args)
            return same
        case _:
            unknown: Exception = kafka_errors.KafkaProtocolError(f"{type(problem).__name__} while decoding")
            return unknown


class TlsTransport(PlainTransport, KafkaSSLTransport):  # type: ignore[misc]
    """TLS transport whose handshake has a deadline."""

    def certificate(self) -> ServerCertificate | None:
        """Returns the certificate of the handshake; None if it cannot be decoded."""
        from cryptography import x509

        try:
            presented = x509.load_der_x509_certificate(self._sock.getpeercert(binary_form=True) or b"")
            begins, expires = presented.not_valid_before_utc.timestamp(), presented.not_valid_after_utc.timestamp()
        except (ValueError, OSError):
            return None
        return ServerCertificate(
            valid_from_ms=Millis(round(begins * 1000)),
            expires_at_ms=Millis(round(expires * 1000)),
            verified=self._sock.context.verify_mode is not ssl.CERT_NONE,
        )

    async def handshake_by(self, deadline: float) -> None:
        """Completes the TLS handshake, or raises ssl.SSLError, or KafkaTimeoutError at the deadline."""
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at=deadline)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at=deadline)
            else:
                return


async def open_transport(
    loop: EventLoop,
    addresses: Sequence[str],
    address: Address,
    options: Mapping[str, Any],
    *,
    deadline: float,
    connected: Callable[[], Awaitable[float]],
    verify: bool = True,
) -> PlainTransport:
    """Connects to a node, whose host has these addresses: plaintext or TLS, depending on `security_protocol`.

    `deadline` is that of the TCP connection. `connected` is awaited before the first byte, and returns that of the TLS
    handshake.

    The node's certificate is verified against the host, the configured name, not against the resolved address. Without
    `verify` any certificate is accepted, and no client certificate is sent: the handshake fails if a node with TLS 1.2
    requires one.

    Raises:
        Exception: the failure of the connection or of the handshake, to be passed to `classify`.
    """
    with ExitStack() as opened:
        sock = await connect(loop, addresses, address.port, deadline=deadline)
        opened.callback(sock.close)
        handshake_deadline = await connected()
        transport = PlainTransport(loop.net, sock, host=address.host)
        if uses_tls(options):
            context = tls_context(options) if verify else _context_without_trust()
            transport = tls = TlsTransport(loop.net, sock, host=address.host, ssl_context=context)
            opened.callback(tls.abort)
            await tls.handshake_by(handshake_deadline)
        opened.pop_all()
    return transport


def _context_without_trust() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
