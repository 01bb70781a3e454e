"""
title: Sample
author: toolrounds
description: Time, arithmetic and an invented weather report, so that a first prompt has something to call.
version: 1.0.0
license: Apache-2.0
"""

import ast
import hashlib
import operator
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, Field

OPERATIONS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


class Tools:
    class Valves(BaseModel):
        default_timezone: str = Field("UTC", description="Time zone where none is asked for")

    def __init__(self) -> None:
        self.valves = self.Valves()

    def get_current_time(self, timezone: str = "") -> str:
        """
        Tell the current date and time.
        :param timezone: IANA name such as Europe/Paris; empty for the default
        """
        name = timezone or self.valves.default_timezone
        try:
            return datetime.now(ZoneInfo(name)).isoformat(timespec="seconds")
        except (ZoneInfoNotFoundError, ValueError):
            return f"There is no time zone called {name!r}."

    def calculate(self, expression: str) -> str:
        """
        Work out an arithmetic expression of numbers, + - * / and parentheses.
        :param expression: for example (2 + 3) * 4
        """
        try:
            return f"{expression} = {_value(ast.parse(expression, mode='eval').body):.12g}"
        except (SyntaxError, ValueError, ZeroDivisionError, OverflowError) as error:
            return f"{expression!r} cannot be worked out: {error}"

    async def get_weather(self, city: str, __event_emitter__: Callable | None = None) -> str:
        """
        Tell the weather in a city. It is invented; this is a sample.
        :param city: name of the city
        """
        if __event_emitter__:
            await __event_emitter__({"type": "status", "data": {"description": f"Looking at {city}", "done": False}})
        degrees = hashlib.sha256(city.lower().encode()).digest()[0] % 30
        if __event_emitter__:
            await __event_emitter__({"type": "status", "data": {"description": f"Looked at {city}", "done": True}})
        return f"{city}: {degrees} °C, light clouds (invented by the sample tool)"


def _value(node: ast.AST) -> float:
    """The value of an expression, walked instead of evaluated: the text comes from a model."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](_value(node.operand))
    raise ValueError("only numbers, + - * / and parentheses are understood")
