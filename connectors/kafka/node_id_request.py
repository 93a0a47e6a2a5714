"""Asks a node for its id: DescribeConfigs of `node.id` of one node, which only that node answers."""

import re
from typing import Any

from connectors.kafka.kafka_python import DescribeConfigsRequest
from rules.model.identifiers import NodeId

_BROKER_RESOURCE = 4
_EXPECTED = re.compile(r"expected ([0-9]{1,10})(?![0-9])")
_MAX_NODE_ID = 2**31 - 1


def describe_node_request(node: int) -> Any:
    """Returns a DescribeConfigs of node.id of one node: only that node answers it."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=["node.id"]
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)


def parse_node_id(response: Any, *, requested: int) -> NodeId | None:
    """Returns the id of the node that answered DescribeConfigs; None if the response does not show it."""
    if not response.results:
        return None
    result = response.results[0]
    if result.error_code == 0:
        return NodeId(requested)
    match = _EXPECTED.search(result.error_message or "")
    node = int(match.group(1)) if match else _MAX_NODE_ID + 1
    return NodeId(node) if node <= _MAX_NODE_ID else None
