"""MTN over MADAPI: JSON posts, one entry a step, answered with a JSON object around the screen."""

from __future__ import annotations

import json

from ussd_server.gateways.fields import UGANDAN_NETWORKS, RequestFields, json_reply, json_request, split_dialled
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
    UnreadableError,
    UssdStep,
)

# 3 acknowledges a notification. We send none, and treating it as an entry is harmless.
KINDS = {
    "0": StepKind.BEGIN,
    "1": StepKind.INPUT,
    "2": StepKind.END,
    "3": StepKind.INPUT,
    "4": StepKind.ABORT,
    "5": StepKind.TIMEOUT,
}
MESSAGE_TYPES = {Action.CONTINUE: 1, Action.END: 2}


class Madapi(Gateway):
    """The inbound half of the MTN Messaging USSD API."""

    name = "madapi"

    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        """Parse `sessionId messageType msisdn serviceCode ussdString`; the first string is the dialled one."""
        fields = RequestFields.of_json(request)
        kind = KINDS.get(fields.value("messageType"))
        if kind is None:
            raise UnreadableError("messageType is not one of 0 to 5")
        service_code = fields.service_code("serviceCode")
        text = fields.text("ussdString")
        if kind is StepKind.BEGIN:
            service_code, text = split_dialled(text, service_code, options.codes)
        return UssdStep(
            provider_session_id=fields.session_id("sessionId"),
            phone_number=fields.phone_number("msisdn"),
            service_code=service_code,
            network=UGANDAN_NETWORKS["mtn"],
            kind=kind,
            text=text,
            cumulative=False,
        )

    def write(self, screen: GatewayScreen, step: UssdStep | None) -> GatewayReply:
        """Write the screen with the step's session id, code and number. The same step gives the same bytes."""
        data = {
            "inboundResponse": screen.text,
            # MTN's schema requires this field in one place and does not list it in another.
            "outboundResponse": screen.text,
            "userInputRequired": screen.action is Action.CONTINUE,
            "messageType": MESSAGE_TYPES[screen.action],
            "serviceCode": step.service_code if step else "",
            "msisdn": step.phone_number.removeprefix("+") if step else "",
        }
        return json_reply(
            {
                "statusCode": "0000",
                "statusMessage": "Success",
                "transactionId": step.provider_session_id if step else "",
                "data": data,
                "_link": {"self": {"href": "/messages/ussd/inbound"}},
            }
        )

    def request_of(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        return self._post(call, "1" if call.entries else "0", call.newest(call.string))

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return self._post(call, "4", "")

    def screen_of(self, reply: GatewayReply) -> GatewayScreen:
        data = json.loads(reply.body)["data"]
        return GatewayScreen(Action.CONTINUE if data["userInputRequired"] else Action.END, data["inboundResponse"])

    @staticmethod
    def _post(call: HandsetCall, kind: str, text: str) -> GatewayRequest:
        return json_request(
            {
                "sessionId": call.session_id,
                "messageType": kind,
                "msisdn": call.digits,
                "serviceCode": call.service_code,
                "ussdString": text,
            }
        )
