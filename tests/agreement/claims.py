"""Collects the claims of all outputs of one quorum."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rules.alert import Alert
from rules.claims.claim import NO, Claim, Question, of_each
from rules.claims.statement import claims_of
from rules.finding import Finding
from rules.formatting import as_found
from tests.agreement.outputs import Outputs
from tests.agreement.said import Said


def all_claims(outputs: Outputs) -> tuple[Said, ...]:
    """Returns every claim, those of the alerts first."""
    return (
        *_of_reported(outputs),
        *_said("status", outputs.status.claims, outputs),
        *_of_needed(outputs),
        *_of_restarts(outputs),
        *_of_what_ifs(outputs),
        *_of_resolved(outputs),
    )


def _said(output: str, claims: Iterable[Claim], outputs: Outputs) -> Iterator[Said]:
    """Yields the claims; one about the restart of any controller is one about each."""
    for one in claims:
        if one.question is Question.CONDITION:
            # Of its own alert alone.
            continue
        if one.question is Question.RESTART and one.node is None:
            yield from (Said(claim=replace(one, node=node), output=output) for node in outputs.restarts)
        else:
            yield Said(claim=one, output=output)


def _of_reported(outputs: Outputs) -> Iterator[Said]:
    for one in outputs.reported:
        # A text that is kept says when it was true.
        if as_found(one.summary) == one.summary:
            claims = (claim for claim in one.claims if not _says_the_cost(claim, one, outputs))
            yield from _said(f"{one.rule} {one.subject}", claims, outputs)


def _says_the_cost(claim: Claim, reported: Alert | Finding, outputs: Outputs) -> bool:
    """Returns whether a remedy that restarts a node says itself all that speaks against the restart."""
    restart = outputs.restarts.get(claim.node) if claim.question is Question.ADVISED and claim.node else None
    remedy = "\n".join(reported.remedy)
    return restart is not None and all(str(reason) in remedy for reason in restart.against)


def _of_needed(outputs: Outputs) -> Iterator[Said]:
    """Yields what alerts show of restarts: which nodes must run on, which brokers have what is in sync of too few."""
    for one in outputs.evaluation.findings:
        below = outputs.quorum.under_min_isr if one.rule == "partitions-under-min-isr" else ()
        in_sync = (node for partitions in below for node, _ in partitions.others)
        yield from _said(
            f"{one.rule} {one.subject}", of_each(Question.RESTART, {*one.keep_running, *in_sync}, NO), outputs
        )


def _of_restarts(outputs: Outputs) -> Iterator[Said]:
    for node, answer in outputs.restarts.items():
        yield from _said(f"safe-to-restart {node}", answer.claims, outputs)


def _of_what_ifs(outputs: Outputs) -> Iterator[Said]:
    for output, (node, result) in outputs.what_ifs.items():
        question = Question.ELECTABLE if node is None else Question.WITHOUT
        if node is not None and "--restart" in output:
            question = Question.FAILS if "--lose" in output else Question.RESTARTED
        yield from _said(output, result.claims(question, node), outputs)


def _of_resolved(outputs: Outputs) -> Iterator[Said]:
    for name, text in outputs.resolved.items():
        yield from _said(f"resolved {name}", claims_of((text,)), outputs)
