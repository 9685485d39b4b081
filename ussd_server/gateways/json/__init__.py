"""Our own format, for gateways that can choose: one small JSON object in, one out.

A step is a POST of

    {"session_id": "8f1c", "phone_number": "+256772123456", "service_code": "*384*123#", "network": "64110",
     "text": "2*5000", "kind": "begin", "sequence": 1}

`session_id` (1 to 128 printable ASCII characters) and `phone_number` are required. `text` is this entry alone; at the
beginning, the text dialled after the service code; on a cumulative channel, the whole history joined with `*`. `kind`
is `begin`, `input`, `end`, `abort` or `timeout`; without it, an empty text begins. `sequence` counts the steps of the
session from 1 and makes repeats safe. `"cumulative": true` does for one step what the channel's option does for all.
`provider_session_id` and `msisdn` are other names of the first two. Other members are ignored.

The reply is `{"action": "continue", "message": "...", "text": "..."}`, or `"end"` for the last screen; `text` repeats
`message`. The status is always 200.
"""

from __future__ import annotations

import json

from ussd_server.gateways.fields import RequestFields, json_reply, json_request
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


class PlainJson(Gateway):
    name = "json"

    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        """Parse `session_id phone_number service_code network text kind sequence`."""
        fields = RequestFields.of_json(request)
        cumulative = options.cumulative is True or fields.is_true("cumulative")
        text = fields.text("text")
        if cumulative:
            text = text.lstrip("*")
        kind = fields.kind("kind", absent=StepKind.INPUT if text else StepKind.BEGIN)
        return UssdStep(
            provider_session_id=fields.session_id("session_id" if fields.has("session_id") else "provider_session_id"),
            phone_number=fields.phone_number("phone_number" if fields.has("phone_number") else "msisdn"),
            service_code=fields.service_code("service_code"),
            network=fields.network("network"),
            kind=kind,
            text=text,
            cumulative=cumulative,
            sequence=fields.number("sequence"),
        )

    def write(self, screen: GatewayScreen, _step: UssdStep | None) -> GatewayReply:
        """Write the screen and whether the subscriber may answer it."""
        return json_reply({"action": screen.action.value, "message": screen.text, "text": screen.text})

    def request_of(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        text = call.history if cumulative else call.newest(call.dialled)
        return self._post(call, "input" if call.entries else "begin", text, len(call.entries) + 1)

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return self._post(call, "end", "", len(call.entries) + 2)

    def screen_of(self, reply: GatewayReply) -> GatewayScreen:
        body = json.loads(reply.body)
        return GatewayScreen(Action(body["action"]), body["message"])

    @staticmethod
    def _post(call: HandsetCall, kind: str, text: str, sequence: int) -> GatewayRequest:
        return json_request(
            {
                "session_id": call.session_id,
                "phone_number": call.phone_number,
                "service_code": call.service_code,
                "network": call.network,
                "text": text,
                "kind": kind,
                "sequence": sequence,
            }
        )


GATEWAY = PlainJson()
