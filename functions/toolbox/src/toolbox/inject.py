"""The parameters whose names start with underscores: filled from the call's context, never by the model."""

import copy
import inspect
from collections.abc import Callable
from typing import Any

from . import valves
from .emitter import Channel
from .functions import Function
from .load import Toolkit
from .standin import Request


def reserved(toolkit: Toolkit, function: Function, event: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Returns values for those reserved parameters that the function declares.

    Each value is made from the call's own message, and copied where two parameters show the same thing, so that nothing
    mutable is shared between calls or between parameters.
    """
    context = event.get("context") or {}
    metadata = copy.deepcopy(context.get("metadata") or {})
    if key := event.get("key"):
        metadata["idempotency_key"] = key
    makers: dict[str, Callable[[], Any]] = {
        "__user__": lambda: user(toolkit, event),
        "__metadata__": lambda: metadata,
        "__messages__": lambda: context.get("messages") or [],
        "__files__": lambda: context.get("files") or [],
        "__model__": lambda: context.get("model") or {},
        "__oauth_token__": lambda: context.get("oauth_token"),
        "__id__": lambda: toolkit.id,
        "__chat_id__": lambda: context.get("chat_id"),
        "__message_id__": lambda: context.get("message_id"),
        "__session_id__": lambda: context.get("session_id"),
        "__request__": lambda: Request(copy.deepcopy(context)),
        "__event_emitter__": channel.emitter,
        "__event_call__": channel.caller,
    }
    values: dict[str, Any] = {}
    for name, parameter in function.reserved.items():
        if maker := makers.get(name):
            values[name] = maker()
        elif parameter.default is inspect.Parameter.empty:
            # A name that nobody knows, without a default: None lets the call begin.
            values[name] = None
    return values


def user(toolkit: Toolkit, event: dict[str, Any]) -> dict[str, Any]:
    """The account record, with the user's own settings as an instance whenever the class exists."""
    account = dict(event.get("user") or {})
    if settings := toolkit.settings("UserValves"):
        account["valves"] = valves.instance(settings, event["tool"].get("user_valves") or {})
    return account
