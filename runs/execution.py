"""One run in a worker's hands: from its claim to the one write that ends it or hands it on.

The work is a task of its own. The task that waits for it here is never cancelled by a stop, so the last write needs no
protection: it always happens, and it decides, with the row locked, what the end is. A stop that was recorded before it
wins, whatever the work came to meanwhile; one that comes later finds the run ended.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import cast

from django.conf import settings

from gateway.agent import Agent
from gateway.loop import Limits, Resumption, Turn
from gateway.messages import ToolCall
from gateway.messages import Usage as Tokens
from gateway.outcomes import Cause, Failed, Finished, HandedBack, LimitReached, Lost, NeedsApproval, Outcome, Stopped
from gateway.step import Approved, State, Step
from gateway.tools.registry import ToolContext
from runs import actions, events
from runs.actions import Claim, Ending, Usage
from runs.database import Unavailable, in_reader
from runs.journal import Journal, LeaseLost, as_said
from runs.models import Approval, ApprovalStatus, Conversation, Event, Message, Run, Status, StopReason
from runs.notes import StoredNotes
from runs.outbox import StoredOutbox

logger = logging.getLogger(__name__)

# How long the work may take to notice that it was interrupted before it is left to itself.
PATIENCE = 1.0

STOP_REASONS = {
    "max_steps": StopReason.MAX_STEPS,
    "max_time": StopReason.MAX_TIME,
    "budget": StopReason.BUDGET,
}


class Execution:
    def __init__(self, claim: Claim, journal: Journal) -> None:
        self.claim = claim
        self.run = claim.run
        self.journal = journal.open(claim, on_lost=self._lose, measure=self._usage)
        self.agent: Agent | None = None
        self.turn: Turn | None = None
        self.work: asyncio.Task[Outcome] | None = None
        self.cause: Cause | None = None
        self.reason = ""
        self.ended: Run | None = None
        """As it was written, where it ended here."""
        self._interrupted = asyncio.Event()

    # -- interruptions, from the worker ----------------------------------------------------------------------------

    def stop(self, by: str, via: str) -> None:
        if self.cause is Cause.STOP:
            return
        # Not urgent: the end mostly comes in the next moment, and must not wait for a commit of this alone.
        self.journal.note(events.RUN_STOPPING, {"requested_by": by, "requested_via": via}, is_urgent=False)
        self._interrupt(f"Stop requested via {'API' if via == 'api' else via}", Cause.STOP)

    def shut_down(self) -> None:
        self._interrupt("The worker is shutting down", Cause.SHUTDOWN)

    def _lose(self) -> None:
        self._interrupt("Another worker has the run", Cause.LEASE_LOST)

    def _interrupt(self, reason: str, cause: Cause) -> None:
        if self.cause is not None and self.cause.value >= cause.value:
            return
        self.cause, self.reason = cause, reason
        self._interrupted.set()
        if self.agent is None:
            return  # not begun: it is interrupted when it begins
        try:
            self.agent.interrupt(reason, cause)
        except Exception:
            logger.exception("Interrupting the agent of run %s failed; its task is cancelled instead.", self.run)
            if self.turn is not None and self.work is not None:
                self.turn.cause = cause
                self.work.cancel()

    # -- the way of a run ------------------------------------------------------------------------------------------

    async def execute(self, agent: Agent) -> bool:
        """Do the work and write its end. Whether the agent is free, and knows now what the database knows."""
        outcome: Outcome
        try:
            resumption = await self._wait_for_database(agent)
        except Exception as error:
            logger.exception("Run %s could not begin.", self.run)
            await self._leave(Failed("internal_error", f"Unexpected {type(error).__name__}.", repr(error)))
            return False
        if resumption is None:
            await self._leave(_outcome_of_interruption(self.cause))
            return False
        run = self.run
        agent.reasoning_effort = run.reasoning_effort or None
        agent.approvals = run.agent.approvals
        self.turn = Turn(
            agent,
            self.journal,
            Limits(run.max_steps, run.max_seconds, run.max_tokens, run.max_cost),
            self._make_context,
            has_token_streaming=run.has_token_streaming,
            resumption=resumption,
            grace_seconds=settings.AGENTSITE["TOOL_GRACE_SECONDS"],
        )
        self.agent = agent
        if self.cause is not None:
            self.turn.interrupt(self.reason, self.cause)
        self.work = asyncio.create_task(agent.run(self.turn), name=f"work {run}")
        outcome = await self._wait_for_work(self.turn, self.work)
        is_written = await self._leave(outcome)
        if isinstance(outcome, NeedsApproval):
            # What is decided meanwhile is decided without this agent: it reads the conversation again when it goes on.
            agent.load_history([], 0)
        # Work that was left to itself has the agent still: the next run needs another one.
        return is_written and self.work.done() and not isinstance(outcome, HandedBack | Lost)

    async def fail(self, error: Exception) -> None:
        """The run could not even get an agent."""
        await self._leave(Failed("internal_error", str(error) or type(error).__name__, repr(error)))

    async def _wait_for_work(self, turn: Turn, work: asyncio.Task[Outcome]) -> Outcome:
        interrupted = asyncio.create_task(self._interrupted.wait())
        try:
            await asyncio.wait({work, interrupted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            interrupted.cancel()
        if not work.done():
            assert self.cause is not None
            # Once more: in the moment before the work took its first step there was nobody to hear it.
            turn.interrupt(self.reason, self.cause)
            await asyncio.wait({work}, timeout=PATIENCE + settings.AGENTSITE["TOOL_GRACE_SECONDS"])
        if not work.done():
            logger.error("The work on run %s did not end when it was interrupted; it is left to itself.", self.run)
            return turn.close(_outcome_of_interruption(self.cause))
        if work.cancelled():
            return turn.close(_outcome_of_interruption(self.cause))
        if (error := work.exception()) is not None:
            logger.error("The work on run %s failed.", self.run, exc_info=error)
            return turn.close(Failed("internal_error", f"Unexpected {type(error).__name__}.", repr(error)))
        return work.result()

    async def _leave(self, outcome: Outcome) -> bool:
        """The last write. Whether it was ours to make."""
        try:
            if isinstance(outcome, Lost):
                raise LeaseLost
            await self.journal.leave(lambda run, seq, now: self._decide(run, outcome, seq, now))
        except LeaseLost:
            logger.warning("Run %s was taken over by another worker; nothing more is written here.", self.run)
            self.ended = None
            return False
        except Exception:
            # Its lease runs out and the run is taken up again, from what is stored.
            logger.exception("The end of run %s could not be written.", self.run)
            self.ended = None
            return False
        return True

    def _decide(self, run: Run, outcome: Outcome, seq: int, now: datetime) -> list[Event]:
        """How the run leaves this worker. In the transaction, with the row locked."""
        usage = self._usage()
        if isinstance(outcome, HandedBack):
            actions.hand_back(run, usage)
            return []
        if isinstance(outcome, NeedsApproval):
            written = actions.ask_for_approvals(run, self._approvals(run, outcome), usage, seq, now)
            if run.stop_requested_at is not None:
                ending = Ending(Status.CANCELLED, StopReason.CANCELLED)
                written += actions.close_run(run, ending, now, seq + len(written))
            return written
        if run.stop_requested_at is not None:
            outcome = Stopped()
        self.ended = run
        if self.turn is None:
            # Nothing was begun here. What an earlier attempt left open is closed from what is stored.
            return actions.close_run(run, self._ending(run, outcome), now, seq)
        return [actions.end_run(run, self._ending(run, outcome), usage, seq, now)]

    def _approvals(self, run: Run, needed: NeedsApproval) -> list[Approval]:
        assert self.turn is not None
        assert self.turn.step is not None
        return [
            Approval(
                run=run,
                tool_call_id=ask.call.id,
                position=self.turn.step.position_of(ask.call),
                name=ask.call.name,
                description=ask.description,
                arguments=ask.arguments,
                schema=ask.parameters,
                why=needed.why,
            )
            for ask in needed.asks
        ]

    def _ending(self, run: Run, outcome: Outcome) -> Ending:
        output = self.turn.output if self.turn is not None else ""
        match outcome:
            case Finished():
                return Ending(Status.COMPLETED, StopReason.END_TURN, output)
            case LimitReached(limit):
                return Ending(Status.COMPLETED, STOP_REASONS[limit], output)
            case Failed(error_type, message, detail):
                error = {"error_type": error_type, "message": message, "detail": detail}
                return Ending(Status.FAILED, StopReason.ERROR, output, error)
            case _:
                return Ending(Status.CANCELLED, StopReason.CANCELLED, output, receipt=self._receipt(run))

    def _receipt(self, run: Run) -> dict[str, object] | None:
        turn = self.turn
        if turn is None:
            return None
        assert run.stop_requested_at is not None
        requested = run.stop_requested_at.timestamp()
        closed = turn.model_closed_at
        said = "\n".join(turn.said)
        calls = {state: [call.name for call, its in turn.call_states if its == state] for state in actions.CALL_STATES}
        return actions.make_receipt(
            run,
            model_closed_ms=_milliseconds(closed - requested) if closed is not None and closed > requested else None,
            ended_ms=_milliseconds(time.time() - requested),
            kept_characters=len(said),
            kept_words=len(said.split()),
            tools_finished=calls["finished"],
            tools_interrupted=calls["interrupted"],
            tools_not_started=calls["not_started"],
            tokens_after_request=turn.tokens_since(requested),
        )

    def _usage(self) -> Usage:
        turn = self.turn
        if turn is None:
            return actions.usage_so_far(self.run)
        tokens = turn.usage
        return Usage(
            turn.steps,
            tokens.prompt_tokens,
            tokens.completion_tokens,
            tokens.cost,
            tokens.estimated,
            turn.active_seconds,
            turn.first_token_at,
        )

    # -- what is known at the beginning ----------------------------------------------------------------------------

    async def _wait_for_database(self, agent: Agent) -> Resumption | None:
        """A run does not fail because the database is away when it begins. None where it was interrupted meanwhile."""
        while True:
            try:
                return await self._bring_up_to_date(agent)
            except Unavailable as error:
                logger.warning("Run %s waits for the database (%s).", self.run, error)
            try:
                async with asyncio.timeout(events.AWAY_SECONDS):
                    await self._interrupted.wait()
                    return None
            except TimeoutError:
                continue

    async def _bring_up_to_date(self, agent: Agent) -> Resumption:
        """The agent's history is the stored one: continued where it fits, loaded anew where it does not."""
        claim = self.claim
        if self.run.attempt > 1:
            return await in_reader(self._load_after_interruption, agent)
        conversation = self.run.conversation
        known = (agent.last_position, agent.context_from)
        if known == (claim.position_before, conversation.context_from):
            agent.extend_history([as_said(row) for row in claim.new_messages])
        else:
            rows = await in_reader(_context_of, conversation)
            agent.load_history([as_said(row) for row in rows], rows[-1].position, conversation.context_from)
        return Resumption()

    def _load_after_interruption(self, agent: Agent) -> Resumption:
        """After an earlier attempt the history may end in a step that is not finished."""
        run = self.run
        rows = _context_of(run.conversation)
        first_own = actions.first_own_position(run)
        step = None
        for index in reversed(range(len(rows))):
            row = rows[index]
            if row.role == "assistant" and row.position >= first_own and row.tool_calls:
                answers = {later.tool_call_id: as_said(later) for later in rows[index + 1 :] if later.role == "tool"}
                calls = as_said(row).tool_calls
                if len(answers) < len(calls):
                    step = Step(calls, row.position, set(self.claim.started_calls), answers)
                    step.approved = _approved_calls(run)
                    rows = rows[: index + 1]
                break
        position = rows[-1].position if rows else 0
        agent.load_history([as_said(row) for row in rows], position, run.conversation.context_from)
        mine = [row for row in rows if row.role == "assistant" and row.position >= first_own]
        states = actions.completed_calls(run)
        steps = sum(not row.is_partial for row in mine)
        last = rows[-1]
        is_own = last.role == "assistant" and last.position >= first_own
        is_answered = is_own and not last.tool_calls and not last.is_partial
        return Resumption(
            open_step=step,
            answer=as_said(last).text if is_answered else None,
            unfinished_text=self.claim.unfinished_text,
            is_reasoning_shown=self.claim.is_reasoning_shown,
            steps=steps,
            usage=Tokens(run.prompt_tokens, run.completion_tokens, run.cost, run.is_usage_estimated),
            active_seconds=run.active_seconds,
            said=tuple(as_said(row).text for row in mine if row.content),
            call_states=tuple(
                (call, cast(State, states[call.id][1]))
                for row in mine
                for call in as_said(row).tool_calls
                if call.id in states
            ),
        )

    def _make_context(self, call: ToolCall, report: Callable[[str, float | None], None]) -> ToolContext:
        return ToolContext(
            conversation_id=self.run.conversation.public_id,
            call_id=call.id,
            notes=StoredNotes(self.run.conversation_id),
            report=report,
            outbox=StoredOutbox(self.run.conversation_id, call.id),
            task=self.agent.task if self.agent is not None else None,
        )


def _context_of(conversation: Conversation) -> list[Message]:
    """What the model sees of a conversation: its messages in order, since the last reset."""
    rows = Message.objects.filter(conversation=conversation, position__gt=conversation.context_from)
    return list(rows.order_by("position"))


def _approved_calls(run: Run) -> dict[str, Approved]:
    approvals = Approval.objects.filter(run=run, status=ApprovalStatus.APPROVED)
    return {
        approval.tool_call_id: Approved(json.dumps(approval.decided_arguments, ensure_ascii=False), approval.note)
        for approval in approvals
    }


def _outcome_of_interruption(cause: Cause | None) -> Outcome:
    match cause:
        case Cause.SHUTDOWN:
            return HandedBack()
        case Cause.LEASE_LOST:
            return Lost()
        case Cause.STOP:
            return Stopped()
        case _:
            return Failed("internal_error", "The run's task was cancelled by nobody known.")


def _milliseconds(seconds: float) -> float:
    return round(max(seconds, 0) * 1000, 1)
