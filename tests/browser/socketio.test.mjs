// The stock Socket.IO client: connecting, joining, events of a run in order, a question by acknowledgement, reconnecting.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { io } from "socket.io-client";
import { baseUrl, call, calls, model, script, signIn } from "./stack.mjs";

let token;
const sockets = [];

before(async () => { token = await signIn(); });
after(() => sockets.forEach((socket) => socket.close()));

async function connect(auth = { token }) {
  const socket = io(baseUrl, { path: "/ws/socket.io", transports: ["websocket"], auth });
  sockets.push(socket);
  socket.heard = [];
  socket.on("events", (payload, answer) => {
    socket.heard.push(payload);
    if (answer) answer(socket.answer?.(payload) ?? null);
  });
  await new Promise((resolve, reject) => { socket.once("connect", resolve); socket.once("connect_error", reject); });
  return socket;
}

async function run(socket, ...turns) {
  const made = (await call(token, "POST", "/api/v1/chats/new", { chat: { title: "t", models: [model], history: { messages: {}, currentId: null } } })).body;
  const id = crypto.randomUUID(), prompt = script(...turns), question = crypto.randomUUID();
  const answer = await call(token, "POST", "/api/chat/completions", {
    model, stream: true, chat_id: made.id, id, session_id: socket.id, parent_id: null, tool_ids: ["browser_tool"],
    user_message: { id: question, role: "user", content: prompt, childrenIds: [id] }, messages: [{ role: "user", content: prompt }],
  });
  assert.equal(answer.status, 200);
  const ended = () => socket.heard.some((p) => p.chat_id === made.id && p.data.type === "chat:active" && p.data.data.active === false);
  for (const until = Date.now() + 30_000; !ended(); ) {
    assert.ok(Date.now() < until, "the run does not end");
    await new Promise((later) => setTimeout(later, 20));
  }
  return socket.heard.filter((p) => p.chat_id === made.id && p.message_id === id).map((p) => p.data);
}

test("joining answers who one is", async () => {
  const socket = await connect({});
  assert.ok((await socket.emitWithAck("user-join", { auth: { token } })).id);
});

test("a run is heard in order, and its done event is the last of the message", async () => {
  const socket = await connect();
  const heard = await run(socket, calls("look", { what: "sea" }), { text: "The end", chunk: 2 });
  const text = heard.filter((e) => e.data.type === "response.output_text.delta").map((e) => e.data.delta).join("");
  assert.equal(text, "The end");
  assert.deepEqual(heard.filter((e) => e.type === "status").map((e) => e.data.description), ["looking at sea", "seen sea"]);
  assert.deepEqual(heard.slice(-2).map((e) => e.type), ["chat:completion", "chat:active"]);
  assert.equal(heard.at(-2).data.done, true);
});

test("a question is answered by acknowledgement", async () => {
  const socket = await connect();
  socket.answer = (payload) => payload.data.type === "confirmation";
  const heard = await run(socket, calls("confirm", { what: "?" }), { text: "{{result}}" });
  assert.equal(heard.find((e) => e.type === "chat:completion" && e.data.done).data.output.at(-1).content[0].text, "True");
});

test("a connection that is cut comes back", async () => {
  const socket = await connect();
  const first = socket.id;
  socket.io.engine.close();
  await new Promise((resolve) => socket.once("connect", resolve));
  assert.notEqual(socket.id, first);
  assert.ok((await run(socket, { text: "again" })).length > 0);
});
