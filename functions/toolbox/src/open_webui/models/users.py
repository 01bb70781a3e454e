"""Accounts. A tool may look up the account it was called by, and nobody else's."""

from typing import Any

from open_webui import current

from .records import Nothing, Record


class UserModel(Record):
    """An account record; fields that the account has beyond these are attributes too."""

    id: str
    name: str = ""
    email: str = ""
    role: str = "user"
    profile_image_url: str = ""


class UsersTable:
    """Lookups among the accounts."""

    def _own(self, field: str, value: Any) -> Any:
        account = current.get("user") or {}
        if account and account.get(field) == value:
            return UserModel(**{key: item for key, item in account.items() if key != "valves"})
        return Nothing()

    def get_user_by_id(self, id: str, *_: Any, **__: Any) -> Any:
        return self._own("id", id)

    def get_user_by_email(self, email: str, *_: Any, **__: Any) -> Any:
        return self._own("email", email)


Users = UsersTable()
