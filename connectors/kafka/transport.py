"""Connects to resolved addresses, and carries bytes over TCP and TLS.

TLS is OpenSSL's, over memory: asyncio's own reports a node that ends the handshake as a reset connection, which does
not show what OpenSSL knows of it, and reserves 256 KiB for each connection.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from kafka import errors as kafka_errors

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address
from connectors.kafka.credentials import tls_context, uses_tls
from connectors.kafka.error_classification import MOST_SPECIFIC_FIRST, error_from_errno
from connectors.kafka.event_loop import EventLoop
from rules.model.identifiers import Millis
from rules.model.monitoring import ENCRYPTION, Reason, ServerCertificate

if TYPE_CHECKING:
    from cryptography import x509

_READ_BYTES: Final = 256 * 1024
_MOST_NAME: Final = 200
_KEY_BYTES: Final = 8
_MOST_SENT: Final = 10
"""More certificates than a node sends with its own, and usages than one has: what follows is ignored."""
_USAGES: Final = {"1.3.6.1.5.5.7.3.1": "server", "1.3.6.1.5.5.7.3.2": "client"}
"""The extended key usages that Kafka's TLS needs, by object identifier (RFC 5280, 4.2.1.12)."""


async def connect(loop: EventLoop, addresses: Sequence[str], port: int, *, deadline: float) -> socket.socket:
    """Opens a TCP connection to the first address that accepts one; each gets an equal share of the remaining time.

    Raises:
        ObservationError: the most specific failure; REFUSED is more specific than UNREACHABLE.
    """
    failures = []
    for at, address in enumerate(addresses):
        share = (deadline - loop.now()) / (len(addresses) - at)
        try:
            return await _connect(loop, address, port, seconds=share)
        except ObservationError as problem:
            failures.append(problem)
    raise min(failures, key=lambda failure: MOST_SPECIFIC_FIRST.index(failure.reason))


async def _connect(loop: EventLoop, address: str, port: int, *, seconds: float) -> socket.socket:
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    with ExitStack() as opened:
        try:
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            opened.callback(sock.close)
            sock.settimeout(0)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await _handshake(loop, sock, (address, port), seconds)
        except socket.gaierror as problem:
            # The only part of an address that is looked up is the interface of a link-local one.
            raise ObservationError(Reason.UNREACHABLE, f"{where}: this machine has no such interface") from problem
        except OSError as problem:
            if not isinstance(problem, TimeoutError) or problem.errno is not None:
                raise error_from_errno(problem.errno or 0, where) from problem
            raise ObservationError(Reason.TIMED_OUT, f"{where}: the connection is not accepted") from problem
        opened.pop_all()
    return sock


async def _handshake(loop: EventLoop, sock: socket.socket, to: tuple[str, int], seconds: float) -> None:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await loop.asyncio.sock_connect(sock, to)
    except TimeoutError as problem:
        # A loop that is late learns of both at once: the connection, and the end of the time.
        if problem.errno is not None or not _is_connected(sock):
            raise


