"""Menu documents in YAML or JSON files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml


class _MenuLoader(yaml.SafeLoader):
    """YAML in which `yes` and `no` are texts (the branches of a confirmation), and every key is a text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        return {str(name.value): self.construct_object(value, deep=deep) for name, value in node.value}


_MenuLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_MenuLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), ["t", "f"])


def read_menu_file(path: Path) -> dict[str, Any]:
    """Read the document in a file. Raises OSError, or ValueError when it is not YAML or not an object."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), _MenuLoader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError:
        raise ValueError(f"{path} is not YAML") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path} does not hold an object")
    return document
