#!/usr/bin/env python3
"""Asks the running local stack one thing the way a script would: a chat, a completion with tools, the answer from the chat.

ask.py [--name NAME] [--model ID] PROMPT
"""

import argparse
import sys
import time
import uuid

from stack import DEFAULT_NAME, Stack
from toolchain import Failed


def ask(stack: Stack, prompt: str, model: str) -> str:
    key, user, assistant, now = stack.env()["API_KEY"], str(uuid.uuid4()), str(uuid.uuid4()), int(time.time())
    question = {"role": "user", "content": prompt}
    messages = {
        user: {**question, "id": user, "childrenIds": [assistant], "timestamp": now, "models": [model]},
        assistant: {
            "id": assistant,
            "role": "assistant",
            "content": "",
            "parentId": user,
            "childrenIds": [],
            "model": model,
            "done": False,
            "timestamp": now,
        },
    }
    history = {"currentId": assistant, "messages": messages}
    new = {"chat": {"title": prompt[:60], "models": [model], "history": history}}
    chat = stack.must("POST", "/api/v1/chats/new", key, new)["id"]
    # Without session_id the request is held until the whole loop is done.
    request = {"model": model, "messages": [question], "stream": True, "chat_id": chat, "id": assistant}
    stack.must("POST", "/api/chat/completions", key, {**request, "tool_ids": [stack.env()["TOOL_ID"]]})
    message = stack.must("GET", f"/api/v1/chats/{chat}", key)["chat"]["history"]["messages"][assistant]
    if message.get("error"):
        raise Failed(f"the run ended with an error: {message['error']}")
    return message["content"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default=DEFAULT_NAME, help="which stack")
    parser.add_argument("--model", help="model id; otherwise the first one")
    parser.add_argument("prompt")
    options = parser.parse_args()
    stack = Stack(options.name, port=None, iam=False)
    try:
        print(ask(stack, options.prompt, options.model or stack.env()["MODEL_ID"]))
    except (Failed, OSError) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
