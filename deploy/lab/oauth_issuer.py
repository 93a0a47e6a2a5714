"""Issues OAUTHBEARER tokens: signed JWTs, and the JWKS file with which Kafka verifies their signature."""

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

_KEY_ID = "lab"


class TokenIssuer:
    """Kafka reads `jwks_file` by its URL if the JVM's options allow that URL."""

    def __init__(self, folder: Path) -> None:
        """Creates a key and writes its public half to `jwks_file`."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.jwks_file = folder / "jwks.json"
        public = self._key.public_key().public_numbers()
        n, e = (_base64url(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (public.n, public.e))
        jwk = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, "n": n, "e": e}
        self.jwks_file.write_text(json.dumps({"keys": [jwk]}), encoding="ascii")

    def token(self, subject: str, *, lifetime_s: int = 3600) -> str:
        """Returns a token for this principal, issued an hour ago; a negative `lifetime_s` makes an expired one."""
        now = int(time.time())
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        claims: dict[str, str | int] = {"sub": subject, "scope": "kafka", "iat": now - 3600, "exp": now + lifetime_s}
        signing_input = f"{_base64url_json(header)}.{_base64url_json(claims)}"
        signature = self._key.sign(signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signing_input}.{_base64url(signature)}"


def _base64url_json(value: Mapping[str, str | int]) -> str:
    return _base64url(json.dumps(value).encode())


def _base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")
