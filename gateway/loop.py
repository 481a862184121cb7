"""The one agent loop, streaming or not: model call, tools, model call …, journalled as it goes.

A turn can be ended at any moment: by a stop, its time limit, a shutdown or a lost lease. All of them come through
`interrupt`, which cancels the task; so whatever the loop waits for, it stops waiting at once, and the model's
connection closes because every model call stands in an `async with`. What has been said and which calls are open is
always in `self.draft` and `self.step`, never only in local variables: so after an interruption in any line `close` can
write down, without waiting for anything, what is missing for a well-formed conversation.

Two rules make that safe. Messages go to the history and to the journal's queue together, with no await between. And a
cancellation that somebody swallowed (a library, a tool) is noticed by `_check` before the next thing starts.

Tools run in tasks of their own: one that ignores its cancellation is abandoned after a short grace period.
"""

import asyncio
import logging
import random
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from gateway.agent import Agent
from gateway.draft import Draft
from gateway.errors import ProviderError
from gateway.journal import Journal
from gateway.messages import Message, ToolCall, ToolResult, Usage, give_unique_ids, make_well_formed
from gateway.outcomes import (
    Cause,
    Failed,
    Finished,
    HandedBack,
    LimitReached,
    Lost,
    NeedsApproval,
    Outcome,
    Stopped,
    outcome_of,
    words_for,
)
from gateway.providers.base import Chunk, ReasoningDelta, TextDelta, ToolCallDelta, UsageReport
from gateway.step import State, Step
from gateway.text import storable_text
from gateway.tools.base import clean_text
from gateway.tools.registry import Tool, ToolContext

logger = logging.getLogger(__name__)

LONGEST_WAIT = 300.0
CHARACTERS_A_TOKEN = 4
WAITED_SECONDS = 0.0005
OUTCOME_UNKNOWN = "Interrupted, outcome unknown: the process that executed this call ended before it had a result."
INTERRUPTED = "Interrupted: the run {why} while this call was running. Its outcome is not known."
NOT_STARTED = "Not executed: the run {why} before this call started."

# Tools that ignored their cancellation: kept until they end, or nobody would hold them.
_abandoned: set[asyncio.Task[ToolResult]] = set()


@dataclass(frozen=True, slots=True)
class Limits:
    max_steps: int
    max_seconds: float
    max_tokens: int | None = None
    max_cost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Resumption:
    """What an earlier attempt at this run left behind."""

    open_step: Step | None = None
    answer: str | None = None
    """The whole answer, where nothing but the run's end was missing."""
    unfinished_text: str = ""
    is_reasoning_shown: bool = False
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    active_seconds: float = 0.0
    said: tuple[str, ...] = ()
    call_states: tuple[tuple[ToolCall, State], ...] = ()


class Interrupted(Exception):
    """A cancellation of our own that somebody swallowed."""


