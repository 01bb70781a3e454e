"""Environments: what children and pip get to see, built from allow-lists, and what the parent drops."""

import os
import sys

_KEEP = (
    *("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
# Names of further variables that an operator wants tools to see, separated by commas.
PASS = "TOOLBOX_PASS_ENV"
_SECRET = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_PROFILE",
)


def for_children() -> dict[str, str]:
    """The environment of the zygote, and so of all tool code. Nothing of AWS passes, whoever asks for it."""
    wanted = [*_KEEP, *(name.strip() for name in os.environ.get(PASS, "").split(","))]
    environment = {name: os.environ[name] for name in wanted if name in os.environ and not name.startswith("AWS_")}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path and os.path.isdir(path))
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment.setdefault("PATH", os.defpath)
    environment.setdefault("LANG", "C.UTF-8")
    return environment


def for_pip() -> dict[str, str]:
    """pip also gets its own settings (indexes, certificates), which children have no use for."""
    own = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    home = {"HOME": os.environ["HOME"]} if "HOME" in os.environ else {}
    return {**for_children(), **own, **home}


def scrub() -> None:
    """Drops credentials from the parent's own environment; it needs none, and what is gone cannot leak by mistake."""
    for name in _SECRET:
        os.environ.pop(name, None)
