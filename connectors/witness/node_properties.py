"""Reads a node's own properties file as Kafka does, as far as it says how this node dials the controllers.

Controllers and brokers dial with the first of `controller.listener.names`. What `listener.name.NAME.` says of that
listener comes before what is said in general (AbstractConfig.valuesWithPrefixOverride), and its login is that of the
listener's JAAS context (JaasContext.loadServerContext). Values may come from config providers (KIP-297). Secrets are in
the options alone.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from connectors.errors import ObservationError, UsageError
from connectors.kafka.credentials import TLS_VERSIONS, tls_context, uses_login, uses_tls
from connectors.logdir.log_dir_files import properties_of
from connectors.settings.sections import host_port
from connectors.witness.key_stores import UnusableError, content_of, key_options, trust_options
from connectors.witness.node_jvm import LOGIN_FILE, NodeJvm
from rules.model.identifiers import NodeId

_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_PROVIDER = "org.apache.kafka.common.config.provider."
_FILE, _DIRECTORY = f"{_PROVIDER}FileConfigProvider", f"{_PROVIDER}DirectoryConfigProvider"
_VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
"""ConfigTransformer.DEFAULT_PATTERN: provider, path, key."""
_JAAS_OPTION = re.compile(r'([\w.$-]+)\s*=\s*("(?:\\.|[^"\\])*"|[^\s;]+)')
_JAAS_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
_BY_KAFKA = "; with --kafka DIR Kafka's own tools dial"
_ESCAPED = re.compile(r"\\(.)")
_JAAS_COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.DOTALL | re.MULTILINE)
_JAAS_SECTION = r'(?:^|[\s;}}]){name}\s*\{{((?:"(?:\\.|[^"\\])*"|[^"}}])*)\}}'
_CLIENT = ("ssl.", "sasl.", "config.providers", "security.providers")
"""What a client of Kafka has under the same name as a node."""
_LISTENERS_OWN = ("sasl.jaas.config", "sasl.login.")
"""What counts only with the prefix of the listener and of the mechanism (LoginManager.configuredClassOrDefault)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProperties:
    """How one node dials the controllers."""

    node: NodeId
    listener: str
    """The name of the listener at which it dials them."""
    log_dir: Path
    """Where its metadata log is."""
    login: str
    """How it logs in; no secret."""
    voters: Mapping[NodeId, tuple[str, int]]
    """Its controller.quorum.voters; empty for a dynamic quorum."""
    bootstrap: tuple[tuple[str, int], ...]
    """Where it, or this node itself, learns of the voters."""
    options: Mapping[str, str | int | bool | None] = field(repr=False)
    """Of a `ClusterConnection`, which is not logged either."""
    suites: frozenset[str]
    """Its ssl.cipher.suites; empty: all that its Java has."""
    client: Mapping[str, str] = field(repr=False)
    """The properties with which one of Kafka's tools dials as the node does."""
    digest: str
    """Of all that decides how it dials: its properties, its JVM's options, and the files that they name. Another one
    if one of them changes; no secret."""
    unusable: str = ""
    """Why this host cannot dial as the node does, and what to do; empty if it can."""


def read_node_properties(file: Path, scratch: Path, jvm: NodeJvm) -> NodeProperties:
    """Reads the properties file of a controller or broker.

    Args:
        file: the file with which the node is started.
        jvm: the JVM that runs with it.
        scratch: an empty folder that nobody else can read: keys that are not in PEM files are written there.

    Raises:
        UsageError: the file or one that it names cannot be read, or it is not that of a KRaft node.
    """
    values = properties_of(content_of(file))
    settings = _Settings(file, _resolved(file, values), jvm)
    options, login, unusable = dict[str, str | int | bool | None](), "", jvm.unlike
    try:
        login = settings.login(options, scratch)
    except UnusableError as problem:
        unusable = str(problem)
    return NodeProperties(
        node=settings.node,
        listener=settings.listener,
        log_dir=settings.log_dir,
        login=login,
        voters=settings.voters,
        bootstrap=settings.bootstrap,
        options=options,
        suites=frozenset() if unusable else settings.suites,
        client=_Settings(file, values, jvm).client,
        digest=_digest(settings.client, jvm),
        unusable=unusable,
    )


