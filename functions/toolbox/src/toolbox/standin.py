"""`__request__`: a small object with the parts of a web request that tools look at. There is no real one."""

from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit


class Headers(dict[str, str]):
    """Header lookup whatever the case, as web frameworks do it."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__({key.lower(): str(value) for key, value in values.items()})

    def __getitem__(self, key: str) -> str:
        return super().__getitem__(key.lower())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and super().__contains__(key.lower())

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key.lower(), default)


class Config:
    """`app.state.config`: the settings that the shim's `config` module knows; others raise with their name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from open_webui import config

        if hasattr(config, name):
            return getattr(config, name)
        raise AttributeError(f"The setting {name} is not offered here.")


class Request:
    """The stand-in. `base_url` and `headers` are what the caller's context says, else empty."""

    def __init__(self, context: dict[str, Any]) -> None:
        self.base_url = str(context.get("base_url") or "")
        self.url = urlsplit(self.base_url)
        self.method = "POST"
        self.headers = Headers(context.get("headers") or {})
        self.cookies: dict[str, str] = {}
        self.query_params: dict[str, str] = {}
        self.path_params: dict[str, str] = {}
        self.client = SimpleNamespace(host="", port=0)
        self.state = SimpleNamespace(metadata=context.get("metadata") or {})
        self.app = SimpleNamespace(state=SimpleNamespace(config=Config(), MODELS={}))
