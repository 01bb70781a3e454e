#!/usr/bin/env python3
"""The tool container as an image, and every function that can answer without AWS under `sam local invoke`.

    run.py [--keep]      --keep leaves engine, images and containers for a look

Needs root on a Debian-like Linux, or a container engine that answers. Elsewhere it says why it does nothing, and succeeds; with
TEST_IMAGE=required it fails instead. Base images are not pulled: look-alikes of Lambda's are made here, of Debian packages and of the
runtime emulator that comes with the SAM CLI. TEST_IMAGE_BASE=pull takes the real ones.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "infra" / "local"))

import toolchain
from toolchain import ARCH, LOCAL, RUNTIME, Failed, say

WORK = LOCAL / "image"
LOGS = WORK / "logs"
CA = Path("/etc/ssl/certs/ca-certificates.crt")
# Debian's suites by the Python they ship; the image is tested with this machine's own version, or the newest of these.
SUITES = {"3.11": "bookworm", "3.13": "trixie"}
HOST = RUNTIME.removeprefix("python")
VERSION = HOST if HOST in SUITES else max(SUITES)
PYTHON_IMAGE = f"public.ecr.aws/lambda/python:{VERSION}"
PROVIDED_IMAGE = "public.ecr.aws/lambda/provided:al2023"
PACKAGES = "base-files,dash,coreutils,grep,sed,findutils,tar,gzip,libc-bin,libstdc++6,python3,python3-pip"
TOOLBOX_IMAGE = "toolrounds-toolbox:test"
SECRET = "toolbox-secret-marker"
# The tool container's own tests that need nothing but an invocation.
HOSTILE = ["tests/test_hostile.py"]
ALL = [*HOSTILE, *(f"tests/test_{name}.py" for name in ("specs", "calls", "results"))]
# As on Lambda: one ordinary user, no capabilities, nothing to write to but /tmp. And as most people start a container.
VARIANTS: dict[str, tuple[list[str], list[str]]] = {
    "as root": ([], HOSTILE),
    "as on Lambda": (
        [
            *["--user", "993:990", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
            *["--read-only", "--tmpfs", "/tmp:size=512m,mode=1777"],
        ],
        ALL,
    ),
}


class Skipped(Exception):
    """Why nothing can be tested here."""


class Clock:
    """Says what is being done and how long it took."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def step(self, text: str) -> None:
        say(f"[{time.monotonic() - self._begun:4.0f} s] {text}")


clock = Clock()


def run(command: list[str], log: str, **environment: str) -> None:
    toolchain.run(command, {**os.environ, **environment}, LOGS / f"{log}.log")


