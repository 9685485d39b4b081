"""Operators: accounts, second factors, logins and decisions that take two."""

from __future__ import annotations

from dataclasses import replace

import pyotp

from tests.conftest import MovableClock
from tests.support.money import a_client, deposit, request, work
from tests.support.refusals import refusal
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.models.clients import AuditEvent
from ussd_server.models.operators import Operator
from ussd_server.services.clients.messages import LogIn
from ussd_server.services.operators.messages import (
    ConfirmProposal,
    CreateOperator,
    ProposalView,
    Propose,
    ProposedEffect,
    SecondFactor,
)
from ussd_server.services.operators.proposals import ProposalService
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.status import Code

PASSWORD = "correct horse battery"
HERE = RequestContext(Caller(CallerKind.NOBODY), address="127.0.0.1")


def make(services: Services, email: str = "ann@ops.example") -> SecondFactor:
    return services.operators.create(CreateOperator(email, PASSWORD), operator_context())


def code_of(factor: SecondFactor, clock: MovableClock, ahead: int = 0) -> str:
    return pyotp.TOTP(factor.secret).at(int(clock.now().timestamp()) + ahead)


def context_of(services: Services, clock: MovableClock, email: str) -> RequestContext:
    """The context of an operator who signed in."""
    factor = make(services, email)
    login_id = services.operator_logins.begin(LogIn(email, PASSWORD, code_of(factor, clock)), HERE)
    return replace(HERE, caller=services.operator_logins.authenticate(login_id, HERE).caller)


def test_an_operator_signs_in_with_password_and_code_and_each_code_works_once(
    services: Services, clock: MovableClock
) -> None:
    factor, logins = make(services), services.operator_logins
    assert pyotp.parse_uri(factor.uri).secret == factor.secret
    wrong = (Code.INVALID_CREDENTIALS, "Invalid credentials")
    present = code_of(factor, clock)
    other = f"{(int(present) + 1) % 1_000_000:06}"
    for password, code in (("wrong password 1", present), (PASSWORD, other), (PASSWORD, ""), (PASSWORD, "é" * 6)):
        assert refusal(logins.begin, LogIn("ann@ops.example", password, code), HERE) == wrong
    login_id = logins.begin(LogIn("Ann@ops.example", PASSWORD, f" {present[:3]} {present[3:]}"), HERE)
    person = logins.authenticate(login_id, HERE)
    assert (person.email, person.is_operator, person.caller.operator) == ("ann@ops.example", True, "ann@ops.example")
    assert refusal(logins.begin, LogIn("ann@ops.example", PASSWORD, present), HERE) == wrong
    before = code_of(factor, clock, -30)
    assert refusal(logins.begin, LogIn("ann@ops.example", PASSWORD, before), HERE) == wrong
    clock.advance(30)
    assert logins.begin(LogIn("ann@ops.example", PASSWORD, code_of(factor, clock)), HERE)
    # A recovery code works once too, however it is written.
    recovery = factor.recovery_codes[3].upper().replace("-", " ")
    assert logins.begin(LogIn("ann@ops.example", PASSWORD, recovery), HERE)
    assert refusal(logins.begin, LogIn("ann@ops.example", PASSWORD, recovery), HERE) == wrong
    (listed,) = services.operators.list(operator_context())
    assert listed.recovery_codes_left == 9
    events = [(event.action, event.operator) for event in AuditEvent.select().order_by(AuditEvent.id)]
    assert ("operator.signed_in", "ann@ops.example") in events
    assert ("operator.sign_in_failed", "ann@ops.example") in events


def test_operators_come_from_their_own_networks_only(services: Services, clock: MovableClock) -> None:
    factor, logins = make(services), services.operator_logins
    for address in ("127.0.0.1", "::1", "::ffff:10.1.2.3", "192.168.7.7", "fd00::1"):
        assert logins.is_admitted(address)
    away = replace(HERE, address="203.0.113.9")
    request = LogIn("ann@ops.example", PASSWORD, code_of(factor, clock))
    assert refusal(logins.begin, request, away)[0] is Code.NOT_FOUND
    login_id = logins.begin(request, HERE)
    assert refusal(logins.authenticate, login_id, away)[0] is Code.NOT_FOUND
    assert not logins.is_admitted("")


