"""Constants that tools import."""

import enum


class TASKS(enum.StrEnum):
    """Names of background tasks."""

    DEFAULT = "default"
    TITLE_GENERATION = "title_generation"
    FOLLOW_UP_GENERATION = "follow_up_generation"
    TAGS_GENERATION = "tags_generation"
    QUERY_GENERATION = "query_generation"
    FUNCTION_CALLING = "function_calling"


class ERROR_MESSAGES(enum.StrEnum):
    """Texts of errors."""

    DEFAULT = "Something went wrong."
    NOT_FOUND = "Not found."
    UNAUTHORIZED = "Not authorized."

    def __call__(self, message: str = "") -> str:
        return f"[ERROR: {message}]" if message else self.value
