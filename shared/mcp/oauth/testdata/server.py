"""An MCP server behind its own OAuth provider (PyPI `fastmcp`): server.py PORT. Signing in approves at once."""
import sys

from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider

PORT = int(sys.argv[1])
auth = InMemoryOAuthProvider(
    base_url=f"http://127.0.0.1:{PORT}",
    client_registration_options=ClientRegistrationOptions(enabled=True),
)
mcp = FastMCP("guarded", auth=auth)


@mcp.tool
def secret() -> str:
    """Tells the secret."""
    return "42 is the answer"


mcp.run(transport="http", host="127.0.0.1", port=PORT, log_level="warning", show_banner=False)
