"""Runs the pods of one namespace: a small stand-in for the scheduler and the kubelets, on this machine.

Each pod has one container, which buildah runs from its image in a process namespace of its own, with the pod's user,
environment and volumes. It has an address of its own (127.1.0.1, 127.1.0.2 …) in the network of this machine. Images
are not pulled, and limits of resources, probes and network policies are not enforced.
"""

import base64
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from deploy.lab.addresses import LOOPBACK
from tests.api_server.real_api_server import SERVICE, RealApiServer

Object = dict[str, Any]
_NODE = "this-machine"
_POLL_S = 0.2


class PodRunner:
    """A context manager. Its thread starts new pods, reports how they are, and ends those that are deleted."""

    def __init__(self, server: RealApiServer, namespace: str, folder: Path, buildah: Mapping[str, str]) -> None:
        """`buildah`: its environment, with the images."""
        folder.mkdir(parents=True)
        self.exit_codes: dict[str, int] = {}
        """Of the pods that have ended, by name."""
        self._server, self._folder, self._buildah = server, folder, buildah
        self._path = f"/api/v1/namespaces/{namespace}"
        self._running: dict[str, _RunningPod] = {}
        self._addresses = (f"127.1.{number >> 8}.{number & 255}" for number in range(1, 1 << 16))
        self._hosts = folder / "hosts"
        self._leaves = threading.Event()
        self._thread = ThreadPoolExecutor(1, "pod-runner")

    def __enter__(self) -> "PodRunner":
        self._loop = self._thread.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._leaves.set()
        self._thread.shutdown()
        for pod in self._running.values():
            pod.kill()

    def log(self, name: str) -> str:
        """Returns what the container of a pod has printed."""
        file = self._log(name)
        return file.read_text(errors="replace") if file.exists() else ""

    def crash(self, name: str) -> None:
        """Ends everything in the container of a pod."""
        for pod in list(self._running.values()):
            if pod.pod["metadata"]["name"] == name:
                pod.crash()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def check(self) -> None:
        """Raises an error if it runs no pods any more."""
        if self._loop.done():
            raise RuntimeError("the pod runner has ended") from self._loop.exception()

    def _run(self) -> None:
        while not self._leaves.wait(_POLL_S):
            self._step()

    def _step(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self._items("pods")}
        for uid, pod in pods.items():
            if uid in self._running:
                self._follow(self._running[uid], pod)
            elif "deletionTimestamp" in pod["metadata"]:
                self._forget(pod)
            else:
                with suppress(_NotYetError):
                    self._start(pod)
        for uid in self._running.keys() - pods.keys():
            self._running.pop(uid).kill()
        self._write_hosts()

    def _items(self, kind: str) -> list[Object]:
        items: list[Object] = self._get(kind)["items"]
        return items

    def _get(self, path: str) -> Object:
        found = self._server.request("GET", f"{self._path}/{path}")
        if found is None:
            raise _NotYetError(path)
        return found

    def _start(self, pod: Object) -> None:
        """Starts a pod, once what it mounts exists: Spark creates it later."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if "nodeName" not in pod["spec"]:
            target = {"apiVersion": "v1", "kind": "Node", "name": _NODE}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            self._server.request("POST", f"{self._path}/pods/{name}/binding", binding)
        volumes = {each["name"]: self._volume(pod, each) for each in pod["spec"]["volumes"]}
        pod["status"] |= {"podIP": next(self._addresses), "hostIP": LOOPBACK}
        variables = {"KUBERNETES_SERVICE_HOST": LOOPBACK, "KUBERNETES_SERVICE_PORT": str(self._server.port)}
        running = _RunningPod(pod=pod, buildah=self._buildah, hosts=self._hosts, volumes=volumes, variables=variables)
        running.create()
        self._running[uid] = running
        self._write_hosts()
        running.start(self._log(name))
        self._report(running)

    def _write_hosts(self) -> None:
        """Makes the names of pods and of their services known, as kubelets and the cluster's DNS do."""
        services, names = self._items("services"), {"localhost": LOOPBACK, SERVICE: LOOPBACK}
        for pod in (each.pod for each in self._running.values()):
            names[pod["metadata"]["name"]] = pod["status"]["podIP"]
            for service in services:
                if service["spec"].get("selector", {}).items() <= pod["metadata"]["labels"].items():
                    name = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
                    names[name] = pod["status"]["podIP"]
        text = "".join(f"{address} {name}\n" for name, address in names.items())
        if not self._hosts.exists() or self._hosts.read_text() != text:
            # In place: it is mounted.
            self._hosts.write_text(text)

    def _follow(self, running: "_RunningPod", pod: Object) -> None:
        """Ends a pod that is deleted, and reports one that has ended."""
        name, uid, code = pod["metadata"]["name"], pod["metadata"]["uid"], running.exit_code()
        deleted = "deletionTimestamp" in pod["metadata"]
        if code is None:
            if deleted:
                running.end_within(pod["metadata"]["deletionGracePeriodSeconds"])
            return
        if name not in self.exit_codes:
            self.exit_codes[name] = code
            self._report(running)
        if deleted:
            running.remove()
            del self._running[uid]
            self._forget(pod)

    def _forget(self, pod: Object) -> None:
        """Tells the API server that nothing of a deleted pod runs any more."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self._server.request("DELETE", f"{self._path}/pods/{pod['metadata']['name']}", options)

    def _report(self, running: "_RunningPod") -> None:
        pod, code, now = running.pod, running.exit_code(), datetime.now(UTC).isoformat(timespec="seconds")
        (container,) = pod["spec"]["containers"]
        ready = code is None
        state: Object = {"running": {"startedAt": now}} if ready else {"terminated": {"exitCode": code}}
        status = {
            "phase": "Running" if ready else "Failed" if code else "Succeeded",
            "podIP": pod["status"]["podIP"],
            "podIPs": [{"ip": pod["status"]["podIP"]}],
            "hostIP": LOOPBACK,
            "conditions": [
                {"type": kind, "status": str(ready)} for kind in ("Initialized", "Ready", "ContainersReady")
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": ready,
                    "started": ready,
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
        self._server.request("PATCH", f"{self._path}/pods/{pod['metadata']['name']}/status", {"status": status})

    def _volume(self, pod: Object, volume: Object) -> Path:
        """Writes the files of a volume, of the pod's group; returns their folder."""
        folder: Path = self._folder / pod["metadata"]["uid"] / volume["name"]
        folder.mkdir(parents=True, exist_ok=True)
        group = pod["spec"]["securityContext"]["fsGroup"]
        mode = 0o644
        for kind in ("configMap", "secret", "projected"):
            mode = volume.get(kind, {}).get("defaultMode", mode)
        for path, content in self._files(pod, volume):
            file = folder / path
            file.write_bytes(content)
            # What belongs to the pod's group is for its group to read.
            file.chmod(mode | 0o440)
            shutil.chown(file, "root", group)
        shutil.chown(folder, "root", group)
        folder.chmod(0o2777 if "emptyDir" in volume else 0o2755)
        return folder

    def _files(self, pod: Object, source: Object) -> Iterator[tuple[str, bytes]]:
        """Yields the path and the content of each file of a volume, or of one source of a projected one."""
        match source:
            case {"emptyDir": _}:
                return
            case {"configMap": {"name": name} as options}:
                data = self._get(f"configmaps/{name}")["data"]
                yield from _chosen({key: value.encode() for key, value in data.items()}, options)
            case {"secret": {"secretName": name} as options}:
                data = self._get(f"secrets/{name}")["data"]
                yield from _chosen({key: base64.b64decode(value) for key, value in data.items()}, options)
            case {"projected": {"sources": sources}}:
                for each in sources:
                    yield from self._files(pod, each)
            case {"serviceAccountToken": {"path": path} as options}:
                yield path, self._token(pod, options["expirationSeconds"]).encode()
            case {"downwardAPI": {"items": items}}:
                for each in items:
                    yield each["path"], _field(pod, each["fieldRef"]).encode()
            case _:
                raise AssertionError(f"a volume that this stand-in does not know: {source}")

    def _token(self, pod: Object, expires_s: int) -> str:
        """Returns a token of the pod's service account; it ends with the pod."""
        owner = {"apiVersion": "v1", "kind": "Pod", **{key: pod["metadata"][key] for key in ("name", "uid")}}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": expires_s, "boundObjectRef": owner},
        }
        path = f"{self._path}/serviceaccounts/{pod['spec']['serviceAccountName']}/token"
        answer = self._server.request("POST", path, request)
        assert answer is not None, path
        return str(answer["status"]["token"])


