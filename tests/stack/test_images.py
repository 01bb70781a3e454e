"""An image that a tool returns, from the tool to the user and to the model."""

import base64
from typing import Any

import client

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
URI = f"data:image/png;base64,{PNG}"
SOURCE = f"""
class Tools:
    def draw(self) -> str:
        \"\"\"Draws.\"\"\"
        return "{URI}"
"""


def test_an_image_is_shown_to_the_user_and_to_the_model(admin: Any, user: Any, other: Any, stub: Any) -> None:
    everybody = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]
    tool = admin.tool(SOURCE, grants=everybody)
    run = user.path_a({"turns": [{"calls": [{"name": "draw", "arguments": {}, "id": "c1"}]}, {"text": "end"}]}, [tool])

    [result] = run.items("function_call_output")
    told = {part["type"]: part for part in result["output"]}
    assert told["input_text"]["text"] == "draw: Image file read successfully."
    # The model gets the picture itself, after the tool's text, as the user's: tools' messages hold only text.
    *_, tools_message, picture = stub.bodies(client.mark_of(run.prompt))[1]["messages"]
    assert tools_message == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "draw: Image file read successfully.",
    }
    assert picture["role"] == "user"
    assert [part["image_url"]["url"] for part in picture["content"] if part["type"] == "image_url"] == [URI]

    path = told["input_image"]["image_url"]
    assert path.startswith("/api/v1/files/")
    assert path.endswith("/content")
    shown = user.get(path)
    assert shown.status_code == 200
    assert shown.headers["Content-Type"] == "image/png"
    assert shown.content == base64.b64decode(PNG)
    assert other.get(path).status_code == 404
    assert admin.get(path).status_code == 200
