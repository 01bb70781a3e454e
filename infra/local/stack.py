#!/usr/bin/env python3
"""The whole application on this machine: the real template in a local AWS, behind one base URL.

    stack.py run      up, then wait; Ctrl-C ends it
    stack.py up       build and deploy what has changed, start everything in the background
    stack.py down     end the processes, keep the data
    stack.py clean    end the processes, remove the data
    stack.py env      addresses and keys as shell assignments
    stack.py pids     pids of the processes that serve --function, for tests that kill them

Everything of a stack lies in .local/<name>. MODEL_API_BASE_URL and MODEL_API_KEY name an OpenAI-compatible provider; without
them a small demonstration model of the project's own answers. TASK_MODEL, MAX_TOOL_ROUNDS, TOOL_SECONDS and
WEBSOCKET_EVENT_CALLER_TIMEOUT are passed to the template.
ADMIN_EMAIL, ADMIN_PASSWORD and ADMIN_NAME describe the first administrator. Only Python's standard library is needed.
"""

import argparse
import concurrent.futures
import contextlib
import fcntl
import json
import os
import shlex
import shutil
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import toolchain
from aws import REGION, CallFailed, Emulator
from processes import Process
from toolchain import HERE, LOCAL, Failed, say

STACK = "toolrounds"
ARTIFACTS = "toolrounds-artifacts"
DEFAULT_NAME = "default"
DEFAULT_PORT = 3000
DEMO_MODEL = "demo-model"
SAMPLE_TOOL = "sample_tool"
# Requests that the streamed function serves at once in its one process; each held or streamed answer is one.
CONCURRENCY = 256


