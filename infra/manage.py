#!/usr/bin/env python3
"""What an operator does after a deployment to AWS. Needs boto3 (it is in SAM's environment) and AWS credentials.

    manage.py admin EMAIL [--name NAME]     creates the first administrator and prints an API key
    manage.py secret                        stores the model provider's API key
    manage.py edge                          prints what infra/edge.yaml has to know of the stack
    manage.py tool FILE                     installs a toolkit through the API of BASE_URL with API_KEY

Passwords and keys are asked for, or read from standard input where that is no terminal; they are never arguments.
"""

import argparse
import getpass
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path


def asked(prompt: str) -> str:
    value = getpass.getpass(prompt + ": ") if sys.stdin.isatty() else sys.stdin.readline().strip()
    if not value:
        sys.exit(f"{prompt}: nothing was given")
    return value


def outputs(stack: str) -> dict[str, str]:
    import boto3  # noqa: PLC0415  (only the commands that talk to AWS need it)

    described = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    return {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]}


def admin(options: argparse.Namespace) -> None:
    import boto3  # noqa: PLC0415

    name = options.name or options.email.partition("@")[0]
    payload = {"op": "create_admin", "email": options.email, "name": name, "password": asked("Password")}
    function = outputs(options.stack)["AdminFunction"]
    answer = boto3.client("lambda").invoke(FunctionName=function, Payload=json.dumps(payload))
    result = json.load(answer["Payload"])
    if answer.get("FunctionError"):
        sys.exit(result.get("errorMessage", "the function failed"))
    print(f"administrator {result['email']} ({result['id']})\nAPI key {result['api_key']}")


def secret(options: argparse.Namespace) -> None:
    import boto3  # noqa: PLC0415

    name = outputs(options.stack)["SecretsPrefix"] + "/model-key"
    value = asked("API key of the model provider")
    boto3.client("ssm").put_parameter(Name=name, Value=value, Type="SecureString", Overwrite=True)
    print(f"stored as {name}; functions that run already take it up within minutes")


def edge(options: argparse.Namespace) -> None:
    names = ("RestApiId", "RestApiStage", "WebSocketApiId", "WebSocketApiStage")
    told = outputs(options.stack)
    print(*[f"{name}={told[name]}" for name in names])


def tool(options: argparse.Namespace) -> None:
    base, key = os.environ.get("BASE_URL", "").rstrip("/"), os.environ.get("API_KEY", "")
    if not base or not key:
        sys.exit("BASE_URL and API_KEY say where to install it")
    identifier = options.file.stem.lower().replace("-", "_")
    form = {
        "id": identifier,
        "name": identifier.replace("_", " ").capitalize(),
        "content": options.file.read_text(encoding="utf-8"),
        "meta": {"description": "", "manifest": {}},
    }

    def call(method: str, path: str, body: object = None) -> int:
        request = urllib.request.Request(base + path, method=method)
        request.add_header("Authorization", f"Bearer {key}")
        request.add_header("Content-Type", "application/json")
        request.data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status
        except urllib.error.HTTPError as error:
            if method == "GET":
                return error.code
            sys.exit(f"{error.code} {error.read().decode(errors='replace')}")

    known = call("GET", f"/api/v1/tools/id/{identifier}") == 200
    call("POST", f"/api/v1/tools/id/{identifier}/update" if known else "/api/v1/tools/create", form)
    print(f"{'updated' if known else 'installed'} {identifier}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack", default="toolrounds", help="name of the CloudFormation stack")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("admin")
    command.add_argument("email")
    command.add_argument("--name")
    command.set_defaults(do=admin)
    command = commands.add_parser("secret")
    command.set_defaults(do=secret)
    command = commands.add_parser("edge")
    command.set_defaults(do=edge)
    command = commands.add_parser("tool")
    command.add_argument("file", type=Path)
    command.set_defaults(do=tool)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
