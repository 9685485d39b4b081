"""The address of the caller where trusted proxies stand before this service."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

UNREADABLE = "ussd_server.unreadable_forwarded_for"
"""In the environment of a request whose X-Forwarded-For cannot be read; it is refused with 400."""

_CLOSED_QUOTES = re.compile(r'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
# An IPv4 address with a port, or an IPv6 address in brackets with or without one.
_WITH_PORT = re.compile(r"([0-9.]+):[0-9]{1,5}|\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?", re.ASCII)
_LONGEST_ENTRY = 64


class TrustedProxies:
    """WSGI middleware: sets the caller's address from X-Forwarded-For, and the scheme from X-Forwarded-Proto.

    Costs a call some 2 us. Each of the trusted proxies adds one address at the end of X-Forwarded-For. What stands
    before them was written by the caller, and is not read. With fewer addresses than proxies, the connection's own
    address stays.
    """

    def __init__(self, app: Any, proxies: int) -> None:
        """`proxies` is the number of proxies, at least 1."""
        self._app, self._proxies = app, proxies

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        forwarded = environ.get("HTTP_X_FORWARDED_FOR")
        if forwarded:
            try:
                address = forwarded_address(forwarded, self._proxies)
            except ValueError:
                environ[UNREADABLE] = True
            else:
                if address:
                    environ["REMOTE_ADDR"] = address
        scheme = environ.get("HTTP_X_FORWARDED_PROTO", "").rpartition(",")[2].strip()
        if scheme in ("http", "https"):
            environ["wsgi.url_scheme"] = scheme
        served: Iterable[bytes] = self._app(environ, start_response)
        return served


def forwarded_address(forwarded: str, proxies: int) -> str:
    """Return the address that the first of the trusted proxies saw; empty where there are fewer addresses than proxies.

    Raises ValueError for a quotation mark without its second one, and unless every trusted proxy wrote an address.
    """
    if '"' in forwarded and not _CLOSED_QUOTES.fullmatch(forwarded):
        raise ValueError("a quotation mark is not closed")
    entries = forwarded.rsplit(",", proxies)
    trusted = entries[-proxies:]
    if len(trusted) < proxies:
        return ""
    addresses = [_address(entry) for entry in trusted]
    return addresses[0]


@lru_cache(maxsize=1024)
def _address(entry: str) -> str:
    text = entry.strip(" \t")
    if len(text) > _LONGEST_ENTRY:
        raise ValueError("no address is so long")
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if with_port := _WITH_PORT.fullmatch(text):
        text = with_port[1] or with_port[2]
    ip_address(text)
    return text
