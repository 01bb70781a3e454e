"""Loads a tool file: runs its module once, makes the `Tools` instance, describes its functions."""

import ast
import builtins
import sys
import types
from dataclasses import dataclass, field
from typing import Any

from . import frontmatter, functions, packages

# Files from before the package was split import its parts by these bare names.
_BARE = frozenset({"utils", "apps", "main", "config"})
_CATCHES_IMPORTS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class LoadFailed(Exception):
    """The file cannot be used. `kind` is one of the protocol's error kinds."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass
class Toolkit:
    """A loaded tool file."""

    id: str
    instance: Any
    functions: dict[str, functions.Function]
    manifest: dict[str, str]
    warnings: list[str] = field(default_factory=list)

    def settings(self, name: str) -> type | None:
        """Returns the class `Valves` or `UserValves`, if the author wrote one."""
        found = getattr(type(self.instance), name, None)
        return found if isinstance(found, type) else None


def load(tool_id: str, source: str) -> Toolkit:
    """Runs a tool file and returns its toolkit; raises LoadFailed with the Python message of whatever went wrong."""
    manifest = frontmatter.parse(source)
    code = _compile(source)
    shim = _shim()
    shim.guarded.update(code.guarded)
    module = types.ModuleType(f"tool_{tool_id}")
    module.__dict__["__builtins__"] = builtins
    # Registered before it runs: dataclasses, pickling and postponed annotations look their module up by name.
    sys.modules[module.__name__] = module
    try:
        exec(code.compiled, module.__dict__)
        tools = getattr(module, "Tools", None)
        if not isinstance(tools, type):
            raise LoadFailed("load", "No Tools class found in the module")
        instance = tools()
    except LoadFailed:
        raise
    except BaseException as problem:
        raise LoadFailed("load", _told(problem, manifest)) from problem
    warnings = [f"{name} is not offered here: using it raises an error." for name in shim.take_missing()]
    try:
        found = functions.find(instance, warnings)
    except functions.SpecFailed as problem:
        raise LoadFailed("spec", str(problem)) from None
    except BaseException as problem:
        raise LoadFailed("load", _told(problem, manifest)) from problem
    return Toolkit(tool_id, instance, found, manifest, warnings)


def _shim() -> Any:
    import open_webui

    return open_webui


def _told(problem: BaseException, manifest: dict[str, str]) -> str:
    message = str(problem) or type(problem).__name__
    if isinstance(problem, SystemExit):
        message = f"The file ended the interpreter (exit code {problem.code})."
    if isinstance(problem, ModuleNotFoundError) and (lacking := packages.missing(frontmatter.requirements(manifest))):
        message += f" (required, but not installed here: {', '.join(lacking)})"
    return message


@dataclass(frozen=True)
class _Code:
    compiled: types.CodeType
    guarded: frozenset[str]


def _compile(source: str) -> _Code:
    try:
        tree = ast.parse(source, "<string>")
        rewritten = _Imports()
        return _Code(compile(rewritten.visit(tree), "<string>", "exec"), frozenset(rewritten.guarded))
    except (SyntaxError, ValueError) as problem:
        raise LoadFailed("syntax", str(problem)) from None
    except (RecursionError, MemoryError):
        raise LoadFailed("syntax", "The file is nested too deeply to be compiled.") from None


class _Imports(ast.NodeTransformer):
    """Redirects bare imports to the shim, and notes which imports the author guards with a fallback of their own."""

    def __init__(self) -> None:
        self.guarded: set[str] = set()
        self._tries = 0

    def visit_Try(self, node: ast.Try) -> ast.Try:
        caught = {
            name.id
            for handler in node.handlers
            for name in ast.walk(handler.type or ast.Name("Exception"))
            if isinstance(name, ast.Name)
        }
        guards = bool(caught & _CATCHES_IMPORTS)
        self._tries += guards
        node.body = [self.visit(statement) for statement in node.body]
        self._tries -= guards
        for block in (node.handlers, node.orelse, node.finalbody):
            block[:] = [self.visit(statement) for statement in block]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.level == 0 and node.module:
            if node.module.split(".")[0] in _BARE:
                node.module = f"open_webui.{node.module}"
            if self._tries:
                self.guarded.add(node.module)
        return node
