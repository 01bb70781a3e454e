"""Constants that tools import."""

import enum


class TASKS(str, enum.Enum):
    """Names of background tasks."""

    DEFAULT = "default"
    TITLE_GENERATION = "title_generation"
    FOLLOW_UP_GENERATION = "follow_up_generation"
    TAGS_GENERATION = "tags_generation"
    QUERY_GENERATION = "query_generation"
    FUNCTION_CALLING = "function_calling"

    def __str__(self) -> str:
        return self.value


class ERROR_MESSAGES(str, enum.Enum):
    """Texts of errors."""

    DEFAULT = "Something went wrong."
    NOT_FOUND = "Not found."
    UNAUTHORIZED = "Not authorized."

    def __str__(self) -> str:
        return self.value

    def __call__(self, message: str = "") -> str:
        return f"[ERROR: {message}]" if message else self.value
