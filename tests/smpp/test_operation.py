"""What an operator of this server sees and does: commands, `doctor`, metrics, the channel's page, and the stand-in."""

from __future__ import annotations

from datetime import timedelta

import pytest

from simulators.smsc import Smsc
from tests.smpp.conftest import channel_to, serving
from tests.support.eventually import eventually
from tests.support.shop import OPERATOR, Shop
from ussd_server.bootstrap import Services
from ussd_server.cli.service.doctor_database import smpp_binds
from ussd_server.models.ussd import Channel, SmppBind, SmppLink
from ussd_server.services.ussd.messages import CreateChannel, SmppOptions
from ussd_server.status import Code, ServiceError

# What SQL decides is tried on both databases by test_savings.py.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

_GOOD = {"url": "smpp://10.1.2.3:2775", "system_id": "acme", "password": "secret"}


@pytest.fixture
def smsc() -> Smsc:
    """The stand-in of an operator."""
    return Smsc("operators")


def test_a_terminal_dials_through_the_stand_in(services: Services, shop: Shop, smsc: Smsc) -> None:
    channel_to(smsc.listen(0), shop)
    with serving(services):
        eventually(lambda: bool(smsc.binds))
        first = smsc.step(1, "256770000000", "*384*123#", begins=True)
        assert (first.text.split("\n")[0], first.goes_on) == ("Welcome to ACME", True)
        for entry in ("1", "5000", "1"):
            screen = smsc.step(1, "256770000000", entry, begins=False)
        assert (screen.text, screen.goes_on) == ("Approve the prompt on your phone.", False)
        smsc.step(2, "256770000000", "*384*123#", begins=True)
        smsc.hang_up(2, "256770000000")


