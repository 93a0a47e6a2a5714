"""Faults that show only when another controller is needed: what each accepts of the others, and whom it counts."""

from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.chaos_fault import ChaosContext, ChaosFault, Needs, controllers
from tests.chaos.chaos_lab import ChaosLab
from tests.chaos.packet_filter import BrokenPath, Cut
from tests.kafka.silent_proxy import SilentProxy
from tests.lab_certificate_authority import LabCertificateAuthority
from tests.lab_security import ADMIN

_VOTERS = "controller.quorum.voters"
_LOGIN = "listener.name.controller.plain.sasl.jaas.config"
_OTHER_AUTHORITY = "other-authority"


def trusted_authorities(lab: ChaosLab) -> bytes:
    """Returns the certificates of the authorities that the monitor trusts: that of the lab, and one of a fault."""
    other = LabCertificateAuthority(lab.directory / _OTHER_AUTHORITY)
    other.issue("server")
    lab.security.trust(other.file)
    return lab.security.ca_file.read_bytes() + other.file.read_bytes()


def _restart(lab: ChaosLab, node: int) -> None:
    if lab.node(node).running:
        lab.kill(node)
    lab.start(node, wait=False)


def _restarted_with(context: ChaosContext, node: int, properties: Mapping[str, str]) -> Iterator[None]:
    """The controller is restarted with these properties, and without them at the end."""
    context.lab.own_properties[node] = properties
    _restart(context.lab, node)
    yield
    del context.lab.own_properties[node]
    _restart(context.lab, node)


def _deny(context: ChaosContext, node: int) -> Iterator[None]:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    properties = {"authorizer.class.name": authorizer, "super.users": "User:nobody"}
    return _restarted_with(context, node, properties)


def _change_password(context: ChaosContext, node: int) -> Iterator[None]:
    """The controller rejects the login of the others, and of the monitor; or they reject its own."""
    passwords = [context.lab.security.passwords[ADMIN], "another"]
    context.random.shuffle(passwords)
    own, accepted = passwords
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'{module} required username="{ADMIN}" password="{own}" user_{ADMIN}="{accepted}";'
    return _restarted_with(context, node, {_LOGIN: login})


def _change_certificate(context: ChaosContext, node: int) -> Iterator[None]:
    certificate = context.lab.directory / _OTHER_AUTHORITY / "server.pem"
    return _restarted_with(context, node, {"ssl.keystore.location": str(certificate)})


def _leave_out_voter(context: ChaosContext, node: int) -> Iterator[None]:
    """The list of one controller lacks another one."""
    voters = context.lab.layout.quorum[_VOTERS].split(",")
    left_out = context.random.choice(_others(context.lab, node))
    rest = ",".join(one for one in voters if not one.startswith(f"{left_out}@"))
    return _restarted_with(context, node, {_VOTERS: rest})


def _empty_disk(context: ChaosContext, node: int) -> Iterator[None]:
    """The controller of a static quorum comes back with an empty disk, and fetches all records again."""
    context.lab.kill(node)
    context.lab.wipe_disk(node)
    context.lab.start(node, wait=False)
    yield


def _break_path(context: ChaosContext, node: int) -> Iterator[None]:
    """A controller does not reach one of the others, or neither reaches the other one."""
    other = context.random.choice(_others(context.lab, node))
    cut = context.random.choice((*Cut,))
    both = [BrokenPath(source=node, target=other, cut=cut), BrokenPath(source=other, target=node, cut=cut)]
    paths = both[: context.random.choice((1, 2))]
    context.lab.filter.change(*paths)
    yield
    context.lab.filter.restore(*paths)


def _replace_process(context: ChaosContext, node: int) -> Iterator[None]:
    """Another process listens where the controller did: it is silent, or forwards to another controller."""
    lab = context.lab
    port, to = (lab.node(one).controller_port for one in (node, context.random.choice(_others(lab, node))))
    assert port is not None
    assert to is not None
    lab.kill(node)
    with SilentProxy(("127.0.0.1", to), serves_new=context.random.random() < 0.5).up(("", port)):
        yield
    lab.start(node, wait=False)


def _others(lab: ChaosLab, node: int) -> Sequence[int]:
    return [one for one in lab.controllers if one != node]


def _of(*, static: bool = False) -> Needs:
    """Any controller of a static quorum, or of a secured one."""
    return lambda context: {
        "controller": context.lab.controllers if (context.lab.static if static else context.lab.login) else ()
    }


ACCESS_FAULTS = (
    ChaosFault(name="a controller denies the others", needs=controllers, run=_deny, weight=4),
    ChaosFault(name="a controller has another password", needs=_of(), run=_change_password, weight=6),
    ChaosFault(
        name="a controller has a certificate of another authority", needs=_of(), run=_change_certificate, weight=6
    ),
    ChaosFault(name="a controller has another list of voters", needs=_of(static=True), run=_leave_out_voter, weight=6),
    ChaosFault(name="a controller has an empty disk", needs=_of(static=True), run=_empty_disk, weight=6),
    ChaosFault(name="a path between two controllers is broken", needs=controllers, run=_break_path, weight=4),
    ChaosFault(name="another process has a controller's endpoint", needs=controllers, run=_replace_process),
)
