"""DMark Mobile: parameters of a GET, one entry a step, answered with JSON."""

from __future__ import annotations

import json

from ussd_server.gateways.fields import RequestFields, json_reply, query_request, split_dialled
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

ACTIONS = {Action.CONTINUE: "request", Action.END: "end"}


class DMark(Gateway):
    """A Ugandan aggregator of all networks. It sends no network and no end of a session."""

    name = "dmark"

    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        """Parse `transactionId msisdn ussdServiceCode ussdRequestString response`.

        `response` is `false` on the first step, whose request string is the dialled text.
        """
        fields = RequestFields.of_form(request)
        service_code = fields.service_code("ussdServiceCode")
        text = fields.text("ussdRequestString")
        kind = StepKind.BEGIN if fields.value("response").lower() == "false" else StepKind.INPUT
        if kind is StepKind.BEGIN:
            service_code, text = split_dialled(text, service_code, options.codes)
        return UssdStep(
            provider_session_id=fields.session_id("transactionId"),
            phone_number=fields.phone_number("msisdn"),
            service_code=service_code,
            network="",
            kind=kind,
            text=text,
            cumulative=False,
        )

    def write(self, screen: GatewayScreen, _step: UssdStep | None) -> GatewayReply:
        """Write the screen and whether the subscriber may answer it."""
        return json_reply({"responseString": screen.text, "action": ACTIONS[screen.action]})

    def request_of(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        return query_request(
            {
                "transactionId": call.session_id,
                "msisdn": call.digits,
                "ussdServiceCode": call.service_code,
                "ussdRequestString": call.newest(call.string),
                "response": "true" if call.entries else "false",
            }
        )

    def screen_of(self, reply: GatewayReply) -> GatewayScreen:
        body = json.loads(reply.body)
        return GatewayScreen(Action.CONTINUE if body["action"] == "request" else Action.END, body["responseString"])
