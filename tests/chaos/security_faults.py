"""The faults of certificates and passwords, of a quorum that requires them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from deploy.lab import LabError
from tests.chaos.chaos_fault import ChaosContext, ChaosFault, NotNowError, Run, controllers, facts_while, only
from tests.chaos.chaos_lab import SESSION_S, ChaosLab
from tests.chaos.facts import Kind
from tests.lab_certificate_authority import LabCertificateAuthority


def _controllers(context: ChaosContext) -> Mapping[str, Sequence[int]]:
    return controllers(context) if context.lab.secured else {"controller": ()}


def _expired(lab: ChaosLab) -> Path:
    return lab.security.authority.issue("expired", common_name="server", days=(-7, -1))


def _foreign(lab: ChaosLab) -> Path:
    return LabCertificateAuthority(lab.directory / "other-authority").issue("server")


def _expiring(lab: ChaosLab) -> Path:
    return lab.security.authority.issue("expiring", common_name="server", days=(-7, 1))


def _certificate(make: Callable[[ChaosLab], Path], *kinds: Kind) -> Run:
    """A controller is restarted with this certificate, later with its own."""

    def run(context: ChaosContext, node: int) -> Iterator[None]:
        with facts_while(context, *(context.facts.begin(kind, node) for kind in kinds)):
            _restart(context, node, make(context.lab))
            yield
            _restart(context, node, None)

    return run


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


REFUSED = (Kind.SILENT, Kind.BAD_CERTIFICATE)
"""Nobody accepts the certificate."""
SECURITY_FAULTS = (
    ChaosFault(name="a controller's certificate has expired", needs=_controllers, run=_certificate(_expired, *REFUSED)),
    ChaosFault(name="a controller's certificate is foreign", needs=_controllers, run=_certificate(_foreign, *REFUSED)),
    ChaosFault(
        name="a controller's certificate expires soon", needs=_controllers, run=_certificate(_expiring, Kind.EXPIRING)
    ),
    ChaosFault(
        name="the monitor's password is changed",
        needs=only("monitor", lambda context: context.lab.secured),
        run=_change_password,
        longest_s=90.0,
    ),
)
