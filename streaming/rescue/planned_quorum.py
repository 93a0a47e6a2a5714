"""A plan without the lost voters, as `rescue plan --lost … --json` wrote it, for `rescue apply` of one node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.errors import UsageError, os_errors
from connectors.store.stored_json import parse_json
from rules.model.identifiers import Endpoint, Epoch, NodeId, Offset, ReplicaKey
from rules.model.membership import Voter
from rules.rescue.node_decisions import NodeAction
from rules.rescue.voter_override import parse_controllers
from streaming.status.log_dir_status import LogDirContents


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuorum:
    """What a plan says of the new quorum, and of each node's log."""

    file: Path
    cluster_id: str | None
    static: bool
    epoch: Epoch
    """The first epoch of the new quorum."""
    log_node: NodeId
    """Whose log is continued."""
    end: tuple[Offset, Epoch]
    """Where that log ends: offset and epoch."""
    endpoints: Mapping[NodeId, Endpoint]
    """The new voters, with their endpoints; of a static quorum, none."""
    lost_voters: tuple[Voter, ...]
    """The lost voters whose recorded endpoints are known."""
    nodes: Sequence[Mapping[str, Any]]
    """What the plan says of each node."""

    @property
    def of_broker(self) -> bool:
        """Whether the log that is continued is a broker's."""
        return any(one["node_id"] == self.log_node and not one["voter"] for one in self.nodes)

    def require_node(self, found: LogDirContents) -> None:
        """Returns if the plan has this node among the new voters; raises UsageError otherwise."""
        of = found.meta_properties.cluster_id if found.meta_properties else None
        if self.cluster_id != of:
            raise UsageError(f"{self.file} is a plan of cluster {self.cluster_id}, and this node is of {of}")
        planned = self._node(found)
        if planned["action"] != NodeAction.APPLY:
            raise UsageError(f"{self.file}: node {found.key.id} is not to be changed: {planned['reason']}")

    def require_unchanged(self, found: LogDirContents) -> None:
        """Returns if the node's log ends where it did when the plan was made; raises UsageError otherwise."""
        planned = self._node(found)
        self._require_end(found, (planned["log_end_offset"], planned["last_epoch"]))

    def require_source(self, found: LogDirContents) -> None:
        """Returns if this is the broker's log that is continued; raises UsageError otherwise."""
        if found.key.id != self.log_node:
            raise UsageError(
                f"{self.file}: the log to continue is that of broker {self.log_node}, not of {found.key.id}"
            )
        self._require_end(found, self.end)

    def end_of(self, found: LogDirContents) -> Offset:
        """Returns where the node's log ends once it has the new quorum."""
        return self.end[0] if self.of_broker else Offset(self._node(found)["log_end_offset"])

    def _node(self, found: LogDirContents) -> Mapping[str, Any]:
        directory = None if self.static else found.key.directory_id
        wanted = (found.key.id, directory)
        planned = [one for one in self.nodes if (one["node_id"], one["directory_id"]) == wanted]
        if not planned:
            raise UsageError(f"{self.file} does not have node {found.key}: make the plan again with its log directory")
        return planned[0]

    def _require_end(self, found: LogDirContents, before: tuple[int, int]) -> None:
        if before != (found.end_offset, found.epoch):
            raise UsageError(
                f"{self.file}: the log of node {found.key.id} ended at offset {before[0]} in epoch {before[1]} when "
                f"the plan was made, and ends at {found.end_offset} in epoch {found.epoch} now: make the plan again"
            )


def _voter(node: NodeId, at: str) -> Voter:
    host, _, port = at.rpartition(":")
    endpoint = Endpoint(listener="", host=host.strip("[]"), port=int(port))
    return Voter(key=ReplicaKey(id=node, directory_id=None), endpoints=(endpoint,))


def read_planned_quorum(file: Path, lost: Sequence[NodeId]) -> PlannedQuorum:
    """Reads a plan for a quorum without these voters.

    Raises:
        UsageError: the file cannot be read, is no such plan, refuses the rescue, or is of other lost voters.
    """
    try:
        with os_errors(f"cannot read the plan {file}"):
            plan = parse_json(file.read_bytes())
        made = plan["lost"]
        if plan["refused"] is not None:
            raise UsageError(f"{file}: the plan refuses the rescue: {plan['refused']}")
        if made is None or sorted(made["node_ids"]) != sorted(lost):
            named = "none" if made is None else ",".join(map(str, made["node_ids"]))
            raise UsageError(f"{file} is a plan for other lost voters: {named}; make the plan again for these")
        listed = made["initial_controllers"]
        return PlannedQuorum(
            file=file,
            cluster_id=plan["cluster_id"],
            static=bool(plan["static"]),
            epoch=Epoch(int(made["epoch"])),
            log_node=NodeId(int(made["log_of"].partition("-")[0])),
            end=(Offset(int(made["end_offset"])), Epoch(int(made["last_epoch"]))),
            endpoints={}
            if plan["static"]
            else {voter.key.id: voter.endpoints[0] for voter in parse_controllers(listed, made["listener"])},
            lost_voters=tuple(
                _voter(NodeId(node), at) for node, at in zip(made["node_ids"], made["endpoints"], strict=True) if at
            ),
            nodes=plan["disks"],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{file} is not a plan: write it with `kraftwatch rescue plan --lost --json`") from None
