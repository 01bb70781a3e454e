// The console is an ordinary client of the HTTP API: it follows runs by server-sent events and answers tools' questions over HTTP,
// so it needs no socket. Everything that comes from elsewhere is shown as text; embedded HTML runs in a sandbox without an origin.
const base = location.pathname.replace(/\/console\/?$/, "");
const at = (id) => document.getElementById(id);
const store = sessionStorage;
let token = store.getItem("token");
let chat = null; // {id, last}
let following = null; // AbortController of the stream
const asked = new Set(); // questions that were shown

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function call(method, path, body) {
  const answer = await fetch(base + path, {
    method, headers: { Authorization: `Bearer ${token}`, ...(body ? { "Content-Type": "application/json" } : {}) },
    body: body ? JSON.stringify(body) : undefined,
  });
  const value = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(typeof value?.detail === "string" ? value.detail : `HTTP ${answer.status}`);
  return value;
}

// ------------------------------------------------------------------------------------------------ signing in

async function enter() {
  const [models, tools] = await Promise.all([call("GET", "/api/models"), call("GET", "/api/v1/tools/")]);
  at("model").replaceChildren(...models.data.map((m) => new Option(m.name || m.id, m.id)));
  for (const old of at("tools").querySelectorAll("label")) old.remove();
  for (const tool of tools) {
    const label = element("label"), box = element("input");
    box.type = "checkbox";
    box.value = tool.id;
    label.append(box, " ", tool.name || tool.id);
    at("tools").append(label);
  }
  at("tools").hidden = tools.length === 0;
  at("entry").hidden = true;
  at("work").hidden = at("who").hidden = false;
  at("name").textContent = store.getItem("name") || "API key";
  at("prompt").focus();
}

function leave() {
  store.clear();
  token = null;
  following?.abort();
  at("entry").hidden = false;
  at("work").hidden = at("who").hidden = true;
}

at("signin").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = new FormData(event.target);
  at("refused").textContent = "";
  try {
    if (form.get("key")) {
      token = form.get("key").trim();
      store.removeItem("name");
    } else {
      const session = await call("POST", "/api/v1/auths/signin", { email: form.get("email"), password: form.get("password") });
      token = session.token;
      store.setItem("name", session.name);
    }
    await enter();
    store.setItem("token", token);
    event.target.reset();
  } catch (error) {
    at("refused").textContent = error.message;
  }
});
at("leave").addEventListener("click", leave);

// ------------------------------------------------------------------------------------------------ a message, as events make it

class Message {
  constructor() {
    this.items = [];
    this.statuses = [];
    this.sources = [];
    this.files = [];
    this.embeds = [];
    this.error = null;
    this.node = element("article", undefined, "message assistant");
    this.node.setAttribute("aria-label", "Answer");
  }

  item(id, type) {
    let found = this.items.find((i) => i.id === id);
    if (!found) this.items.push((found = { id, type, content: [], arguments: "", status: "in_progress" }));
    return found;
  }

  take(seq, { type, data }) {
    if (seq === 1) Object.assign(this, { items: [], statuses: [], sources: [], files: [], embeds: [], error: null });
    if (type === "response:completion") this.stream(data);
    else if (type === "chat:completion") {
      if (data.output) this.items = data.output;
      if (data.sources) this.sources = data.sources;
      if (data.error) this.error = data.error;
      if (data.truncated) this.truncated = true;
    } else if (type === "chat:tasks:cancel") this.items = data?.output ?? this.items;
    else if (type === "status") this.statuses.push(data);
    else if (type === "source" || type === "citation") this.sources.push(data);
    else if (type === "files" || type === "chat:message:files") this.files = this.files.concat(data.files ?? []);
    else if (type === "embeds" || type === "chat:message:embeds") this.embeds = (data.replace ? [] : this.embeds).concat(data.embeds ?? []);
    else if (type === "chat:message:error") this.error = data.error ?? data;
    else if (type === "notification") at("state").textContent = data.content;
    else return;
    this.draw();
  }

  stream(data) {
    const kind = data.type.replace("response.", "");
    if (kind.startsWith("output_item.")) {
      const index = this.items.findIndex((i) => i.id === data.item.id);
      if (index >= 0) this.items[index] = data.item;
      else this.items.push(data.item);
    } else if (kind === "function_call_arguments.delta") this.item(data.item_id, "function_call").arguments += data.delta;
    else if (kind === "function_call_arguments.done") this.item(data.item_id, "function_call").arguments = data.arguments;
    else {
      const item = this.item(data.item_id, kind.startsWith("reasoning") ? "reasoning" : "message");
      item.content = [{ text: (item.content?.[0]?.text ?? "") + data.delta }];
    }
  }

