"""Steps of operators that are connected by SMPP. `ussd-server smpp` writes them as JSON, and the console's phone too.

A step is `{"session_id": "smpp-311", "phone_number": "256772123456", "kind": "begin", "service_code": "",
"text": "*384*123#"}`. At a `begin`, `text` is what was dialled where `service_code` is empty, else what was dialled
after that code. The reply is `{"action": "continue", "text": "..."}`. The path of an SMPP channel is never shown, so
only these two send such steps. `"may_repeat": true` is for a step that equals one whose screen may not have arrived.
"""

from __future__ import annotations

import json

from ussd_server.gateways.fields import RequestFields, json_reply, json_request, split_dialled
from ussd_server.gateways.messages import (
    AS_DOCUMENTED,
    Action,
    ChannelOptions,
    Gateway,
    GatewayReply,
    GatewayRequest,
    GatewayScreen,
    HandsetCall,
    StepKind,
    UssdStep,
)


class Smpp(Gateway):
    name = "smpp"

    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        """Parse `session_id phone_number kind service_code text sequence`."""
        fields = RequestFields.of_json(request)
        kind = fields.kind("kind")
        code, text = fields.service_code("service_code"), fields.text("text")
        if kind is StepKind.BEGIN and (not code or text.startswith("*")):
            code, text = split_dialled(text, code, options.codes)
        return UssdStep(
            provider_session_id=fields.session_id("session_id"),
            phone_number=fields.phone_number("phone_number"),
            service_code=code,
            network="",
            kind=kind,
            text=text,
            cumulative=False,
            sequence=fields.number("sequence"),
            begins_anew=True,
            may_repeat=fields.is_true("may_repeat"),
        )

    def write(self, screen: GatewayScreen, _step: UssdStep | None) -> GatewayReply:
        """Write the screen and whether the subscriber may answer it."""
        return json_reply({"action": screen.action.value, "text": screen.text})

    def request_of(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        kind = StepKind.INPUT if call.entries else StepKind.BEGIN
        return self._request(call, kind, call.newest(call.dialled), len(call.entries) + 1)

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return self._request(call, StepKind.END, "", len(call.entries) + 2)

    def screen_of(self, reply: GatewayReply) -> GatewayScreen:
        body = json.loads(reply.body)
        return GatewayScreen(Action(body["action"]), body["text"])

    @staticmethod
    def _request(call: HandsetCall, kind: StepKind, text: str, sequence: int) -> GatewayRequest:
        return smpp_request(call.session_id, call.phone_number, kind, call.service_code, text, sequence)


GATEWAY = Smpp()


def smpp_request(
    session_id: str,
    phone_number: str,
    kind: StepKind,
    code: str,
    text: str,
    sequence: int | None = None,
    *,
    may_repeat: bool = False,
) -> GatewayRequest:
    """Return the request of a step. Operators do not number their steps; the console's phone does."""
    return json_request(
        {
            "session_id": session_id,
            "phone_number": phone_number,
            "kind": kind.value,
            "service_code": code,
            "text": text,
            "sequence": sequence,
            "may_repeat": may_repeat,
        }
    )
