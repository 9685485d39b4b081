"""Phone calls: one step of a phone company while it is answered."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.menus.engine.navigator import DisplayOptions
from ussd_server.menus.text.phrases import phrase
from ussd_server.menus.text.screen import MAX_SEPTETS, MAX_UCS2, Budget
from ussd_server.messages.channels import ChannelOfCall
from ussd_server.messages.gateways import Action, GatewayScreen, UssdStep
from ussd_server.services.ussd.actions import ActionContext
from ussd_server.services.ussd.conversations import Opening
from ussd_server.services.ussd.sessions import Arrived


@dataclass(slots=True)
class PhoneCall:
    """One step while it is answered, and what is known by now that a polite last screen would need."""

    step: UssdStep
    channel: ChannelOfCall
    request_id: str
    arrived: Arrived
    language: str = "en"
    had_paid: bool = False
    opening: Opening | None = None
    action_context: ActionContext | None = None

    def last_screen(self) -> GatewayScreen:
        """A screen for trouble; it never says that a payment failed when one may have been recorded."""
        paid = self.had_paid or (self.action_context is not None and self.action_context.may_have_paid)
        return GatewayScreen(Action.END, phrase("payment_processing" if paid else "trouble", self.language))

    @property
    def has_paid(self) -> bool:
        """Whether this step recorded a payment."""
        return self.action_context is not None and self.action_context.transaction_id is not None

    @property
    def code(self) -> str:
        """The code that was dialled; the channel's only one where the company does not say, else empty."""
        codes = self.channel.codes
        code = self.step.service_code or (codes[0] if len(codes) == 1 else "")
        return code if code in codes or not codes else ""

    @property
    def carrier(self) -> DisplayOptions:
        """How this channel carries screens, as the engine takes it."""
        septets, ucs2 = self.channel.septets, self.channel.ucs2
        budget = Budget(septets or MAX_SEPTETS, ucs2 or MAX_UCS2) if septets or ucs2 else None
        return DisplayOptions(self.channel.transliterates, budget)