class _NotYetError(Exception):
    """An object does not exist yet."""


def _chosen(data: Mapping[str, bytes], options: Object) -> Iterator[tuple[str, bytes]]:
    items = options.get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        yield item["path"], data[item["key"]]


def _field(pod: Object, reference: Object) -> str:
    """Returns what a `fieldRef` names, such as status.podIP."""
    value: Any = pod
    for key in reference["fieldPath"].split("."):
        value = value[key]
    return str(value)


@dataclass(kw_only=True)
class _RunningPod:
    """A pod's container, from its start until it is removed."""

    pod: Object
    buildah: Mapping[str, str]
    hosts: Path
    volumes: Mapping[str, Path]
    variables: Mapping[str, str]
    _kill_at: float | None = field(default=None, init=False)

    def create(self) -> None:
        """Copies the image."""
        (container,) = self.pod["spec"]["containers"]
        self._container = self._call("from", "--pull=never", container["image"])

    def start(self, log: Path) -> None:
        (container,) = self.pod["spec"]["containers"]
        image = json.loads(self._call("inspect", self._container))["OCIv1"]["config"]
        command = container.get("command") or image["Entrypoint"]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                # Everything in the namespace ends with the container's first process.
                [
                    *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
                    *("buildah", "run", "--isolation", "chroot", *self._options(container), self._container, "--"),
                    *(*command, *container.get("args", ())),
                ],
                env=self.buildah,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _options(self, container: Object) -> Iterator[str]:
        context = self.pod["spec"]["securityContext"]
        yield from ("--user", f"{context['runAsUser']}:{context['runAsGroup']}")
        # A name of a machine has at most 63 characters.
        yield from ("--hostname", self.pod["metadata"]["name"][:63])
        yield from ("--no-hosts", "--volume", f"{self.hosts}:/etc/hosts:ro")
        for mount in container["volumeMounts"]:
            assert "subPath" not in mount, mount
            mode = "ro" if mount.get("readOnly") else "rw"
            # buildah does not follow the link /var/run of an image.
            path = re.sub("^/var/run/", "/run/", mount["mountPath"])
            yield from ("--volume", f"{self.volumes[mount['name']]}:{path}:{mode}")
        for name, value in self.variables.items():
            yield from ("--env", f"{name}={value}")
        for each in container.get("env", ()):
            value = _field(self.pod, each["valueFrom"]["fieldRef"]) if "valueFrom" in each else each.get("value", "")
            yield from ("--env", f"{each['name']}={value}")

    def exit_code(self) -> int | None:
        return self._process.poll()

    def end_within(self, seconds: float) -> None:
        """Sends SIGTERM to the container's first process, and SIGKILL after a time: called until it has ended."""
        if self._kill_at is None:
            self._kill_at = time.monotonic() + seconds
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    # Processes that have lost their parent are children of the first buildah.
                    if (parent := process.parent()) is not None and parent.cmdline()[:1] == ["buildah-chroot-exec"]:
                        process.terminate()
        elif time.monotonic() > self._kill_at:
            self.crash()

    def crash(self) -> None:
        self._process.kill()

    def kill(self) -> None:
        self.crash()
        self._process.wait()
        self.remove()

    def remove(self) -> None:
        self._call("rm", self._container)

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(["buildah", *arguments], env=self.buildah, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
