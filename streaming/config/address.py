"""Addresses in the configuration: HOST:PORT."""

from typing import Annotated

from pydantic import AfterValidator, Field


def host_port(address: str) -> tuple[str, int]:
    """Returns HOST:PORT (or [V6]:PORT) as a pair.

    Raises:
        ValueError: the address does not have this form.
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"'{address}' is not HOST:PORT")
    return host, int(port)


def _checked(addresses: tuple[str, ...]) -> tuple[str, ...]:
    for address in addresses:
        host_port(address)
    return addresses


Bootstrap = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_checked)]
"""HOST:PORT of nodes that are contacted first."""
