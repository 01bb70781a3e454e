"""For authors: loads a tool file exactly as the service would and prints what the service would make of it.

python -m toolbox.cli mytool.py                            specs, valves, missing requirements, warnings
python -m toolbox.cli mytool.py echo '{"text": "hi"}'      and runs one function
"""

import argparse
import json
import pathlib
import sys
from typing import Any

from .handler import handler


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="toolbox", description="Load a tool file as the service would.")
    parser.add_argument("file", type=pathlib.Path, help="the tool file")
    parser.add_argument("function", nargs="?", help="a function to run")
    parser.add_argument("arguments", nargs="?", default="{}", help="its arguments, a JSON object")
    parser.add_argument("--json", action="store_true", help="print the container's answers as they are")
    options = parser.parse_args(arguments)
    try:
        source = options.file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        print(f"{options.file}: {problem}", file=sys.stderr)
        return 1
    tool = {"id": _identifier(options.file.stem), "source": source}
    answers = {"describe": handler({"op": "describe", "tool": tool})}
    if answers["describe"]["ok"]:
        for kind in ("valves", "user_valves"):
            answers[kind] = handler({"op": "valves_spec", "tool": tool, "kind": kind})
    if answers["describe"]["ok"] and options.function:
        call = {"op": "call", "tool": tool, "function": options.function, "arguments": options.arguments}
        answers["call"] = handler({**call, "user": {"id": "author", "name": "Author", "role": "admin"}})
    print(json.dumps(answers, indent=2, ensure_ascii=False) if options.json else _report(options.file.name, answers))
    ok = all(answer["ok"] for answer in answers.values())
    return 0 if ok and answers.get("call", {}).get("result", {}).get("status") != "failed" else 1


def _identifier(stem: str) -> str:
    name = "".join(character if character.isalnum() else "_" for character in stem.lower())
    return name if name.isidentifier() else f"tool_{name}"


def _report(name: str, answers: dict[str, Any]) -> str:
    told = answers["describe"]
    if not told["ok"]:
        return f"{name} does not load ({told['error']['kind']}): {told['error']['message']}"
    lines = [f"{told['manifest'].get('title') or name}: {len(told['specs'])} functions"]
    for spec in told["offered"]:
        lines += ["", f"{spec['name']}: {' '.join(spec['description'].split())}"]
        required = spec["parameters"].get("required", [])
        for parameter, schema in spec["parameters"]["properties"].items():
            mark = "required" if parameter in required else f"default {json.dumps(schema.get('default'))}"
            lines.append(f"  {parameter} ({_kind(schema)}, {mark}) {schema.get('description', '')}".rstrip())
    for kind, title in (("valves", "Valves"), ("user_valves", "UserValves")):
        schema = answers[kind].get("schema") or {}
        if schema:
            lines += ["", title]
            lines += [
                f"  {key} ({_kind(shape)}) {shape.get('description', '')}".rstrip()
                for key, shape in schema["properties"].items()
            ]
    for title, items in (("Missing requirements", told["missing"]), ("Warnings", told["warnings"])):
        if items:
            lines += ["", title, *(f"  {item}" for item in items)]
    if call := answers.get("call"):
        result = call.get("result") or {"status": "failed", "content": call["error"]["message"]}
        lines += ["", f"Result ({result['status']})", result["content"]]
        lines += [f"Event {json.dumps(event['event'], ensure_ascii=False)}" for event in call.get("events", [])]
        lines += [f"Printed: {call['logs']}"] if call.get("logs") else []
    return "\n".join(lines)


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    branches = schema.get("anyOf")
    return " | ".join(_kind(branch) for branch in branches) if branches else str(schema.get("type", "any"))


if __name__ == "__main__":
    sys.exit(main())
