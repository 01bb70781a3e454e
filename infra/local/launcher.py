"""Starts MiniStack, the local AWS, with a few of its edges taken off. Runs in MiniStack's own virtual environment.

Nothing in the package is changed on disk. Each patch is about one version (pinned in ministack.txt) and stops the start, rather
than being skipped, if what it patches is gone.
"""

import hashlib
import json
import os
import shutil
import socketserver
import sys
import tempfile
import threading
import types
import zipfile
from pathlib import Path

import hypercorn.asyncio
import ministack.services.apigateway_v1 as rest_api
import uvicorn
import uvloop
import yaml
from ministack.app import main
from ministack.core import lambda_runtime
from ministack.services.cloudformation import provisioners


def answer_without_delay() -> None:
    """The Runtime API writes headers and body apart: Nagle's algorithm and the delayed ACK cost 42 ms at every invocation."""
    socketserver.StreamRequestHandler.disable_nagle_algorithm = True


def wait_less_for_logs() -> None:
    """An invocation that logs nothing is held for 50 ms in case a line is still to come; 5 ms do."""
    drain = lambda_runtime.Worker._drain_stderr_bounded
    first, then, *rest = drain.__defaults__
    assert (first, then) > (0.003, 0.002), drain.__defaults__
    drain.__defaults__ = (0.003, 0.002, *rest)


def unpack_once() -> None:
    """Each new environment of a Python function unpacks its code again, seconds for the tool container; links to one copy do."""
    assert lambda_runtime.zipfile is zipfile
    alone = threading.Lock()

    class Archive(zipfile.ZipFile):
        def extractall(self, path=None, members=None, pwd=None) -> None:
            content = repr([(entry.filename, entry.CRC) for entry in self.infolist()])
            kept = Path(tempfile.gettempdir()) / f"unpacked-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
            with alone:
                if not kept.exists():
                    fresh = tempfile.mkdtemp(dir=kept.parent)
                    super().extractall(fresh)
                    Path(fresh).chmod(0o755)
                    Path(fresh).rename(kept)
            shutil.copytree(kept, path, copy_function=os.link, dirs_exist_ok=True)

    lambda_runtime.zipfile = types.SimpleNamespace(**{**vars(zipfile), "ZipFile": Archive})


def import_any_method() -> None:
    """SAM writes `Method: ANY` as x-amazon-apigateway-any-method, which the OpenAPI import passes over."""
    extension = "x-amazon-apigateway-any-method"
    rest_api._OPENAPI_HTTP_METHODS.add(extension)
    original = rest_api._import_operation

    def import_operation(api, resource, method, *args, **kwargs):
        return original(api, resource, "ANY" if method == extension.upper() else method, *args, **kwargs)

    rest_api._import_operation = import_operation


def pass_bodies_as_bytes() -> None:
    """The import drops x-amazon-apigateway-binary-media-types; the template says */* there, so everything matches."""
    assert callable(rest_api._media_type_matches)
    rest_api._media_type_matches = lambda media_type, binary_media_types: True


def read_yaml_definitions() -> None:
    """A state machine's definition may be YAML on AWS; the emulator reads JSON only."""
    original = provisioners._sfn_definition
    provisioners._sfn_definition = lambda props: json.dumps(yaml.safe_load(original(props)))


def read_definitions_in_yaml() -> None:
    """CloudFormation takes a state machine's definition as YAML; the emulator stores it as it is and cannot run it."""
    original = provisioners._sfn_definition

    def definition(props):
        return json.dumps(yaml.safe_load(original(props)))

    provisioners._sfn_definition = definition


def serve_with_a_fast_server() -> None:
    """Most of the emulator's time goes into Hypercorn, which parses HTTP in Python; uvicorn's C parser and loop take a third of it away."""
    assert callable(hypercorn.asyncio.serve)

    async def serve(app, config) -> None:
        host, port = config.bind[0].rsplit(":", 1)
        settings = uvicorn.Config(
            app,
            host=host,
            port=int(port),
            http="httptools",
            ws="websockets",
            ws_max_size=2**24,
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
        )
        await uvicorn.Server(settings).serve()

    hypercorn.asyncio.serve = serve
    uvloop.install()


if __name__ == "__main__":
    answer_without_delay()
    wait_less_for_logs()
    unpack_once()
    import_any_method()
    pass_bodies_as_bytes()
    read_yaml_definitions()
    serve_with_a_fast_server()
    sys.argv[1:] = []
    main()
