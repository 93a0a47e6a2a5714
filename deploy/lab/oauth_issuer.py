"""An issuer of OAUTHBEARER tokens: signed JWTs, and the JWKS file by which Kafka checks their signature."""

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

_KEY_ID = "lab"


class TokenIssuer:
    """Kafka reads `jwks_file` by its URL, where the JVM is allowed to."""

    def __init__(self, folder: Path) -> None:
        """Makes a key, and writes its public half."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.jwks_file = folder / "jwks.json"
        public = self._key.public_key().public_numbers()
        n, e = (_word(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (public.n, public.e))
        shown = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, "n": n, "e": e}
        self.jwks_file.write_text(json.dumps({"keys": [shown]}), encoding="ascii")

    def token(self, subject: str, *, lasts_s: int = 3600) -> str:
        """A token for this principal, issued an hour ago; a negative `lasts_s` makes one that has expired."""
        now = int(time.time())
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        claims: dict[str, str | int] = {"sub": subject, "scope": "kafka", "iat": now - 3600, "exp": now + lasts_s}
        signed = f"{_part(header)}.{_part(claims)}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_word(signature)}"


def _part(value: Mapping[str, str | int]) -> str:
    return _word(json.dumps(value).encode())


def _word(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")
