"""Who may read and change what the page shows: TLS, and tokens of which requests must carry one. Both are optional."""

import base64
import binascii
import hmac
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from pathlib import Path

from connectors.errors import UsageError
from connectors.settings.secret import Secret


class Permission(Enum):
    """What a request may do."""

    NOTHING = "nothing"
    READ = "read"
    CHANGE = "change"
    WITNESS = "witness"
    """Report what a controller's host sees, and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAccess:
    """The certificate with which the page is served, and its tokens. Without a token all may read who can connect."""

    certfile: Path | None = None
    """PEM: the certificate and those of its issuers; None serves plain HTTP."""
    keyfile: Path | None = None
    """PEM: the private key; None if it is in `certfile`."""
    token: Secret | None = None
    """The token with which requests read and change; None: nothing can be changed."""
    read_token: Secret | None = None
    """The token with which requests only read."""
    witness_token: Secret | None = None
    """The token with which controllers' hosts report what they see, and do nothing else."""

    def tls(self) -> ssl.SSLContext | None:
        """Returns the context for TLS 1.2 and newer; None without a certificate.

        Raises:
            UsageError: the files cannot be read, or do not hold a certificate and its unencrypted key.
        """
        if self.certfile is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        files = " and ".join(str(file) for file in (self.certfile, self.keyfile) if file is not None)
        try:
            # Without a password function OpenSSL would ask for the password on the terminal.
            context.load_cert_chain(self.certfile, self.keyfile, password=lambda: b"")
        except ssl.SSLError:
            raise UsageError(f"listen_certfile: {files} must hold a PEM certificate and its unencrypted key") from None
        except OSError as problem:
            reason = (problem.strerror or "unreadable").lower()
            raise UsageError(f"listen_certfile: cannot read {files}: {reason}") from None
        return context

    @property
    def _tokens(self) -> Mapping[Permission, tuple[str, Secret]]:
        """The tokens that there are, each with the key that names its file."""
        given = {
            Permission.CHANGE: ("listen_token_file", self.token),
            Permission.READ: ("listen_read_token_file", self.read_token),
            Permission.WITNESS: ("listen_witness_token_file", self.witness_token),
        }
        return {permission: (key, token) for permission, (key, token) in given.items() if token is not None}

    def check_tokens(self) -> None:
        """Reads the tokens, so that an unreadable, empty or long file is a UsageError at the start, and equal ones."""
        for key, token in self._tokens.values():
            token.check(key)
        for (first, one), (second, other) in combinations(self._tokens.values(), 2):
            if one.read() == other.read():
                raise UsageError(f"{second}: has the token of {first}: make another token")

    def permission(self, authorization: str | None) -> Permission:
        """Returns what a request with this Authorization header may do.

        The header is `Bearer TOKEN`, or `Basic` with any user name and the token as the password, which a browser can
        send.

        Raises:
            UsageError: the file of a token cannot be read.
        """
        sent = _sent_token(authorization or "")
        for permission, (_, token) in self._tokens.items():
            # The comparison takes equally long wherever the texts differ.
            if hmac.compare_digest(sent, token.read().encode()):
                return permission
        return Permission.READ if self.token is None and self.read_token is None else Permission.NOTHING


def is_bearer(authorization: str | None) -> bool:
    """Whether an Authorization header is one that no browser adds by itself."""
    return (authorization or "").partition(" ")[0].lower() == "bearer"


def _sent_token(authorization: str) -> bytes:
    scheme, _, value = authorization.partition(" ")
    match scheme.lower():
        case "bearer":
            # WSGI passes each byte of a header as one character.
            return value.encode("latin-1", "replace").strip()
        case "basic":
            try:
                return base64.b64decode(value, validate=True).partition(b":")[2]
            except (binascii.Error, ValueError):
                return b""
        case _:
            return b""
