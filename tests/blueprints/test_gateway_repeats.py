"""The door of phone companies when steps come twice, late or many at once: each is done once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.blueprints.conftest import Dial
from tests.shop import VOUCHER
from ussd_server.models.base import release_connection
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession


def test_the_table_of_turns_to_the_letter(at: Dial) -> None:
    welcome, amount = at(""), at("1")
    assert at("1") == amount, "the same text is a repeat"
    wrong = at("1*5")
    assert wrong.startswith("CON Enter whole shillings")
    assert at("1*5") == wrong
    confirm = at("1*5*5000")
    assert confirm.startswith("CON Pay UGX 5,000?")
    assert [at("1*5"), at("1"), at("")] == [wrong, amount, welcome], "late repeats get their turn's answer"
    assert at("1*5*5000*").startswith("CON Invalid choice."), "an empty entry"
    assert at("1*5*5000**a*b").startswith("CON Invalid choice."), "a star that the person typed"
    assert len(UssdSession.get().turns) == 6
    assert at("2") == welcome, "what fits nothing begins anew"
    assert [row.status for row in UssdSession.select().order_by(UssdSession.id)] == ["ended_by_user", "active"]
    assert Transaction.select().count() == 0


def test_the_confirm_step_posted_twenty_times_at_once_pays_once(at: Dial) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    answers = _at_once(lambda _: at("1*5000*1"), 20)
    assert set(answers) == {"END Approve the prompt on your phone."}
    assert Transaction.select().count() == 1
    assert len(UssdSession.get().turns) == 4


def test_the_first_step_posted_twenty_times_at_once_begins_one_session(at: Dial) -> None:
    assert len(set(_at_once(lambda _: at(""), 20))) == 1
    assert UssdSession.select().count() == 1


def test_every_step_of_a_conversation_may_be_posted_by_many_at_once(at: Dial) -> None:
    for text in ("", "1", "1*5000", "1*5000*1"):
        assert len(set(_at_once(lambda _, text=text: at(text), 8))) == 1
    assert (UssdSession.select().count(), Transaction.select().count()) == (1, 1)


def test_the_last_screen_is_repeated_and_a_new_call_under_the_same_name_begins_anew(at: Dial) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    last = at("1*5000*1")
    assert at("1*5000*1") == last
    assert at("1*5000").startswith("CON Pay UGX 5,000?")
    assert at("").startswith("CON Welcome")
    assert at("2") == "END Your balance is UGX 0"
    assert Transaction.select().count() == 1


def test_a_secret_entry_is_in_no_row(at: Dial) -> None:
    at("")
    at("4")
    assert at(f"4*{VOUCHER}").startswith("CON Your voucher was noted.")
    assert at(f"4*{VOUCHER}").startswith("CON Your voucher was noted."), "a repeat is known without the secret"
    row = UssdSession.get()
    assert VOUCHER not in repr(row.__data__)
    assert [turn["entry"] for turn in row.turns] == ["", "4", "****"]


def _at_once(act: Callable[[int], str], count: int) -> list[str]:
    def run(number: int) -> str:
        try:
            return act(number)
        finally:
            release_connection()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
