"""Screens that were just submitted: an operator that repeats a step gets the same one again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ussd_server.gateways.messages import GatewayScreen, StepKind
from ussd_server.smpp.steps import SmppStep

_REPEAT_SECONDS = 2.0
# Without an acknowledgement a screen counts as lost then.
_LOST_SECONDS = 60.0


@dataclass(slots=True)
class SentScreen:
    """The screen of a step. `until` is when an equal step is a new one."""

    step: SmppStep
    screen: GatewayScreen
    until: float


class SentScreens:
    """The last screen of each session of a link, while an equal step would be a repeat.

    A BEGIN is not kept: the service knows whether it repeats the last one.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._sent = dict[tuple[str, str], SentScreen]()
        self._next_sweep = 0.0

    def repeated(self, step: SmppStep) -> GatewayScreen | None:
        """Return the screen of a step whose submit_sm was not acknowledged yet, or less than two seconds ago."""
        sent = self._sent.get((step.phone_number, step.session))
        if step.kind is not StepKind.INPUT or sent is None or sent.until < self._monotonic():
            return None
        return sent.screen if sent.step.text == step.text else None

    def submitting(self, step: SmppStep, screen: GatewayScreen) -> SentScreen:
        """Keep the screen of a step that is about to be submitted."""
        self._sweep()
        sent = SentScreen(step, screen, self._monotonic() + _LOST_SECONDS)
        if step.kind is StepKind.INPUT:
            self._sent[step.phone_number, step.session] = sent
        else:
            self._sent.pop((step.phone_number, step.session), None)
        return sent

    def acknowledged(self, sent: SentScreen) -> None:
        """Note that the operator has answered the submit_sm of a screen."""
        sent.until = self._monotonic() + _REPEAT_SECONDS

    def _sweep(self) -> None:
        """Drop what is too old, every two seconds."""
        now = self._monotonic()
        if now >= self._next_sweep:
            self._next_sweep = now + _REPEAT_SECONDS
            self._sent = {key: sent for key, sent in self._sent.items() if sent.until >= now}
