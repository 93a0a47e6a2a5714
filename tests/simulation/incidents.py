"""All incidents, by the name of their function."""

from tests.simulation import metadata_incidents, quorum_incidents
from tests.simulation.incident_trace import Incident

INCIDENTS = {
    name: one
    for module in (metadata_incidents, quorum_incidents)
    for name, one in vars(module).items()
    if isinstance(one, Incident)
}