  // draw renders at most once a frame, and replaces only what has changed.
  draw() {
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      const parts = [];
      const shown = this.statuses.filter((s) => !s.hidden);
      if (shown.length) parts.push(["statuses", shown.map((s) => s.description)]);
      for (const item of this.items) parts.push([item.type, item]);
      if (this.embeds.length) parts.push(["embeds", this.embeds]);
      if (this.files.length) parts.push(["files", this.files]);
      if (this.sources.length) parts.push(["sources", this.sources]);
      if (this.error) parts.push(["error", this.error]);
      if (this.truncated) parts.push(["note", "The answer is long: read the chat to see all of it."]);
      parts.forEach((part, i) => {
        const key = JSON.stringify(part), old = this.node.children[i];
        if (old?.key === key) return;
        const made = render(...part);
        made.key = key;
        if (old?.open) made.open = true;
        if (old) old.replaceWith(made);
        else this.node.append(made);
      });
      while (this.node.children.length > parts.length) this.node.lastChild.remove();
    });
  }
}

const textOf = (parts) => (parts ?? []).map((p) => p.text ?? "").join("");

function folded(title, ...children) {
  const made = element("details");
  made.append(element("summary", title), ...children);
  return made;
}

function frame(html) {
  const made = element("iframe");
  made.setAttribute("sandbox", "allow-scripts allow-forms");
  made.title = "Embedded by a tool";
  if (/^https?:\/\//.test(html)) made.src = html;
  else made.srcdoc = html;
  return made;
}

function link(text, url) {
  const made = element("a", text);
  const target = new URL(url, location.href);
  if (["http:", "https:"].includes(target.protocol)) made.href = url.startsWith("/") ? base + url : target.href;
  made.rel = "noreferrer";
  made.target = "_blank";
  return made;
}

function list(values, draw) {
  const made = element("ul");
  for (const v of values) {
    const row = element("li");
    row.append(draw(v));
    made.append(row);
  }
  return made;
}

function render(kind, value) {
  if (kind === "statuses") {
    const made = list(value, (s) => s ?? "");
    made.className = "statuses";
    return made;
  }
  if (kind === "message") return element("div", textOf(value.content), "text");
  if (kind === "reasoning") return folded("Reasoning", element("pre", textOf(value.content)));
  if (kind === "function_call") return folded(`Tool ${value.name ?? ""} (${value.status})`, element("pre", value.arguments));
  if (kind === "function_call_output") {
    const made = element("div", undefined, "result");
    made.append(folded(`Result (${value.status})`, element("pre", textOf(value.output))));
    for (const html of value.embeds ?? []) made.append(frame(html));
    if (value.files?.length) made.append(render("files", value.files));
    return made;
  }
  const made = element("div", undefined, kind);
  if (kind === "embeds") made.append(...value.map(frame));
  else if (kind === "files") made.append("Files", list(value, (f) => link(f.name ?? f.url ?? f.type ?? "file", f.url ?? "#")));
  else if (kind === "sources")
    made.append("Sources", list(value, (s) => (s.source?.url ? link(s.source.name ?? s.source.url, s.source.url) : s.source?.name ?? "source")));
  else if (kind === "error") {
    const text = value?.content ?? value;
    made.textContent = "Error: " + (typeof text === "string" ? text : text?.message ?? JSON.stringify(text));
  } else made.textContent = String(value);
  return made;
}

// ------------------------------------------------------------------------------------------------ questions

const dialog = at("question");
let waiting = Promise.resolve(); // one dialog at a time, in order

function put(id, event) {
  if (asked.has(id)) return;
  asked.add(id);
  waiting = waiting.then(() => ask(id, event)).catch((error) => (at("state").textContent = error.message));
}

async function ask(id, { type, data = {} }) {
  const answer = (value) => call("POST", `/api/v1/chats/${encodeURIComponent(chat.id)}/questions/${encodeURIComponent(id)}`, { value });
  if (type !== "confirmation" && type !== "input") return answer(null); // nothing that this page can do
  at("question-title").textContent = data.title ?? (type === "input" ? "A tool asks" : "Please confirm");
  at("question-text").textContent = data.message ?? "";
  at("question-field").hidden = type !== "input";
  at("question-value").value = data.value ?? "";
  at("question-value").placeholder = data.placeholder ?? "";
  at("question-value").type = data.type === "password" ? "password" : "text";
  dialog.dataset.call = id;
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((closed) => dialog.addEventListener("close", closed, { once: true }));
  delete dialog.dataset.call;
  if (dialog.returnValue === "over") return;
  const yes = dialog.returnValue === "yes";
  await answer(type === "input" ? (yes ? at("question-value").value : false) : yes);
}

function over(id) {
  if (dialog.dataset.call === id) dialog.close("over");
}

// ------------------------------------------------------------------------------------------------ asking

const id = () => crypto.randomUUID();

at("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (following) return;
  const prompt = at("prompt").value;
  busy(true, "Sending…");
  try {
    await send(prompt);
  } catch (error) {
    at("state").textContent = error.message;
  } finally {
    busy(false);
  }
});

