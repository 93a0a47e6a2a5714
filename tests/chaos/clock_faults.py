"""The faults of clocks that are set: of a controller's host, or of a job's."""

from collections.abc import Iterator

from tests.chaos.chaos_fault import RECONNECT_S, ChaosContext, ChaosFault, controllers, facts_while
from tests.chaos.facts import Kind
from tests.chaos.set_clock import clock_library

STEPS_S = (-300.0, -40.0, -5.0, 5.0, 40.0, 300.0, 3_600.0)


def _controller_clock(context: ChaosContext, node: int) -> Iterator[None]:
    """A controller's clock is set, and later set right: Kafka counts its timeouts by it.

    A clock that was ahead is set back then. Until it shows the former time again, Kafka's NetworkClient waits before
    it connects to a node that it had begun to connect to: the controller is restarted.
    """
    clock = context.lab.clocks[node]
    with facts_while(context, *(context.facts.begin(kind, node) for kind in (Kind.UNCERTAIN, Kind.CLOCK))):
        step_s = context.random.choice(STEPS_S)
        clock.set(step_s)
        yield
        clock.set(0.0)
        if step_s > 0:
            context.lab.kill(node)
            context.restart_controller(node)
        else:
            context.uncertain_for(node, RECONNECT_S)


def _job_clock(context: ChaosContext, _: int) -> Iterator[None]:
    """The clock of the jobs' host is set, and later set right: they observe and notify nevertheless.

    Two jobs write one file: with two clocks nobody could say at which time a line was written.
    """
    step_s = context.random.choice(STEPS_S)
    with facts_while(context, context.facts.begin(Kind.JOB_CLOCK)):
        for each in context.monitor.jobs.values():
            each.clock.set(step_s)
        yield
        for each in context.monitor.jobs.values():
            each.clock.set(0.0)


CLOCK_FAULTS = (
    ChaosFault(
        name="a controller's clock is set",
        needs=lambda context: controllers(context) if clock_library() else {"controller": ()},
        run=_controller_clock,
    ),
    ChaosFault(name="the jobs' clock is set", needs=lambda _: {"job": (1,) if clock_library() else ()}, run=_job_clock),
)
