"""Helpers for lists of chat messages, as tools and filters use them."""

import hashlib
import re
from typing import Any

from open_webui import unavailable

Message = dict[str, Any]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return unavailable(f"{__name__}.{name}")


def get_content_from_message(message: Message) -> str | None:
    """Returns a message's text; of a message in parts the first text part."""
    content = message.get("content")
    if isinstance(content, list):
        return next((part.get("text") for part in content if part.get("type") == "text"), None)
    return content


def _last(role: str, messages: list[Message]) -> Message | None:
    return next((message for message in reversed(messages) if message.get("role") == role), None)


def get_last_user_message_item(messages: list[Message]) -> Message | None:
    return _last("user", messages)


def get_last_user_message(messages: list[Message]) -> str | None:
    message = _last("user", messages)
    return get_content_from_message(message) if message else None


def get_last_assistant_message_item(messages: list[Message]) -> Message | None:
    return _last("assistant", messages)


def get_last_assistant_message(messages: list[Message]) -> str | None:
    message = _last("assistant", messages)
    return get_content_from_message(message) if message else None


def get_system_message(messages: list[Message]) -> Message | None:
    return next((message for message in messages if message.get("role") == "system"), None)


def remove_system_message(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message.get("role") != "system"]


def pop_system_message(messages: list[Message]) -> tuple[Message | None, list[Message]]:
    return get_system_message(messages), remove_system_message(messages)


def get_messages_content(messages: list[Message]) -> str:
    """Returns the conversation as lines of `ROLE: text`."""
    return "\n".join(f"{message.get('role', '').upper()}: {get_content_from_message(message)}" for message in messages)


def add_or_update_system_message(content: str, messages: list[Message], append: bool = False) -> list[Message]:
    """Puts a text into the system message (in front, or behind with `append`), making one if there is none."""
    first = messages[0] if messages else None
    if first is None or first.get("role") != "system":
        messages.insert(0, {"role": "system", "content": content})
    else:
        own = get_content_from_message(first) or ""
        first["content"] = f"{own}\n{content}" if append else f"{content}\n{own}"
    return messages


def add_or_update_user_message(content: str, messages: list[Message], append: bool = True) -> list[Message]:
    """Adds a text to the last message if it is the user's, else a user message with it."""
    last = messages[-1] if messages else None
    if last is None or last.get("role") != "user":
        messages.append({"role": "user", "content": content})
    else:
        own = get_content_from_message(last) or ""
        last["content"] = f"{own}\n{content}" if append else f"{content}\n{own}"
    return messages


def append_or_update_assistant_message(content: str, messages: list[Message]) -> list[Message]:
    last = messages[-1] if messages else None
    if last is None or last.get("role") != "assistant":
        messages.append({"role": "assistant", "content": content})
    else:
        last["content"] = f"{get_content_from_message(last) or ''}\n{content}"
    return messages


def deep_update(target: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Merges nested dictionaries into the target."""
    for key, value in changes.items():
        if isinstance(value, dict):
            target[key] = deep_update(target.get(key) or {}, value)
        else:
            target[key] = value
    return target


def calculate_sha256_string(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def validate_email_format(email: str) -> bool:
    return re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", email) is not None or email.endswith("@localhost")


def sanitize_filename(name: str) -> str:
    """Returns a file name without characters that shells and file systems dislike, in lower case."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s.-]", "", name.strip())).lower()
