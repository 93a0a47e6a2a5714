"""Runs Kubernetes' API server and etcd on loopback: they validate, admit and store objects. No controller runs.

`pod_runner.py` runs pods, as a kubelet does.

`make api-server` builds both, and adds the definitions of the kinds of Prometheus' operator.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import requests
import yaml

from deploy.lab.addresses import LOOPBACK, Ports
from deploy.lab.child_process import ChildProcess
from tests.eventually import eventually
from tests.lab_certificate_authority import LabCertificateAuthority

API_SERVER, ETCD = (Path(sys.executable).with_name(name) for name in ("kube-apiserver", "etcd"))
DEFINITIONS = Path(sys.prefix) / "crds"
"""A folder of CustomResourceDefinitions."""
SERVICE = "kubernetes.default.svc"
"""The name of the API server in a cluster."""
_TOKEN = "of-an-administrator"
_AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: ["RequestReceived"]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Of the API server to one object."""

    status: int
    message: str
    """Why the object is refused; empty if it is not."""
    warnings: str
    """What kubectl and helm print as warnings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRequest:
    """Of a client, by the API server's audit log."""

    verb: str
    resource: str
    status: int


ADMITTED = Answer(status=200, message="", warnings="")


class RealApiServer:
    """A context manager that starts and ends both. Requests are those of a cluster's administrator."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ports = Ports()
        self._processes: list[ChildProcess] = []
        self._session = requests.Session()
        # No certificates and no proxy of this machine.
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"Bearer {_TOKEN}"
        self.port = self._ports.claim()
        self._url = f"https://{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        try:
            self._start(self._start_etcd())
            eventually(self._ready, within_s=60)
            for file in sorted(DEFINITIONS.glob("*.yaml")):
                self._define(file.read_text())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()
        while self._processes:
            self._processes.pop().kill()

    def knows(self, manifest: dict[str, Any]) -> bool:
        """Returns whether objects of this kind exist: the kinds of an operator need its definitions."""
        return self._resource(manifest) is not None

    def apply(self, manifest: str, *, dry_run: bool = False) -> Answer:
        """Sends one YAML document, as it is written, like `kubectl apply --server-side --validate=strict`."""
        parsed = yaml.safe_load(manifest)
        resource = self._resource(parsed)
        assert resource is not None, f"no definition of {parsed['apiVersion']} {parsed['kind']}"
        where = f"/namespaces/{parsed['metadata']['namespace']}" if resource["namespaced"] else ""
        response = self._session.patch(
            f"{self._url}{_group(parsed)}{where}/{resource['name']}/{parsed['metadata']['name']}",
            data=manifest.encode(),
            headers={"Content-Type": "application/apply-patch+yaml"},
            params={
                "fieldManager": "test",
                "fieldValidation": "Strict",
                "force": "true",
                **({"dryRun": "All"} if dry_run else {}),
            },
            timeout=60,
        )
        return Answer(
            status=200 if response.status_code == 201 else response.status_code,
            message="" if response.ok else response.json()["message"],
            warnings=response.headers.get("Warning", ""),
        )

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Returns the object of the answer to a request; None if it does not exist, or is not what it was."""
        merges = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        response = self._session.request(method, f"{self._url}{path}", json=body, headers=merges, timeout=60)
        if response.status_code in (404, 409):
            return None
        assert response.ok, response.text
        answer: dict[str, Any] = response.json()
        return answer

    @property
    def authority(self) -> Path:
        """The certificate with which clients verify that of the API server."""
        return self._folder / "ca.pem"

    def write_kubeconfig(self, file: Path) -> None:
        """Writes what kubectl and spark-submit need to be the administrator."""
        cluster = {"server": self._url, "certificate-authority": str(self.authority)}
        text = yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "lab", "cluster": cluster}],
                "users": [{"name": "administrator", "user": {"token": _TOKEN}}],
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "administrator"}}],
                "current-context": "lab",
            }
        )
        file.write_text(text)

    def requests_of(self, namespace: str, account: str) -> Iterator[AuditedRequest]:
        """Yields the requests of a service account until now, a watch when it has begun."""
        for line in (self._folder / "audit.log").read_text().splitlines():
            event = json.loads(line)
            if event["user"]["username"] == f"system:serviceaccount:{namespace}:{account}":
                where = event.get("objectRef", {})
                resource = "/".join(where[key] for key in ("resource", "subresource") if key in where)
                code = event["responseStatus"]["code"]
                yield AuditedRequest(verb=event["verb"], resource=resource, status=code)

    def _start_etcd(self) -> str:
        client, peer = (f"http://{LOOPBACK}:{self._ports.claim()}" for _ in range(2))
        self._run(
            ETCD,
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )
        return client

    def _start(self, etcd: str) -> None:
        authority = LabCertificateAuthority(self._folder)
        certificate = authority.issue("api-server", hosts=("localhost", LOOPBACK, SERVICE))
        accounts = authority.issue("service-accounts")
        self._session.verify = str(authority.file)
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f"{_TOKEN},administrator,administrator,system:masters\n")
        policy = self._folder / "audit.yaml"
        policy.write_text(_AUDIT_POLICY)
        self._run(
            API_SERVER,
            f"--audit-log-path={self._folder / 'audit.log'}",
            f"--audit-policy-file={policy}",
            f"--etcd-servers={etcd}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={self._url.rpartition(':')[2]}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={certificate}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # No Endpoints of the API server: they may not be loopback addresses.
            "--endpoint-reconciler-type=none",
        )

    def _run(self, program: Path, *arguments: str) -> None:
        log = self._folder / f"{program.name}.log"
        self._processes.append(ChildProcess([str(program), *arguments], log=log, supervised=True))

    def _ready(self) -> None:
        log = (self._folder / "kube-apiserver.log").read_text()[-4_000:]
        assert all(process.alive for process in self._processes), log
        try:
            ready = self._session.get(f"{self._url}/readyz", timeout=10)
        except requests.RequestException as error:
            raise AssertionError(f"{error}: {log}") from error
        assert ready.ok, ready.text

    def _define(self, definition: str) -> None:
        """Adds a kind, and returns when it is served."""
        assert self.apply(definition) == ADMITTED
        parsed = yaml.safe_load(definition)
        kind, (*_, version) = parsed["spec"]["names"]["kind"], parsed["spec"]["versions"]
        served = {"apiVersion": f"{parsed['spec']['group']}/{version['name']}", "kind": kind}
        eventually(lambda: self.knows(served), within_s=30)

    def _resource(self, manifest: dict[str, Any]) -> dict[str, Any] | None:
        """Returns what the API server says about a manifest's kind: its name in URLs, and whether it is namespaced."""
        response = self._session.get(f"{self._url}{_group(manifest)}", timeout=60)
        resources = response.json()["resources"] if response.ok else []
        of_kind = (each for each in resources if each["kind"] == manifest["kind"] and "/" not in each["name"])
        return next(of_kind, None)


def _group(manifest: dict[str, Any]) -> str:
    version = manifest["apiVersion"]
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
