"""A cluster that cannot be reached."""

import socket

from connectors.kafka.cluster_connection import ClusterConnection

SECRET = "secret-password"


def unused_address() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return "127.0.0.1", port


def unreachable_cluster() -> ClusterConnection:
    options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_password": SECRET}
    return ClusterConnection(name="a", bootstrap=(unused_address(), unused_address()), options=options)
