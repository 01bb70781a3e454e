"""A small stand-in for the package that Open WebUI tool files import from; none of Open WebUI's code is in it.

Offered are the helpers and read-only records that tools really use and that make sense outside a server. A module that
the real package has, but that cannot work here (routers, database, retrieval), can still be imported: the names taken
from it raise `NotOffered` when they are used, so that the other functions of the file work. Where the author guards an
import with `try`, it fails at once, so that the fallback is taken.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

current: dict[str, Any] = {}
guarded: set[str] = set()
_missing: list[str] = []

_KNOWN = frozenset(
    {
        *("constants", "env", "events", "functions", "internal", "main", "models", "retrieval"),
        *("routers", "socket", "storage", "tools", "utils"),
    }
)


class NotOffered(ImportError):
    """Something of Open WebUI that this service does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not offered here: this service has only a small part of the open_webui package.")


def take_missing() -> list[str]:
    """Returns the names that were imported although they are not offered, since the last time it was asked."""
    taken = sorted(set(_missing))
    _missing.clear()
    return taken


class _Unavailable:
    """Stands for one name that is not offered. May be imported, used in hints and inherited from; not used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotOffered(self._name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise NotOffered(f"{self._name}.{attribute}")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()


class _EmptyModule(types.ModuleType):
    """A module of the real package of which nothing is offered."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return unavailable(f"{self.__name__}.{name}")


def unavailable(name: str) -> Any:
    """Returns the stand-in of a name that is not offered, and remembers that it was asked for."""
    _missing.append(name)
    return _Unavailable(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what the path has not: old names of offered modules, and modules that are known but not offered."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if not name.startswith("open_webui."):
            return None
        parts = name.split(".")[1:]
        if parts[0] not in _KNOWN and parts[0] != "apps":
            raise NotOffered(name)
        if name in guarded and parts[0] != "apps":
            raise NotOffered(name)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        parts = spec.name.split(".")
        if parts[1] == "apps":
            # Before 0.5 the package was split into applications: open_webui.apps.webui.models is today's models.
            rest = parts[3:] if len(parts) > 2 else []
            if rest:
                return importlib.import_module(".".join(["open_webui", *rest]))
        return _EmptyModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is to be run: the module is either another one's alias or empty."""


sys.meta_path.append(_Finder())
