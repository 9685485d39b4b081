"""Clients, phones and providers that call: each repeats its call until it has an answer, and some after that."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any
from urllib.parse import urlencode

from tests.simulation.worlds.database import SqliteWorld
from tests.simulation.worlds.plan import Incident
from tests.simulation.worlds.processes import Fleet
from tests.simulation.worlds.scheduler import Process, Scheduler
from tests.support.money import call_with_key
from tests.support.shop import CODE, Shop
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.database.unit_of_work import DATABASE_ERRORS
from ussd_server.gateways.messages import GatewayRequest
from ussd_server.models.clients import Client
from ussd_server.models.sending import Webhook
from ussd_server.services.accounts.ledger import set_fee
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.processing.messages import Callback
from ussd_server.services.transactions.messages import CreateDeposit, CreateRefund, CreateTransaction, TransactionType
from ussd_server.services.webhooks.messages import CreateWebhook
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id

_MOST_REPEATS = 8
_REPEAT_SECONDS = 2.0
_NAMED = ("name", "phone", "cents", "of", "sender")
_FEES = (("collection", 50, 100), ("disbursement", 30_000, 0), ("refund", 0, 50))

Answer = dict[str, Any]
# The callers of the prepared database, and the secret of its channel.
_PREPARED: dict[str, tuple[list[RequestContext], list[RequestContext], str]] = {}


class Callers:
    """Two clients, of which the first has a menu on a code. `outside` is the process of all callers."""

    def __init__(
        self,
        scheduler: Scheduler,
        database: SqliteWorld,
        fleet: Fleet,
        note: Callable[..., None],
        outside: Process,
        deposit_cents: int,
    ) -> None:
        self._scheduler, self._database, self._fleet, self._note = scheduler, database, fleet, note
        self.outside, self.deposit_cents = outside, deposit_cents
        self.contexts: list[RequestContext] = []
        self.approvers: list[RequestContext] = []
        self._numbers = count(1)
        self._channel = ""
        self.kinds: dict[str, Callable[[Incident], None]] = {
            "collection": self._pay,
            "disbursement": self._pay,
            "refund": self._pay,
            "phone": self._dial,
        }

    def set_up(self, services: Services, prepare: Callable[[Services], None]) -> None:
        """Begin with the clients, their fees, money, webhooks and menu: created once, and copied for each world."""
        name = f"{self._database.url} as prepared"
        if name not in _PREPARED:
            self._create_clients(services)
            prepare(services)
            self._database.copy("prepared")
            _PREPARED[name] = self.contexts, self.approvers, self._channel
        self._database.restore("prepared")
        self.contexts, self.approvers, self._channel = _PREPARED[name]
        for place, context in enumerate(self.contexts):
            hears = Webhook.select().where(Webhook.client_id == context.client_id).exists()
            self._note("client", client=context.client_id, place=place, cents=self.deposit_cents, has_receiver=hears)

    def _create_clients(self, services: Services) -> None:
        for _ in range(2):
            create_client(services, self)
        self._channel = Shop(services, client_id=self.contexts[0].client_id).channel.gateway_path.rpartition("/")[2]

    def call_back(self, provider: str, reference: str) -> None:
        """The provider calls back; the web process may do with it what it does with any call."""
        process, services = self._fleet.free_web()
        secret = services.runtime.tokens.callback_path(provider).rpartition("/")[2]

        def serve() -> None:
            try:
                services.callbacks.receive(Callback(provider, secret, json.dumps({"reference": reference}).encode()))
            except DATABASE_ERRORS:
                return

        self._scheduler.spawn(process, "callback", serve)

    def _pay(self, incident: Incident) -> None:
        self.insist(incident, [incident.given], lambda services: self._create(services, incident))

    def _dial(self, incident: Incident) -> None:
        """A phone walks to the payment of the menu; its gateway repeats what was not answered."""
        given = incident.given
        entries = ["1", str(given["cents"] // 100), "1"]
        for typed in range(len(entries) + 1):
            is_last = typed == len(entries)
            text = "*".join(entries[:typed])

            def step(services: Services, text: str = text) -> Answer:
                form = {
                    "sessionId": given["name"],
                    "phoneNumber": given["phone"],
                    "networkCode": "64110",
                    "serviceCode": CODE,
                    "text": text,
                }
                request = GatewayRequest("POST", body=urlencode(form).encode(), address="192.0.2.1")
                screen = services.gateways.answer("africastalking", self._channel, request, "r0").body.decode()
                return {"screen": screen.split("\n")[0], "accepted": "Approve" in screen}

            repeats = given if is_last else given | {"again": []}
            asked = {**given, "kind": "collection"}
            answer = self.insist(Incident(incident.at, incident.kind, repeats), [asked], step)
            if answer is None or answer.get("screen", "END").startswith("END"):
                return
            self._scheduler.pause(3.0)

    def insist(
        self, incident: Incident, asked: list[dict[str, Any]], work: Callable[[Services], Answer]
    ) -> Answer | None:
        """Call until there is an answer, and then again as often as the plan says; return the last answer."""
        again = list(incident.given["again"])
        answer = None
        for _ in range(_MOST_REPEATS):
            answer = self._call(incident, asked, work)
            if answer is None:
                self._scheduler.pause(_REPEAT_SECONDS)
            elif not again:
                break
            else:
                self._scheduler.pause(again.pop())
        return answer

    def _call(
        self, incident: Incident, asked: list[dict[str, Any]], work: Callable[[Services], Answer]
    ) -> Answer | None:
        """Call once in a web process; None when there was no answer in time."""
        process, services = self._fleet.free_web()
        numbers = [next(self._numbers) for _ in asked]
        for number, each in zip(numbers, asked, strict=True):
            named = {name: each[name] for name in _NAMED if name in each}
            client_id = self.contexts[each["client"]].client_id
            self._note("invoked", call=number, kind=each.get("kind", incident.kind), client=client_id, **named)
        answers: list[Answer] = []

        def serve() -> None:
            try:
                answers.append(work(services))
            except ServiceError as refusal:
                answers.append({"refused": refusal.code.name})
            except DATABASE_ERRORS:
                return
            except Exception as mistake:
                self._note("mistake", error=repr(mistake)[:300], step=incident.kind)

        task = self._scheduler.spawn(process, incident.kind, serve)
        self._scheduler.wait_for(task, incident.given["patience"])
        for number in numbers:
            self._note("answered" if answers else "unknown", call=number, **(answers[0] if answers else {}))
        return answers[0] if answers else None

    def _create(self, services: Services, incident: Incident) -> Answer:
        given = incident.given
        context = self.contexts[given["client"]]
        if incident.kind == "refund":
            found = self._database.rows(
                f"SELECT id FROM transactions WHERE reference = '{given['of']}' AND client_id = '{context.client_id}'"
            )
            if not found:
                raise ServiceError(Code.TRANSACTION_NOT_FOUND, "The client has no id of its collection")
            refund = CreateRefund(str(found[0][0]), given["name"], given["cents"])
            created = services.refunds.create(refund, context)
        else:
            kind = TransactionType(incident.kind)
            provider = given.get("provider", "mtn")
            request = CreateTransaction(kind, given["phone"], given["cents"], given["name"], provider=provider)
            created = services.transactions.create(request, context)
        view = created.transaction
        return {
            "id": view.transaction_id,
            "status": view.status,
            "cents": view.amount_cents,
            "replayed": created.replayed,
        }


def create_client(services: Services, callers: Callers) -> None:
    """Create a client with a key that asks, one that approves, fees, money, and a webhook."""
    now, place = services.clock.now(), len(callers.contexts)
    client_id = new_id(now)
    Client.insert(id=client_id, name=f"client {place}", is_active=True, created_at=now, updated_at=now).execute()
    client = RequestContext(Caller(CallerKind.KEY, client_id=client_id), request_id=f"r{place}")
    context = replace(call_with_key(services, client), request_id=f"r{place}")
    callers.contexts.append(context)
    callers.approvers.append(replace(call_with_key(services, client, "payouts:*"), request_id=f"r{place}"))
    for kind, fixed, share in _FEES:
        set_fee(FeeTerms(client_id, TransactionType(kind), fixed, share), operator_context(), now)
    services.deposits.create(CreateDeposit(client_id, callers.deposit_cents, f"float {place}"), operator_context())
    services.webhooks.create(CreateWebhook(f"http://127.0.0.1:9000/client-{place}"), context)
