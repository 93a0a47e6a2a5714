"""What is done to the quorum of an evaluation, and how it is undone."""

import re
import signal
from collections.abc import Sequence

import tests.lab
from deploy.lab.lab import Lab
from streaming.demo.job_process import AlertLine
from streaming.demo.scenarios import ScenarioContext, controller_names, followers, leader
from tests.eventually import eventually
from tests.job.job_state import cluster_status
from tests.kafka.forged_log import append_to_every_log, begin_transaction
from tests.kafka.lab_helpers import start_new_controller

FLAPS = 3


def restore(context: ScenarioContext, alerts: Sequence[AlertLine]) -> None:
    """Resumes the controllers that are paused and starts every node that is stopped."""
    lab = context.lab
    for node in lab.controllers:
        if lab.node(node).running:
            lab.resume(node)
    stopped = [node for node in sorted({*lab.controllers, *lab.brokers}) if not lab.node(node).running]
    lab.start(*stopped)


def await_whole_quorum(lab: Lab) -> None:
    """Waits until every controller that is a voter has fetched what is committed now."""
    now = lab.await_state(lambda state: True, what="a leader").high_watermark
    lab.await_state(
        lambda state: all(voter.log_end_offset > now for voter in state.voters), what=f"every voter beyond offset {now}"
    )


def kill_follower(context: ScenarioContext) -> None:
    """Kills a controller that does not lead."""
    context.lab.kill(followers(context)[0])


def kill_leader(context: ScenarioContext) -> None:
    """Kills the active controller."""
    context.lab.kill(leader(context))


def pause_leader(context: ScenarioContext) -> None:
    """Stops the active controller with SIGSTOP: it accepts connections and does not answer."""
    before = leader(context)
    context.lab.pause(before)
    context.lab.await_state(lambda state: state.leader_id != before, what="another leader")


def pause_follower(context: ScenarioContext) -> None:
    """Stops another controller that does not lead with SIGSTOP."""
    state = context.lab.await_state(lambda state: True, what="a leader")
    active = [voter.id for voter in state.voters if voter.log_end_offset >= state.high_watermark - 20]
    context.lab.pause(next(node for node in reversed(active) if node != state.leader_id))


def kill_majority(context: ScenarioContext) -> None:
    """Kills the leader and two other voters of five."""
    context.lab.kill(leader(context), *followers(context)[:2])


def move_port(context: ScenarioContext) -> None:
    """Restarts a controller at another port; it sends the leader its new endpoint."""
    lab, node = context.lab, followers(context)[0]
    lab.stop(node)
    lab.move_endpoint(node)
    lab.start(node)
    lab.await_state(
        lambda state: lab.node(node).endpoint in state.endpoints.get(node, ()), what=f"voter {node}'s new endpoint"
    )


def restore_dropped_names(context: ScenarioContext, alerts: Sequence[AlertLine]) -> None:
    """Adds the controllers' names again."""
    context.lab.names.add(*controller_names(context))


def run_printed_remedy(context: ScenarioContext, alerts: Sequence[AlertLine]) -> None:
    """Runs exactly the commands of the first alert, for the controller that its subject names."""
    found = re.search(r"\d+", alerts[0].subject)
    assert found is not None, alerts[0].subject
    node = int(found.group())
    for line in alerts[0].remedy:
        context.lab.run_remedy(line, node_properties=context.lab.node(node).properties_file)


def stop_broker(context: ScenarioContext) -> None:
    """Kills the broker that holds no partition of the other faults alone."""
    context.lab.node(context.lab.brokers[-1]).running_process().signal(signal.SIGKILL)


def leave_transaction_open(context: ScenarioContext) -> None:
    """Kills all controllers; their logs end with the beginning of a metadata transaction."""
    context.lab.kill(*context.lab.controllers)
    append_to_every_log(context.lab, begin_transaction("evaluation"))


def add_observer(context: ScenarioContext) -> None:
    """Starts a new controller, which is not a voter yet."""
    assert isinstance(context.lab, tests.lab.Lab)
    start_new_controller(context.lab)


def flap_broker(context: ScenarioContext) -> None:
    """Stops a broker until it is fenced, and resumes it, three times; each time is shorter than broker-fenced holds."""
    lab, broker = context.lab, context.lab.brokers[-1]
    for number in range(FLAPS):
        context.say(f"broker {broker} is paused, {number + 1} of {FLAPS}")
        lab.pause(broker)
        eventually(lambda: _require_fenced(context, [broker]), within_s=30)
        lab.resume(broker)
        eventually(lambda: _require_fenced(context, []), within_s=30)


def _require_fenced(context: ScenarioContext, brokers: list[int]) -> None:
    assert cluster_status(context.job)["brokers"]["fenced"] == brokers
