"""Following a run and answering its questions over plain HTTP (docs/websocket.md)."""

import time

from conftest import Run, calls, final
from sse import follow


def deltas(events):
    return "".join(
        e["data"]["data"].get("delta", "")
        for _, _, e in events
        if e["data"]["type"] == "response:completion"
    )


def shown(events):
    """The text that a client holds at the end."""
    text = ""
    for _, name, e in events:
        if name == "end":
            continue
        kind, data = e["data"]["type"], e["data"]["data"]
        if kind == "chat:completion" and "output" in data:
            text = "".join(
                p["text"]
                for i in data["output"]
                if i["type"] == "message"
                for p in i["content"]
            )
        elif kind == "response:completion":
            text += data.get("delta", "")
    return text


def check_numbers(events):
    assert [e["seq"] for _, name, e in events if name != "end"] == list(
        range(1, len(events))
    )


def test_from_the_start_to_the_end(user):
    run = Run(
        user,
        [
            calls("say", count=3, pause=0.3),
            {"text": "abc" * 30, "chunk": 9, "interval": 0.1},
        ],
    )
    events = list(follow(user, run.chat))
    assert events[-1][1] == "end"
    check_numbers(events)
    assert [
        e["data"]["data"]["description"]
        for _, n, e in events
        if n != "end" and e["data"]["type"] == "status"
    ] == ["s0", "s1", "s2"]
    assert shown(events) == "abc" * 30
    assert any(final(e) for _, n, e in events if n != "end")


def test_resuming_loses_and_repeats_nothing(user):
    run = Run(user, [{"text": "0123456789" * 20, "chunk": 10, "interval": 0.12}])
    events, last, rounds = [], "", 0
    while not events or events[-1][1] != "end":
        rounds += 1
        for event in follow(user, run.chat, last):
            events.append(event)
            last = event[0]
            if len(events) % 4 == 0:
                break
    assert rounds > 3
    check_numbers(events)
    assert shown(events) == "0123456789" * 20


def test_a_run_that_is_over_is_told(user):
    run = Run(user, [{"text": "short"}])
    user.wait(run.chat)
    events = list(follow(user, run.chat))
    check_numbers(events)
    assert shown(events) == "short" and events[-1][1] == "end"


def test_temporary_chats_can_be_read(user):
    run = Run(
        user,
        [calls("say", count=2), {"text": "temporary"}],
        chat_id=f"temporary:{time.time()}",
    )
    events = list(follow(user, run.chat))
    check_numbers(events)
    assert shown(events) == "temporary"


def test_foreign_and_unknown_chats(user):
    user.call("GET", "/api/v1/chats/no-such-chat/events", status=404)
    user.call("GET", "/api/v1/chats/no-such-chat/questions", status=404)


def test_questions_are_answered_over_http(user):
    run = Run(
        user, [calls("ask", question="who"), {"text": "{{result}}"}], questions="wait"
    )
    path, until = f"/api/v1/chats/{run.chat}/questions", time.time() + 20
    while not (asked := user.call("GET", path)):
        assert time.time() < until
        time.sleep(0.1)
    assert (
        asked[0]["data"]["data"]["title"] == "who"
        and asked[0]["message_id"] == run.message
    )
    assert user.call("POST", f"{path}/{asked[0]['id']}", {"value": "Ann"}) == {
        "status": True
    }
    user.call("POST", f"{path}/{asked[0]['id']}", {"value": "Bob"}, status=409)
    user.wait(run.chat)
    assert user.message(run.chat, run.message)["content"] == "ANSWER 'Ann'"
    assert user.call("GET", path) == []


def test_without_the_wish_to_wait_nobody_is_found_at_once(user):
    begun = time.time()
    run = Run(user, [calls("ask", question="who"), {"text": "{{result}}"}])
    user.wait(run.chat)
    assert (
        user.message(run.chat, run.message)["content"]
        == "ANSWER {'error': 'Client session disconnected.'}"
    )
    assert time.time() - begun < 10