def _digest(client: Mapping[str, str], jvm: NodeJvm) -> str:
    said = {**client, **{f"-D{name}": value for name, value in jvm.settings.items()}, "java": str(jvm.java)}
    lines = [f"{name}={value} {_version(Path(value))}" for name, value in sorted(said.items())]
    return sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _version(file: Path) -> str:
    """Returns what changes with the content of a file; empty if there is none of that name."""
    try:
        seen = file.stat()
    except (OSError, ValueError):
        return ""
    return f"{seen.st_ino} {seen.st_size} {seen.st_mtime_ns}"


class _Settings:
    """The values of one file, for the listener at which the node dials others."""

    def __init__(self, file: Path, values: Mapping[str, str], jvm: NodeJvm) -> None:
        self._file = file
        self._values = values
        self._jvm = jvm
        names = self._list("controller.listener.names")
        if not names:
            raise UsageError(f"{file} has no controller.listener.names: give the properties file of a KRaft node")
        self.listener = names[0]
        self._prefix = f"listener.name.{self.listener.lower()}."

    def _general(self, name: str) -> str:
        return self._values.get(name, "").strip()

    def _list(self, name: str) -> list[str]:
        return [one for part in self._general(name).split(",") if (one := part.strip())]

    def of(self, name: str) -> str:
        """Returns a setting of the listener, else the general one; empty if there is none."""
        return self._provided(name, self._values.get(self._prefix + name, self._values.get(name, "")).strip())

    def _provided(self, name: str, value: str) -> str:
        if "${" in value and self._general("config.providers"):
            raise UnusableError(
                f"{name} comes from a config provider that kraftwatch does not read: it reads FileConfigProvider and "
                f"DirectoryConfigProvider{_BY_KAFKA}"
            )
        return value

    @property
    def node(self) -> NodeId:
        """The node's id."""
        text = self._general("node.id") or self._general("broker.id")
        if not re.fullmatch(r"[0-9]{1,10}", text):
            raise UsageError(f"{self._file} has no node.id: give the properties file of a KRaft node")
        return NodeId(int(text))

    @property
    def log_dir(self) -> Path:
        """MetadataLogConfig: metadata.log.dir, else the first of log.dirs, else log.dir."""
        named = (*self._list("metadata.log.dir"), *self._list("log.dirs"), *self._list("log.dir"))
        return Path(next(iter(named), "/tmp/kafka-logs"))  # noqa: S108 - Kafka's default

    @property
    def voters(self) -> Mapping[NodeId, tuple[str, int]]:
        """Of controller.quorum.voters: ID@HOST:PORT."""
        found = {}
        for one in self._list("controller.quorum.voters"):
            number, _, address = one.partition("@")
            if number.isdigit():
                found[NodeId(int(number))] = self._address("controller.quorum.voters", address)
        return found

    @property
    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        """The configured controllers, and the address at which this node itself is dialled."""
        servers = self._list("controller.quorum.bootstrap.servers")
        named = [self._address("controller.quorum.bootstrap.servers", one) for one in servers]
        own = [
            address
            for name in ("advertised.listeners", "listeners")
            for one in self._list(name)
            if (address := self._own(one)) is not None
        ]
        return tuple(dict.fromkeys([*self.voters.values(), *named, *own[:1]]))

    def _own(self, listener: str) -> tuple[str, int] | None:
        name, _, address = listener.partition("://")
        host, _, port = address.rpartition(":")
        if name.lower() != self.listener.lower() or not host or not port.isdigit():
            return None
        return None if host in ("0.0.0.0", "[::]") else self._address("listeners", address)  # noqa: S104 - compared

    def _address(self, name: str, address: str) -> tuple[str, int]:
        try:
            return host_port(address)
        except ValueError as problem:
            raise UsageError(f"{self._file}: {name}: {problem}") from None

    def login(self, options: dict[str, str | int | bool | None], scratch: Path) -> str:
        """Adds the options of the connection, and returns how the node logs in.

        Raises:
            UnusableError: this host cannot do the same.
        """
        options["security_protocol"] = self._protocol()
        said = []
        if uses_tls(options):
            said.append(self._tls(options, scratch))
        if uses_login(options):
            said.append(self._sasl(options))
        return " and ".join(filter(None, said)) or "no login"

    def _protocol(self) -> str:
        """KafkaConfig.effectiveListenerSecurityProtocolMap: without a map a name of its own stands for PLAINTEXT."""
        pairs = (one.rpartition(":") for one in self._list("listener.security.protocol.map"))
        protocols = {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}
        name = self.listener.upper()
        protocol = protocols.get(name, name if name in _PROTOCOLS else None if protocols else "PLAINTEXT")
        if protocol not in _PROTOCOLS:
            raise UsageError(f"{self._file}: listener.security.protocol.map names no protocol for {self.listener}")
        return protocol

    def _tls(self, options: dict[str, str | int | bool | None], scratch: Path) -> str:
        options |= trust_options(self.of, scratch, self._jvm.keytool)
        options |= key_options(self.of, scratch, self._jvm.keytool)
        options["ssl_partial_chain"] = True
        # Kafka's default is https; a value that is set and empty checks no name.
        name = "ssl.endpoint.identification.algorithm"
        checked = {*self._values} & {name, self._prefix + name}
        options["ssl_check_hostname"] = not checked or self.of(name) != ""
        options |= self._versions_and_ciphers()
        try:
            tls_context(options)
        except ObservationError as problem:
            raise UnusableError(f"this host cannot do the node's TLS: {problem.detail}") from problem
        return "" if "ssl_certfile" not in options else "the node's certificate"

    @property
    def suites(self) -> frozenset[str]:
        """The cipher suites to which the node is restricted."""
        return frozenset(one.strip() for one in self.of("ssl.cipher.suites").split(",") if one.strip())

    def _versions_and_ciphers(self) -> dict[str, str]:
        listed = self.of("ssl.enabled.protocols") or ",".join(TLS_VERSIONS)
        # A client of this SSLContext offers nothing newer, whatever is enabled.
        newest = self.of("ssl.protocol") or max(TLS_VERSIONS)
        versions = sorted(one for one in {one.strip() for one in listed.split(",")} & {*TLS_VERSIONS} if one <= newest)
        suites = self.suites
        ciphers = [name for one in sorted(suites) if (name := _openssl_name(one)) is not None]
        if suites:
            # Each suite is of one version of TLS: without a suite the version is not offered.
            known = {*(["TLSv1.2"] if ciphers else []), *(["TLSv1.3"] if len(ciphers) < len(suites) else [])}
            versions = [one for one in versions if one in known]
        if not versions:
            raise UnusableError(
                "ssl.protocol, ssl.enabled.protocols and ssl.cipher.suites leave neither TLSv1.2 nor TLSv1.3"
            )
        found = {"ssl_minimum_version": versions[0], "ssl_maximum_version": versions[-1]}
        return found | {"ssl_ciphers": ":".join(ciphers or _ALL_SUITES)}

    @property
    def _mechanism(self) -> str:
        return self._general("sasl.mechanism.controller.protocol") or "GSSAPI"

    def _jaas(self) -> str:
        """Returns the node's login: of its listener, else of the JAAS file of its JVM (JaasContext); empty without."""
        # Without the listener's prefix it is none of the listener's JAAS context.
        key = f"{self._prefix}{self._mechanism.lower()}.sasl.jaas.config"
        file = self._jvm.settings.get(LOGIN_FILE, "").removeprefix("=")
        if self._values.get(key, "").strip() or not file:
            return self._values.get(key, "").strip()
        text = _JAAS_COMMENT.sub("", content_of(Path(file)).decode("utf-8", "replace"))
        names = (f"{self.listener.lower()}.KafkaServer", "KafkaServer")
        found = (re.search(_JAAS_SECTION.format(name=re.escape(name)), text) for name in names)
        return next((" ".join(one[1].split()) for one in found if one), "")

    @property
    def client(self) -> Mapping[str, str]:
        """The properties of a client that dials as the node does (ChannelBuilders.clientChannelBuilder)."""
        own = {name.removeprefix(self._prefix): value for name, value in self._under(self._prefix)}
        mechanism = f"{self._mechanism.lower()}."
        found = {name: value for name, value in self._values.items() if not name.startswith(_LISTENERS_OWN)}
        found |= {name: value for name, value in own.items() if not name.startswith(_LISTENERS_OWN)}
        found |= {name.removeprefix(mechanism): value for name, value in own.items() if name.startswith(mechanism)}
        kept = {name: value for name, value in found.items() if name.startswith(_CLIENT)}
        kept["security.protocol"] = self._protocol()
        if uses_login({"security_protocol": self._protocol()}):
            kept |= {"sasl.mechanism": self._mechanism} | ({"sasl.jaas.config": jaas} if (jaas := self._jaas()) else {})
        return kept

    def _under(self, prefix: str) -> Iterable[tuple[str, str]]:
        return ((name, value) for name, value in self._values.items() if name.startswith(prefix))

    def _sasl(self, options: dict[str, str | int | bool | None]) -> str:
        mechanism, jaas = self._mechanism, self._jaas()
        name = f"{self._prefix}{mechanism.lower()}.sasl.jaas.config"
        if not jaas:
            raise UnusableError(
                f"{name} is missing: the login is in a JAAS file of the JVM or in none, and kraftwatch sees neither"
            )
        module, *given = self._provided(name, jaas).split(maxsplit=1)
        known = {name: _unquoted(value) for name, value in _JAAS_OPTION.findall("".join(given))}
        user, password = known.get("username"), known.get("password")
        if mechanism not in _JAAS_MODULES.get(module, ()) or user is None or password is None:
            raise UnusableError(
                f"the login by {mechanism} is not one that kraftwatch can do as the node: it reads username and "
                f"password of PLAIN and SCRAM{_BY_KAFKA}"
            )
        options |= {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}
        return f"{mechanism} as User:{user}"


