"""Steps whose screens were just sent, or were not: an equal step may be a repeat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ussd_server.gateways.messages import StepKind
from ussd_server.smpp.steps import SmppStep

# Nobody has read a screen so soon. Whether the operator has acknowledged it says nothing: some do so 20 seconds later.
_REPEAT_SECONDS = 2.0
# So long an equal step repeats one whose screen was not sent: nobody can have read that.
_UNSEEN_SECONDS = 60.0


@dataclass(slots=True)
class SubmittedStep:
    """A step whose screen was submitted. `until` is when an equal step is a new one."""

    step: SmppStep
    until: float


class SubmittedSteps:
    """The last step of each session of a link, while an equal one may repeat it.

    The service decides: another process may have answered a step of the session since. Whether a BEGIN repeats the last
    one, the service knows by itself.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._submitted = dict[tuple[str, str], SubmittedStep]()
        self._next_sweep = 0.0

    def may_repeat(self, step: SmppStep) -> bool:
        """Whether an equal step's screen was sent less than two seconds ago, or was not sent."""
        last = self._submitted.get((step.phone_number, step.session))
        if step.kind is not StepKind.INPUT or last is None or last.until < self._monotonic():
            return False
        return last.step.text == step.text

    def submitting(self, step: SmppStep) -> SubmittedStep:
        """Keep a step whose screen is about to be submitted."""
        self._sweep()
        submitted = SubmittedStep(step, self._monotonic() + _UNSEEN_SECONDS)
        if step.kind is StepKind.INPUT:
            self._submitted[step.phone_number, step.session] = submitted
        else:
            self._submitted.pop((step.phone_number, step.session), None)
        return submitted

    def sent(self, submitted: SubmittedStep) -> None:
        """Note that the screen was sent."""
        submitted.until = self._monotonic() + _REPEAT_SECONDS

    def _sweep(self) -> None:
        """Drop what is too old, every two seconds."""
        now = self._monotonic()
        if now >= self._next_sweep:
            self._next_sweep = now + _REPEAT_SECONDS
            self._submitted = {key: each for key, each in self._submitted.items() if each.until >= now}