function busy(on, text) {
  at("send").disabled = on;
  at("stop").disabled = !on;
  if (text) at("state").textContent = text;
}

async function send(prompt) {
  const model = at("model").value, question = id(), answer = id();
  if (!chat) {
    const history = { messages: {}, currentId: null };
    const made = await call("POST", "/api/v1/chats/new", { chat: { title: prompt.slice(0, 60), models: [model], history } });
    chat = { id: made.id, last: null };
  }
  const time = Math.floor(Date.now() / 1000);
  const message = { id: question, parentId: chat.last, childrenIds: [answer], role: "user", content: prompt, timestamp: time, models: [model] };
  const shown = element("article", prompt, "message user");
  shown.setAttribute("aria-label", "Question");
  const made = new Message();
  at("chat").append(shown, made.node);
  await call("POST", "/api/chat/completions", {
    model, stream: true, chat_id: chat.id, id: answer, session_id: `console-${id()}`, questions: "wait", parent_id: chat.last,
    user_message: message, tool_ids: [...at("tools").querySelectorAll("input:checked")].map((box) => box.value),
  });
  chat.last = answer;
  at("prompt").value = "";
  at("state").textContent = "Working…";
  await follow(made);
  at("state").textContent = at("state").textContent === "Stopping…" ? "Stopped." : "Done.";
}

// follow reads the run's events to their end; when the line breaks it goes on where it was.
async function follow(message) {
  following = new AbortController();
  let last = "", failures = 0;
  try {
    for (;;) {
      try {
        const waits = await call("GET", `/api/v1/chats/${encodeURIComponent(chat.id)}/questions`);
        for (const q of waits) put(q.id, q.data);
        const answer = await fetch(`${base}/api/v1/chats/${encodeURIComponent(chat.id)}/events`, {
          headers: { Authorization: `Bearer ${token}`, ...(last ? { "Last-Event-ID": last } : {}) }, signal: following.signal,
        });
        if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
        for await (const { number, name, data } of events(answer.body)) {
          failures = 0;
          if (name === "end") return;
          last = number;
          const { type, data: value } = data.data;
          if (type === "request:question") put(value.call_id, value.event);
          else if (type === "request:question:done") over(value.call_id);
          else message.take(data.seq, data.data);
        }
      } catch (error) {
        if (following.signal.aborted || ++failures > 5) throw error;
      }
      await new Promise((later) => setTimeout(later, 300 * failures));
    }
  } finally {
    following = null;
  }
}

// events are those of a stream of server-sent events.
async function* events(body) {
  let rest = "", number = "";
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + piece).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      let name = "message", data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("id: ")) number = line.slice(4);
        else if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) yield { number, name, data: JSON.parse(data) };
    }
  }
}

at("stop").addEventListener("click", async () => {
  at("state").textContent = "Stopping…";
  try {
    if (chat) await call("POST", `/api/tasks/chat/${encodeURIComponent(chat.id)}/stop`);
  } catch (error) {
    at("state").textContent = error.message;
  }
});

at("fresh").addEventListener("click", () => {
  if (following) return;
  chat = null;
  at("chat").replaceChildren();
  at("state").textContent = "";
  at("prompt").focus();
});

at("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("ask").requestSubmit();
});

if (token) enter().catch(leave);
