"""nginx before two installations leads each call to the cell of its client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.ports import free_port
from tests.support.eventually import eventually
from tests.support.real_service.edge import HOST, Edge
from ussd_server.security.credentials import new_apikey

_SITE = (Path(__file__).parents[2] / "deploy" / "cluster" / "cells" / "edge.conf").read_text()
_MOVED_KEY, _MOVED_CHANNEL = new_apikey(), "/ussd/africastalking/Qw97XJjFxikIOgj6sE93ls32ulp8kEt68P_aJkHOPG8"


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """The site, with a server in the place of each cell that answers with the cell's letter."""
    folder = tmp_path_factory.mktemp("cells")
    (folder / "keys.b").write_text(f"{_MOVED_KEY} ussd_cell_b;\n")
    (folder / "channels.b").write_text(f"{_MOVED_CHANNEL} ussd_cell_b;\n")
    site = _SITE.replace("/etc/nginx/ussd-cells", str(folder)).replace("proxy_pass https:", "proxy_pass http:")
    for cell, address in (("a", "10.0.1.10:443"), ("b", "10.0.2.10:443")):
        here = f"127.0.0.1:{free_port()}"
        site = site.replace(address, here)
        site += f'server {{ listen {here}; access_log {folder}/{cell}.log; return 200 "{cell}"; }}\n'
    edge = Edge(folder, (), site)
    (folder / "a.log").touch()
    (folder / "b.log").touch()
    nginx = edge.start()
    eventually(lambda: is_answering(edge))
    yield edge
    nginx.terminate()
    nginx.wait()


def is_answering(edge: Edge) -> bool:
    try:
        return edge.call("GET", "/")[0] == 200
    except OSError:
        return False


def cell_of(edge: Edge, path: str = "/api/balance", key: str | None = None, name: str = HOST) -> str:
    """The letter of the cell that got a call."""
    headers = {"Host": name} | ({"x-api-key": key} if key else {})
    status, _, body = edge.call("GET", path, headers=headers)
    assert status == 200
    return str(body.decode())


def test_a_call_goes_to_the_cell_of_its_key_its_channel_or_its_name(edge: Edge) -> None:
    assert cell_of(edge) == cell_of(edge, key=new_apikey("A")) == cell_of(edge, key="ukBold") == "a"
    assert cell_of(edge, key=new_apikey("B")) == cell_of(edge, key=_MOVED_KEY) == "b"
    assert cell_of(edge, _MOVED_CHANNEL + "?x=1") == "b"
    assert cell_of(edge, _MOVED_CHANNEL + "x") == "a"
    assert cell_of(edge, "/console", name=f"b.{HOST}") == "b"
    assert cell_of(edge, key=new_apikey("A"), name=f"b.{HOST}") == "b"


def test_each_cell_gets_the_report_of_a_provider(edge: Edge) -> None:
    folder = edge._folder
    assert cell_of(edge, "/callbacks/mtn/secret") == "a"
    eventually(lambda: all("/callbacks/mtn/secret" in (folder / f"{cell}.log").read_text() for cell in "ab"))
