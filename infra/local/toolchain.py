"""Virtual environments and builds, each made once and again only when what it is made from has changed.

toolchain.py NAME     makes the virtual environment of NAME.txt and prints its folder of programs
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "infra" / "local"
LOCAL = ROOT / ".local"
ARCH = "arm64" if platform.machine().lower() in ("arm64", "aarch64") else "x86_64"
# MiniStack runs Python functions with its own interpreter, so tool code is built for the one that runs this file.
RUNTIME = f"python{sys.version_info.major}.{sys.version_info.minor}"

# The only variables of the caller that tools and functions see: everything in the emulator's environment reaches every
# function, and a developer's tokens have no business there.
PASSED = (
    *("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("PIP_CERT", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_DEFAULT_TIMEOUT"),
)


class Failed(Exception):
    """Something that a person has to read; the text is all they see."""


def say(text: str) -> None:
    """Progress, beside what a command prints for others to read."""
    print(text, file=sys.stderr, flush=True)


def passed_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED if name in os.environ}


def digest(parts: Iterable[str | Path]) -> str:
    """One hash of texts and of files with their paths; folders count with everything below them."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(part.encode() + b"\0")
            continue
        files = sorted(f for f in part.rglob("*") if f.is_file()) if part.is_dir() else [part]
        for file in files:
            if "__pycache__" in file.parts or file.name.endswith("_test.go") or "tests" in file.relative_to(ROOT).parts:
                continue
            total.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()


@contextlib.contextmanager
def once(target: Path, stamp: str) -> Iterator[bool]:
    """Yields whether target has to be made (its stamp differs), with a lock so that two stacks do not make it at once."""
    LOCAL.mkdir(exist_ok=True)
    stamp_file = target.with_name(target.name + ".stamp")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(target.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stale = not target.exists() or not stamp_file.exists() or stamp_file.read_text() != stamp
        if stale:
            stamp_file.unlink(missing_ok=True)
        yield stale
        if stale:
            stamp_file.write_text(stamp)


def run(command: list[str], environment: dict[str, str], log: Path) -> None:
    """Runs a tool with its output in a log; a failure shows the end of it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        )
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        raise Failed(f"{tail}\n\n{Path(command[0]).name} failed ({done.returncode}); all of it is in {log}")


def venv(name: str) -> Path:
    """The virtual environment of one lock file beside this; returns its folder of programs."""
    lock = HERE / f"{name}.txt"
    folder = LOCAL / "venvs" / f"{name}-{RUNTIME}"
    with once(folder, digest([sys.version, lock])) as stale:
        if stale:
            say(f"installing {name}")
            shutil.rmtree(folder, ignore_errors=True)
            environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            logs = LOCAL / "logs"
            try:
                run([sys.executable, "-m", "venv", str(folder)], environment, logs / f"venv-{name}.log")
            except Failed as failure:
                raise Failed(f"{failure}\nOn Debian: apt-get install python3-venv") from None
            # The lock files are complete. Without --no-deps older pips take a pin for missing where somebody asks for its extras.
            install = [str(folder / "bin" / "pip"), "install", "--no-compile", "--require-hashes", "--no-deps"]
            install += ["-r", str(lock)]
            run(install, environment, logs / f"pip-{name}.log")
    return folder / "bin"


def sam_environment(ministack: Path) -> dict[str, str]:
    """SAM looks for the interpreter that it builds for by name: MiniStack's own comes first."""
    return {
        **os.environ,
        "PATH": f"{ministack}{os.pathsep}{os.environ['PATH']}",
        "SAM_CLI_TELEMETRY": "0",
        # Static binaries: the host's C library is not Lambda's.
        "CGO_ENABLED": "0",
        "GOFLAGS": "-trimpath -tags=lambda.norpc '-ldflags=-s -w'",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def build_application(sam: Path, ministack: Path) -> tuple[Path, str]:
    """`sam build` of the template for this machine; returns the folder and a digest of what it was built from."""
    folder = LOCAL / "build"
    sources = [
        ROOT / name
        for name in ("template.yaml", "go.mod", "go.sum", "functions", "shared", "statemachine")
        if (ROOT / name).exists()
    ]
    stamp = digest([ARCH, RUNTIME, *sources])
    with once(folder, stamp) as stale:
        if stale:
            say("building the functions (minutes the first time)")
            run(
                [
                    *[str(sam / "sam"), "build", "--parallel", "--template-file", str(ROOT / "template.yaml")],
                    *["--build-dir", str(folder), "--parameter-overrides"],
                    *[f"LambdaArch={ARCH}", f"ToolboxRuntime={RUNTIME}"],
                ],
                sam_environment(ministack),
                LOCAL / "logs" / "sam-build.log",
            )
            compile_python(ministack / "python", folder / "Toolbox")
    return folder, stamp


def compile_python(python: Path, folder: Path) -> None:
    """Byte code travels with the container's source: where it runs nothing can be written, and each cold start would compile anew."""
    command = [str(python), "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", str(folder)]
    run(command, dict(os.environ), LOCAL / "logs" / "compileall.log")


def build_program(name: str) -> Path:
    """One of the local stack's own Go programs."""
    program = LOCAL / "bin" / name
    with once(program, digest([HERE / name, ROOT / "go.mod"])) as stale:
        if stale:
            say(f"building {name}")
            # Not over the old file: another stack may be running it.
            new = program.with_suffix(".new")
            log = LOCAL / "logs" / f"go-build-{name}.log"
            run(["go", "build", "-o", str(new), f"./infra/local/{name}"], dict(os.environ), log)
            new.replace(program)
    return program


if __name__ == "__main__":
    print(venv(sys.argv[1]))