class Stack:
    """One stack: its folder, its processes, and what is remembered between starts."""

    def __init__(self, name: str, port: int | None, iam: bool) -> None:
        self.folder = LOCAL / name
        self.memory_file = self.folder / "stack.json"
        try:
            self.memory: dict[str, Any] = json.loads(self.memory_file.read_text())
        except FileNotFoundError:
            self.memory = {}
        self.iam = iam
        self.name = name
        self.asked_port = port
        self.provider = os.environ.get("MODEL_API_BASE_URL", "").rstrip("/")
        self.emulator_process = Process("emulator", self.folder)
        self.front_door = Process("frontdoor", self.folder)
        self.demo_model = Process("demomodel", self.folder)

    # ------------------------------------------------------------------------------------------------------ what it knows

    @property
    def port(self) -> int:
        return self.memory["port"]

    @property
    def base_url(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def emulator(self) -> Emulator:
        return Emulator(f"http://127.0.0.1:{self.memory['emulator_port']}")

    @property
    def model_url(self) -> str:
        return self.provider or f"http://127.0.0.1:{self.memory['model_port']}/v1"

    def remember(self, **values: Any) -> None:
        self.memory.update(values)
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self.memory_file.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(json.dumps(self.memory, indent=1))
        new.replace(self.memory_file)

    # ------------------------------------------------------------------------------------------------------------ commands

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps two commands from starting, deploying or ending the same stack at once."""
        LOCAL.mkdir(exist_ok=True)
        with (LOCAL / f"{self.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Failed(f"another command is at work on the stack {self.name!r}") from None
            yield

    def up(self) -> None:
        if shutil.which("go") is None:
            raise Failed("Go is needed to build the functions: https://go.dev/dl")
        with self.alone():
            self.bring_up()

    def bring_up(self) -> None:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            venvs = [pool.submit(toolchain.venv, name) for name in ("ministack", "sam")]
            ministack, sam = (future.result() for future in venvs)
        self.choose_ports()
        self.start_emulator(ministack)
        build, sources = toolchain.build_application(sam, ministack)
        outputs = self.deploy(sam, ministack, build, sources)
        self.start_front(outputs)
        self.put_model_key(outputs)
        key = self.administrator(outputs)
        self.install_sample(key)
        if not self.provider:
            self.grant_demo_model(key)
        self.remember(model=self.first_model(key), tool=SAMPLE_TOOL)

    def down(self) -> None:
        with self.alone():
            self.end_processes()

    def clean(self) -> None:
        with self.alone():
            self.end_processes()
            shutil.rmtree(self.folder, ignore_errors=True)

    def end_processes(self) -> None:
        for process in (self.front_door, self.demo_model, self.emulator_process):
            process.stop()

    def env(self) -> dict[str, str]:
        if "api_key" not in self.memory:
            raise Failed(f"the stack {self.name!r} has not been up yet")
        return {
            "BASE_URL": self.base_url,
            "API_KEY": self.memory["api_key"],
            "ADMIN_EMAIL": self.memory["admin_email"],
            "MODEL_ID": self.memory["model"],
            "TOOL_ID": self.memory["tool"],
            "EMULATOR_URL": self.emulator.endpoint,
            "STACK_NAME": STACK,
            "STACK_DIR": str(self.folder),
        }

    # --------------------------------------------------------------------------------------------------------------- steps

    def choose_ports(self) -> None:
        """Ports are kept from start to start: they are part of what is deployed. One that is taken by now is replaced."""
        self.memory["port"] = self.asked_port or self.memory.get("port", DEFAULT_PORT)
        if self.front_door.pid() is None and not is_free(self.port):
            raise Failed(f"port {self.port} is taken; choose another one with --port")
        for name, process in (("emulator_port", self.emulator_process), ("model_port", self.demo_model)):
            if name not in self.memory or (process.pid() is None and not is_free(self.memory[name])):
                self.memory[name] = free_port()
        self.remember()

    def start_emulator(self, ministack: Path) -> None:
        how = toolchain.digest([HERE / "launcher.py", HERE / "ministack.txt", f"iam={self.iam}"])
        if self.emulator_process.pid() is not None and self.memory.get("emulator") != how:
            self.emulator_process.stop()
        if self.emulator_process.pid() is None:
            state, temporary = self.folder / "state", self.folder / "tmp"
            # What functions of an earlier run left behind.
            shutil.rmtree(temporary, ignore_errors=True)
            for folder in (state / "s3", temporary, self.folder / "home"):
                folder.mkdir(parents=True, exist_ok=True)
            environment = {
                **toolchain.passed_environment(),
                "HOME": str(self.folder / "home"),
                "TMPDIR": str(temporary),
                "BIND_HOST": "127.0.0.1",
                "GATEWAY_PORT": str(self.memory["emulator_port"]),
                # Functions get it from here; every SDK then talks to the emulator without a line of code.
                "AWS_ENDPOINT_URL": self.emulator.endpoint,
                "AWS_REGION": REGION,
                "AWS_DEFAULT_REGION": REGION,
                "IOT_MTLS_ENABLED": "0",
                "PERSIST_STATE": "1",
                "STATE_DIR": str(state),
                "S3_PERSIST": "1",
                "S3_DATA_DIR": str(state / "s3"),
                **({"AUTH": "true"} if self.iam else {}),
            }
            self.emulator_process.start([str(ministack / "python"), str(HERE / "launcher.py")], environment)
            self.remember(emulator=how)
        _wait_for(self.emulator_process, self.emulator.endpoint + "/_ministack/health")

    def deploy(self, sam: Path, ministack: Path, build: Path, sources: str) -> dict[str, str]:
        """`sam deploy` of the real template, when it, the code or a parameter has changed or the emulator has lost it."""
        parameters = {
            "LambdaArch": toolchain.ARCH,
            "ToolboxRuntime": toolchain.RUNTIME,
            "ToolboxTenancy": "NONE",
            "FirstSignup": "true",
            "ModelApiBaseUrl": self.model_url,
            "TaskModel": os.environ.get("TASK_MODEL", ""),
            "EventCallSeconds": os.environ.get("WEBSOCKET_EVENT_CALLER_TIMEOUT", "300"),
            "MaxToolRounds": os.environ.get("MAX_TOOL_ROUNDS", "256"),
            "ToolSeconds": os.environ.get("TOOL_SECONDS", "600"),
            "PublicBaseUrl": f"http://127.0.0.1:{self.port}",
            "ModelTools": os.environ.get("MODEL_TOOLS", "false"),
            "OutboundAllow": os.environ.get("OUTBOUND_ALLOW", "127.0.0.0/8,::1/128"),
            "EmulatorUrl": self.emulator.endpoint,
        }
        outputs = self.outputs()
        stamp = toolchain.digest([sources, json.dumps(parameters), HERE / "launcher.py"])
        if outputs and self.memory.get("deployed") == stamp:
            return outputs
        say("deploying the template")
        self.emulator.make_bucket(ARTIFACTS)
        toolchain.run(
            [
                *[str(sam / "sam"), "deploy", "--template-file", str(build / "template.yaml")],
                *["--stack-name", STACK, "--s3-bucket", ARTIFACTS, "--region", REGION],
                *["--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-fail-on-empty-changeset"],
                # Asked for because the template has an image function; nothing is sent there (see samconfig.toml).
                *["--image-repository", "000000000000.dkr.ecr.us-east-1.amazonaws.com/unused"],
                *["--no-progressbar", "--parameter-overrides"],
                *[f"ParameterKey={name},ParameterValue={value}" for name, value in parameters.items()],
            ],
            {**toolchain.sam_environment(ministack), "AWS_ENDPOINT_URL": self.emulator.endpoint},
            self.folder / "logs" / "sam-deploy.log",
        )
        outputs = self.outputs()
        # The emulator takes this property of the template without a word and does nothing.
        ttl = {"AttributeName": "exp", "Enabled": True}
        with contextlib.suppress(CallFailed):  # already on
            self.emulator.json(
                "dynamodb",
                "DynamoDB_20120810.UpdateTimeToLive",
                {"TableName": outputs["TableName"], "TimeToLiveSpecification": ttl},
            )
        # A copy of its own: the next build must not pull the program from under a running stack.
        self.front_door.stop()
        shutil.rmtree(self.folder / "completions", ignore_errors=True)
        shutil.copytree(build / "Completions", self.folder / "completions")
        self.remember(deployed=stamp)
        return outputs

    def outputs(self) -> dict[str, str]:
        try:
            return self.emulator.outputs(STACK)
        except CallFailed:
            return {}

    def put_model_key(self, outputs: dict[str, str]) -> None:
        self.emulator.json(
            "ssm",
            "AmazonSSM.PutParameter",
            {
                "Name": outputs["SecretsPrefix"] + "/model-key",
                "Value": os.environ.get("MODEL_API_KEY") or "none",
                "Type": "SecureString",
                "Overwrite": True,
            },
        )

    def start_front(self, outputs: dict[str, str]) -> None:
        """The front door and, without a provider, the demonstration model."""
        self.demo_model.stop()
        if not self.provider:
            address = f"127.0.0.1:{self.memory['model_port']}"
            program = toolchain.build_program("demomodel")
            self.demo_model.start([str(program), "-listen", address], toolchain.passed_environment())
            _wait_for(self.demo_model, f"http://{address}/health")
        program = toolchain.build_program("frontdoor")
        self.front_door.stop()
        self.front_door.start(
            [
                *[str(program), "-listen", f"127.0.0.1:{self.port}", "-emulator", self.emulator.endpoint],
                *["-rest-api", outputs["RestApiId"], "-rest-stage", outputs["RestApiStage"]],
                *["-websocket-api", outputs["WebSocketApiId"], "-websocket-stage", outputs["WebSocketApiStage"]],
                *["-function", outputs["CompletionsFunction"], "-code", str(self.folder / "completions")],
                *["-concurrency", str(CONCURRENCY), "-pid-file", str(self.folder / "pids" / "completions")],
            ],
            {
                **toolchain.passed_environment(),
                "HOME": str(self.folder / "home"),
                "TMPDIR": str(self.folder / "tmp"),
                "AWS_REGION": REGION,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
            },
        )
        _wait_for(self.front_door, self.base_url + "/health")

    def administrator(self, outputs: dict[str, str]) -> str:
        """The API key of the first administrator, who is made where there is none yet."""
        key = self.memory.get("api_key", "")
        if key and self.call("GET", "/api/v1/tools/", key)[0] == 200:
            return key
        email = os.environ.get("ADMIN_EMAIL", "admin@example.com")
        made = self.emulator.invoke(
            outputs["AdminFunction"],
            {
                "op": "create_admin",
                "email": email,
                "name": os.environ.get("ADMIN_NAME", "Admin"),
                "password": os.environ.get("ADMIN_PASSWORD", "password123"),
            },
        )
        self.remember(admin_email=email, api_key=made["api_key"])
        return made["api_key"]

    def install_sample(self, key: str) -> None:
        """The sample tool, through the public API like anybody's."""
        source = (HERE / "sample_tool.py").read_text()
        form = {
            "id": SAMPLE_TOOL,
            "name": "Sample",
            "content": source,
            "meta": {"description": "Time, arithmetic and an invented weather report", "manifest": {}},
            "access_grants": [_everybody()],
        }
        status, found = self.call("GET", f"/api/v1/tools/id/{SAMPLE_TOOL}", key)
        if status != 200:
            self.must("POST", "/api/v1/tools/create", key, form)
        elif found["content"] != source:
            self.must("POST", f"/api/v1/tools/id/{SAMPLE_TOOL}/update", key, form)

    def grant_demo_model(self, key: str) -> None:
        """An entry that lets plain users see the demonstration model; an administrator sees it anyway."""
        if self.call("GET", f"/api/v1/models/model?id={DEMO_MODEL}", key)[0] != 200:
            form = {"id": DEMO_MODEL, "base_model_id": None, "name": "Demonstration model", "meta": {}, "params": {}}
            self.must(
                "POST", "/api/v1/models/create", key, {**form, "access_grants": [_everybody()], "is_active": True}
            )

    def first_model(self, key: str) -> str:
        """A model id for the example; empty where the provider lists none."""
        models = self.must("GET", "/api/models", key)["data"]
        return models[0]["id"] if models else ""

    def must(self, method: str, path: str, key: str, body: Any = None) -> Any:
        status, answer = self.call(method, path, key, body)
        if status != 200:
            raise Failed(f"{method} {path}: {status} {answer}; see {self.folder / 'logs'}")
        return answer

    def call(self, method: str, path: str, key: str, body: Any = None) -> tuple[int, Any]:
        request = urllib.request.Request(self.base_url + path, method=method)
        request.add_header("Authorization", f"Bearer {key}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")


def _everybody() -> dict[str, str]:
    return {"principal_type": "user", "principal_id": "*", "permission": "read"}


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(process: Process, url: str, seconds: float = 60) -> None:
    """Waits until the process answers with success."""
    until = time.monotonic() + seconds
    trouble: object = "no answer"
    while time.monotonic() < until and process.pid() is not None:
        try:
            with urllib.request.urlopen(url, timeout=30):
                return
        except OSError as error:
            trouble = error
            time.sleep(0.1)
    raise Failed(f"{process.name} is not ready at {url} ({trouble}):\n{process.log_tail()}\n\nIts log is {process.log}")


def show(stack: Stack) -> None:
    """What somebody needs for a first request."""
    env = stack.env()
    print(
        f"""
  base URL      {env["BASE_URL"]}      (socket.io at {env["BASE_URL"]}/ws/socket.io/)
  API key       {env["API_KEY"]}      (administrator {env["ADMIN_EMAIL"]})
  model         {env["MODEL_ID"]}{"" if stack.provider else "      (a demonstration: MODEL_API_BASE_URL and MODEL_API_KEY name a real one)"}
  sample tool   {env["TOOL_ID"]}
  logs          {stack.folder / "logs"}

  curl -s {env["BASE_URL"]}/api/models -H 'Authorization: Bearer {env["API_KEY"]}'
  make ask{"" if stack.name == DEFAULT_NAME else f" NAME={stack.name}"} PROMPT='What is 12 * 34, and what is the weather in Oslo?'
"""
    )


def run(stack: Stack) -> None:
    """Up, until a signal comes."""
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, frame: asked.append(received))
    try:
        stack.up()
        show(stack)
        say("Ctrl-C ends it; the data stays.")
        while not asked:
            time.sleep(0.2)
            for process in (stack.emulator_process, stack.front_door):
                if process.pid() is None:
                    raise Failed(f"{process.name} has ended:\n{process.log_tail()}\n\nIts log is {process.log}")
    finally:
        say("ending")
        stack.down()


