"""Settings that tools import. Folders lie in the child's own folder; other settings are the operator's to pass."""

import os
import pathlib
import tempfile
from typing import Any

DATA_DIR = pathlib.Path(tempfile.gettempdir())
CACHE_DIR = DATA_DIR / "cache"
UPLOAD_DIR = DATA_DIR / "uploads"
DEFAULT_LOCALE = "en-US"
WEBUI_NAME = "toolrounds"
ENABLE_WEB_SEARCH = False
ENABLE_IMAGE_GENERATION = False

for _folder in (CACHE_DIR, UPLOAD_DIR):
    _folder.mkdir(parents=True, exist_ok=True)


def __getattr__(name: str) -> Any:
    if not name.startswith("__") and name in os.environ:
        return os.environ[name]
    raise AttributeError(f"the setting {name} is not offered here (an operator can pass it by TOOLBOX_PASS_ENV)")
