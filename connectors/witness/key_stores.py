"""A node's trust store and key store as PEM files. What is not PEM is read by the keytool of the node's Java."""

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import TYPE_CHECKING

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import open_regular_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

Setting = Callable[[str], str]
"""Returns a setting of Kafka; empty if there is none."""
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END")
_LARGEST = 16 * 1024**2
_KEYTOOL_S = 60
_VARIABLE = "KRAFTWATCH_STORE"
"""The environment variable from which keytool reads the password of a store."""
_ENGLISH = ("-J-Duser.language=en", "-J-Duser.country=US")
_ENTRY = re.compile(r"^Alias name:", re.MULTILINE)


class UnusableError(Exception):
    """This host cannot dial as the node does. The message is a sentence without its end, and has no secret."""


def content_of(file: Path) -> bytes:
    """Returns the content of a file that the node reads too. Raises UsageError if it cannot be read."""
    try:
        with open_regular_file(file) as opened:
            return opened.read(_LARGEST)
    except OSError as problem:
        advice = "; run it as the user that Kafka runs as" if isinstance(problem, PermissionError) else ""
        raise UsageError(f"cannot read {file}: {(problem.strerror or 'unreadable').lower()}{advice}") from None


def trust_options(of: Setting, scratch: Path, keytool: Path | None) -> dict[str, str]:
    """Returns the option of the certificates that the node trusts.

    Which entries of a store Java trusts, its own keytool lists: a PKCS12 file may hold others.
    """
    location, kind = of("ssl.truststore.location"), of("ssl.truststore.type").upper()
    if kind == "PEM":
        if inline := of("ssl.truststore.certificates"):
            return {"ssl_cafile": written(scratch / "trust.pem", _lines(inline))}
        return {"ssl_cafile": _named(location, "ssl.truststore.location")}
    if not location:
        raise UnusableError(
            "ssl.truststore.location is missing: the node trusts what its Java does, which kraftwatch does not read"
        )
    listed = _listed(keytool, location, content_of(Path(location)), of("ssl.truststore.password"))
    # TrustStoreUtil.getTrustedCerts: of an entry with a key its own certificate, not the chain.
    entries = [_PEM.findall(entry) for entry in _ENTRY.split(listed.decode("utf-8", "replace"))]
    trusted = "".join(
        f"-----BEGIN {kind}-----{text}-----END {kind}-----\n" for (kind, text), *_ in filter(None, entries)
    )
    if not trusted:
        raise UnusableError(
            f"{location} holds no certificate that Java trusts: was it made by OpenSSL without -jdktrust, or is "
            "ssl.truststore.password missing?"
        )
    return {"ssl_cafile": written(scratch / "trust.pem", trusted.encode())}


def key_options(of: Setting, scratch: Path, keytool: Path | None) -> dict[str, str]:
    """Returns the options of the node's own certificate and key; none if it has none."""
    location, kind = of("ssl.keystore.location"), of("ssl.keystore.type").upper()
    password = {"ssl_password": of("ssl.key.password")} if of("ssl.key.password") else {}
    if kind == "PEM" and of("ssl.keystore.key"):
        text = f"{of('ssl.keystore.key')}\n{of('ssl.keystore.certificate.chain')}\n"
        return {"ssl_certfile": written(scratch / "own.pem", _lines(text)), **password}
    if not location:
        return {}
    if kind == "PEM":
        return {"ssl_certfile": location, **password}
    from cryptography.hazmat.primitives import serialization

    store = _pkcs12(location, of("ssl.keystore.password"), keytool)
    if store.key is None or store.cert is None:
        raise UnusableError(f"{location} has no key with a certificate")
    key = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = _pem([store.cert.certificate, *(one.certificate for one in store.additional_certs)])
    return {"ssl_certfile": written(scratch / "own.pem", key + chain)}


def _named(location: str, name: str) -> str:
    if not location:
        raise UnusableError(f"{name} is missing")
    return location


def _lines(inline: str) -> bytes:
    """Returns PEM in lines, as OpenSSL needs it: a property may have it in one (DefaultSslEngineFactory)."""
    return "".join(
        f"-----BEGIN {kind}-----\n{fill(''.join(text.split()), 64)}\n-----END {kind}-----\n"
        for kind, text in _PEM.findall(inline)
    ).encode()


def _pem(certificates: Iterable[object]) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)  # type: ignore[attr-defined]


def written(file: Path, content: bytes) -> str:
    """Writes a file that nobody else can read, and returns its path."""
    file.touch(mode=0o600)
    file.write_bytes(content)
    return str(file)


def _pkcs12(location: str, password: str, keytool: Path | None) -> "PKCS12KeyAndCertificates":
    """Reads a key store; one that is no PKCS12 file, or encrypted in an old way, is converted first."""
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    content = content_of(Path(location))
    with suppress(ValueError):
        return load_pkcs12(content, password.encode() or None)
    try:
        return load_pkcs12(_converted(keytool, location, content, password), password.encode() or None)
    except ValueError:
        raise UnusableError(f"{location} cannot be read with its password") from None


@lru_cache(maxsize=8)
def _listed(keytool: Path | None, location: str, content: bytes, password: str) -> bytes:
    """Returns what Java's keytool lists of a store: once, as long as its content stays."""
    options = ("-list", "-rfc", *_ENGLISH, "-keystore")
    return _run_keytool(keytool, location, content, options, "-storepass:env", password)


@lru_cache(maxsize=8)
def _converted(keytool: Path | None, location: str, content: bytes, password: str) -> bytes:
    """Returns a store as PKCS12 that is not encrypted in an old way: once, as long as its content stays."""
    with TemporaryDirectory(prefix="kraftwatch-") as folder:
        target = Path(folder) / "store.p12"
        to = ("-destkeystore", str(target), "-deststoretype", "PKCS12", "-deststorepass:env", _VARIABLE)
        options = ("-importkeystore", "-noprompt", *to, "-srckeystore")
        _run_keytool(keytool, location, content, options, "-srcstorepass:env", password)
        return target.read_bytes() if target.exists() else b""


def _run_keytool(
    keytool: Path | None, location: str, content: bytes, options: Sequence[str], secret: str, password: str
) -> bytes:
    """Returns what keytool prints of a store. The password is no argument: others could read it."""
    if keytool is None:
        raise UnusableError(
            f"{location} is read by Java's keytool, and none is found: put Java's bin folder on the PATH"
        )
    with TemporaryDirectory(prefix="kraftwatch-") as folder:
        source = written(Path(folder) / "store", content)
        try:
            return subprocess.run(
                [keytool, *options, source, *((secret, _VARIABLE) if password else ())],
                env={**os.environ, _VARIABLE: password},
                input=b"\n",
                capture_output=True,
                timeout=_KEYTOOL_S,
                check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            raise UnusableError(f"{location} cannot be read by keytool with its password") from None
