"""Names of payees: how a written name compares with the registered one."""

from __future__ import annotations

import pytest

from ussd_server.services.payouts.drafts.name_match import compare_names


@pytest.mark.parametrize(
    ("written", "registered", "expected"),
    [
        ("Sarah Namubiru", "Sarah Namubiru", "same"),
        ("NAMUBIRU sarah", "Sarah Namubiru", "same"),
        ("Mrs. Sarah Namubiru", "NAMUBIRU, SARAH", "same"),
        ("José Müller", "Jose Muller", "same"),
        ("O'Brien Pat", "obrien PAT", "same"),
        ("OkelloJohn", "Okello John", "same"),
        ("Sarah Namubiru", "Sarah Nakato Namubiru", "similar"),
        ("S. Namubiru", "Sarah Namubiru", "similar"),
        ("Sara Namubiru", "Sarah Namubiru", "similar"),
        ("Sarah Namubiru", "Sara Namubiru", "similar"),
        ("Asarah Namubiru", "Sarah Namubiru", "similar"),
        ("Sarah Namubiru", "Asarah Namubiru", "similar"),
        ("Mohammed Ssemakula", "Mohamad Semakula", "similar"),
        ("Okello", "John Okello", "similar"),
        ("J O", "John Okello", "different"),
        ("Sarah Namubiru", "Sarah Okello", "different"),
        ("Ann Bo", "Ana Bo", "different"),
        ("Peter Mukasa", "Sarah Namubiru", "different"),
        ("Sarah Sarah", "Sarah Namubiru", "different"),
        ("Namubiru Namubiru", "Sarah Namubiru", "different"),
        ("Sarah Namubiru", None, "unknown"),
        ("Sarah Namubiru", " - ", "unknown"),
        ("123", "Sarah Namubiru", "unknown"),
        ("Dr", "Dr", "same"),
    ],
)
def test_names_are_compared_as_a_person_would(written: str, registered: str | None, expected: str) -> None:
    assert compare_names(written, registered) == expected


def test_long_and_hostile_names_are_compared_quickly() -> None:
    many = " ".join(["aaaaaaaa"] * 12)
    assert compare_names(many[:100], ("b" + many)[:100]) in ("similar", "different")
