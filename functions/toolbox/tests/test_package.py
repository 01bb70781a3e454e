"""Requirements, the `open_webui` stand-in, the author's command, and what children see of the environment."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT, Caller, Process

from toolbox import environment, frontmatter, nursery, packages


def test_missing_requirements() -> None:
    wanted = [
        "pydantic",
        "pydantic>999",
        "no-such-package-x",
        "asyncio",
        "bs4",
        "x; python_version < '3'",
        "bad requirement!",
    ]
    assert packages.missing(wanted) == ["pydantic>999", "no-such-package-x", "bad requirement!"]


def test_requirements_of_a_frontmatter() -> None:
    assert frontmatter.requirements({"requirements": "a>=1,<2, b ,, c[x]==3"}) == ["a>=1,<2", "b", "c[x]==3"]
    assert frontmatter.requirements({}) == []


def test_a_failing_import_names_the_requirement(caller: Caller) -> None:
    source = '"""\nrequirements: nosuch-pkg\n"""\nimport nosuch_pkg\nclass Tools: pass'
    error = caller.describe(source)["error"]
    assert error["kind"] == "load" and "nosuch-pkg" in error["message"]


def test_installing(tmp_path: pathlib.Path) -> None:
    """A wheel made here stands for a package of the index, so that the test needs no network."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    import zipfile

    info = "toolbox_sample-1.0.dist-info"
    with zipfile.ZipFile(wheels / "toolbox_sample-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("toolbox_sample.py", "ANSWER = 42\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toolbox-sample\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    cache = tmp_path / "cache"
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        # Children run under other user ids.
        if folder.name.startswith("pytest-"):
            folder.chmod(0o755)
    process = Process(
        {
            packages.ENABLED: "true",
            "TOOLBOX_PACKAGE_CACHE": str(cache),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
        }
    )
    try:
        caller = Caller(process)
        source = '"""\nrequirements: toolbox-sample\n"""\nimport toolbox_sample\n'
        source += "class Tools:\n    def run(self):\n        return toolbox_sample.ANSWER\n"
        told = caller.describe(source)
        assert told["ok"] and told["missing"] == []
        assert caller.content(source) == "42"
        refused = caller.describe(source.replace("toolbox-sample", "toolbox-other"))
        assert refused["error"]["kind"] == "requirements" and "toolbox-other" in refused["error"]["message"]
    finally:
        process.close()


def test_children_see_an_allow_list_only(caller: Caller) -> None:
    source = 'import os\nclass Tools:\n    def run(self):\n        """Run."""\n        return dict(os.environ)\n'
    seen = json.loads(caller.content(source))
    assert not [name for name in seen if name.startswith("AWS")]
    assert "UNRELATED_TOKEN" not in seen and {"PATH", "HOME", "TMPDIR"} <= set(seen)


def test_an_operator_may_pass_variables_but_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SETTING", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv(environment.PASS, "MY_SETTING, AWS_SECRET_ACCESS_KEY")
    seen = environment.for_children()
    assert seen["MY_SETTING"] == "x" and "AWS_SECRET_ACCESS_KEY" not in seen
    environment.scrub()
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ


def test_denied_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9501")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:4566/")
    monkeypatch.setenv(nursery.DENY, "7000, 443")
    assert nursery.denied_ports() == {9001, 9501, 4566, 7000}


SHIM = '''
from open_webui.models.users import Users
from open_webui.models.files import Files
from open_webui.utils.misc import get_last_user_message, pop_system_message
from open_webui.env import SRC_LOG_LEVELS
from open_webui.config import UPLOAD_DIR
from open_webui.constants import TASKS
from open_webui.routers.images import image_generations
from apps.webui.models.users import Users as OldUsers
try:
    from open_webui.routers.retrieval import process_file
except ImportError:
    process_file = None

class Tools:
    async def run(self, __user__: dict, __messages__: list):
        """Run."""
        me = Users.get_user_by_id(__user__["id"])
        same = await OldUsers.get_user_by_id(__user__["id"])
        other, file = await Users.get_user_by_id("other"), Files.get_file_by_id("f")
        last = get_last_user_message(__messages__)
        constants = [SRC_LOG_LEVELS["X"], UPLOAD_DIR.is_dir(), str(TASKS.DEFAULT)]
        return [me.name, same.email, other, bool(file.filename), last, *constants, process_file]

    async def draw(self):
        """Draw."""
        return await image_generations(request=None)
'''


def test_the_open_webui_stand_in(caller: Caller) -> None:
    told = caller.describe(SHIM)
    assert told["ok"] and len(told["warnings"]) == 1 and "image_generations is not offered" in told["warnings"][0]
    context = {"messages": [{"role": "user", "content": "hi"}], "files": [{"id": "f", "name": "a.txt"}]}
    found = json.loads(caller.content(SHIM, context=context))["results"]
    assert found == ["Ann", "ann@example.com", None, True, "hi", 20, True, "default", None]
    refused = caller.result(SHIM, "draw")
    assert "open_webui.routers.images.image_generations is not offered" in refused["content"]
    error = caller.describe("from open_webui.nonsense import x\nclass Tools: pass")["error"]
    assert error["kind"] == "load" and "open_webui.nonsense is not offered" in error["message"]


def test_the_authors_command(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "My-Tool.py"
    file.write_text('class Tools:\n    def echo(self, text: str) -> str:\n        """Echo."""\n        return text\n')

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "toolbox.cli", str(file), *more]
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)

    told = run("echo", '{"text": "hi there"}')
    assert told.returncode == 0 and "text (string, required)" in told.stdout and "hi there" in told.stdout
    assert json.loads(run("--json").stdout)["describe"]["ok"]
    file.write_text("class Tools(:")
    told = run()
    assert told.returncode == 1 and "does not load (syntax)" in told.stdout
