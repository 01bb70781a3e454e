"""What a tool file requires: which of it is missing, and (where the operator allows it) its installation.

Installing takes wheels only. A source distribution would run its build script here, in the process that holds the
container's credentials; a wheel is only unpacked.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from . import environment

ENABLED = "ENABLE_PIP_INSTALL_FRONTMATTER_REQUIREMENTS"
SECONDS = 240


class InstallFailed(Exception):
    """The required packages could not be installed; the message says why."""


def missing(requirements: list[str]) -> list[str]:
    """Returns those requirements that what is installed does not fulfil, as they were written."""
    if not requirements:
        return []
    # Imported late: most tools require nothing, and a cold start should not pay for it.
    from packaging.requirements import InvalidRequirement, Requirement

    lacking = []
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            lacking.append(text)
            continue
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            if requirement.specifier or not _importable(requirement.name):
                lacking.append(text)
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            lacking.append(text)
    return lacking


def _importable(name: str) -> bool:
    """Authors name modules now and then (`asyncio`, `bs4`), and what the service itself offers (`open-webui`)."""
    module = name.replace("-", "_").lower()
    return module in sys.stdlib_module_names or importlib.util.find_spec(module) is not None


def may_install() -> bool:
    return os.environ.get(ENABLED, "").strip().lower() == "true"


def cache_root() -> pathlib.Path:
    """The folder of installed packages; made here so that the zygote can show it to its children read-only."""
    root = pathlib.Path(
        os.environ.get("TOOLBOX_PACKAGE_CACHE") or pathlib.Path(tempfile.gettempdir(), "toolbox-packages")
    )
    root.mkdir(mode=0o755, parents=True, exist_ok=True)
    return root


def install(requirements: list[str]) -> pathlib.Path:
    """Installs the requirements into a folder of their own (once) and returns it, to be put on the child's path."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256("\n".join([python, *sorted(requirements)]).encode()).hexdigest()[:24]
    target = cache_root() / digest
    if target.is_dir():
        return target
    if importlib.util.find_spec("pip") is None:
        raise InstallFailed("pip is not available in this container: bake the packages in (requirements.txt).")
    work = pathlib.Path(tempfile.mkdtemp(dir=cache_root(), prefix="installing-"))
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--only-binary=:all:", "--no-compile"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(work), "--", *requirements]
    try:
        done = subprocess.run(
            command,
            env=environment.for_pip(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        shutil.rmtree(work, ignore_errors=True)
        raise InstallFailed(f"installing took longer than {SECONDS} s.") from None
    if done.returncode:
        shutil.rmtree(work, ignore_errors=True)
        raise InstallFailed(_last_error(done.stderr))
    work.chmod(0o755)
    try:
        work.rename(target)
    except OSError:
        # Another process of this container finished the same installation first.
        shutil.rmtree(work, ignore_errors=True)
    return target


def _last_error(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.startswith("ERROR:")] or stderr.splitlines()[-3:]
    return "\n".join(lines).strip() or "pip failed without a message."
