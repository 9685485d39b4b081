"""DMark Mobile: parameters of a GET, one entry a step, answered with JSON."""

from __future__ import annotations

from ussd_server.gateways.fields import RequestFields, part_dialled
from ussd_server.gateways.replies import json_reply
from ussd_server.messages.gateways import (
    AS_DOCUMENTED,
    Action,
    ChannelOptions,
    GatewayReply,
    GatewayRequest,
    GatewayScreen,
    StepKind,
    UssdStep,
)

ACTIONS = {Action.CONTINUE: "request", Action.END: "end"}


class DMark:
    """A Ugandan aggregator of all networks; it names none of them and gives no notice of an end."""

    name = "dmark"

    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        """Understand `transactionId msisdn ussdServiceCode ussdRequestString response`.

        `response` is the word `false` on the first step of a session, whose request string is what was dialled.
        """
        fields = RequestFields.of_form(request)
        service_code = fields.service_code("ussdServiceCode")
        text = fields.text("ussdRequestString")
        kind = StepKind.BEGIN if fields.word("response").lower() == "false" else StepKind.INPUT
        if kind is StepKind.BEGIN:
            service_code, text = part_dialled(text, service_code, options.codes)
        return UssdStep(
            provider_session_id=fields.session_id("transactionId"),
            phone_number=fields.phone_number("msisdn"),
            service_code=service_code,
            network="",
            kind=kind,
            text=text,
            cumulative=False,
        )

    def write(self, screen: GatewayScreen, _step: UssdStep) -> GatewayReply:
        """The screen and whether an entry is awaited."""
        return _reply(screen)

    def write_error(self, text: str) -> GatewayReply:
        """A last screen."""
        return _reply(GatewayScreen(Action.END, text))


def _reply(screen: GatewayScreen) -> GatewayReply:
    return json_reply({"responseString": screen.text, "action": ACTIONS[screen.action]})
