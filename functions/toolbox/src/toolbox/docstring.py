"""What a docstring says: the function's description and, by `:param name: text` lines, its parameters'."""

import re

_ENDS = re.compile(r"^:(param|return)")
_CUT = re.compile(r":(param|return)")
_PARAM = re.compile(r"^:param\s+(\w+)\s*:\s*(.*)$")


def description(doc: str | None) -> str:
    """Returns the text before the first line that starts a `:param` or `:return` field, every line stripped."""
    lines: list[str] = []
    for line in (raw.strip() for raw in (doc or "").splitlines()):
        if _ENDS.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def offered(doc: str | None, name: str) -> str:
    """Returns the description as the model gets it: the raw text before any `:param` or `:return`, else the name."""
    return _CUT.split(doc, maxsplit=1)[0] if doc else name


def parameters(doc: str | None) -> dict[str, str]:
    """Returns the parameters' descriptions; lines that do not open another field continue the one before them."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in (raw.strip() for raw in (doc or "").splitlines()):
        if match := _PARAM.match(line):
            current = found[match[1]] = [match[2]]
        elif line.startswith(":"):
            current = None
        elif current is not None:
            current.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}
