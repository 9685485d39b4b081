"""The commands of a document, as an operator types them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tests.support.debian import Debian

DOCS = Path(__file__).parents[2] / "docs"
_INLINE = re.compile(r"`((?:ussd|systemctl|journalctl|sqlite3|deploy/install|UPDATE|GRANT) [^`]+)`")
_BLOCKS = re.compile(r"(?:^(?: {4}| {8})\S.*\n(?:^ +\S.*\n)*)+", re.MULTILINE)


class Book:
    """One chapter or more, whose every command is typed once, or left out for a reason."""

    def __init__(self, text: str, machine: Debian, folder: str) -> None:
        """They are typed in this folder, until one of them goes to another."""
        self._machine, self._folder = machine, folder
        self.waiting = _commands(text)

    def type(self, beginning: str, words: Mapping[str, str] = {}) -> str:
        """Type the command that begins so, and give what it prints. `words` are what a person puts into it."""
        return self._machine.run(self._take(beginning, words))

    def warns(self, beginning: str, sentence: str, words: Mapping[str, str] = {}) -> None:
        """Type a command that has nothing to do here, or finds something: it fails, and says this sentence."""
        command = self._take(beginning, words)
        ran = self._machine.try_to(command)
        assert ran.returncode, command
        assert sentence in ran.stdout, f"{command}\nsaid:\n{ran.stdout}"

    def edit(self, beginning: str, changes: Mapping[str, str]) -> None:
        """Open an editor, and write other text for what each of these patterns finds."""
        path = self._take(beginning, {}).split()[-1]
        text = (self._machine.root / path[1:]).read_text()
        for ours, theirs in changes.items():
            text = re.sub(ours, theirs, text, flags=re.MULTILINE)
        self._machine.write(path, text)

    def leave(self, beginning: str, reason: str) -> None:
        """Leave out a command that cannot be typed on one machine."""
        assert reason
        self._take(beginning, {})

    def _take(self, beginning: str, words: Mapping[str, str]) -> str:
        beginnings = [each for each in self.waiting if each.startswith(beginning)]
        assert beginnings, f"no such command is left: {beginning}"
        command = beginning if beginning in beginnings else beginnings[0]
        self.waiting.remove(command)
        for word, ours in words.items():
            assert word in command, f"{command} has no {word}"
            command = command.replace(word, ours)
        place = f"cd {self._folder}\n"
        self._folder = command.split()[1] if command.startswith("cd /") else self._folder
        return place + command


def chapter(document: str, title: str) -> str:
    """The text of one chapter."""
    _, found, rest = (DOCS / document).read_text().partition(f"\n## {title}\n")
    assert found
    return rest.partition("\n## ")[0]


def _commands(text: str) -> list[str]:
    """Every command once: the lines of blocks, without their remarks, and what stands between backticks."""
    commands = []
    for block in _BLOCKS.findall(text):
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        commands += [re.sub(r"\s{2,}# .*|\s+# .*$", "", line.strip()) for line in lines if line.strip()]
    commands += _INLINE.findall(text)
    return list(dict.fromkeys(commands))
