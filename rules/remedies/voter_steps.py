"""The steps of a remedy that bring a voter back, or in sync again, by its state and that of its process."""

from collections.abc import Iterable

from rules.analysis.missing_voter import VoterProcess, endpoint_steps, recorded_endpoint, voter_process
from rules.analysis.voter_status import VoterActivity, VoterStatus
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from rules.rescue.voter_override import initial_controllers, registered_voters


def bring_back(quorum: Quorum, node: NodeId) -> Iterable[str]:
    """Yields the steps for a voter that does not fetch: start it, or find out why it hangs before it is restarted."""
    endpoint = recorded_endpoint(quorum, node)
    at = f" at {endpoint}" if endpoint else ""
    match voter_process(quorum, node):
        case VoterProcess.DOWN:
            yield f"# Start controller {node} so that it listens{at}: connections are refused there"
        case VoterProcess.HUNG:
            yield from restart_hung(node, at)
        case VoterProcess.RUNNING:
            yield (
                f"# Check in the log of controller {node} why it does not fetch from the leader: its process accepts "
                f"connections{at}"
            )
            yield f"# If controller {node} hangs, take a thread dump before you restart it: jcmd PID Thread.print"
        case VoterProcess.UNKNOWN:
            listens = f" so that it listens{at}" if at else ""
            yield f"# Start controller {node}{listens}, or check in its log why it does not fetch from the leader"
            yield from endpoint_steps(quorum, node)


def bring_in_sync(quorum: Quorum, status: VoterStatus) -> Iterable[str]:
    """Yields the steps for a voter as the leader reports it; none if it is in sync."""
    match status.activity:
        case VoterActivity.IN_SYNC:
            return
        case VoterActivity.NOT_FETCHING:
            yield from bring_back(quorum, status.key.id)
        case VoterActivity.LAGGING:
            yield from _find_delay(status)


def _find_delay(status: VoterStatus) -> Iterable[str]:
    yield (
        f"# Check the path {status.path} for long round trips and lost packets: a fetch that takes longer than "
        "controller.quorum.request.timeout.ms (2 s) is given up and repeated"
    )
    yield f"# Check the metadata disk and the CPU of controller {status.key.id}"


def restart_hung(node: NodeId, at: str) -> Iterable[str]:
    """Yields the steps for a controller that accepts connections and does not answer; `at`: ` at HOST:PORT`."""
    yield (
        f"# Controller {node} hangs, it accepts connections{at} and does not answer: take a thread dump on its host "
        "before you restart it (jcmd PID Thread.print, or jstack PID)"
    )
    yield (
        f"# If the thread dump of controller {node} hangs too, check its state with ps: T is stopped (kill -CONT PID), "
        "D waits for a disk"
    )
    yield f"# Then restart controller {node}"


def rescue_if_moved(quorum: Quorum) -> Iterable[str]:
    """Yields the rescue for controllers that run at other endpoints for good, with the list of this cluster."""
    voters = quorum.committed.voters if quorum.committed else ()
    known = initial_controllers(registered_voters(voters, quorum.controllers))
    if known is None:
        return
    yield (
        "# If controllers run at other endpoints for good, stop them all and rescue each: `kraftwatch rescue plan`, "
        "with a copy of every metadata.log.dir and this list with the new hosts and ports: "
        f"--initial-controllers {known}"
    )
