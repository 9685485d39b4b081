"""Steps of a gateway: the data of one while it is answered, and its relation to its session."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.gateways.messages import Action, GatewayScreen, StepKind, UssdStep
from ussd_server.menus.engine.engine import dialled_entries
from ussd_server.menus.phrases import phrase
from ussd_server.services.ussd.answered import AnsweredSteps, AnsweredTexts
from ussd_server.services.ussd.lookup import CodeTarget
from ussd_server.services.ussd.messages import CachedChannel, SessionStatus
from ussd_server.services.ussd.sessions import StepInput
from ussd_server.values import unchanging


@unchanging
class Start:
    """A new session; `entries` were dialled with the code and are for fast-forward."""

    entries: tuple[str, ...] = ()


@unchanging
class Entry:
    """A new entry."""

    text: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeat of the step `turn` (0 is the first): the same reply, and no effect."""

    turn: int


@dataclass(frozen=True, slots=True)
class Restart:
    """A text that does not continue the session: log it, and begin a new session."""


@dataclass(frozen=True, slots=True)
class OutOfSequence:
    """A step number that is neither the last one nor the next: refuse it."""


Arrival = Start | Entry | Repeat | Restart | OutOfSequence


@dataclass(slots=True)
class PhoneStep:
    """One step while it is answered. `language` is for the error screen."""

    step: UssdStep
    channel: CachedChannel
    request_id: str
    input: StepInput
    client_id: str | None = None
    language: str = "en"
    target: CodeTarget | None = None

    def call_for(self, client_id: str) -> RequestContext:
        """Return the step as a call of its channel for a client: a subscriber has all that the client's menus offer."""
        caller = Caller(CallerKind.GATEWAY, client_id=client_id, grants=None, channel_id=self.channel.channel_id)
        return RequestContext(caller, self.request_id)

    def error_screen(self) -> GatewayScreen:
        """Return a last screen. It never says that a payment failed when one may have been created."""
        paid = self.input.effects.may_have_paid
        return GatewayScreen(Action.END, phrase("payment_processing" if paid else "trouble", self.language))

    @property
    def code(self) -> str:
        """The dialled code; the channel's only one when the gateway sends none, else empty."""
        codes = self.channel.codes
        code = self.step.service_code or (codes[0] if len(codes) == 1 else "")
        return code if code in codes or not codes else ""


def classify(step: UssdStep, code: str, answered: AnsweredSteps | None, known_turn: int | None) -> Arrival:
    """Decide whether a step starts a session, enters something or repeats a turn.

    `code` is the dialled one. `answered` is what the session has answered, None without a session or an answer.
    `known_turn` is the session's turn when the step was received, None when there was no session.
    """
    if answered is None:
        return Start(_dialled_entries(step))
    if not answered.is_over:
        return _within(step, code, answered, known_turn)
    if answered.status != SessionStatus.COMPLETED:
        return Start(_dialled_entries(step))
    # A last screen takes no entry: the same text repeats it, any other is a new call under the same session id.
    dials_again = step.cumulative and not step.text and answered.turn > 0
    arrival = _within(step, code, answered, None)
    if isinstance(arrival, Repeat) and not dials_again:
        return arrival
    return Start(_dialled_entries(step) if step.kind is StepKind.BEGIN else ())


def _within(step: UssdStep, code: str, answered: AnsweredSteps, known_turn: int | None) -> Arrival:
    """Classify a step of a session that has answered at least one step."""
    texts, last_number = answered.texts, answered.texts.turns[-1]["sequence"]
    if step.cumulative:
        return classify_text(texts, step.text)
    if step.sequence is not None and last_number is not None:
        arrival = classify_number(last_number, step.sequence, step.text)
        # A dialled text is never an entry, even if its number is that of the next step.
        dials_again = step.kind is StepKind.BEGIN and not isinstance(arrival, Repeat)
        return Start(_dialled_entries(step)) if dials_again else arrival
    # The first delivery was in progress when this one was received, or was answered a moment before.
    may_repeat = step.may_repeat or answered.turn != known_turn or answered.is_recent
    if may_repeat and step.kind is StepKind.INPUT and texts.is_text(-1, step.text):
        return Repeat(answered.turn)
    # Where the gateway does not mark a first step, the dialled text distinguishes it from an entry.
    is_dialled = step.opening_text is not None and step.service_code and texts.is_text(0, step.text)
    if step.kind is StepKind.BEGIN or is_dialled:
        is_same = answered.is_recent and answered.service_code == code and texts.is_text(0, step.text)
        is_first = answered.turn == 0 and (not step.begins_anew or is_same)
        return Repeat(0) if is_first else Start(_dialled_entries(step))
    return Entry(step.text)


def _dialled_entries(step: UssdStep) -> tuple[str, ...]:
    """The entries that were dialled after the code. An entry whose session is missing is ignored."""
    if step.opening_text is not None:
        text = step.opening_text
    elif step.cumulative or step.kind is StepKind.BEGIN:
        text = step.text
    else:
        text = ""
    return dialled_entries(text)


def classify_text(answered: AnsweredTexts, text: str) -> Arrival:
    """Classify a step on a channel that sends the whole history at every step, joined by `*`.

    Everything after the last text and a `*` is one entry, even if it contains a star.
    """
    entry = answered.next_entry(text)
    if entry is not None:
        return Entry(entry)
    for turn in reversed(range(len(answered.turns))):
        if answered.is_text(turn, text):
            return Repeat(turn)
    return Restart()


def classify_number(last: int, number: int, text: str) -> Arrival:
    """Classify a step on a channel that numbers its steps and sends one entry in each.

    `last` is the number of the last processed step. A repeat is always of that step: its `turn` is -1.
    """
    if number == last:
        return Repeat(-1)
    return Entry(text) if number == last + 1 else OutOfSequence()