def _is_connected(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


class Receiver(Protocol):
    """What a transport passes its bytes to. Neither method raises."""

    def received(self, data: bytes) -> None:
        """Takes what has arrived."""

    def lost(self, problem: Exception) -> None:
        """Learns, once, why nothing more will arrive."""


class PlainTransport(asyncio.Protocol):
    """A TCP connection."""

    def __init__(self, receiver: Receiver | None) -> None:
        """`receiver`: None: what arrives is discarded."""
        self._receiver = receiver
        self._socket: asyncio.Transport | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Notes asyncio's transport."""
        # uvloop's is no subclass of asyncio's.
        self._socket = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Passes on what has arrived."""
        if self._receiver is not None and not self.closed:
            self._receiver.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Passes on why the connection ended."""
        self._end(exc or _closed_by_node())

    def write(self, data: bytes) -> None:
        """Sends at once what the socket takes, and the rest later."""
        if self._socket is not None and not self.closed:
            self._socket.write(data)

    def abort(self) -> None:
        """Closes the connection. The receiver learns of it unless the connection had ended."""
        self._end(_closed_by_node())

    def certificate(self) -> ServerCertificate | None:
        """Returns the node's certificate: there is none without TLS."""
        return None

    def _end(self, problem: Exception) -> None:
        if self.closed:
            return
        self.closed = True
        if self._socket is not None:
            self._socket.abort()
        if self._receiver is not None:
            self._receiver.lost(problem)


def _closed_by_node() -> Exception:
    problem: Exception = kafka_errors.KafkaConnectionError("closed by the other side")
    return problem


class TlsTransport(PlainTransport):
    """TLS over a TCP connection."""

    def __init__(self, receiver: Receiver | None, context: ssl.SSLContext, host: str) -> None:
        """`host`: the name that the node's certificate must have, if the context verifies it."""
        super().__init__(receiver)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host.rstrip("."))
        self._verifies = context.verify_mode is not ssl.CERT_NONE
        self._handshake: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def handshake(self, seconds: float) -> None:
        """Completes the TLS handshake, or raises ssl.SSLError, another failure, or TimeoutError after so long."""
        self._continue()
        async with asyncio.timeout(max(0.0, seconds)):
            await self._handshake

    def data_received(self, data: bytes) -> None:
        """Decrypts what has arrived, and passes it on."""
        if not self.closed:
            self._incoming.write(data)
            self._continue()

    def eof_received(self) -> None:
        """Lets OpenSSL judge an end of the stream."""
        if not self.closed:
            self._incoming.write_eof()
            self._continue()

    def write(self, data: bytes) -> None:
        """Encrypts and sends."""
        if self.closed:
            return
        try:
            self._tls.write(data)
        except ssl.SSLError as problem:
            self._end(problem)
        self._flush()

    def certificate(self) -> ServerCertificate | None:
        """Returns the certificate of the handshake; None if it cannot be decoded."""
        from cryptography import x509

        try:
            presented = x509.load_der_x509_certificate(self._tls.getpeercert(binary_form=True) or b"")
            begins, expires = presented.not_valid_before_utc.timestamp(), presented.not_valid_after_utc.timestamp()
        except (ValueError, OSError):
            return None
        return ServerCertificate(
            valid_from_ms=Millis(round(begins * 1000)),
            expires_at_ms=Millis(round(expires * 1000)),
            verified=self._verifies,
            authority=_issuer(presented),
            key=_key(presented),
            usages=_usages(presented),
            chain=self._issuers_of_further(),
            suite=" ".join(filter(None, (self._tls.version(), (self._tls.cipher() or ("",))[0]))) or None,
        )

    def _issuers_of_further(self) -> tuple[str, ...]:
        """Returns who issued each certificate that the node sends with its own, as it sends them."""
        from cryptography import x509

        # Public from Python 3.13 on (SSLObject.get_unverified_chain), and there since 3.10.
        sent = self._tls._sslobj.get_unverified_chain() or ()  # type: ignore[attr-defined]
        try:
            further = [x509.load_pem_x509_certificate(one.public_bytes().encode()) for one in sent[1 : 1 + _MOST_SENT]]
            return tuple(_issuer(one) or "no name" for one in further)
        except ValueError:
            # OpenSSL reads more than this: what was not needed to verify the node's own may be damaged.
            return ()

    def _continue(self) -> None:
        """Goes on with the handshake, or reads, as far as what has arrived allows."""
        try:
            if not self._handshake.done():
                self._tls.do_handshake()
                self._handshake.set_result(None)
            while not self.closed:
                data = self._tls.read(_READ_BYTES)
                if not data:
                    self._end(_closed_by_node())
                    return
                super().data_received(data)
        except ssl.SSLWantReadError:
            self._flush()
        except (OSError, ValueError) as problem:
            self._flush()  # OpenSSL's alert to the node
            after = self._handshake.done() and isinstance(problem, ssl.SSLEOFError)
            self._end(_closed_by_node() if after else problem)

    def _flush(self) -> None:
        if self._socket is not None and self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    def _end(self, problem: Exception) -> None:
        if not self._handshake.done():
            self._handshake.set_exception(problem)
            self._handshake.exception()  # nobody may be waiting any more
        super()._end(problem)


async def open_transport(
    loop: EventLoop,
    addresses: Sequence[str],
    address: Address,
    options: Mapping[str, Any],
    *,
    deadline: float,
    connected: Callable[[], Awaitable[float]],
    receiver: Receiver | None = None,
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
        if uses_tls(options):
            context = tls_context(options) if verify else _context_without_trust()
            transport: PlainTransport = TlsTransport(receiver, context, address.host)
        else:
            transport = PlainTransport(receiver)
        opened.callback(transport.abort)
        await loop.asyncio.create_connection(lambda: transport, sock=sock)
        if isinstance(transport, TlsTransport):
            await transport.handshake(handshake_deadline - loop.now())
        opened.pop_all()
    return transport


def _issuer(certificate: "x509.Certificate") -> str | None:
    """Returns the name of a certificate's issuer and, as a replaced authority often keeps its name, of its key."""
    from cryptography import x509

    name = certificate.issuer.rfc4514_string()[:_MOST_NAME] or None
    try:
        key = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return name
    return name if key is None else f"{name or 'no name'} (key {key[:_KEY_BYTES].hex()})"


def _key(certificate: "x509.Certificate") -> str | None:
    """Returns the kind and the size of a certificate's key; None if it cannot be decoded."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None
    curve, size = getattr(key, "curve", None), getattr(key, "key_size", "")
    kind = type(key).__name__.removesuffix("PublicKey")
    return f"{kind} {size if curve is None else curve.name}".strip()


def _usages(certificate: "x509.Certificate") -> tuple[str, ...]:
    from cryptography import x509

    found = certificate.extensions
    try:
        signs = [one.value.digital_signature for one in found if isinstance(one.value, x509.KeyUsage)]
        listed = [
            each.dotted_string for one in found if isinstance(one.value, x509.ExtendedKeyUsage) for each in one.value
        ]
    except (x509.DuplicateExtension, ValueError):
        return ()
    return tuple(
        sorted([*(_USAGES.get(one, one) for one in listed), *(ENCRYPTION for one in signs if not one)])[:_MOST_SENT]
    )


def _context_without_trust() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
