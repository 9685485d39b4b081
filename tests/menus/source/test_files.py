"""Menu documents in YAML files mean the same as those in JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from ussd_server.menus.source.texts import read_menu_file


@pytest.mark.parametrize("text", ["[1, 2]", "{", "just words", "!!python/object:os.system {}"])
def test_a_file_without_a_document_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "menu.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"menu\.yaml"):
        read_menu_file(path)
