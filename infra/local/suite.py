#!/usr/bin/env python3
"""Runs a black-box suite against a stack of its own, with the scripted model as its provider.

    suite.py [--name test] [--port PORT] [--iam] [--fresh] -- COMMAND...

The command finds in its environment what the contract suite's bootstrap prints (BASE_URL, ADMIN_KEY, USER_KEY, MODEL_STUB_URL and
so on) and what `stack.py env` does. The suites lie in SHARED_DIR, ../shared by default. The stack is ended afterwards; --fresh
begins with an empty one, and --iam has the emulator enforce the roles of the functions.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from aws import CallFailed
from processes import Process
from stack import Stack, free_port, is_free
from toolchain import ROOT, Failed, passed_environment, say

MAX_TOOL_ROUNDS = "12"


def shared() -> Path:
    folder = Path(os.environ.get("SHARED_DIR") or ROOT.parent / "shared")
    if not (folder / "contract").is_dir():
        raise Failed(f"the suites are not in {folder}; set SHARED_DIR")
    return folder.resolve()


def run(options: argparse.Namespace) -> int:
    suites = shared()
    stack = Stack(options.name, options.port, options.iam)
    if options.fresh:
        stack.clean()
        stack = Stack(options.name, options.port, options.iam)
    else:
        stack.down()
    if options.port is None and not is_free(stack.memory.setdefault("port", free_port())):
        stack.asked_port = free_port()
    stack.choose_ports()
    stub = f"http://127.0.0.1:{stack.memory['model_port']}"
    os.environ.update(MODEL_API_BASE_URL=stub + "/v1", MODEL_API_KEY="stub", TASK_MODEL="stub-task")
    os.environ["MAX_TOOL_ROUNDS"] = MAX_TOOL_ROUNDS
    stack.provider = os.environ["MODEL_API_BASE_URL"]
    model = Process("modelstub", stack.folder)
    try:
        script = suites / "modelstub" / "modelstub.py"
        port = str(stack.memory["model_port"])
        model.start([sys.executable, str(script), "--port", port], passed_environment())
        stack.up()
        bootstrap = [sys.executable, str(suites / "contract" / "bootstrap.py"), stack.base_url, stub]
        told = subprocess.run(bootstrap, capture_output=True, text=True, check=False)
        if told.returncode:
            raise Failed(f"bootstrap.py failed:\n{told.stderr}")
        accounts = dict(line.split("=", 1) for line in told.stdout.splitlines())
        environment = {
            **os.environ,
            **stack.env(),
            **accounts,
            "CONTRACT_MAX_TOOL_ROUNDS": MAX_TOOL_ROUNDS,
            "SHARED_DIR": str(suites),
            "STACK": options.name,
            # The suites may lie where nothing can be written.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.run(options.command, env=environment, check=False).returncode
    finally:
        model.stop()
        stack.down()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="test")
    parser.add_argument("--port", type=int, help="port of the base URL; otherwise a free one")
    parser.add_argument("--iam", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("command", nargs="+")
    try:
        return run(parser.parse_args())
    except (Failed, CallFailed) as failure:
        say(str(failure))
        return 1


if __name__ == "__main__":
    sys.exit(main())
