"""The SMPP process: it holds the binds of all SMPP channels, and gives each step to the service of gateways."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from ussd_server.bootstrap import Services
from ussd_server.context import new_request_id
from ussd_server.database.unit_of_work import DATABASE_ERRORS, close_connections, reason_of, release_connection
from ussd_server.gateways.messages import Action, GatewayScreen, StepKind
from ussd_server.gateways.smpp import smpp_request
from ussd_server.logs import Logger, now_about, trace_of
from ussd_server.outbound.transport import authorities
from ussd_server.services.ussd.smpp_links import BindReport, OpenLink
from ussd_server.smpp.bind import Bind, BindSettings, NotBoundError, UnansweredError
from ussd_server.smpp.dialects import read_dialect
from ussd_server.smpp.pdu import Message, Status
from ussd_server.smpp.repeats import SubmittedSteps
from ussd_server.smpp.steps import NoStepError, SmppStep, read_step, write_screen
from ussd_server.status import ServiceError
from ussd_server.threads import Turns

Result = TypeVar("Result")
_Answer = dict[str, str] | None
_InThread = Callable[[Callable[[], Any]], Awaitable[Any]]

log = Logger(__name__)

_FOLLOW_SECONDS = 2.0
_STOP_SECONDS = 0.2
# Each is started when the others are busy.
_MOST_THREADS = 512
# Steps of one link that are being answered. Beyond that the operator is asked to slow down.
_MOST_STEPS = 1000
# So long a screen waits for a bind after its own was lost.
_BIND_SECONDS = 10.0
_BIND_PAUSE_SECONDS = 0.1
# So long a stopping process answers the steps that it has acknowledged.
_GRACE_SECONDS = 10.0


class SmppProcess:
    """Serves all SMPP channels. Any number of processes may run, each with binds of its own."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._links = dict[OpenLink, _Link]()
        # Those that wait for clients' servers and PINs lend their turns, so that the others go on.
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "smpp")
        self._turns = Turns(services.settings.threads)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set, then answer what was acknowledged, unbind and return."""
        try:
            asyncio.run(self._serve(stop))
        finally:
            self._threads.shutdown()

    async def _serve(self, stop: threading.Event) -> None:
        loop = asyncio.get_running_loop()
        next_look = loop.time()
        while not stop.is_set():
            if loop.time() >= next_look:
                next_look = loop.time() + _FOLLOW_SECONDS
                await self._follow()
                await self._report()
            await asyncio.sleep(_STOP_SECONDS)
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._links.clear()
        await self._report()

    async def _follow(self) -> None:
        """Open the links that are new or changed, and close those that are gone."""
        wanted = await self._in_thread("read the links", self._services.smpp_links.open_links)
        if wanted is None:
            return
        gone = [link for link in self._links if link not in wanted]
        await asyncio.gather(*(self._links.pop(link).close() for link in gone))
        for link in wanted:
            if link not in self._links:
                self._links[link] = _Link(link, self._services, partial(self._in_thread, "answer a step"))

    async def _report(self) -> None:
        reports = [report for link in self._links.values() for report in link.reports()]
        await self._in_thread("report on binds", partial(self._services.smpp_links.report, reports))

    async def _in_thread(self, what: str, work: Callable[[], Result]) -> Result | None:
        """Do `work`, which uses the database, in a thread; return its result, None after an error."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._attempt, what, work)

    def _attempt(self, what: str, work: Callable[[], Result]) -> Result | None:
        with self._turns.working():
            try:
                return work()
            except DATABASE_ERRORS as error:
                why = reason_of(error)
                log.warning(f"the SMPP process could not work: {why}", work=what, error=type(error).__name__)
                close_connections()
            except Exception as error:
                log.error("the SMPP process could not work by a mistake of ours", work=what, error=trace_of(error))
            finally:
                release_connection()
        return None