def test_binds_are_in_metrics_channels_and_doctor(
    services: Services, shop: Shop, smsc: Smsc, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The clock of the services stands still, and doctor's does not.
    monkeypatch.setattr("ussd_server.cli.service.doctor_database.SILENT", timedelta(minutes=10))
    channel = channel_to(smsc.listen(0), shop)
    part = f"SMPP channel {channel.channel_id}"
    assert [(each.part, each.found) for each in smpp_binds()] == [(part, "no process serves it")]
    with serving(services):
        eventually(lambda: [row.state for row in SmppBind.select()] == ["bound"])
        (finding,) = smpp_binds()
        assert (finding.found, finding.mend) == ("binds that are up: 1 of 1", None)
        measures = {measure.name: measure.value for measure in services.smpp_links.measures()}
        assert (measures["ussd_smpp_bind_up"], measures["ussd_smpp_binds"]) == (1.0, 1)
        (shown,) = (each for each in services.channels.list(OPERATOR) if each.smpp_url)
        assert [(bind.state, bind.number) for bind in shown.binds] == [("bound", 0)]
    services.smpp_links.report([])
    assert not services.smpp_links.states()


def test_where_phones_hang_up_is_in_the_metrics(services: Services, shop: Shop, smsc: Smsc) -> None:
    channel_to(smsc.listen(0), shop)
    with serving(services):
        eventually(lambda: bool(smsc.binds))
        smsc.step(1, "256770000000", "*384*123#", begins=True)
        smsc.step(1, "256770000000", "1", begins=False)
        smsc.hang_up(1, "256770000000")
        eventually(lambda: any("drop_offs" in row.counts and row.counts["drop_offs"] for row in SmppBind.select()))
        dropped = [each for each in services.smpp_links.measures() if each.name == "ussd_smpp_sessions_dropped_total"]
    ((value, labels),) = [(each.value, dict(each.labels)) for each in dropped]
    assert (value, labels["node"], labels["end_reason"]) == (1, "amount", "hung_up")


def test_the_binds_of_a_process_that_died_are_silent(services: Services, shop: Shop, smsc: Smsc) -> None:
    channel_to(smsc.listen(0), shop)
    with serving(services):
        eventually(lambda: [row.state for row in SmppBind.select()] == ["bound"])
        row = SmppBind.get()
    died = {"id": f"other/{row.channel_id}/0", "process": "other", "seen_at": row.seen_at - timedelta(seconds=60)}
    SmppBind.insert(row.__data__ | died).execute()
    ((bind,),) = services.smpp_links.states().values()
    assert bind.state == "silent"
    assert [finding.found for finding in smpp_binds()] == ["no process serves it"]
    services.smpp_links.report([])
    assert services.smpp_links.states(), "another process died a minute ago"
    SmppBind.update(seen_at=row.seen_at - timedelta(minutes=6)).execute()
    services.smpp_links.report([])
    assert not services.smpp_links.states()


def test_a_password_is_encrypted_and_follows_new_master_keys(services: Services, shop: Shop) -> None:
    channel = channel_to(2775, shop)
    row = SmppLink.get_by_id(channel.channel_id)
    assert b"operators" not in bytes(row.password_sealed)
    services.master_keys.add(OPERATOR)
    services.master_keys.rekey(OPERATOR)
    services.master_keys.retire(OPERATOR)
    (link,) = services.smpp_links.open_links()
    assert (link.password, link.has_tls) == ("operators", False)
    assert "operators" not in repr(link)


def test_an_smpp_channel_has_no_path_and_closed_ones_are_not_served(services: Services, shop: Shop) -> None:
    channel = channel_to(2775, shop)
    assert channel.gateway_path == ""
    assert services.channels.reveal(channel.channel_id, OPERATOR).gateway_path == ""
    assert "smpp" not in services.channels.adapters()
    services.channels.set_active(channel.channel_id, False, OPERATOR)
    assert services.smpp_links.open_links() == ()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"url": "http://10.1.2.3"}, "url: Must be smpp://HOST:PORT or smpps://HOST:PORT."),
        ({"url": "smpp://user:word@10.1.2.3:2775"}, "url: Must be smpp://HOST:PORT or smpps://HOST:PORT."),
        ({"url": "smpp://10.1.2.3:99999"}, "url: Must be smpp://HOST:PORT or smpps://HOST:PORT."),
        ({"url": "smpp://10.1.2.3:2775/x"}, "url: Must be smpp://HOST:PORT or smpps://HOST:PORT."),
        ({"url": "smpp://"}, "url: Must be smpp://HOST:PORT or smpps://HOST:PORT."),
        ({"system_id": "sixteen-letters!"}, "system_id: Must be 1 to 15 printable ASCII characters."),
        ({"password": ""}, "password: Must be 1 to 64 printable ASCII characters."),
        ({"password": "a\0b"}, "password: Must be 1 to 64 printable ASCII characters."),
        ({"dialect": "end=5"}, "dialect: end must be one of 17, 2, 3, 23, 32."),
        ({"binds": 17}, "binds: Must be 1 to 16."),
        ({"window": 0}, "window: Must be 1 to 1000."),
        ({"authority": "x"}, "ca: Only smpps:// has a certificate."),
        ({"url": "smpps://10.1.2.3", "authority": "x"}, "ca: The file holds no certificate in PEM."),
    ],
)
def test_a_bad_option_is_refused_by_its_name(
    services: Services, shop: Shop, changed: dict[str, object], why: str
) -> None:
    options = SmppOptions(**(_GOOD | changed))  # type: ignore[arg-type]
    with pytest.raises(ServiceError) as refused:
        services.channels.create(CreateChannel("smpp", shop.client_id, smpp=options), OPERATOR)
    assert (refused.value.code, str(refused.value)) == (Code.INVALID_REQUEST, why)
    assert not Channel.select().where(Channel.adapter == "smpp").exists()


def test_the_options_of_smpp_belong_to_its_adapter(services: Services, shop: Shop) -> None:
    for request in (CreateChannel("smpp"), CreateChannel("json", smpp=SmppOptions(**_GOOD))):
        with pytest.raises(ServiceError, match="adapter: smpp needs"):
            services.channels.create(request, OPERATOR)
