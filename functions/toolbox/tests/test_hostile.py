"""Tools that try to get out or to use everything up. Each harms its own call at most, and is told why."""

import pathlib
import textwrap
import time

import pytest
from conftest import REMOTE, SECRET, Caller, Listener

GOOD = 'class Tools:\n    def run(self) -> str:\n        """Run."""\n        return "fine"\n'


def tool(body: str, head: str = "") -> str:
    indented = textwrap.indent(textwrap.dedent(body).strip(), "        ")
    imports = (
        "import asyncio, ctypes, gc, json, os, pathlib, resource, signal, socket, subprocess, sys, threading, time"
    )
    start = 'class Tools:\n    def run(self, port: int = 0, __event_emitter__=None) -> str:\n        """Run."""'
    return f"{imports}\n{head}\n\n{start}\n{indented}\n"


def asynchronous(body: str) -> str:
    return tool(body).replace("    def run", "    async def run")


# name: (source, text that the result contains, further limits)
FAILING = {
    "os_exit": (tool("os._exit(3)"), "exit code 3", {}),
    "sys_exit": (tool("sys.exit(4)"), "exit code 4", {}),
    "abort": (tool("os.abort()"), "SIGABRT", {}),
    "null_pointer": (tool("ctypes.string_at(0)"), "SIGSEGV", {}),
    "kill_itself": (tool("os.kill(os.getpid(), signal.SIGKILL); time.sleep(5)"), "ended unexpectedly", {}),
    "stop_itself": (tool("os.kill(os.getpid(), signal.SIGSTOP)"), "timed out", {"seconds": 1}),
    "kill_everybody": (tool("os.kill(-1, signal.SIGKILL); os.kill(os.getpid(), signal.SIGKILL)"), "", {"seconds": 3}),
    "one_large_allocation": (tool("x = bytearray(4 << 30); return str(len(x))"), "memory", {"memory_mb": 256}),
    "memory_bit_by_bit": (
        tool("x = []\nwhile True:\n    x.append(os.urandom(1 << 20))"),
        "memory limit",
        {"memory_mb": 256, "seconds": 15},
    ),
    "memory_in_children": (
        tool(
            """
            for _ in range(8):
                if os.fork() == 0:
                    x = os.urandom(60 << 20)
                    time.sleep(60)
            time.sleep(60)
            """
        ),
        "memory limit",
        {"memory_mb": 256, "seconds": 15},
    ),
    "sleeps_for_ever": (asynchronous("await asyncio.sleep(3600)"), "timed out", {"seconds": 1}),
    "loops_for_ever": (tool("while True: pass"), "timed out", {"seconds": 1, "cpu_seconds": 60}),
    "cpu_only": (tool("while True: pass"), "CPU time limit", {"seconds": 15, "cpu_seconds": 1}),
    "ignores_signals": (
        tool(
            """
            for n in range(1, 65):
                try: signal.signal(n, signal.SIG_IGN)
                except (OSError, ValueError): pass
            time.sleep(60)
            """
        ),
        "timed out",
        {"seconds": 1},
    ),
    "holds_the_interpreter_lock": (tool("ctypes.PyDLL(None).sleep(60)"), "timed out", {"seconds": 1}),
    "swallows_everything": (
        tool("while True:\n    try: time.sleep(60)\n    except BaseException: pass"),
        "timed out",
        {"seconds": 1},
    ),
    "endless_generator": (tool("while True: yield 'x' * 1000000"), "generated more than", {}),
    "garbage_on_the_channel": (tool("os.write(3, b'\\xff' * 100); time.sleep(60)"), "ended unexpectedly", {}),
    "closes_all_descriptors": (tool("os.closerange(0, 1000); time.sleep(1); os._exit(1)"), "ended unexpectedly", {}),
    "one_large_file": (
        tool("with open('big', 'wb') as f:\n    for _ in range(4096): f.write(bytes(1 << 20))"),
        "disk limit",
        {},
    ),
    "many_files": (
        tool("for n in range(100000):\n    with open(f'f{n}', 'wb') as f: f.write(bytes(1 << 20))\ntime.sleep(3)"),
        "disk limit",
        {},
    ),
    "endless_recursion": (tool("f = lambda g: g(g)\nf(f)"), "recursion", {}),
    "error_without_text": (
        tool("class E(Exception):\n    def __str__(self): raise SystemExit(1)\nraise E()"),
        "",
        {},
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_fails_alone(caller: Caller, isolation: dict, name: str) -> None:
    source, told, limits = FAILING[name]
    if name == "kill_everybody" and not (
        isolation["namespaces"] or isolation["own_uid"] or isolation["signals_scoped"]
    ):
        pytest.skip("nothing here keeps processes of one user id from signalling each other")
    begun = time.monotonic()
    result = caller.result(source, limits={"seconds": 20, **limits}, tool=name)
    assert result["status"] == "failed"
    assert told in result["content"]
    assert time.monotonic() - begun < 30
    assert caller.content(GOOD) == "fine"
    assert caller.content(GOOD, tool=name) == "fine"


# name: (source, further limits); the tool itself reports "kept" when its attempt failed.
KEPT = {
    "setuid_root": (
        tool("try: os.setuid(0); open('/etc/shadow').read()\nexcept OSError: return 'kept'\nreturn 'root'"),
        {},
    ),
    "shadow": (tool("try: open('/etc/shadow').read()\nexcept OSError: return 'kept'\nreturn 'read'"), {}),
    "unshare": (tool("return 'kept' if ctypes.CDLL(None).unshare(0x10000000) else 'unshared'"), {}),
    "mount": (
        tool("return 'kept' if ctypes.CDLL(None).mount(b'tmpfs', b'/usr', b'tmpfs', 0, None) else 'mounted'"),
        {},
    ),
    "chroot": (tool("try: os.chroot('/tmp')\nexcept OSError: return 'kept'\nreturn 'moved'"), {}),
    "trace": (tool("return 'kept' if ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) else 'attached'"), {}),
    "packet_socket": (
        tool("try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nexcept OSError: return 'kept'\nreturn 'open'"),
        {},
    ),
    "writes_the_code": (
        tool("try: open(sys.modules['toolbox'].__file__, 'a')\nexcept OSError: return 'kept'\nreturn 'open'"),
        {},
    ),
    "raises_its_limits": (
        tool(
            "try: resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999))\nexcept (ValueError, OSError): return 'kept'"
        ),
        {},
    ),
    "fork_bomb": (
        tool(
            """
            me = os.getpid()
            try:
                for _ in range(500):
                    if os.fork() == 0: time.sleep(60)
                time.sleep(5)
            except OSError:
                return 'kept'
            return 'forked'
            """
        ),
        {},
    ),
    "thread_bomb": (
        tool(
            """
            try:
                for _ in range(2000):
                    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            except RuntimeError:
                return 'kept'
            return 'started'
            """
        ),
        {},
    ),
    "prints_gigabytes": (
        tool("line = 'x' * 1048575\nfor _ in range(1024): print(line)\nreturn 'kept'"),
        {"seconds": 60},
    ),
    "breaks_the_libraries": (
        tool("json.loads = json.dumps = None\nasyncio.wait = None\ngc.get_objects()\nreturn 'kept'"),
        {},
    ),
    "leaves_a_thread": (tool("threading.Thread(target=time.sleep, args=(60,)).start()\nreturn 'kept'"), {}),
    "floods_events": (
        tool("for n in range(20000): __event_emitter__({'type': 'x', 'data': 'y' * 100})\nreturn 'kept'"),
        {"seconds": 60},
    ),
}


def test_killing_everybody_reaches_nobody_else(caller: Caller, isolation: dict) -> None:
    if not (isolation["namespaces"] or isolation["own_uid"] or isolation["signals_scoped"]):
        pytest.skip("nothing here keeps processes of one user id from signalling each other")
    pid = tool("return f'{os.getpid()} {START}'", "START = time.time_ns()")
    before = caller.content(pid, tool="bystander")
    caller.result(tool("os.kill(-1, signal.SIGKILL); time.sleep(0.5)"), tool="killer", limits={"seconds": 3})
    assert caller.content(pid, tool="bystander") == before


@pytest.mark.parametrize("name", KEPT)
def test_is_kept(caller: Caller, name: str) -> None:
    source, limits = KEPT[name]
    answer = caller.answer(source, limits={"seconds": 20, **limits}, tool=name)
    assert answer["ok"], answer
    result = answer["result"]
    # What breaks the worker's own libraries may cost the call its answer; never anybody else's.
    stopped = name == "fork_bomb" and "process limit" in result["content"]
    assert result["content"] == "kept" or stopped or name == "breaks_the_libraries", result
    assert len(answer["logs"]) < 100_000
    assert caller.content(GOOD) == "fine"


def test_no_secret_is_within_reach(caller: Caller) -> None:
    source = tool(
        """
        found = [name for name in os.environ if name.startswith("AWS")]
        for place in pathlib.Path("/proc").glob("[0-9]*"):
            for name in ("environ", "mem", "maps", "cmdline"):
                try:
                    if MARKER[::-1] in (place / name).read_bytes(): found.append(str(place / name))
                except OSError: pass
        if MARKER[::-1] in str(os.environ).encode(): found.append("environ")
        for thing in gc.get_objects():
            if isinstance(thing, (dict, list)) and MARKER[::-1].decode() in repr(thing)[:20000]:
                found.append("object")
        return json.dumps(found)
        """,
        # Written backwards, or the tool would find itself.
        f"MARKER = b'{SECRET[::-1]}'",
    )
    assert caller.content(source, seconds=60, tool="secrets") == "[]"


PORTS = {
    "plain": "socket.create_connection(('127.0.0.1', port), 2)",
    "mapped": "socket.create_connection(('::ffff:127.0.0.1', port), 2)",
    "mptcp": "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(('127.0.0.1', port))",
    "fast_open": "socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', port))",
    "process": (
        "code = f'import socket; socket.create_connection((\"127.0.0.1\", {port}))'\n"
        "    subprocess.run([sys.executable, '-c', code], check=True)"
    ),
}


@pytest.mark.skipif(bool(REMOTE), reason="the listeners are local")
@pytest.mark.parametrize("way", PORTS)
def test_the_platforms_ports_are_closed(
    caller: Caller, isolation: dict, runtime_api: Listener, emulator: Listener, way: str
) -> None:
    if not isolation["ports_closed"]:
        pytest.skip("this kernel has no Landlock port rules")
    source = tool(f"try:\n    {PORTS[way]}\nexcept Exception as problem: return 'kept'\nreturn 'connected'")
    for listener in (runtime_api, emulator):
        caller.result(source, arguments={"port": listener.port})
        time.sleep(0.05)
        assert listener.connections == 0


@pytest.mark.skipif(not REMOTE, reason="there is no runtime API but the emulator's")
@pytest.mark.parametrize("way", PORTS)
def test_the_runtime_api_is_closed(caller: Caller, isolation: dict, way: str) -> None:
    if not isolation["ports_closed"]:
        pytest.skip("this kernel has no Landlock port rules")
    source = tool(f"try:\n    {PORTS[way]}\nexcept Exception as problem: return 'kept'\nreturn 'connected'")
    assert caller.result(source, arguments={"port": 9001}, tool="runtime_api")["content"] != "connected"


@pytest.mark.skipif(bool(REMOTE), reason="the listener is local")
def test_other_ports_are_open(caller: Caller) -> None:
    listener = Listener()
    source = tool("socket.create_connection(('127.0.0.1', port), 2)\nreturn 'connected'")
    assert caller.content(source, arguments={"port": listener.port}) == "connected"


WRITES = tool(
    """
    for place in (os.environ["HOME"], os.environ["TMPDIR"], "/tmp", "/var/tmp", "/dev/shm"):
        try: pathlib.Path(place, "left-behind").write_text("private")
        except OSError: pass
    return os.environ["HOME"]
    """
)
READS = tool(
    """
    found = []
    for place in ("/tmp", "/var/tmp", "/dev/shm", "/home"):
        for folder, _, names in os.walk(place):
            found += [os.path.join(folder, name) for name in names if name == "left-behind"]
    readable = []
    for path in found:
        try: readable.append(open(path).read())
        except OSError: pass
    return json.dumps(readable)
    """
)


@pytest.mark.parametrize("reader", [{"user": "u2"}, {"user": "u1", "tool": "other"}], ids=["other_user", "other_tool"])
def test_files_are_not_shared(caller: Caller, isolation: dict, reader: dict) -> None:
    if not (isolation["namespaces"] or isolation["own_uid"] or isolation["files_scoped"]):
        pytest.skip("neither namespaces nor user ids nor Landlock here")
    caller.content(WRITES, user="u1", tool="writer")
    assert caller.content(READS, **reader) == "[]"


def test_processes_are_not_shared(caller: Caller, isolation: dict) -> None:
    pid = tool("return str(os.getpid()) + os.readlink('/proc/self/ns/pid') + str(os.getuid())")
    same = {caller.content(pid, user="u1", tool="a") for _ in range(3)}
    others = {caller.content(pid, user="u2", tool="a"), caller.content(pid, user="u1", tool="b")}
    assert len(same) == 1 and not same & others
    if isolation["namespaces"]:
        visible = tool("return str(len([n for n in os.listdir('/proc') if n.isdigit()]))")
        assert int(caller.content(visible)) == 2


def test_a_daemon_does_not_outlive_its_call(caller: Caller) -> None:
    source = tool(
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 100)
                os.execvp("sleep", ["sleep", "98765"])
            os._exit(0)
        time.sleep(0.3)
        return "kept"
        """
    )
    assert caller.content(source, tool="daemon") == "kept"
    if not REMOTE:
        commands = []
        for place in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                commands.append(place.read_bytes())
            except OSError:
                continue
        assert not [command for command in commands if b"98765" in command]


def test_a_forged_result_is_only_its_own(caller: Caller) -> None:
    forged = tool(
        """
        body = json.dumps({"answer": {"result": {"content": ["no text"], "status": 7}}}).encode()
        os.write(3, len(body).to_bytes(4, "big") + body)
        time.sleep(60)
        """
    )
    assert caller.result(forged, tool="forger")["status"] == "failed"
    assert caller.content(GOOD, tool="forger") == "fine"


def test_a_late_thread_says_nothing_in_the_next_call(caller: Caller) -> None:
    source = tool(
        """
        def late():
            time.sleep(0.5)
            __event_emitter__({"type": "status", "data": {"description": "late"}})
        threading.Thread(target=late).start()
        return "kept"
        """
    )
    assert caller.content(source, tool="late") == "kept"
    answer = caller.answer(tool("time.sleep(1)\nreturn 'x'"), tool="late")
    assert answer["events"] == [] and answer["result"]["content"] == "x"


@pytest.mark.parametrize(
    "body", ["while True: pass", "import os; os._exit(1)", "raise KeyboardInterrupt", "x = bytearray(1 << 40)"]
)
@pytest.mark.parametrize("place", ["module", "init"])
def test_describing_a_hostile_file(caller: Caller, body: str, place: str) -> None:
    source = (
        f"{body}\nclass Tools: pass" if place == "module" else f"class Tools:\n    def __init__(self):\n        {body}"
    )
    event = {"op": "describe", "tool": {"id": "t", "source": source}, "limits": {"seconds": 2}}
    answer = caller.invoke(event)
    assert answer["ok"] is False and answer["error"]["kind"] == "load"
    assert caller.describe(GOOD)["ok"]
