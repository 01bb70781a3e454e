#!/usr/bin/env python3
"""Looks for dependency cycles in what the SAM template becomes. Runs in SAM's environment: `make check`.

CloudFormation refuses a template with a cycle only when it is deployed, and `sam validate --lint` does not see those that arise in
translation (a function's event refers to an API that refers to the function's role that refers to ...).
"""

import re
import sys
from pathlib import Path
from typing import Any

import yaml
from samcli.lib.translate.sam_template_validator import SamTemplateValidator
from samcli.yamlhelper import yaml_parse

TEMPLATE = Path(__file__).resolve().parents[1] / "template.yaml"


class NoManagedPolicies:
    """The template names no managed policy, so there is nothing to load from an account."""

    def load(self) -> dict[str, str]:
        return {}


def references(node: Any) -> set[str]:
    """Names that a value refers to, by Ref, GetAtt, Sub or DependsOn."""
    if isinstance(node, list):
        return {name for item in node for name in references(item)}
    if not isinstance(node, dict):
        return set()
    found: set[str] = set()
    for key, value in node.items():
        if key == "Ref":
            found.add(value)
        elif key == "Fn::GetAtt":
            found.add(value[0] if isinstance(value, list) else value.split(".")[0])
        elif key == "Fn::Sub":
            text, given = value if isinstance(value, list) else (value, {})
            found |= {name.split(".")[0] for name in re.findall(r"\$\{([\w.]+)\}", text)} - given.keys()
            found |= references(given)
        elif key == "DependsOn":
            found |= {value} if isinstance(value, str) else set(value)
        else:
            found |= references(value)
    return found


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """One cycle of the graph, if it has any."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph[name]):
            if found := visit(target, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in graph if (found := visit(name, []))), [])


def main() -> int:
    validator = SamTemplateValidator(yaml_parse(TEMPLATE.read_text()), NoManagedPolicies(), region="us-east-1")
    resources = yaml.safe_load(validator.get_translated_template_if_valid())["Resources"]
    graph = {name: references(body) & resources.keys() for name, body in resources.items()}
    if found := cycle(graph):
        print("dependency cycle: " + " -> ".join(found))
        return 1
    print(f"{len(graph)} resources, no dependency cycle")
    return 0


if __name__ == "__main__":
    sys.exit(main())
