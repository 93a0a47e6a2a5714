"""Settings of a client."""

PASSWORD = "secret-password"


PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "monitor",
    "sasl_plain_password": PASSWORD,
}