def told(command: list[str]) -> str:
    """What a command prints; Failed when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


# ------------------------------------------------------------------------------------------------------------------ engine


def answers() -> bool:
    return (
        shutil.which("docker") is not None
        and not subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    )


def obstacle() -> str | None:
    """Why no engine can be started here."""
    if sys.platform != "linux":
        return "no container engine answers, and only on Linux one is started"
    if os.geteuid() != 0:
        return "no container engine answers, and only root can start one"
    if shutil.which("dockerd") is None and shutil.which("apt-get") is None:
        return "there is no dockerd, and no apt-get to install it"
    return None


def install(*packages: str) -> None:
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], "apt-update", **environment)
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], "apt-install", **environment)


@contextlib.contextmanager
def engine(keep: bool) -> Iterator[None]:
    """An engine that answers: the one that is there, or one of our own, which is ended afterwards."""
    if answers():
        yield
        return
    if reason := obstacle():
        raise Skipped(reason)
    if shutil.which("dockerd") is None:
        clock.step("installing docker.io")
        install("docker.io")
    clock.step("starting dockerd")
    with (LOGS / "dockerd.log").open("w") as log:
        daemon = subprocess.Popen(
            ["dockerd", "--data-root", str(WORK / "engine"), "--log-level", "warn"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 30
        while not answers():
            if daemon.poll() is not None or time.monotonic() > until:
                tail = "\n".join((LOGS / "dockerd.log").read_text().splitlines()[-3:])
                # A container without the right to mount, say: nothing that this project could mend.
                raise Skipped(f"dockerd does not start here:\n{tail}")
            time.sleep(0.3)
        yield
    finally:
        if not keep:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(60)
            shutil.rmtree(WORK / "engine", ignore_errors=True)


# ------------------------------------------------------------------------------------------------------------------ images


def build(tag: str, context: Path, **arguments: str) -> None:
    options = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    # The classic builder takes a local base image without asking a registry; Debian's engine has no other.
    run(["docker", "build", "--tag", tag, *options, str(context)], "build", DOCKER_BUILDKIT="0")


def emulator(sam: Path) -> Path:
    """The runtime interface emulator that comes with the SAM CLI."""
    return next(sam.parent.glob(f"lib/python3*/site-packages/samcli/local/rapid/aws-lambda-rie-{ARCH}"))


def python_base(sam: Path) -> None:
    if shutil.which("mmdebstrap") is None:
        install("mmdebstrap")
    archive = WORK / f"python-{VERSION}.tar"
    if not archive.exists():
        clock.step(f"packing Debian {SUITES[VERSION]} with Python {VERSION}")
        new = archive.with_suffix(".new.tar")
        run(
            [
                *["mmdebstrap", "--quiet", "--variant=extract", f"--include={PACKAGES}"],
                *[f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")],
                *['--aptopt=Acquire::Languages "none"', '--aptopt=APT::Install-Recommends "false"'],
                *[SUITES[VERSION], str(new)],
            ],
            "mmdebstrap",
        )
        new.rename(archive)
    base = f"toolrounds-debian:{VERSION}"
    told(["docker", "import", str(archive), base])
    context = WORK / "look_alike"
    shutil.rmtree(context, ignore_errors=True)
    shutil.copytree(HERE / "look_alike", context)
    shutil.copy(emulator(sam), context / "aws-lambda-rie")
    shutil.copy(CA, context / CA.name)
    build(PYTHON_IMAGE, context, ROOT=base)


def provided_base(_: Path) -> None:
    """For the Go functions: SAM needs a shell, mv and chmod in it, so nothing is enough that has only the program."""
    context = WORK / "provided"
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir(parents=True)
    (context / "Dockerfile").write_text(f"FROM {PYTHON_IMAGE}\nRUN rm -rf /var/runtime /var/lang\n")
    build(PROVIDED_IMAGE, context)


def has_image(name: str) -> bool:
    return not subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False).returncode


@contextlib.contextmanager
def images(sam: Path, keep: bool) -> Iterator[None]:
    """Lambda's base images: those that the engine has, or look-alikes, which nobody must find later and take for the real ones."""
    made = [TOOLBOX_IMAGE]
    try:
        for name, make in ((PYTHON_IMAGE, python_base), (PROVIDED_IMAGE, provided_base)):
            if not has_image(name):
                # SAM builds on it, under this tag, what it invokes.
                made += [name, f"{name}-rapid-{ARCH}"]
                if os.environ.get("TEST_IMAGE_BASE") == "pull":
                    run(["docker", "pull", name], "pull")
                else:
                    clock.step(f"making a look-alike of {name}")
                    make(sam)
            if not has_image(f"{name}-{ARCH}"):
                made.append(f"{name}-{ARCH}")
                told(["docker", "tag", name, f"{name}-{ARCH}"])
        clock.step("building the image of the tool container")
        build(TOOLBOX_IMAGE, ROOT / "functions" / "toolbox", PYTHON_VERSION=VERSION)
        yield
    finally:
        if not keep:
            subprocess.run(["docker", "image", "rm", "--force", *made], capture_output=True, check=False)


# ------------------------------------------------------------------------------------------------------------------- tests


@contextlib.contextmanager
def container(variant: str, options: list[str], keep: bool) -> Iterator[str]:
    """A running tool container; yields where it is invoked."""
    secrets = [f"{name}={SECRET}" for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")]
    settings = [*secrets, f"UNRELATED_TOKEN={SECRET}", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=768", "TOOLBOX_DISK_MB=64"]
    environment = [part for setting in settings for part in ("-e", setting)]
    publish = ["-p", "127.0.0.1::8080", "--memory", "1536m"]
    name = told(["docker", "run", "-d", *publish, *environment, *options, TOOLBOX_IMAGE])
    try:
        address = told(["docker", "port", name, "8080"]).splitlines()[0]
        url = f"http://{address}/2015-03-31/functions/function/invocations"
        until = time.monotonic() + 30
        while True:
            try:
                ping = invoke(url, {"op": "ping"})
                break
            except (OSError, ValueError):
                if time.monotonic() > until:
                    raise Failed(told(["docker", "logs", name])) from None
                time.sleep(0.2)
        clock.step(f"{variant}: Python {ping['python']}, walls {json.dumps(ping['isolation'])}")
        yield url
    finally:
        if not keep:
            told(["docker", "rm", "-f", name])


def invoke(url: str, event: Any) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(event).encode()), timeout=60) as response:
        return json.load(response)


