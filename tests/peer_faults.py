"""What one controller may have so that it answers the monitor and not its peers, or that one peer does not reach it.

`tests.kafka.test_unlike_controllers` tries them
one by one, `make chaos WITNESS=n` at random.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rules.model.witness import DialStep
from tests.lab import Lab
from tests.lab_certificate_authority import LabCertificateAuthority
from tests.lab_security import ADMIN

MONITOR, SECOND = "monitor", "second"
USERS = [MONITOR, SECOND]
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_ECDSA = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
_LOGIN = "listener.name.controller.plain.sasl.jaas.config"
SHARED = {
    "super.users": ";".join(f"User:{name}" for name in (ADMIN, *USERS)),
    "ssl.enabled.protocols": "TLSv1.2",
    "ssl.cipher.suites": _ECDSA,
}
"""What all controllers have, so that one of them can differ."""
Change = Mapping[str, str]
_TRUSTED = "trusted.pem"


class PeerLab(Lab):
    """A secured quorum in which each of these faults is possible."""

    def __init__(self, directory: Path, *, properties: Change | None = None, **options: Any) -> None:
        """All controllers trust the authorities of `_trusted`, which are made before they start."""
        trusted = {"ssl.truststore.location": str(directory.absolute() / _TRUSTED)}
        super().__init__(directory, users=USERS, properties={**SHARED, **trusted, **(properties or {})}, **options)

    def _format_all(self) -> None:
        own, new = self.security.authority, LabCertificateAuthority(self.directory / "new")
        self.authorities = {"new": new, "intermediate": LabCertificateAuthority(self.directory / "between", issuer=own)}
        for each in self.authorities.values():
            self.security.trust(each.file)
        (self.directory / _TRUSTED).write_bytes(self.security.ca_file.read_bytes() + new.file.read_bytes())
        super()._format_all()

    @property
    def monitor_options(self) -> Mapping[str, Any]:
        """The login of the monitor, which trusts more than the controllers do."""
        trusted = self.directory / "trusted-by-monitor.pem"
        trusted.write_bytes(
            b"".join(
                file.read_bytes() for file in (self.security.ca_file, *(one.file for one in self.authorities.values()))
            )
        )
        return {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(trusted),
            "ssl_check_hostname": False,
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": MONITOR,
            "sasl_plain_password": self.security.passwords[MONITOR],
        }


@dataclass(frozen=True, kw_only=True)
class PeerFault:
    """A difference in the properties of controllers, and at which step a dial fails."""

    name: str
    step: DialStep
    changed: Callable[[PeerLab], Change]
    """The properties of the controller that is not reached."""
    by: Callable[[PeerLab], Change] | None = None
    """The properties of the one controller that does not reach it; None: no other one does."""
    apart: bool = True
    """Whether two controllers with it do not reach each other."""

    def unreached(self, controllers: Iterable[int], changed: Collection[int], by: int) -> Set[tuple[int, int]]:
        """Returns who does not reach whom if it is changed on these controllers, and on that one for `by`."""
        if self.by is not None:
            return {(by, of) for of in changed}
        return {
            (node, of) for node in controllers for of in changed if node != of and (self.apart or node not in changed)
        }


def _lets_in_the_monitor_alone(_lab: PeerLab) -> Change:
    return {"super.users": f"User:{MONITOR}"}


def login(lab: PeerLab, own: str, *accepted: str) -> Change:
    """Returns the login of a node on the controller listener, and whose logins it accepts there."""
    of = lab.security.passwords
    users = " ".join(f'user_{name}="{of[name]}"' for name in accepted)
    return {_LOGIN: f'{_PLAIN} required username="{own}" password="{of[own]}" {users};'}


def _knows_the_login_of_the_monitor_alone(lab: PeerLab) -> Change:
    return login(lab, ADMIN, MONITOR)


def _has_a_key_that_the_others_cannot_use(lab: PeerLab) -> Change:
    renewed = lab.security.authority.issue("renewed-rsa", common_name="server", rsa_key=True)
    suites = f"{_ECDSA},TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    return {"ssl.keystore.location": str(renewed), "ssl.cipher.suites": suites}


def _has_a_certificate_for_another_name(lab: PeerLab) -> Change:
    renewed = lab.security.authority.issue("renewed-name", common_name="server", hosts=["elsewhere.test"])
    return {"ssl.keystore.location": str(renewed)}


def _leaves_out_its_intermediate_certificate(lab: PeerLab) -> Change:
    """The monitor trusts the intermediate authority too (`PeerLab.monitor_options`), the others the root alone."""
    issued = lab.authorities["intermediate"].issue("server")
    key, own, *_ = issued.read_text(encoding="utf-8").split("-----BEGIN CERTIFICATE-----")
    issued.write_text(f"{key}-----BEGIN CERTIFICATE-----{own}", encoding="utf-8")
    return {"ssl.keystore.location": str(issued)}


def _has_a_certificate_of_a_new_authority(lab: PeerLab) -> Change:
    return {"ssl.keystore.location": str(lab.authorities["new"].issue("server"))}


def _trusts_the_old_authority_alone(lab: PeerLab) -> Change:
    return {"ssl.truststore.location": str(lab.security.ca_file)}


PEER_FAULTS = (
    PeerFault(name="it permits the monitor alone", step=DialStep.PERMISSION, changed=_lets_in_the_monitor_alone),
    PeerFault(
        name="it knows the monitor's login alone", step=DialStep.LOGIN, changed=_knows_the_login_of_the_monitor_alone
    ),
    PeerFault(
        name="its key is for suites that the others do not have",
        step=DialStep.TLS,
        changed=_has_a_key_that_the_others_cannot_use,
        apart=False,
    ),
    PeerFault(
        name="its certificate is for another name", step=DialStep.TLS, changed=_has_a_certificate_for_another_name
    ),
    PeerFault(
        name="it leaves out its intermediate certificate",
        step=DialStep.TLS,
        changed=_leaves_out_its_intermediate_certificate,
    ),
    PeerFault(
        name="its authority is new, and missing in the trust store of one other controller",
        step=DialStep.TLS,
        changed=_has_a_certificate_of_a_new_authority,
        by=_trusts_the_old_authority_alone,
    ),
    PeerFault(
        name="it does not know the login of one other controller",
        step=DialStep.LOGIN,
        changed=lambda lab: login(lab, ADMIN, ADMIN, MONITOR),
        by=lambda lab: login(lab, SECOND, ADMIN, *USERS),
    ),
)
