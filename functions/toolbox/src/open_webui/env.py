"""Constants of the environment that tools import, mostly for logging."""

import logging
import os
import pathlib
import tempfile
from typing import Any


class _Levels(dict[str, int]):
    """A log level for whatever source is asked for."""

    def __missing__(self, key: str) -> int:
        return logging.INFO


SRC_LOG_LEVELS: dict[str, int] = _Levels()
GLOBAL_LOG_LEVEL = "INFO"
log = logging.getLogger("open_webui")
VERSION = "0.12.4"
WEBUI_NAME = "toolrounds"
DATA_DIR = pathlib.Path(tempfile.gettempdir())
AIOHTTP_CLIENT_TIMEOUT = 300
ENABLE_FORWARD_USER_INFO_HEADERS = False


def __getattr__(name: str) -> Any:
    if not name.startswith("__") and name in os.environ:
        return os.environ[name]
    raise AttributeError(f"{name} is not offered here (an operator can pass it by TOOLBOX_PASS_ENV)")