def test_a_disabled_operator_and_a_new_factor_end_all_logins(services: Services, clock: MovableClock) -> None:
    accounts, logins = services.operators, services.operator_logins
    context = context_of(services, clock, "ann@ops.example")
    login_id = context.caller.login_id
    fresh = accounts.reset_factor("ann@ops.example", operator_context())
    assert refusal(logins.authenticate, login_id, HERE)[0] is Code.INVALID_CREDENTIALS
    clock.advance(30)
    again = logins.begin(LogIn("ann@ops.example", PASSWORD, code_of(fresh, clock)), HERE)
    accounts.set_active("ann@ops.example", False, operator_context())
    assert refusal(logins.authenticate, again, HERE)[0] is Code.INVALID_CREDENTIALS
    clock.advance(30)
    assert refusal(logins.begin, LogIn("ann@ops.example", PASSWORD, code_of(fresh, clock)), HERE)[0] is (
        Code.INVALID_CREDENTIALS
    )
    accounts.set_active("ann@ops.example", True, operator_context())
    clock.advance(30)
    last = logins.begin(LogIn("ann@ops.example", PASSWORD, code_of(fresh, clock)), HERE)
    logins.end(True, replace(HERE, caller=logins.authenticate(last, HERE).caller))
    assert refusal(logins.authenticate, last, HERE)[0] is Code.INVALID_CREDENTIALS


def test_an_attacker_who_knows_the_password_neither_guesses_the_code_nor_locks_the_operator_out(
    services: Services, clock: MovableClock
) -> None:
    factor, logins = make(services), services.operator_logins
    right = {code_of(factor, clock, ahead) for ahead in (-30, 0, 30, 60, 90, 120)}
    wrong = next(code for code in map(str, range(100_000, 100_009)) if code not in right)

    def guess(network: int, code: str = wrong) -> Code:
        there = replace(HERE, address=f"10.0.{network}.1")
        return refusal(logins.begin, LogIn("ann@ops.example", PASSWORD, code), there)[0]

    assert [guess(1) for _ in range(11)] == [Code.INVALID_CREDENTIALS] * 10 + [Code.RATE_LIMIT_EXCEEDED]
    assert {guess(network) for network in range(2, 42)} == {Code.INVALID_CREDENTIALS}
    assert logins.begin(LogIn("ann@ops.example", PASSWORD, code_of(factor, clock)), HERE)
    # Beyond a hundred wrong codes a day, from all addresses together, only recovery codes are accepted.
    assert [guess(network) for network in range(42, 93)][-2:] == [Code.INVALID_CREDENTIALS, Code.RATE_LIMIT_EXCEEDED]
    clock.advance(30)
    present = LogIn("ann@ops.example", PASSWORD, code_of(factor, clock))
    assert refusal(logins.begin, present, HERE)[0] is Code.RATE_LIMIT_EXCEEDED
    assert guess(93, "wrong-recovery-code") is Code.INVALID_CREDENTIALS
    assert logins.begin(LogIn("ann@ops.example", PASSWORD, factor.recovery_codes[0]), HERE)


def test_second_factors_survive_a_rotation_of_the_master_keys(services: Services, clock: MovableClock) -> None:
    factor, keys = make(services), services.master_keys
    keys.add(operator_context())
    assert refusal(keys.retire, operator_context())[0] is Code.INVALID_REQUEST
    keys.rekey(operator_context())
    keys.retire(operator_context())
    assert services.operator_logins.begin(LogIn("ann@ops.example", PASSWORD, code_of(factor, clock)), HERE)
    assert factor.secret.encode() not in bytes(Operator.get().factor_sealed)


def test_what_one_operator_proposed_is_done_once_when_another_confirms_it(
    services: Services, clock: MovableClock
) -> None:
    ann, bob = context_of(services, clock, "ann@ops.example"), context_of(services, clock, "bob@ops.example")
    lamp = _Lamp()
    proposals = ProposalService(services.runtime, {"lamp.light": lamp})
    made = proposals.propose(Propose("lamp.light", "lamp-1", "it is dark", {"bright": True}), ann)
    assert [(seen.proposal_id, seen.parameters) for seen in proposals.list_open(bob)] == [
        (made.proposal_id, {"bright": True})
    ]
    assert refusal(proposals.propose, Propose("lamp.light", "lamp-1", "again"), bob)[0] is Code.INVALID_REQUEST
    assert refusal(proposals.propose, Propose("lamp.eat", "lamp-1", "hunger"), bob)[0] is Code.INVALID_REQUEST
    assert refusal(proposals.propose, Propose("lamp.light", "lamp-2", " "), bob)[0] is Code.INVALID_REQUEST
    (shown,) = proposals.show_open(bob)
    confirmation = ConfirmProposal(made.proposal_id, shown.digest)
    assert "Another operator" in refusal(proposals.confirm, confirmation, ann)[1]
    assert refusal(proposals.confirm, confirmation, operator_context())[0] is Code.INSUFFICIENT_SCOPE
    lamp.state = "broken"
    assert "something else now than was shown" in refusal(proposals.confirm, confirmation, bob)[1]
    lamp.state = "dark"
    assert lamp.lit_by == []
    assert proposals.confirm(confirmation, bob).outcome == "confirmed"
    assert refusal(proposals.confirm, confirmation, bob)[0] is Code.INVALID_REQUEST
    assert lamp.lit_by == [("ann@ops.example", "bob@ops.example")]
    withdrawn = proposals.propose(Propose("lamp.light", "lamp-1", "darker"), ann)
    assert proposals.withdraw(withdrawn.proposal_id, ann).outcome == "withdrawn"
    late = proposals.propose(Propose("lamp.light", "lamp-1", "darkest"), ann)
    clock.advance(25 * 3600)
    assert proposals.list_open(bob) == ()
    assert refusal(proposals.confirm, ConfirmProposal(late.proposal_id, shown.digest), bob)[0] is Code.INVALID_REQUEST
    assert proposals.propose(Propose("lamp.light", "lamp-1", "night"), bob).outcome is None
    events = [(event.action, event.operator, event.actor) for event in AuditEvent.select()]
    assert ("proposal.confirmed", "bob@ops.example", "operator") in events


