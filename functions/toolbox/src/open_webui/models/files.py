"""Files. A tool may look up the files that are attached to its chat, as far as the call brings them along."""

from typing import Any

from open_webui import current, unavailable

from .records import Nothing, Record


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return unavailable(f"{__name__}.{name}")


class FileModel(Record):
    """A file record."""

    id: str
    user_id: str = ""
    filename: str = ""
    path: str | None = None
    data: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None


class FilesTable:
    """Lookups among the attached files."""

    def get_file_by_id(self, id: str, *_: Any, **__: Any) -> Any:
        for entry in (current.get("context") or {}).get("files") or []:
            record = entry.get("file") or entry
            if record.get("id") == id:
                name = record.get("filename") or entry.get("name") or ""
                return FileModel(**{**record, "filename": name})
        return Nothing()


Files = FilesTable()
