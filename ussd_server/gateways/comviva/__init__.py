"""Airtel over Comviva Flares, HTTP pull: parameters of a GET, answered with text and `Freeflow` headers."""

from __future__ import annotations

from ussd_server.gateways.fields import UGANDAN_NETWORKS, RequestFields, plain_reply, query_request, split_dialled
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

FREEFLOW = {Action.CONTINUE: "FC", Action.END: "FB"}


class Comviva(Gateway):
    """The first `input` of a session is the dialled string without star and hash, and nothing marks it as the first.

    Therefore every step has both meanings: `text` for an existing session, `opening_text` and the service code for a
    new one. The code is set only when it is one of the channel's, because the same digits could be an entry.
    """

    name = "comviva"

    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        """Parse `SessionID MSISDN input`, or the notice `SessionID msisdn clean error` that a session is over.

        Ignores `MSC`, `userid` and `password`: the channel's path is the credential.
        """
        fields = RequestFields.of_form(request)
        over = fields.has("clean")
        text = "" if over else fields.text("input")
        service_code, opening_text = split_dialled(text, "", options.codes)
        return UssdStep(
            provider_session_id=fields.session_id("SessionID"),
            phone_number=fields.phone_number("MSISDN"),
            service_code=service_code,
            network=UGANDAN_NETWORKS["airtel"],
            kind=StepKind.END if over else StepKind.INPUT,
            text=text,
            cumulative=False,
            opening_text=None if over else opening_text,
        )

    def write(self, screen: GatewayScreen, _step: UssdStep | None) -> GatewayReply:
        """Write the screen without leading blanks, which Comviva shows as an empty line, and charge nothing."""
        headers = {"Freeflow": FREEFLOW[screen.action], "charge": "N", "amount": "0"}
        return plain_reply(screen.text.lstrip(), headers)

    def request_of(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        return query_request(
            {
                "SessionID": call.session_id,
                "MSISDN": call.digits,
                "input": call.newest(call.string.strip("*#")),
            }
        )

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return query_request(
            {"SessionID": call.session_id, "msisdn": call.digits, "clean": "clean-session", "error": "0"}
        )

    def screen_of(self, reply: GatewayReply) -> GatewayScreen:
        action = Action.CONTINUE if reply.headers["Freeflow"] == "FC" else Action.END
        return GatewayScreen(action, reply.body.decode())


GATEWAY = Comviva()
