"""A node's trust store and key store as PEM files: PEM, PKCS12, and JKS where this host has Java's keytool."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
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
_JKS = b"\xfe\xed\xfe\xed"
"""How a JKS file begins. Java reads PKCS12 too where the type is JKS (keystore.type.compat)."""
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END")
_LARGEST = 16 * 1024**2
_KEYTOOL_S = 60


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


def trust_options(of: Setting, scratch: Path) -> dict[str, str]:
    """Returns the option of the certificates that the node trusts."""
    location, kind = of("ssl.truststore.location"), of("ssl.truststore.type").upper()
    if kind == "PEM":
        if inline := of("ssl.truststore.certificates"):
            return {"ssl_cafile": _written(scratch / "trust.pem", _lines(inline))}
        return {"ssl_cafile": _named(location, "ssl.truststore.location")}
    if not location:
        raise UnusableError(
            "ssl.truststore.location is missing: the node trusts what its Java does, which kraftwatch does not read"
        )
    store = _pkcs12(location, of("ssl.truststore.password"))
    trusted = (*store.additional_certs, *filter(None, (store.cert,)))
    return {"ssl_cafile": _written(scratch / "trust.pem", _pem(one.certificate for one in trusted))}


def key_options(of: Setting, scratch: Path) -> dict[str, str]:
    """Returns the options of the node's own certificate and key; none if it has none."""
    location, kind = of("ssl.keystore.location"), of("ssl.keystore.type").upper()
    password = {"ssl_password": of("ssl.key.password")} if of("ssl.key.password") else {}
    if kind == "PEM" and of("ssl.keystore.key"):
        text = f"{of('ssl.keystore.key')}\n{of('ssl.keystore.certificate.chain')}\n"
        return {"ssl_certfile": _written(scratch / "own.pem", _lines(text)), **password}
    if not location:
        return {}
    if kind == "PEM":
        return {"ssl_certfile": location, **password}
    from cryptography.hazmat.primitives import serialization

    store = _pkcs12(location, of("ssl.keystore.password"))
    if store.key is None or store.cert is None:
        raise UnusableError(f"{location} has no key with a certificate")
    key = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = _pem([store.cert.certificate, *(one.certificate for one in store.additional_certs)])
    return {"ssl_certfile": _written(scratch / "own.pem", key + chain)}


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


def _written(file: Path, content: bytes) -> str:
    file.touch(mode=0o600)
    file.write_bytes(content)
    return str(file)


def _pkcs12(location: str, password: str) -> "PKCS12KeyAndCertificates":
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    content = content_of(Path(location))
    if content.startswith(_JKS):
        content = _converted(location, content, password)
    try:
        return load_pkcs12(content, password.encode() or None)
    except ValueError:
        raise UnusableError(f"{location} cannot be read as PKCS12 with its password") from None


@lru_cache(maxsize=8)
def _converted(location: str, content: bytes, password: str) -> bytes:
    """Returns a JKS file as PKCS12, by the keytool of this host: once, as long as its content stays.

    The password is no argument of the program: others could read it.
    """
    keytool = shutil.which("keytool")
    if keytool is None:
        raise UnusableError(f"{location} is a JKS file, and no keytool is found: put Java's bin folder on the PATH")
    with TemporaryDirectory(prefix="kraftwatch-") as folder:
        source, target = Path(folder) / "store.jks", Path(folder) / "store.p12"
        source.write_bytes(content)
        stores = ("-srckeystore", str(source), "-destkeystore", str(target), "-deststoretype", "PKCS12")
        passwords = ("-srcstorepass:env", "KRAFTWATCH_STORE", "-deststorepass:env", "KRAFTWATCH_STORE")
        try:
            subprocess.run(
                [keytool, "-importkeystore", "-noprompt", *stores, *passwords],
                env={**os.environ, "KRAFTWATCH_STORE": password},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_KEYTOOL_S,
                check=True,
            )
            return target.read_bytes()
        except (OSError, subprocess.SubprocessError):
            raise UnusableError(f"{location} is a JKS file that keytool cannot convert with its password") from None