def test_what_cannot_be_done_is_not_proposed_and_an_open_proposal_says_so(
    services: Services, clock: MovableClock
) -> None:
    ann, bob = context_of(services, clock, "ann@ops.example"), context_of(services, clock, "bob@ops.example")
    proposals = services.proposals
    wrong = Propose("review.settle", "019e0000-0000-7000-8000-000000000000", "their statement", {"has_succeeded": True})
    assert refusal(proposals.propose, wrong, ann)[0] is Code.TRANSACTION_NOT_FOUND
    assert proposals.list_open(ann) == ()
    call = a_client()
    deposit(services, call, 10_000)
    paid = services.transactions.create(request(), call).transaction.transaction_id
    work(services, clock, 5, step=1)
    made = proposals.propose(Propose("transaction.refund", paid, "wrong number", {"amount_cents": 300_000}), ann)
    (before,) = proposals.show_open(bob)
    assert before.effect is not None
    assert before.effect.state_after == "succeeded, UGX 3,000 of UGX 5,000 refunded"
    services.refunds.create(CreateRefund(paid, "ours", 100_000), call)
    (after,) = proposals.show_open(bob)
    assert after.effect is not None
    assert after.effect.state_now == "succeeded, UGX 1,000 of UGX 5,000 refunded"
    stale = ConfirmProposal(made.proposal_id, before.digest)
    assert refusal(proposals.confirm, stale, bob)[1].startswith("Nothing was done")
    services.refunds.create(CreateRefund(paid, "more", 200_000), call)
    (impossible,) = proposals.show_open(bob)
    assert (impossible.effect, impossible.refusal) == (None, "amount: More than is left of the collection.")
    assert refusal(proposals.confirm, ConfirmProposal(made.proposal_id, ""), bob)[0] is Code.INVALID_AMOUNT
    assert [seen.proposal_id for seen in proposals.list_open(ann)] == [made.proposal_id]


def test_nothing_is_done_for_an_operator_who_was_disabled_since(services: Services, clock: MovableClock) -> None:
    ann, bob = context_of(services, clock, "ann@ops.example"), context_of(services, clock, "bob@ops.example")
    call = a_client()
    paid = services.transactions.create(request(), call).transaction.transaction_id
    work(services, clock, 5, step=1)
    proposals = services.proposals
    made = proposals.propose(Propose("transaction.refund", paid, "wrong number", {"amount_cents": 300_000}), ann)
    (shown,) = proposals.show_open(bob)
    services.operators.set_active("ann@ops.example", False, operator_context())
    confirmation = ConfirmProposal(made.proposal_id, shown.digest)
    assert "active operator" in refusal(proposals.confirm, confirmation, bob)[1]
    assert services.refunds.list(paid, call) == ()


class _Lamp:
    """Something that two operators light."""

    def __init__(self) -> None:
        self.state = "dark"
        self.lit_by: list[tuple[str, str]] = []

    def effect(self, proposal: ProposalView, _context: RequestContext) -> ProposedEffect:
        lamp = proposal.object_id
        return ProposedEffect("client", "ACME", lamp, "lamp", lamp, None, 0, self.state, "lit", None)

    def request(self, proposal: ProposalView, second: str) -> tuple[str, str]:
        return proposal.proposed_by, second

    def act(self, operators: tuple[str, str], _context: RequestContext) -> object:
        return self.lit_by.append(operators)