def pytest(python: Path, url: str, files: list[str]) -> None:
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfEs", *files],
        cwd=ROOT / "functions" / "toolbox",
        env={**os.environ, "TOOLBOX_INVOKE_URL": url},
        check=False,
    )
    if done.returncode:
        raise Failed("the tests of the tool container fail on the image")


CALLED = {"content": "hi hi", "status": "completed", "embeds": [], "files": [], "images": [], "spilled": False}
# (event, function, what its answer must contain). `sam local invoke` succeeds even when the function fails: only the answer tells.
TOOLBOXES = ("ToolboxImage", "Toolbox")
INVOCATIONS: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    ("api/health", ("Api", "Completions"), {"statusCode": 200, "body": '{"status":true}'}),
    ("api/unknown_path", ("Api",), {"statusCode": 404}),
    ("api/not_signed_in", ("Api",), {"statusCode": 401}),
    ("socket/connect", ("Socket",), {"statusCode": 200}),
    ("socket/connect_old_protocol", ("Socket",), {"statusCode": 400}),
    ("finish/unknown_step", ("Finish",), {"errorMessage": 'unknown step "dance"', "errorType": "PlatformError"}),
    ("sweep/foreign_input", ("Sweep",), {"errorType": "PlatformError"}),
    ("admin/unknown_operation", ("Admin",), {"errorMessage": 'op must be "create_admin"'}),
    ("toolbox/describe", TOOLBOXES, {"ok": True, "has_valves": True, "missing": [], "warnings": []}),
    ("toolbox/valves", ("Toolbox",), {"ok": True, "values": {"limit": 5}}),
    ("toolbox/call", TOOLBOXES, {"ok": True, "result": CALLED, "logs": ""}),
]


def sam_invokes(sam: Path, ministack: Path) -> None:
    folder, _ = toolchain.build_application(sam, ministack)
    for event, functions, expected in INVOCATIONS:
        for function in functions:
            if function == "Toolbox" and VERSION != HOST:
                say(f"    {event} as zip is SKIPPED: there is no look-alike of Python {HOST}")
                continue
            sam_invoke(sam, folder, event, function, expected)


def sam_invoke(sam: Path, folder: Path, event: str, function: str, expected: dict[str, Any]) -> None:
    image = TOOLBOX_IMAGE if function == "ToolboxImage" else ""
    parameters = {"LambdaArch": ARCH, "ToolboxRuntime": RUNTIME, "ToolboxImageUri": image}
    # Made-up AWS keys cost ten seconds a call: SAM asks AWS whose they are.
    dropped = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    done = subprocess.run(
        [
            *[str(sam / "sam"), "local", "invoke", function, "--template", str(folder / "template.yaml")],
            *["--event", str(ROOT / "events" / f"{event}.json"), "--skip-pull-image"],
            # The template isolates the tenants of the tool container, and of nothing else.
            *(["--tenant-id", "user-1"] if function in TOOLBOXES else []),
            "--parameter-overrides",
            *[f"ParameterKey={name},ParameterValue={value}" for name, value in parameters.items() if value],
        ],
        env={
            **environment,
            "SAM_CLI_TELEMETRY": "0",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # A streamed answer has its status in front, parted from the body by eight zeros.
    head, parted, body = done.stdout.partition("\0" * 8)
    try:
        answer = json.loads(head)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and parted:
        answer["body"] = body.strip()
    if not isinstance(answer, dict) or any(answer.get(name) != value for name, value in expected.items()):
        raise Failed(
            f"sam local invoke {function} with {event} answers\n{done.stdout}\n\nexpected {expected}\n{done.stderr}"
        )
    clock.step(f"sam local invoke {function} with {event}: as expected")


def test(keep: bool) -> None:
    LOGS.mkdir(parents=True, exist_ok=True)
    with engine(keep):
        sam, ministack = toolchain.venv("sam"), toolchain.venv("ministack")
        with images(sam, keep):
            python = LOCAL / "venvs" / "toolbox" / "bin" / "python"
            for variant, (options, files) in VARIANTS.items():
                with container(variant, options, keep) as url:
                    pytest(python, url, files)
            sam_invokes(sam, ministack)
        clock.step("done")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave engine, images and containers")
    try:
        test(parser.parse_args().keep)
    except Skipped as reason:
        say(f"test-image is SKIPPED: {reason}")
        return 1 if os.environ.get("TEST_IMAGE") == "required" else 0
    except Failed as failure:
        say(str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