def up(stack: Stack) -> None:
    stack.up()
    show(stack)


def pids(stack: Stack, function: str) -> None:
    """Function processes are children of the emulator or the front door; each knows its name and its emulator."""
    name = stack.outputs().get(function.capitalize() + "Function")
    if not name:
        raise Failed(f"there is no function {function!r}, or the stack is not up")
    wanted = {f"AWS_LAMBDA_FUNCTION_NAME={name}".encode(), f"AWS_ENDPOINT_URL={stack.emulator.endpoint}".encode()}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            if wanted <= set((folder / "environ").read_bytes().split(b"\0")):
                print(folder.name)


def env(stack: Stack) -> None:
    for name, value in stack.env().items():
        print(f"{name}={shlex.quote(value)}")


COMMANDS: dict[str, Callable[[Stack], None]] = {
    "run": run,
    "up": up,
    "down": Stack.down,
    "clean": Stack.clean,
    "env": env,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=[*COMMANDS, "pids"])
    parser.add_argument("--function", default="model", help="name of a folder in functions (pids)")
    parser.add_argument("--name", default=DEFAULT_NAME, help="which stack, the name of its folder in .local")
    parser.add_argument("--port", type=int, help="port of the base URL, 3000 at first; remembered")
    parser.add_argument("--iam", action="store_true", help="let the emulator enforce the roles of the functions")
    options = parser.parse_args()
    stack = Stack(options.name, options.port, options.iam)
    try:
        if options.command == "pids":
            pids(stack, options.function)
        else:
            COMMANDS[options.command](stack)
    except (Failed, CallFailed) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
