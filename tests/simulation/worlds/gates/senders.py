"""Keys, people and menus that send money of one client, some within a daily limit, and are revoked before it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from tests.simulation.worlds.callers import Answer, Callers, create_client
from tests.simulation.worlds.gates.plan import GUARDED
from tests.simulation.worlds.plan import Incident
from tests.simulation.worlds.scheduler import Scheduler
from tests.simulation.worlds.virtual_time import STARTED_AT
from tests.support.shop import shop_document
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.services.clients.keys.messages import CreateApiKey, UpdateApiKey
from ussd_server.services.clients.messages import CreateUser
from ussd_server.services.menus.messages import AssignCode, BindCode, SaveDraft
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout
from ussd_server.services.roles import PAGE_PERMISSIONS
from ussd_server.services.transactions.messages import CreateTransaction, TransactionType
from ussd_server.services.ussd.messages import BeginSession, EnterText

_SCOPES = ("transactions:*", "payouts:approve", "payouts:read", "menus:*", "ussd:*")
_ADDRESS = "192.0.2.1"
_PASSWORD = "correct horse battery"
_ROLE = "admin"


@dataclass
class Sender:
    """What sends in one incident: a key or a person, and how its call is authenticated."""

    id: str
    context: Callable[[Services], RequestContext]


class Senders:
    """The flows of one client's senders; each has a key or a person of its own."""

    def __init__(self, scheduler: Scheduler, callers: Callers, note: Callable[..., None]) -> None:
        self._scheduler, self._callers, self._note = scheduler, callers, note
        self._ways = {"payment": self._pay, "dated payout": self._pay_out, "menu": self._pay_by_menu}
        callers.kinds["sender"] = self._send

    @property
    def _client_id(self) -> str:
        return self._callers.contexts[GUARDED].client_id

    def _send(self, incident: Incident) -> None:
        given = incident.given
        sender = self._person(incident) if given["by_person"] else self._key(incident)
        if sender is None:
            return
        self._note("sender", sender=sender.id, limit=given["limit"])
        if given["revoked"]:
            self._scheduler.spawn(
                self._callers.outside, "revocation", lambda: self._revoke(sender, incident), given["revoked_after"]
            )
        self._ways[given["way"]](sender, incident)

    def _ask(
        self, incident: Incident, work: Callable[[Services], Answer], asked: list[dict[str, Any]] | None = None
    ) -> Answer:
        """Call until there is an answer; an empty one where the service refused, or never answered."""
        answer = self._callers.insist(incident, asked or [], work)
        return {} if answer is None or "refused" in answer else answer

    def _key(self, incident: Incident) -> Sender | None:
        request = CreateApiKey(_SCOPES, name=incident.given["name"], daily_limit_cents=incident.given["limit"])
        once = replace(incident, given=incident.given | {"again": []})
        operator = operator_context(self._client_id)
        made = self._ask(once, lambda services: {"key": services.api_keys.create(request, operator)}).get("key")
        if made is None:
            return None

        def context(services: Services) -> RequestContext:
            return RequestContext(services.auth.authenticate_key(made.apikey, made.apisecret, _ADDRESS).caller)

        return Sender(made.id, context)

    def _person(self, incident: Incident) -> Sender | None:
        request = CreateUser(self._client_id, _email_of(incident), _ROLE, _PASSWORD)
        once = replace(incident, given=incident.given | {"again": []})
        answer = self._ask(once, lambda services: {"person": services.clients.create_user(request, operator_context())})
        if not answer:
            return None
        user_id = answer["person"].user_id
        caller = Caller(
            CallerKind.TOKEN, client_id=self._client_id, user_id=user_id, login_id="", grants=PAGE_PERMISSIONS[_ROLE]
        )
        return Sender(user_id, lambda _: RequestContext(caller))

    def _revoke(self, sender: Sender, incident: Incident) -> None:
        """Operators take the right away; a client is enabled again later."""
        operator, how = operator_context(self._client_id), incident.given["revoked"]

        def revoke(services: Services) -> Answer:
            if how == "deleted key":
                services.api_keys.delete(sender.id, operator)
            elif how == "disabled key":
                services.api_keys.change(UpdateApiKey(sender.id, is_active=0), operator)
            elif how == "disabled person":
                services.clients.set_user_active(_email_of(incident), False, operator_context())
            else:
                services.clients.set_active(self._client_id, False, operator_context())
            self._note("revoked", sender=self._client_id if how == "disabled client" else sender.id, how=how)
            return {"done": True}

        def restore(services: Services) -> Answer:
            services.clients.set_active(self._client_id, True, operator_context())
            self._note("restored", sender=self._client_id)
            return {"done": True}

        once = replace(incident, given=incident.given | {"again": []})
        self._ask(once, revoke)
        if how == "disabled client":
            self._scheduler.pause(incident.given["restored_after"])
            self._ask(once, restore)

    def _asked(self, sender: Sender, row: dict[str, Any]) -> dict[str, Any]:
        return {"client": GUARDED, "kind": "disbursement", "sender": sender.id, **row}

    def _pay(self, sender: Sender, incident: Incident) -> None:
        """One payment after the other, by the key itself."""
        for row in incident.given["rows"]:

            def create(services: Services, row: dict[str, Any] = row) -> Answer:
                request = CreateTransaction(
                    TransactionType.DISBURSEMENT, row["phone"], row["cents"], row["name"], provider="mtn"
                )
                view = services.transactions.create(request, sender.context(services)).transaction
                return {"id": view.transaction_id, "status": view.status, "cents": view.amount_cents}

            self._ask(incident, create, [self._asked(sender, row)])
            self._scheduler.pause(row["rests"])

    def _pay_out(self, sender: Sender, incident: Incident) -> None:
        """A dated payout, made by another key, that the sender approves."""
        given = incident.given
        maker = self._callers.contexts[GUARDED]
        send_at = STARTED_AT + timedelta(seconds=incident.at + given["sent_after"])
        items = tuple(
            {"phone_number": row["phone"], "amount": row["cents"] // 100, "reference": row["name"].split("/")[1]}
            for row in given["rows"]
        )

        def send(services: Services) -> Answer:
            created = services.payouts.create(CreatePayout(given["name"], items=items, send_at=send_at), maker)
            services.payouts.approve(ApprovePayout(created.payout.payout_id), sender.context(services))
            # When it is due its rows may be beyond the limit.
            return {"approved": True}

        self._ask(incident, send, [self._asked(sender, row) for row in given["rows"]])

    def _pay_by_menu(self, sender: Sender, incident: Incident) -> None:
        """A menu that the key publishes, and phones that are paid by it."""
        given = incident.given
        menu_id, code = f"m{given['number']}", f"*384*{2000 + given['number']}#"
        pays = shop_document()["nodes"]["pay"] | {"kind": "disbursement"}
        document = shop_document(id=menu_id, title=menu_id, nodes={"pay": pays})
        once = replace(incident, given=given | {"again": []})
        steps: tuple[Callable[[Services], object], ...] = (
            lambda services: services.channels.assign_code(AssignCode(code, self._client_id), operator_context()),
            lambda services: services.menus.save_draft(SaveDraft(menu_id, document), sender.context(services)),
            lambda services: services.menus.publish(menu_id, sender.context(services)),
            lambda services: services.menus.bind_code(BindCode(code, menu_id), sender.context(services)),
        )
        for step in steps:
            self._ask(once, lambda services, step=step: {"done": bool(step(services) or True)})  # type: ignore[misc]
        for row in given["rows"]:
            self._dial(sender, incident, row, code)
            self._scheduler.pause(row["rests"])

    def _dial(self, sender: Sender, incident: Incident, row: dict[str, Any], code: str) -> None:
        once = replace(incident, given=incident.given | {"again": []})
        caller = self._callers.contexts[GUARDED]

        def begin(services: Services) -> Answer:
            return {"session": services.api_sessions.begin(BeginSession(row["phone"], code), caller).session_id}

        session = self._ask(once, begin).get("session")
        entries = ("1", str(row["cents"] // 100), "1")
        for turn, text in enumerate(entries, 1):
            if session is None:
                return

            def enter(services: Services, turn: int = turn, text: str = text) -> Answer:
                view = services.api_sessions.enter(EnterText(session, text, turn), caller)
                return {"accepted": "Approve" in view.message}

            is_last = turn == len(entries)
            asked = [self._asked(sender, row)] if is_last else []
            if not self._ask(incident if is_last else once, enter, asked):
                return


def _email_of(incident: Incident) -> str:
    return f"{incident.given['name']}@guarded.example"


def create_guarded(services: Services, callers: Callers) -> None:
    """Create the client of the senders, with money."""
    assert len(callers.contexts) == GUARDED
    create_client(services, callers)
