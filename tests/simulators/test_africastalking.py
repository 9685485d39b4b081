"""The stand-in for Africa's Talking takes one message to several numbers, as its other clients send it."""

from __future__ import annotations

from simulators.africastalking import AfricasTalkingSms


def test_a_message_to_several_numbers_has_an_answer_for_each() -> None:
    stand_in = AfricasTalkingSms()
    form = {"username": "sandbox", "to": "+256772000100,+256772000101, +256772000103", "message": "Hello"}
    said = stand_in.application().test_client().post("/version1/messaging", data=form, headers={"apiKey": "sms-key"})
    data = said.get_json()["SMSMessageData"]
    assert data["Message"] == "Sent to 2/3 Total Cost: UGX 50"
    assert [(each["number"][-3:], each["statusCode"]) for each in data["Recipients"]] == [
        ("100", 101),
        ("101", 406),
        ("103", 101),
    ]
    assert [each["to"] for each in stand_in.sent] == ["+256772000100", "+256772000103"]
