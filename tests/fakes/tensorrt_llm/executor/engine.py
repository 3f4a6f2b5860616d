"""Scheduler and steps: what runs in a process of its own in the real package."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from typing import TYPE_CHECKING, Any

from tensorrt_llm import pretend
from tensorrt_llm.executor.result import Logprob
from tensorrt_llm.executor.utils import EngineDeadError, RequestError

if TYPE_CHECKING:
    from tensorrt_llm.llmapi.llm import RequestOutput
    from tensorrt_llm.llmapi.llm_args import TorchLlmArgs


class Executor:
    """Runs at most ``max_batch_size`` requests at a time, in order of arrival."""

    def __init__(self, args: TorchLlmArgs) -> None:
        self.args = args
        self.running: dict[int, Running] = {}
        self.waiting: dict[int, Running] = {}
        self.aborts: list[int] = []
        self.most_running = 0
        self.fatal: BaseException | None = None
        self.is_down = False
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def submit(self, request: Running) -> None:
        self.waiting[request.result.request_id] = request
        self._wake()

    def abort_request(self, number: int) -> None:
        if self.is_down:
            raise RuntimeError("the request queue is closed")
        self.aborts.append(number)
        self._wake()

    def shutdown(self, cause: BaseException | None = None) -> None:
        self.is_down = True
        self.fatal = self.fatal or cause
        pending = [*self.running.values(), *self.waiting.values()]
        self.running.clear()
        self.waiting.clear()
        for request in pending:
            request.end(cause)

    async def wait_idle(self) -> None:
        """For tests: until no request is left in here."""
        if self._task is not None:
            await self._task

    def _wake(self) -> None:
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="fake engine")

    async def _run(self) -> None:
        while self.running or self.waiting or self.aborts:
            self._changed.clear()
            self._drop_aborted()
            while self.waiting and len(self.running) < (self.args.max_batch_size or 1):
                number = next(iter(self.waiting))
                self.running[number] = self.waiting.pop(number)
            self.most_running = max(self.most_running, len(self.running))
            moved = [request.step() for request in list(self.running.values())]
            self.running = {n: r for n, r in self.running.items() if not r.ended}
            if any(moved) or not self.running:
                await asyncio.sleep(0)
            else:
                await self._wait_for_change()

    def _drop_aborted(self) -> None:
        for number in self.aborts:
            request = self.running.pop(number, None) or self.waiting.pop(number, None)
            if request is not None:
                request.respond([], [], "cancelled")
        self.aborts.clear()

    async def _wait_for_change(self) -> None:
        holds = [request.hold for request in self.running.values() if request.hold]
        waits = [asyncio.ensure_future(event.wait()) for event in (self._changed, *holds)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class Running:
    """One request inside the engine."""

    def __init__(self, executor: Executor, result: RequestOutput, most: int) -> None:
        self.executor = executor
        self.result = result
        self.params = result.sampling_params
        self.most = most
        self.steps = iter(pretend.script(list(result.prompt_token_ids), self.params))
        self.tokens: list[int] = []
        self.logprobs: list[dict[int, Logprob]] = []
        self.unsent = 0
        self.hold: pretend.Hold | None = None
        self.ended = False
        processors = self.params.logits_processor or []
        processors = processors if isinstance(processors, list) else [processors]
        self.processors = [pickle.loads(pickle.dumps(one)) for one in processors]

    def step(self) -> bool:
        """One token further; False where the test holds it."""
        if self.hold is not None and not self.hold.is_set():
            return False
        self.hold = None
        match next(self.steps, None):
            case pretend.Hold() as hold:
                self.hold = hold
                hold.reached.set()
            case pretend.GivesUp():
                self.respond([], [], "cancelled")
            case pretend.Fails(message):
                self.end(RequestError(message))
            case pretend.Dies(error):
                self.executor.shutdown(error)
            case pretend.Step(token, logprobs):
                self._add(token, dict(logprobs))
            case None:
                end = self.params.end_id
                self._add(0 if end is None else end, {})
            case token:
                self._add(token, {})
        return True

    def end(self, error: BaseException | None) -> None:
        self.ended = True
        if error is None or self.result.aqueue is None:
            return
        dead = pretend.tells_of_death and self.executor.is_down
        self.result.aqueue.put_nowait(EngineDeadError(error) if dead else error)

    def respond(self, tokens: list[int], logprobs: list[Any], reason: str | None) -> None:
        self.ended = reason is not None
        if self.result.aqueue is not None:
            self.result.aqueue.put_nowait((tokens, logprobs, reason))

    def _add(self, token: int, logprobs: dict[int, float]) -> None:
        token = self._process(token, logprobs)
        self.tokens.append(token)
        self.unsent += 1
        if self.params.logprobs is not None:
            self.logprobs.append(self._ranked(token, logprobs))
        reason = self._reason(token)
        if reason or self.unsent >= (self.executor.args.stream_interval or 1):
            self.respond(self.tokens[-self.unsent :], self.logprobs[-self.unsent :], reason)
            self.unsent = 0

    def _reason(self, token: int) -> str | None:
        ends = token == self.params.end_id and not self.params.ignore_eos
        if ends or token in (self.params.stop_token_ids or ()):
            return "stop"
        return "length" if len(self.tokens) >= self.most else None

    def _ranked(self, token: int, logprobs: dict[int, float]) -> dict[int, Logprob]:
        """The token that was drawn first, then the ``logprobs`` likeliest."""
        ranked = sorted(logprobs.items(), key=lambda item: -item[1])
        ranks = {each: place for place, (each, _) in enumerate(ranked, 1)}
        chosen = {token: Logprob(logprobs.get(token, 0.0), ranks.get(token, 1))}
        for each, value in ranked[: self.params.logprobs]:
            chosen.setdefault(each, Logprob(value, ranks[each]))
        return chosen

    def _process(self, wanted: int, logprobs: dict[int, float]) -> int:
        """The likeliest token after the logits processors, if there are any."""
        if not self.processors:
            return wanted
        import torch

        size = pretend.vocabulary or max(wanted, *logprobs, 0) + 1
        rows = torch.full((1, 1, size), -20.0)
        for token, value in logprobs.items():
            rows[..., token] = value
        rows[..., wanted] = max([0.0, *logprobs.values()]) + 1.0
        lags = not self.executor.args.disable_overlap_scheduler and self.tokens
        known = [*self.result.prompt_token_ids, *(self.tokens[:-1] if lags else self.tokens)]
        for processor in self.processors:
            assert 4 <= len(inspect.signature(processor).parameters) <= 5
            processor(self.result.request_id, rows, [known], None, None)
        return int(rows.argmax())
