"""Africa's Talking: form posts with the whole history in `text`, answered with `CON ` or `END `."""

from __future__ import annotations

from ussd_server.gateways.fields import RequestFields, form_request, plain_reply
from ussd_server.gateways.messages import (
    AS_DOCUMENTED,
    Action,
    ChannelOptions,
    Gateway,
    GatewayReply,
    GatewayRequest,
    GatewayScreen,
    HandsetCall,
    SessionEnd,
    SessionOutcome,
    StepKind,
    UnreadableError,
    UssdStep,
)

PREFIXES = {Action.CONTINUE: "CON ", Action.END: "END "}
ACTIONS = {prefix: action for action, prefix in PREFIXES.items()}
OUTCOMES = {
    "success": SessionOutcome.COMPLETED,
    "incomplete": SessionOutcome.ABANDONED,
    "failed": SessionOutcome.FAILED,
}


class AfricasTalking(Gateway):
    """An empty history marks the first step; a repeated first step looks the same."""

    name = "africastalking"
    other_names = ("at",)
    sends_events = True

    def read(self, request: GatewayRequest, options: ChannelOptions = AS_DOCUMENTED) -> UssdStep:
        """Parse `sessionId phoneNumber networkCode serviceCode text`. The first two are required.

        Drops leading stars: some senders add one, and an empty first entry leaves one.
        """
        fields = RequestFields.of_form(request)
        cumulative = options.cumulative is not False
        text = fields.text("text")
        if cumulative:
            text = text.lstrip("*")
        return UssdStep(
            provider_session_id=fields.session_id("sessionId"),
            phone_number=fields.phone_number("phoneNumber"),
            service_code=fields.service_code("serviceCode"),
            network=fields.network("networkCode"),
            kind=StepKind.INPUT if text else StepKind.BEGIN,
            text=text,
            cumulative=cumulative,
        )

    def write(self, screen: GatewayScreen, _step: UssdStep | None) -> GatewayReply:
        """Write `CON ` or `END ` and the screen."""
        return plain_reply(PREFIXES[screen.action] + screen.text)

    def read_event(self, request: GatewayRequest) -> SessionEnd:
        """Parse the report on an ended session.

        Never reads `input`, `hopsMetadata` and `lastAppResponse`: they repeat what the subscriber typed, PINs included.
        """
        fields = RequestFields.of_form(request)
        outcome = OUTCOMES.get(fields.value("status").lower())
        if outcome is None:
            raise UnreadableError("status is not an outcome")
        return SessionEnd(
            provider_session_id=fields.session_id("sessionId"),
            phone_number=fields.phone_number("phoneNumber"),
            outcome=outcome,
        )

    def request_of(self, call: HandsetCall, *, cumulative: bool | None) -> GatewayRequest:
        text = call.newest(call.dialled) if cumulative is False else call.history
        return form_request(self._fields(call) | {"text": text})

    def hang_up(self, call: HandsetCall) -> GatewayRequest | None:
        return form_request(self._fields(call) | {"status": "Incomplete", "hopsCount": str(len(call.entries) + 1)})

    def screen_of(self, reply: GatewayReply) -> GatewayScreen:
        text = reply.body.decode()
        return GatewayScreen(ACTIONS[text[:4]], text[4:])

    @staticmethod
    def _fields(call: HandsetCall) -> dict[str, str]:
        return {
            "sessionId": call.session_id,
            "phoneNumber": call.phone_number,
            "networkCode": call.network,
            "serviceCode": call.service_code,
        }


GATEWAY = AfricasTalking()
