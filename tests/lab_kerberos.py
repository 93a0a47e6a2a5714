"""A Kerberos realm on loopback: a KDC (Debian's krb5-kdc), service principals for nodes and keytabs for clients."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

from deploy.lab.addresses import LOOPBACK, Ports
from deploy.lab.child_process import ChildProcess, wait_until
from deploy.lab.kafka_requests import accepts_connections
from deploy.lab.node import Listener
from tests.conftest import SKIP_REASON

REALM = "KRAFTWATCH.INVALID"
_DEBIAN_PACKAGES = Path("/usr/lib/python3/dist-packages")
_KRB5_CONF = """[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  # The claimed port is free for TCP only.
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = {kdc}
  }}
"""
_KDC_CONF = """[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = {kdc}
[realms]
  {realm} = {{
    database_name = {folder}/principals
    key_stash_file = {folder}/stash
    acl_file = {folder}/acl
  }}
[logging]
  kdc = FILE:{folder}/requests.log
"""


class KerberosRealm:
    """A realm and its KDC; a context manager. The KDC is a child process and writes to `folder` alone."""

    def __init__(self, folder: Path) -> None:
        """Creates the database and the files; starts nothing yet."""
        folder.mkdir()
        self.folder = folder
        self._ports = Ports()
        self._kdc = f"{LOOPBACK}:{self._ports.claim()}"
        self.config = folder / "krb5.conf"
        self.config.write_text(_KRB5_CONF.format(realm=REALM, kdc=self._kdc))
        profile = folder / "kdc.conf"
        profile.write_text(_KDC_CONF.format(realm=REALM, kdc=self._kdc, folder=folder))
        self._environment = {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(profile)}
        self._run("kdb5_util", "create", "-s", "-P", "master")

    def __enter__(self) -> Self:
        """Starts the KDC and returns when it accepts connections."""
        words = [f"{name}={value}" for name, value in self._environment.items()]
        self._process = ChildProcess(
            ["env", *words, _program("krb5kdc"), "-n"],
            log=self.folder / "kdc.log",
            supervised=True,
        )
        port = int(self._kdc.rpartition(":")[2])
        wait_until(lambda: accepts_connections(port), timeout_s=60, what="the KDC")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    def pause(self) -> None:
        """Sends SIGSTOP: clients connect and get no answer."""
        self._process.pause()

    def resume(self) -> None:
        self._process.signal(signal.SIGCONT)

    def add(self, principal: str, *, lifetime: str = "1 hour") -> None:
        """Adds a principal with a random key; its tickets are valid for `lifetime`."""
        self._run("kadmin.local", "addprinc", "-randkey", "-maxlife", lifetime, principal)

    def keytab(self, name: str, principal: str) -> Path:
        """Writes a keytab with the principal's current key, and returns its path."""
        file = self.folder / name
        self._run("kadmin.local", "ktadd", "-norandkey", "-k", str(file), principal)
        return file

    def tickets_issued(self, principal: str) -> int:
        """How many ticket-granting tickets the KDC has issued to this principal."""
        lines = (self.folder / "requests.log").read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE:" in line and f" {principal}@{REALM} for " in line for line in lines)

    def listener(self, name: str, protocol: str, service: str) -> Listener:
        """Returns a listener with GSSAPI for the service principal, which it adds; a session lasts two seconds."""
        self.add(service)
        keytab = self.keytab(f"{name}.keytab", service)
        return Listener(
            name=name,
            protocol=protocol,
            properties={
                "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.kerberos.service.name": service.partition("/")[0],
                "gssapi.connections.max.reauth.ms": "2000",
                "gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required isInitiator=false "
                f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{service}@{REALM}";',
            },
        )

    @property
    def java_options(self) -> tuple[str, ...]:
        """The JVM option with which a node reads this realm's configuration."""
        return (f"-Djava.security.krb5.conf={self.config}",)

    def client_environment(self, keytab: Path | None = None) -> Mapping[str, str]:
        """Returns the environment of a client, which keeps its tickets in memory."""
        found = {
            "KRB5_CONFIG": str(self.config),
            "KRB5CCNAME": "MEMORY:kraftwatch",
            "KRB5_CLIENT_KTNAME": str(keytab or self.folder / "missing.keytab"),
        }
        modules = str(_importable_gssapi(self.folder / "modules"))
        return {**found, "PYTHONPATH": os.pathsep.join(filter(None, (modules, os.environ.get("PYTHONPATH"))))}

    def _run(self, program: str, *words: str) -> None:
        command = [_program(program), *words]
        subprocess.run(command, env={**os.environ, **self._environment}, check=True, capture_output=True, timeout=60)


def _program(name: str) -> str:
    """Returns the path of a program. Debian has servers and their tools in a folder that not every user's PATH has."""
    return str(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin"))


def _importable_gssapi(folder: Path) -> Path:
    """Returns a folder with links to Debian's package gssapi and what it imports; skips the test without them."""
    if not folder.exists():
        folder.mkdir()
        for name in ("gssapi", "decorator.py"):
            (folder / name).symlink_to(_DEBIAN_PACKAGES / name)
    imported = subprocess.run(
        [sys.executable, "-c", "import gssapi"], env={**os.environ, "PYTHONPATH": str(folder)}, check=False,
        capture_output=True, timeout=60,
    )  # fmt: skip
    if imported.returncode:
        pytest.skip(f"{SKIP_REASON}python3-gssapi")
    return folder
