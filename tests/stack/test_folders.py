"""A folder's system prompt and tools apply to whatever is asked in its chats, with the caller's own rights."""

from typing import Any

import client
import pytest

SOURCE = """
class Tools:
    def shout(self, text: str) -> str:
        \"\"\"Shouts.\"\"\"
        return text.upper()
"""
EVERYBODY = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]
CALLS = {
    "turns": [{"calls": [{"name": "shout", "arguments": {"text": "hi"}, "id": "c1"}]}, {"text": "{{result}} / {{tools}} / {{system}}"}]
}


@pytest.fixture(scope="module")
def tools(admin: Any) -> list[str]:
    """One that everybody may use, one of the administrator alone."""
    return [admin.tool(SOURCE, grants=EVERYBODY), admin.tool(SOURCE.replace("shout", "hidden"))]


@pytest.fixture(scope="module")
def folder(user: Any, tools: list[str]) -> str:
    body = {"name": client.name("folder"), "data": {"system_prompt": "Speak of {{USER_NAME}}.", "tool_ids": [*tools, "nobodys"]}}
    made = user.post("/api/v1/folders/", body)
    assert made.status_code == 200, made.text
    return made.json()["id"]


def ask(user: Any, folder: str, **more: Any) -> Any:
    prompt = client.say(more.pop("script", CALLS))
    chat, user_message, message = user.new_chat(prompt)
    moved = user.post(f"/api/v1/chats/{chat}/folder", {"folder_id": folder})
    assert moved.status_code == 200
    assert moved.json()["folder_id"] == folder
    body = {"model": "stub-model", "stream": True, "chat_id": chat, "id": message, "messages": [{"role": "user", "content": prompt}]}
    answered = user.complete(body | more)
    assert answered.status_code == 200, answered.text
    user.wait(chat)
    return client.Run(user, chat, user_message, message, answered, prompt)


@pytest.mark.parametrize("how", [{}, {"session_id": "api-1"}, {"wait": True}], ids=["held", "session", "wait"])
def test_every_way_to_ask_gets_prompt_and_tools(user: Any, folder: str, how: dict[str, Any]) -> None:
    run = ask(user, folder, **how)
    result, offered, system = run.message["content"].split(" / ")
    assert (result, offered) == ("HI", "shout")
    assert system.startswith("Speak of ") and "{{" not in system


def test_legacy_and_prompted_modes(user: Any, folder: str, stub: Any) -> None:
    script = {
        "turns": [{"text": "end {{system}}"}],
        "tasks": {"select": {"tool_calls": [{"name": "shout", "parameters": {"text": "hi"}}]}},
    }
    run = ask(user, folder, script=script, params={"function_calling": "legacy"})
    assert "Speak of" in run.message["content"]
    assert any("HI" in str(source) for source in run.message["sources"])
    run = ask(user, folder, script={"turns": [{"text": "end {{system}}"}]}, params={"function_calling": "prompt"})
    assert "Speak of" in run.message["content"] and "shout" in run.message["content"]


def test_a_new_chat_is_made_in_the_folder_and_only_in_ones_own(user: Any, other: Any, admin: Any, folder: str) -> None:
    def first(who: Any) -> Any:
        prompt = client.say(CALLS)
        message = {"id": client.uid(), "role": "user", "content": prompt}
        return who.complete(
            {
                "model": "stub-model",
                "stream": True,
                "id": client.uid(),
                "parent_id": None,
                "session_id": "api-1",
                "folder_id": folder,
                "user_message": message,
                "messages": [message],
            }
        )

    made = first(user)
    assert made.status_code == 200, made.text
    chat = made.json()["chat_id"]
    user.wait(chat)
    record = user.chat(chat)
    assert record["folder_id"] == folder
    assert record["chat"]["history"]["messages"][record["current_message_id"]]["content"].startswith("HI / shout / Speak of")
    assert [c["id"] for c in user.get(f"/api/v1/chats/folder/{folder}/list").json()].count(chat) == 1
    for stranger in (other, admin):
        assert first(stranger).status_code == 404
        assert stranger.get(f"/api/v1/folders/{folder}").status_code == 404


def test_another_users_folder_gives_nothing_to_a_chat_that_is_not_stored(other: Any, folder: str) -> None:
    prompt = client.say({"turns": [{"text": "[{{tools}}][{{system}}]"}]})
    body = {"model": "stub-model", "wait": True, "folder_id": folder, "messages": [{"role": "user", "content": prompt}]}
    assert other.complete(body).json()["choices"][0]["message"]["content"] == "[][]"


def test_taken_out_of_the_folder_the_chat_has_its_tools_no_more(user: Any, folder: str) -> None:
    made = user.post("/api/v1/folders/", {"name": client.name("gone"), "data": {"system_prompt": "Gone."}}).json()["id"]
    run = ask(user, made, script={"turns": [{"text": "[{{system}}]"}]})
    assert run.message["content"] == "[Gone.]"
    assert user.delete(f"/api/v1/folders/{made}", params={"delete_contents": "false"}).json() is True
    assert user.chat(run.chat_id)["folder_id"] is None
    assert user.delete(f"/api/v1/folders/{made}").status_code == 404
