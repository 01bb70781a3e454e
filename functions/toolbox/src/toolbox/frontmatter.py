"""The header of a tool file: `key: value` lines in a docstring that starts on the first line."""

import re

_LINE = re.compile(r"^\s*([A-Za-z_]+):\s*(.*?)\s*$")
_CONTINUES = re.compile(r"^[<>=!~]")


def parse(source: str) -> dict[str, str]:
    """Returns the header's keys and values; `{}` unless the first line is exactly three double quotes."""
    lines = source.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].strip() != '"""':
        return {}
    manifest: dict[str, str] = {}
    for line in lines[1:]:
        if '"""' in line:
            return manifest
        if match := _LINE.match(line):
            manifest[match[1]] = match[2]
    return manifest


def requirements(manifest: dict[str, str]) -> list[str]:
    """Splits the `requirements` value into requirement strings.

    A comma separates packages, but also the bounds of one package (`a>=1,<2`), so a piece that starts with a comparison
    belongs to the one before it.
    """
    found: list[str] = []
    for piece in (part.strip() for part in manifest.get("requirements", "").split(",")):
        if _CONTINUES.match(piece) and found:
            found[-1] += "," + piece
        elif piece:
            found.append(piece)
    return found
