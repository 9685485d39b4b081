"""The page of an SMPP channel."""

from __future__ import annotations

from tests.console.conftest import Operators
from tests.support.shop import OPERATOR, Shop
from ussd_server.bootstrap import Services
from ussd_server.services.ussd.smpp_links import BindReport


def test_the_page_of_an_smpp_channel_shows_its_binds_and_no_path(services: Services, operator: Operators) -> None:
    channel_id = Shop(services, gateway="smpp").channel.channel_id
    visitor = operator("ann")
    address = f"/operator/channels/{channel_id}"
    assert "No process serves this channel" in visitor.get(address).text
    now = services.clock.now()
    services.smpp_links.report([BindReport(channel_id, 0, "waiting", "the operator unbound", now, {})])
    page = visitor.get(address).text
    assert "the operator unbound" in page
    assert "smpp://127.0.0.1" in page
    assert "/ussd/smpp/" not in page
    assert services.channels.list(OPERATOR)[-1].gateway_path == ""
