"""Hubtel programmable services: JSON posts, one entry a step with a sequence number, answered with JSON."""

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
    UnreadableError,
    UssdStep,
)

KINDS = {
    "initiation": StepKind.BEGIN,
    "response": StepKind.INPUT,
    "release": StepKind.ABORT,
    "timeout": StepKind.TIMEOUT,
}
TYPES = {Action.CONTINUE: "Response", Action.END: "Release"}


class Hubtel(Gateway):
    """The first `Message` is the whole dialled string; the service code comes without its stars and hash."""

    name = "hubtel"

    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        """Parse `Type SessionId Mobile ServiceCode Message Operator Sequence`."""
        fields = RequestFields.of_json(request)
        kind = KINDS.get(fields.value("Type").lower())
        if kind is None:
            raise UnreadableError("Type is not a kind of step")
        service_code = fields.service_code("ServiceCode")
        text = fields.text("Message")
        if kind is StepKind.BEGIN:
            service_code, text = split_dialled(text, service_code, options.codes)
        return UssdStep(
            provider_session_id=fields.session_id("SessionId"),
            phone_number=fields.phone_number("Mobile"),
            service_code=service_code,
            network=fields.network("Operator"),
            kind=kind,
            text=text,
            cumulative=False,
            sequence=fields.number("Sequence"),
        )

    def write(self, screen: GatewayScreen, _step: UssdStep | None) -> GatewayReply:
        """Write the screen and whether the subscriber may answer it. `ClientState` is not needed."""
        return json_reply({"Type": TYPES[screen.action], "Message": screen.text})

    def request_of(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        kind = "Response" if call.entries else "Initiation"
        return self._post(call, kind, call.newest(call.string), len(call.entries) + 1)

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return self._post(call, "Release", "", len(call.entries) + 2)

    def screen_of(self, reply: GatewayReply) -> GatewayScreen:
        body = json.loads(reply.body)
        return GatewayScreen(Action.CONTINUE if body["Type"] == "Response" else Action.END, body["Message"])

    @staticmethod
    def _post(call: HandsetCall, kind: str, message: str, sequence: int) -> GatewayRequest:
        return json_request(
            {
                "Type": kind,
                "SessionId": call.session_id,
                "Mobile": call.digits,
                "Message": message,
                "ServiceCode": call.service_code.strip("*#"),
                "Operator": call.network,
                "Sequence": sequence,
            }
        )
