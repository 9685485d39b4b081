"""Networks: whose failures are counted together, and from where a key may be used."""

from __future__ import annotations

import pytest

from ussd_server.limits.networks import is_within, network_of, read_network, written_network


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("unknown", "unknown"),
    ],
)
def test_failures_of_an_address_or_of_a_network_of_ipv6_are_counted_together(address: str, counted: str) -> None:
    assert network_of(address) == counted


@pytest.mark.parametrize(
    ("written", "shown", "inside", "outside"),
    [
        ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("192.0.2.0/24", "192.0.2.0/24", "::ffff:192.0.2.255", "192.0.3.0"),
        ("::ffff:192.0.2.0/120", "192.0.2.0/24", "192.0.2.9", "192.0.1.255"),
        ("2001:db8::/32", "2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
        ("::/0", "::/0", "2001:db8::1", "192.0.2.1"),
    ],
)
def test_an_address_is_within_the_networks_that_name_it(written: str, shown: str, inside: str, outside: str) -> None:
    network = read_network(written)
    assert written_network(network) == shown
    assert [is_within(address, [network]) for address in (inside, outside, "unknown")] == [True, False, False]


@pytest.mark.parametrize("written", ["", "192.0.2.1/24", "fe80::1%eth0", "192.0.2.0/24" + " " * 40, "0x7f.1"])
def test_anything_else_names_no_network(written: str) -> None:
    with pytest.raises(ValueError):
        read_network(written)
