"""The plain JSON protocol over a websocket (docs/websocket.md)."""

import json

import pytest
import websocket
from conftest import Plain, Run, calls, final, inactive


def texts(events):
    return "".join(
        e["data"]["data"].get("delta", "")
        for e in events
        if e["type"] == "event"
        and str(
            e["data"]["data"].get("type") if isinstance(e["data"]["data"], dict) else ""
        )
        == "response.output_text.delta"
    )


def test_a_run_is_told_in_numbers_without_a_gap(user, plain):
    client = plain(user.token)
    assert client.until(lambda m: m["type"] == "ready")["session_id"]
    run = Run(
        user,
        [
            calls("say", count=5),
            {"text": "0123456789" * 10, "chunk": 10, "interval": 0.05},
        ],
    )
    client.until(inactive)
    events = [
        m for m in client.got if m["type"] == "event" and m["chat_id"] == run.chat
    ]
    assert {m["message_id"] for m in events} == {run.message}
    assert [m["seq"] for m in events] == list(range(1, len(events) + 1))
    statuses = [
        m["data"]["data"]["description"]
        for m in events
        if m["data"]["type"] == "status"
    ]
    assert statuses == [f"s{i}" for i in range(5)]
    assert texts(events) == "0123456789" * 10
    done = next(m for m in events if final(m))
    assert (
        done["data"]["data"]["output"] == user.message(run.chat, run.message)["output"]
    )
    assert events.index(done) > max(
        i for i, m in enumerate(events) if m["data"]["type"] == "response:completion"
    )


def test_another_chat_is_not_heard(user, plain):
    client = plain(user.token)
    client.until(lambda m: m["type"] == "ready")
    client.send(type="subscribe", chat_ids=["another"], id=7)
    assert client.until(lambda m: m["type"] == "subscribed") == {
        "type": "subscribed",
        "chat_ids": ["another"],
        "id": 7,
        "session_id": client.got[0]["session_id"],
    }
    run = Run(user, [{"text": "x"}])
    user.wait(run.chat)
    client.send(type="ping")
    client.until(lambda m: m["type"] == "pong")
    assert not [m for m in client.got if m["type"] == "event"]


def test_catching_up_after_a_reconnect(user, plain):
    first = plain(user.token)
    first.until(lambda m: m["type"] == "ready")
    run = Run(user, [{"text": "0123456789" * 20, "chunk": 10, "interval": 0.15}])
    first.until(lambda m: m["type"] == "event" and m["seq"] >= 4)
    first.close()
    seen = [m for m in first.got if m["type"] == "event"]
    second = plain(user.token)
    second.until(lambda m: m["type"] == "ready")
    second.send(
        type="subscribe", chat_ids=[run.chat], after={run.message: seen[-1]["seq"]}
    )
    second.until(inactive)
    more = {
        m["seq"]: m
        for m in second.got
        if m["type"] == "event" and m["seq"] > seen[-1]["seq"]
    }
    events = seen + [more[n] for n in sorted(more)]
    assert [m["seq"] for m in events] == list(range(1, len(events) + 1))
    assert texts(events) == "0123456789" * 20


def test_questions_come_with_a_call_id(user, plain):
    client = plain(user.token)
    session = client.until(lambda m: m["type"] == "ready")["session_id"]
    run = Run(
        user, [calls("ask", question="who"), {"text": "{{result}}"}], session_id=session
    )
    asked = client.until(lambda m: m.get("call_id"))
    assert asked["data"]["type"] == "input" and asked["data"]["data"]["title"] == "who"
    client.send(type="answer", call_id=asked["call_id"], value={"name": "Ann"})
    assert client.until(lambda m: m["type"] == "answered")["accepted"] is True
    client.send(type="answer", call_id=asked["call_id"], value="again")
    assert client.until(lambda m: m["type"] == "answered")["accepted"] is False
    client.until(inactive)
    assert user.message(run.chat, run.message)["content"] == "ANSWER {'name': 'Ann'}"


def test_a_bad_token_is_refused(user, plain):
    client = plain("nobody")
    assert client.until(lambda m: m["type"] == "error")["status"] == 401
    with pytest.raises((websocket.WebSocketConnectionClosedException, AssertionError)):
        client.until(lambda m: False, 5)
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        Plain(None, "?token=nobody")
    assert refused.value.status_code in (401, 403)


def test_a_token_in_the_address_is_enough(user, plain):
    client = plain(None, "?token=" + user.token)
    run = Run(user, [{"text": "hello"}])
    client.until(inactive)
    assert (
        texts(
            [m for m in client.got if m["type"] == "event" and m["chat_id"] == run.chat]
        )
        == "hello"
    )


def test_no_frame_exceeds_the_gateway(user, plain):
    client = plain(user.token)
    client.until(lambda m: m["type"] == "ready")
    Run(user, [calls("big"), {"text": "y" * 150_000, "chunk": 50_000}])
    client.until(inactive, 30)
    big = next(m for m in client.got if m.get("data", {}).get("type") == "notification")
    assert (
        big["data"]["data"]["content"].startswith("MARKER")
        and big["data"]["data"]["truncated"] is True
    )
    assert max(len(json.dumps(m)) for m in client.got) < 128 << 10
    assert texts([m for m in client.got if m["type"] == "event"]) == "y" * 150_000
    assert (
        next(m for m in client.got if m["type"] == "event" and final(m))["data"][
            "data"
        ]["truncated"]
        is True
    )