def _unquoted(value: str) -> str:
    return _ESCAPED.sub(r"\1", value[1:-1]) if value.startswith('"') else value


_ALL_SUITES = ("ECDHE+AESGCM", "ECDHE+CHACHA20", "ECDHE+AES", "DHE+AESGCM", "DHE+AES", "kRSA+AES", "!AESCCM", "!aNULL")
"""What Java offers where no suite is listed, in OpenSSL's words: Python offers less."""
_CIPHER = re.compile(r"TLS_(?P<exchange>\w+)_WITH_(?P<cipher>\w+)")


def _openssl_name(suite: str) -> str | None:
    """Returns OpenSSL's name of a suite of TLS 1.2, which the standard names otherwise; None for one of TLS 1.3."""
    found = _CIPHER.fullmatch(suite)
    if found is None:
        return None
    exchange = "" if found["exchange"] == "RSA" else found["exchange"].replace("_", "-") + "-"
    cipher = re.sub(r"AES_(\d+)", r"AES\1", found["cipher"]).replace("_CBC", "")
    name = cipher.replace("_", "-")
    return exchange + (name.removesuffix("-SHA256") if name.startswith("CHACHA20") else name)


def _resolved(file: Path, values: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the values with what the config providers for files and directories have (`ConfigTransformer`)."""
    names = [one.strip() for one in values.get("config.providers", "").split(",") if one.strip()]
    providers = {name: values.get(f"config.providers.{name}.class", "").strip() for name in names}

    def value(found: re.Match[str]) -> str:
        name, path, key = found.groups()
        text = None
        if path and providers.get(name) == _FILE:
            text = properties_of(content_of(Path(path)), "utf-8").get(key)
        elif path and providers.get(name) == _DIRECTORY and "/" not in key:
            text = content_of(Path(path) / key).decode("utf-8", "replace")
        return found[0] if text is None else text

    return {key: _VARIABLE.sub(value, text) for key, text in values.items()} if providers else values