class _Link:
    """One channel: its binds, and its steps that are being answered."""

    def __init__(self, link: OpenLink, services: Services, in_thread: _InThread) -> None:
        self._link = link
        self._services = services
        self._in_thread = in_thread
        self._dialect = read_dialect(link.dialect)
        self._submitted = SubmittedSteps()
        self._answering = set[asyncio.Task[None]]()
        settings = BindSettings(
            link.channel_id, link.host, link.port, link.system_id, link.password, _trust(link, services), link.window
        )
        self._binds = [Bind(settings, self._take, services.clock.now) for _ in range(link.binds)]
        self._running = [asyncio.create_task(bind.run()) for bind in self._binds]

    def reports(self) -> list[BindReport]:
        return [
            BindReport(self._link.channel_id, number, bind.state.value, bind.reason, bind.since, bind.counts)
            for number, bind in enumerate(self._binds)
        ]

    async def close(self) -> None:
        """Answer what was acknowledged, for ten seconds, and unbind. Later steps are refused."""
        for bind in self._binds:
            bind.is_closing = True
        if self._answering:
            await asyncio.wait(self._answering, timeout=_GRACE_SECONDS)
        for task in [*self._answering, *self._running]:
            task.cancel()
        await asyncio.gather(*self._answering, *self._running, return_exceptions=True)

    def _take(self, bind: Bind, message: Message) -> Status:
        """Begin to answer a message, and return the status of its response."""
        try:
            step = read_step(message, self._dialect)
        except NoStepError as why:
            log.warning("a message is no step", why=str(why), channel_id=self._link.channel_id)
            return why.status
        if len(self._answering) >= _MOST_STEPS:
            log.warning("a channel has too many steps at a time", channel_id=self._link.channel_id)
            return Status.QUEUE_FULL
        task = asyncio.create_task(self._answer(bind, message, step))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        return Status.OK

    async def _answer(self, bind: Bind, message: Message, step: SmppStep) -> None:
        answer = await self._in_thread(partial(self._ask, step, self._submitted.may_repeat(step)))
        if answer is None or step.kind is StepKind.END:
            return
        screen = GatewayScreen(Action(answer["action"]), answer["text"])
        was_sent = partial(self._submitted.sent, self._submitted.submitting(step))
        try:
            status = await self._submit(bind, write_screen(screen, message, self._dialect), was_sent)
        except (NotBoundError, UnansweredError) as why:
            bind.counts["lost"] += 1
            log.warning("a screen may be lost", why=type(why).__name__, channel_id=self._link.channel_id)
        else:
            if status == Status.OK:
                return
            bind.counts["failed"] += 1
            log.warning("the operator refused a screen", status=f"{status:#x}", channel_id=self._link.channel_id)
        if screen.action is Action.END:
            await self._in_thread(partial(self._record_undelivered, step))

    def _record_undelivered(self, step: SmppStep) -> None:
        now_about()
        request = smpp_request(step.session, step.phone_number, step.kind, step.code, step.text)
        with suppress(ServiceError):
            self._services.gateways.record_undelivered("smpp", self._link.path_secret, request)

    def _ask(self, step: SmppStep, may_repeat: bool) -> _Answer:
        """Give a step to the service of all gateways; None when the channel has just been closed."""
        now_about()
        request = smpp_request(step.session, step.phone_number, step.kind, step.code, step.text, may_repeat=may_repeat)
        with suppress(ServiceError):
            reply = self._services.gateways.answer("smpp", self._link.path_secret, request, new_request_id())
            answer: dict[str, str] = json.loads(reply.body)
            return answer
        return None

    async def _submit(self, bind: Bind, message: Message, was_sent: Callable[[], None]) -> int:
        """Submit through the step's bind, or another one while it is down. Raises NotBoundError, UnansweredError."""
        loop = asyncio.get_running_loop()
        last_look_at = loop.time() + _BIND_SECONDS
        while True:
            ready = next((each for each in (bind, *self._binds) if each.is_bound), None)
            if ready is not None:
                with suppress(NotBoundError):
                    return await ready.submit(message, was_sent)
            if loop.time() >= last_look_at:
                raise NotBoundError
            await asyncio.sleep(_BIND_PAUSE_SECONDS)


def _trust(link: OpenLink, services: Services) -> ssl.SSLContext | None:
    if not link.has_tls:
        return None
    if link.authority is not None:
        return ssl.create_default_context(cadata=link.authority)
    return authorities(services.settings.ca_file)
