"""The faults of certificates and passwords, of a quorum that requires them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from deploy.lab import LabError
from tests.chaos.chaos_fault import ChaosContext, ChaosFault, NotNowError, facts_while
from tests.chaos.chaos_lab import SESSION_S, ChaosLab
from tests.chaos.facts import Kind
from tests.lab_certificate_authority import LabCertificateAuthority


def _controllers(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"controller": context.lab.controllers if context.lab.secured else ()}


def _monitor(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return {"monitor": (0,) if context.lab.secured else ()}


def _expired(lab: ChaosLab) -> Path:
    return lab.security.authority.issue("expired", common_name="server", days=(-7, -1))


def _foreign(lab: ChaosLab) -> Path:
    return LabCertificateAuthority(lab.directory / "other-authority").issue("server")


def _expiring(lab: ChaosLab) -> Path:
    return lab.security.authority.issue("expiring", common_name="server", days=(-7, 1))


def _bad_certificate(make: Callable[[ChaosLab], Path]) -> Callable[[ChaosContext, int], Iterator[None]]:
    """A controller is restarted with a certificate that nobody accepts, later with its own."""

    def run(context: ChaosContext, node: int) -> Iterator[None]:
        facts = [context.facts.begin(kind, node) for kind in (Kind.SILENT, Kind.BAD_CERTIFICATE)]
        with facts_while(context, *facts):
            _restart(context, node, make(context.lab))
            yield
            _restart(context, node, None)

    return run


def _expiring_certificate(context: ChaosContext, node: int) -> Iterator[None]:
    """A controller is restarted with a certificate that is valid for a day, later with its own."""
    with facts_while(context, context.facts.begin(Kind.EXPIRING, node)):
        _restart(context, node, _expiring(context.lab))
        yield
        _restart(context, node, None)


def _restart(context: ChaosContext, node: int, certificate: Path | None) -> None:
    """Starts a controller with this certificate, or with its own; one that ended by itself is not running."""
    lab = context.lab
    if lab.node(node).running:
        lab.kill(node)
    lab.certificates.pop(node, None)
    if certificate is not None:
        lab.certificates[node] = certificate
    context.restart_controller(node)


def _change_password(context: ChaosContext, _: int) -> Iterator[None]:
    """The monitor's password is changed at the cluster, and only later in the monitor's file."""
    context.require_leader()
    lab = context.lab
    try:
        lab.change_password()
    except LabError as error:
        lab.tell_password()
        raise NotNowError("no broker or controller changes it") from error
    context.monitor_off_for(SESSION_S)
    with facts_while(context, *(context.facts.begin(Kind.NOT_OBSERVED, each) for each in lab.controllers)):
        yield
        lab.tell_password()


SECURITY_FAULTS = (
    ChaosFault(name="a controller's certificate has expired", needs=_controllers, run=_bad_certificate(_expired)),
    ChaosFault(name="a controller's certificate is foreign", needs=_controllers, run=_bad_certificate(_foreign)),
    ChaosFault(name="a controller's certificate expires soon", needs=_controllers, run=_expiring_certificate),
    ChaosFault(name="the monitor's password is changed", needs=_monitor, run=_change_password, longest_s=90.0),
)