class Turn:
    """One run's work."""

    def __init__(
        self,
        agent: Agent,
        journal: Journal,
        limits: Limits,
        make_context: Callable[[ToolCall, Callable[[str, float | None], None]], ToolContext],
        *,
        has_token_streaming: bool = True,
        resumption: Resumption | None = None,
        grace_seconds: float = 0.05,
    ) -> None:
        resumption = resumption or Resumption()
        self.agent = agent
        self.journal = journal
        self.limits = limits
        self.make_context = make_context
        self.has_token_streaming = has_token_streaming
        self.grace_seconds = grace_seconds
        self.steps = resumption.steps
        self.usage = resumption.usage
        self.draft = Draft(
            shown=resumption.unfinished_text,
            is_reasoning_shown=resumption.is_reasoning_shown,
            is_reasoning_held_back=resumption.is_reasoning_shown,
        )
        self.step = resumption.open_step
        self.first_token_at: datetime | None = None
        self.said = list(resumption.said)
        self.output = resumption.answer or (self.said[-1] if self.said else "")
        self.cause: Cause | None = None
        self.reason = ""
        self.model_closed_at: float | None = None
        self.call_states = list(resumption.call_states)
        self._is_answered = resumption.answer is not None
        self._seconds_before = resumption.active_seconds
        self._begun_at = time.monotonic()
        self._is_closed = False
        self._is_calling_model = False
        self._used_ids = {call.id for message in agent.history for call in message.tool_calls}
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=5_000)
        self._tool_begun_at: dict[str, float] = {}
        self._task: asyncio.Task[Outcome] | None = None

    @property
    def active_seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._begun_at

    def tokens_since(self, moment: float) -> int:
        """How many pieces of text the model sent after a moment (of `time.time`)."""
        return sum(count for at, count in self._arrivals if at > moment)

    # -- the frame: begin, be interrupted, end ---------------------------------------------------------------------

    def interrupt(self, reason: str, cause: Cause = Cause.STOP) -> None:
        if self._is_closed or (self.cause is not None and self.cause.value >= cause.value):
            return
        is_first = self.cause is None
        self.cause, self.reason = cause, reason
        if is_first and self._task is not None:
            self._task.cancel(reason)

    async def run(self) -> Outcome:
        task: asyncio.Task[Outcome] | None = asyncio.current_task()
        assert task is not None
        self._task = task
        seconds = max(self.limits.max_seconds - self._seconds_before, 0)
        deadline = asyncio.get_running_loop().call_later(seconds, self.interrupt, "time limit", Cause.TIME_LIMIT)
        outcome: Outcome
        try:
            outcome = await self._work()
        except (asyncio.CancelledError, Interrupted):
            if self.cause is None:
                raise  # somebody else's cancellation, not ours to turn into an outcome
            task.uncancel()
            outcome = outcome_of(self.cause)
        except ProviderError as error:
            outcome = Failed(error.error_type, error.message, error.detail)
        except Exception as error:
            logger.exception("A run failed unexpectedly.")
            outcome = Failed("internal_error", f"Unexpected {type(error).__name__}.", traceback.format_exc())
        finally:
            deadline.cancel()
        return self.close(outcome)

    def close(self, outcome: Outcome) -> Outcome:
        """Leave a well-formed conversation behind, without waiting for anything. The first call counts."""
        if self._is_closed:
            return outcome
        if self.cause is Cause.STOP and not isinstance(outcome, Lost):
            outcome = Stopped()
        self._is_closed = True
        self._task = None
        if isinstance(outcome, HandedBack) and self.step is not None:
            # Only who leaves in good order can tell. After a crash nobody knows, and what was announced may have begun.
            for call in self.step.postponed_calls:
                self.journal.tool_postponed(call)
        if isinstance(outcome, HandedBack | Lost | NeedsApproval):
            return outcome
        if self._is_calling_model and self.draft.has_begun:
            self._count_usage()
        self._keep_partial_text()
        if self.step is not None:
            why = words_for(outcome)
            for call in self.step.open_calls:
                was_started = call.id in self.step.started
                text = (INTERRUPTED if was_started else NOT_STARTED).format(why=why)
                self._answer(call, ToolResult(text, is_error=True), "interrupted" if was_started else "not_started")
            self._complete_step()
        return outcome

    def _check(self) -> None:
        if self.cause is not None:
            raise Interrupted

    # -- the work --------------------------------------------------------------------------------------------------

    async def _work(self) -> Outcome:
        self._check()
        if self.step is not None and (needed := await self._go_on_with_step(self.step)) is not None:
            return needed
        if self._is_answered:
            return Finished(self.output)
        while True:
            self._check()
            if (reached := self._limit_reached()) is not None:
                return reached
            calls = await self._call_model()
            if not calls:
                return Finished(self.output)
            if (needed := await self._run_tools(calls)) is not None:
                return needed

    def _limit_reached(self) -> LimitReached | None:
        limits = self.limits
        if self.steps >= limits.max_steps:
            return LimitReached("max_steps")
        if limits.max_tokens is not None and self.usage.total_tokens >= limits.max_tokens:
            return LimitReached("budget")
        if limits.max_cost is not None and self.usage.cost is not None and self.usage.cost >= limits.max_cost:
            return LimitReached("budget")
        return None

    # -- the model -------------------------------------------------------------------------------------------------

    async def _call_model(self) -> tuple[ToolCall, ...]:
        """One model call, tried again where that makes sense. Returns the tool calls it asks for."""
        self.steps += 1
        retries = 0
        while True:
            try:
                await self._stream()
                break
            except ProviderError as error:
                self._check()  # a library may report our own cancellation as a failure
                seconds = error.retry_after if error.retry_after is not None else _backoff(retries)
                is_past_retries = retries >= self.agent.max_retries or seconds > LONGEST_WAIT
                if not error.transient or (is_past_retries and not self.agent.can_fall_back):
                    raise
                if self.draft.has_begun:
                    self._count_usage()
                self.draft.begin_again(was_shown=self.has_token_streaming)
                if is_past_retries:
                    first = self.agent.model
                    self.agent.fall_back()
                    self.journal.model_changed(first, self.agent.model, error)
                    retries = 0
                else:
                    retries += 1
                    self.journal.retry_scheduled(retries, seconds, error)
                    await asyncio.sleep(seconds)
        return self._take_answer()

    async def _stream(self) -> None:
        request = self.agent.request(make_well_formed(self.agent.history))
        self._is_calling_model = True
        self.journal.model_called(self.agent.model)
        try:
            async with self.agent.provider.stream(request) as batches:
                asked_at = time.monotonic()
                async for batch in batches:
                    self._check()
                    self._take_chunks(batch)
                    # A hundred streams that wake for each word cost more than all the rest. A word that had to be
                    # waited for came alone: rest, and the next ones come together.
                    if time.monotonic() - asked_at > WAITED_SECONDS and (rest := self.journal.rest_seconds) > 0:
                        await asyncio.sleep(rest)
                    asked_at = time.monotonic()
        finally:
            self.model_closed_at = time.time()

    def _take_chunks(self, batch: Sequence[Chunk]) -> None:
        draft = self.draft
        texts: list[str] = []
        for chunk in batch:
            if isinstance(chunk, TextDelta):
                texts.append(chunk.text)
            elif isinstance(chunk, ReasoningDelta):
                draft.has_begun = True
                if self.has_token_streaming and not draft.is_reasoning_held_back:
                    draft.is_reasoning_shown = True
                    self.journal.add_reasoning(storable_text(chunk.text))
            elif isinstance(chunk, ToolCallDelta):
                draft.has_begun = True
                draft.add_call(chunk)
            elif isinstance(chunk, UsageReport):
                draft.usage = chunk.usage
        if texts:
            self._arrivals.append((time.time(), len(texts)))
            draft.has_begun = True
            self._say(storable_text("".join(texts)))
        if draft.has_begun and self.first_token_at is None:
            self.first_token_at = datetime.now(UTC)

    def _say(self, text: str) -> None:
        new = self.draft.add_text(text)
        if new is None:
            self._part_with_shown()
            new = self.draft.text
        if new and self.has_token_streaming:
            self.journal.add_text(new)

    def _part_with_shown(self) -> None:
        """The model, asked again, says something else: what was shown stays, as a message of its own."""
        self._add_message(Message("assistant", self.draft.part_with_shown(), partial=True))

    def _take_answer(self) -> tuple[ToolCall, ...]:
        """The whole answer becomes a message."""
        self._count_usage()
        if self.draft.is_shorter_than_shown():
            self._part_with_shown()
        text = self.draft.text
        calls = give_unique_ids(self.draft.calls, self._used_ids)
        self._used_ids.update(call.id for call in calls)
        self.draft = Draft()
        if text or calls:
            self._add_message(Message("assistant", text, tool_calls=calls))
        if calls:
            self.step = Step(calls, position=self.agent.last_position)
        self.output = text or self.output
        return calls

    def _keep_partial_text(self) -> None:
        if text := self.draft.kept_text:
            self._add_message(Message("assistant", text, partial=True), is_shown=self.has_token_streaming)
            self.output = text
        self.draft = Draft()

    def _add_message(self, message: Message, *, is_shown: bool = True) -> None:
        if message.text:
            self.said.append(message.text)
        self.agent.extend_history([message])
        self.journal.add_message(self.agent.last_position, message, is_shown=is_shown)

    def _count_usage(self) -> None:
        """What the provider says it cost, or an estimate where it says nothing."""
        self._is_calling_model = False
        prices, said = self.agent.prices, self.draft.usage
        if said is not None:
            is_assumed = self.agent.are_prices_assumed
            priced = prices.of(said.prompt_tokens, said.completion_tokens, is_estimated=is_assumed)
            # Some providers say what a call cost; the agent's own prices, where it has any, go before that.
            self.usage += said if priced.cost is None or (is_assumed and said.cost is not None) else priced
            return
        asked = len(self.agent.system_prompt) + sum(len(message.text) for message in self.agent.history)
        self.usage += prices.of(
            asked // CHARACTERS_A_TOKEN + 1, self.draft.characters // CHARACTERS_A_TOKEN + 1, is_estimated=True
        )

    # -- the tools -------------------------------------------------------------------------------------------------

    async def _run_tools(self, calls: Sequence[ToolCall]) -> NeedsApproval | None:
        """Execute calls up to the first that a person must decide on: nothing overtakes that one."""
        step = self.step
        assert step is not None
        asked = {call: self.agent.find_ask(call) for call in calls if call.id not in step.approved}
        asks = tuple(ask for ask in asked.values() if ask is not None)
        ready = calls[: calls.index(asks[0].call)] if asks else calls
        for group in [ready] if self.agent.setup.has_parallel_tools else [[call] for call in ready]:
            await self._start_and_execute(group)
        if asks:
            await self.journal.flush()
            self._check()
            return NeedsApproval(asks, self.agent.history[-1].text)
        self._complete_step()
        return None

    async def _go_on_with_step(self, step: Step) -> NeedsApproval | None:
        """After a crash or a decision. A call that had started is not executed again, unless its tool says that this
        does no harm."""
        again = []
        for call in step.open_calls:
            tool = self.agent.tools.get(call.name)
            if call.id in step.started and not (tool is not None and tool.is_repeatable):
                self._answer(call, ToolResult(OUTCOME_UNKNOWN, is_error=True), "interrupted")
            else:
                again.append(call)
        await self.journal.flush()
        return await self._run_tools(again)

    async def _start_and_execute(self, calls: Sequence[ToolCall]) -> None:
        """Execute calls side by side. Nothing starts before the journal has stored that it does."""
        step = self.step
        assert step is not None
        self._check()
        for call in calls:
            step.announced.add(call.id)
            self.journal.tool_started(step.as_decided(call))
        await self.journal.flush()
        self._check()
        running = {self._start(step, call): call for call in calls}
        try:
            waiting = set(running)
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._answer(running[task], task.result(), "finished")
                await self.journal.flush()
        except BaseException:
            await self._cancel_tools(running)
            raise

    def _start(self, step: Step, call: ToolCall) -> asyncio.Task[ToolResult]:
        step.started.add(call.id)
        self._tool_begun_at[call.id] = time.monotonic()
        return asyncio.create_task(self._execute(step.as_decided(call)), name=f"tool {call.name}")

    async def _execute(self, call: ToolCall) -> ToolResult:
        tool = self.agent.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.agent.tools) or "none"
            return ToolResult(f"There is no tool {call.name!r}. Tools you can call: {known}.", is_error=True)

        def report(text: str, fraction: float | None = None) -> None:
            if not self._is_closed and self.step is not None and call.id not in self.step.answers:
                self.journal.tool_progressed(call, clean_text(text), fraction)

        work = asyncio.create_task(tool.call(call.arguments, self.make_context(call, report)), name=f"call {call.name}")
        try:
            # The tool ends itself at its time-out; one that ignores that is given up a little later.
            await asyncio.wait({work}, timeout=tool.timeout_seconds + self.grace_seconds)
        except asyncio.CancelledError:
            if await self._cancel_work(work, tool) and not work.cancelled() and work.exception() is None:
                return work.result()  # it had its result after all
            raise
        if not work.done():
            await self._cancel_work(work, tool)
            return ToolResult(
                f"The tool {call.name} did not finish within {tool.timeout_seconds:g} seconds.", is_error=True
            )
        if work.cancelled() or work.exception() is not None:
            return ToolResult(f"The tool {call.name} failed.", is_error=True)
        return work.result()

    async def _cancel_work(self, work: asyncio.Task[ToolResult], tool: Tool) -> bool:
        """Cancel a tool; whether it ended within the grace period."""
        work.cancel()
        await asyncio.wait({work}, timeout=self.grace_seconds)
        if not work.done():
            logger.warning("The tool %s ignored its cancellation and was abandoned.", tool.name)
            _abandoned.add(work)
            work.add_done_callback(_forget)
        return work.done()

    async def _cancel_tools(self, running: dict[asyncio.Task[ToolResult], ToolCall]) -> None:
        """The run is interrupted: tools that still had a result keep it."""
        for task in running:
            task.cancel()
        await asyncio.wait(running)  # each is bounded by its grace period
        for task, call in running.items():
            is_open = self.step is not None and call.id not in self.step.answers
            if is_open and not task.cancelled() and task.exception() is None:
                self._answer(call, task.result(), "finished")

    def _answer(self, call: ToolCall, result: ToolResult, state: State) -> None:
        step = self.step
        assert step is not None
        if state != "not_started":
            result = step.annotate(call, result)
        message = step.answer(call, result, state)
        self.call_states.append((call, state))
        self.journal.add_message(step.position_of(call), message, is_shown=False)
        begun_at = self._tool_begun_at.pop(call.id, None)
        seconds = time.monotonic() - begun_at if begun_at is not None else None
        self.journal.tool_completed(call, result, state=state, seconds=seconds)

    def _complete_step(self) -> None:
        assert self.step is not None
        self.agent.extend_history(self.step.messages)
        self.step = None


def _backoff(retries: int) -> float:
    """Half a second, then twice as long each time, spread so that many runs do not come back together."""
    spread: float = random.uniform(0.75, 1.25)  # noqa: S311
    return min(0.5 * 2.0**retries, 20.0) * spread


def _forget(work: asyncio.Task[ToolResult]) -> None:
    _abandoned.discard(work)
    if not work.cancelled() and (error := work.exception()) is not None:
        logger.warning("An abandoned tool ended with %r.", error)
