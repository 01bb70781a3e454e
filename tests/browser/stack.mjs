// What the tests here need of a running stack: BASE_URL, and ADMIN_KEY or ADMIN_EMAIL and ADMIN_PASSWORD.
export const baseUrl = (process.env.BASE_URL ?? "http://127.0.0.1:3000").replace(/\/$/, "");
export const email = process.env.ADMIN_EMAIL ?? "admin@example.com";
export const password = process.env.ADMIN_PASSWORD ?? "password123";
export const model = process.env.MODEL ?? "stub-model";

const source = `
class Tools:
    async def look(self, what: str, __event_emitter__=None) -> str:
        """
        Look at something.
        :param what: at what
        """
        await __event_emitter__({"type": "status", "data": {"description": "looking at " + what, "done": False}})
        await __event_emitter__({"type": "citation", "data": {"document": ["d"], "metadata": [{"source": "s"}], "source": {"name": "Almanac", "url": "https://example.com/almanac"}}})
        await __event_emitter__({"type": "status", "data": {"description": "seen " + what, "done": True}})
        return "<b>" + what + "</b>"

    async def confirm(self, what: str, __event_call__=None) -> str:
        """
        Ask for a confirmation.
        :param what: of what
        """
        return repr(await __event_call__({"type": "confirmation", "data": {"title": "Sure?", "message": what}}))

    async def page(self) -> object:
        """
        Give a page.
        """
        from fastapi.responses import HTMLResponse
        return HTMLResponse("<p id=made>embedded</p>", headers={"Content-Disposition": "inline"})
`;

export async function call(token, method, path, body) {
  const answer = await fetch(baseUrl + path, {
    method, headers: { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) },
    body: body && JSON.stringify(body),
  });
  return { status: answer.status, body: await answer.json().catch(() => null) };
}

// signIn returns a session token, after the tool is installed.
export async function signIn() {
  const session = await call(null, "POST", "/api/v1/auths/signin", { email, password });
  if (session.status !== 200) throw new Error(`sign in: ${session.status}`);
  const { token } = session.body;
  const form = { id: "browser_tool", name: "Browser tool", content: source, meta: {} };
  const known = (await call(token, "GET", "/api/v1/tools/id/browser_tool")).status === 200;
  const made = await call(token, "POST", known ? "/api/v1/tools/id/browser_tool/update" : "/api/v1/tools/create", form);
  if (made.status !== 200) throw new Error(`install: ${JSON.stringify(made.body)}`);
  return token;
}

export const script = (...turns) => "script:" + JSON.stringify({ turns });
export const calls = (name, args = {}) => ({ calls: [{ name, arguments: args }] });
