"""Sockets under kafka-python's connection: connect with our own addresses, and two transports with its faults cured.

What stock kafka-python 3.0.12 does wrong, and what is done here instead:

- bytes that come together with the end of the stream are thrown away, and with them the sentence that says why
  a login failed: here they are delivered first;
- a TLS handshake has no deadline, so a stopped controller holds its connection for ever: here it has one;
- its TLS context cannot revoke, and may ask the terminal for a password: `connectors.kafka.credentials` makes ours;
- an answer that cannot be decoded ends the reading task silently: here it ends the connection;
- 4 KiB a read: here 256 KiB.
"""

import errno
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.errors import UnseenError
from connectors.kafka.credentials import tls_context
from connectors.kafka.error_classification import of_errno
from connectors.kafka.event_loop import Loop
from connectors.kafka.kafka_python import KafkaSSLTransport, KafkaTCPTransport, kafka_errors
from rules.model.monitoring import Reason

_READ_BYTES = 256 * 1024
_UNDER_WAY = (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK)
_STRONGEST = (Reason.REFUSED, Reason.CLOSED, Reason.TIMED_OUT, Reason.UNREACHABLE)


async def connect(loop: Loop, addresses: Sequence[str], port: int, *, deadline: float) -> socket.socket:
    """A TCP connection to the first address that accepts one.

    Args:
        loop: whose thread this is.
        addresses: of one host, at least one; each gets an equal share of the time that is left.
        port: the port.
        deadline: by `loop.now()`.

    Raises:
        UnseenError: the most telling failure: one refused says more than one unreachable.
    """
    failures = []
    for at, address in enumerate(addresses):
        share = (deadline - loop.now()) / (len(addresses) - at)
        try:
            return await _connect(loop, address, port, deadline=loop.now() + share)
        except UnseenError as problem:
            failures.append(problem)
    raise min(failures, key=lambda failure: _STRONGEST.index(failure.reason))


async def _connect(loop: Loop, address: str, port: int, *, deadline: float) -> socket.socket:
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    try:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as problem:
        raise of_errno(problem.errno or 0, where) from problem
    try:
        code = await _handshake(loop, sock, (address, port), deadline)
    except kafka_errors.KafkaTimeoutError as problem:
        sock.close()
        raise UnseenError(Reason.TIMED_OUT, f"{where}: nobody accepts the connection") from problem
    except OSError as problem:
        sock.close()
        raise of_errno(problem.errno or 0, where) from problem
    except BaseException:
        sock.close()
        raise
    if code:
        sock.close()
        raise of_errno(code, where)
    return sock


async def _handshake(loop: Loop, sock: socket.socket, to: tuple[str, int], deadline: float) -> int:
    """TCP's: the errno it ended with, 0 when connected."""
    sock.settimeout(0)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    code = sock.connect_ex(to)
    if code not in _UNDER_WAY:
        return code
    await loop.net.wait_write(sock, timeout_at=deadline)
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


class PlainTransport(KafkaTCPTransport):  # type: ignore[misc]
    """TCP that delivers the last bytes before it says that the stream has ended."""

    async def _read_from_sock(self) -> None:
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            received, problem = self._sock_recv()
            if received:
                self._deliver(received)
            if received and problem is not None:
                # Whoever waits for these bytes has its turn before it hears that there are no more.
                await self._net.sleep(0)
            if problem is not None and not self._closed:
                self.abort(error=problem)

    def _deliver(self, received: bytes) -> None:
        try:
            self._protocol.data_received(received)
        except kafka_errors.KafkaError as problem:
            self.abort(error=problem)
        except Exception as problem:  # noqa: BLE001 - any bytes may come; none may leave a dead reader behind
            broken = kafka_errors.KafkaProtocolError(f"{type(problem).__name__} while decoding")
            self.abort(error=broken)

    def _sock_recv(self) -> tuple[bytes, BaseException | None]:
        received: list[bytes] = []
        while True:
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


class TlsTransport(PlainTransport, KafkaSSLTransport):  # type: ignore[misc]
    """TLS with a handshake that ends by its deadline."""

    @property
    def certificate_ends_at(self) -> float | None:
        """Until when the other side's certificate is valid, in seconds since the Unix epoch."""
        ends = (self._sock.getpeercert() or {}).get("notAfter")
        return None if ends is None else float(ssl.cert_time_to_seconds(ends))

    async def handshake_by(self, deadline: float) -> None:
        """Shake hands.

        Raises:
            kafka.errors.KafkaTimeoutError: not by the deadline.
            ssl.SSLError: it failed.
        """
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at=deadline)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at=deadline)
            else:
                return


async def secure(loop: Loop, sock: socket.socket, host: str, options: Mapping[str, Any], *, deadline: float) -> Any:
    """A transport over a connected socket: plaintext or TLS, as `security_protocol` says.

    The certificate is checked against `host`, the name that was asked for, whatever address it led to.

    Raises:
        UnseenError: TLS_FAILED for a file of ours that does not do, naming it. Anything else is for `classify`.
    """
    if options.get("security_protocol", "PLAINTEXT") not in ("SSL", "SASL_SSL"):
        return PlainTransport(loop.net, sock, host=host)
    try:
        transport = TlsTransport(loop.net, sock, host=host, ssl_context=tls_context(options))
    except BaseException:
        sock.close()
        raise
    try:
        await transport.handshake_by(deadline)
    except BaseException:
        transport.abort()
        raise
    return transport
