"""Sockets that come and go at random change nothing of what a run records (promise P8)."""

import random
import socket
import threading
import time

from conftest import Plain, Run, calls

TURNS = [
    calls("say", count=4, pause=0.1),
    {"text": "0123456789" * 15, "chunk": 10, "interval": 0.08},
]


def record(user, run):
    """The stored message without what differs from run to run."""
    message = user.message(run.chat, run.message)
    kept = {
        key: message.get(key)
        for key in (
            "content",
            "done",
            "statusHistory",
            "sources",
            "files",
            "embeds",
            "error",
        )
    }
    drop = ("id", "call_id", "started_at", "ended_at", "duration")
    kept["output"] = [
        {k: v for k, v in item.items() if k not in drop} for item in message["output"]
    ]
    return kept


def trouble(token, over, seed):
    """Connects and is gone again, sometimes without a word, until it is told to end."""
    chance = random.Random(seed)
    while not over.is_set():
        client = Plain(token)
        time.sleep(chance.uniform(0, 0.5))
        if chance.random() < 0.5:
            client.ws.sock.shutdown(socket.SHUT_RDWR)
        client.close()


def test_the_record_is_the_same(user):
    undisturbed = Run(user, TURNS)
    user.wait(undisturbed.chat)
    expected = record(user, undisturbed)
    assert expected["done"] is True and expected["content"] == "0123456789" * 15
    over = threading.Event()
    threads = [
        threading.Thread(target=trouble, args=(user.token, over, seed))
        for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    try:
        runs = [Run(user, TURNS) for _ in range(4)]
        for run in runs:
            user.wait(run.chat, 60)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    for run in runs:
        assert record(user, run) == expected
