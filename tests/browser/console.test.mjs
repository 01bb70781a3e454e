// The console in a real browser: two tool rounds, a confirmation, a stop, a reload.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { baseUrl, calls, email, password, script, signIn } from "./stack.mjs";

let browser, page;
const problems = [];

before(async () => {
  await signIn();
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  page = await browser.newPage();
  page.setDefaultTimeout(20_000);
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(baseUrl + "/console");
});
after(() => browser?.close());

async function ask(prompt) {
  await page.getByLabel("Prompt").fill(prompt);
  await page.getByRole("button", { name: "Send" }).click();
}

const state = (text) => page.getByRole("status").filter({ hasText: text }).waitFor();
const answer = () => page.getByRole("article", { name: "Answer" }).last();

test("a wrong password is refused in words", async () => {
  await page.getByLabel("E-mail").fill(email);
  await page.getByLabel("Password").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").filter({ hasText: "incorrect" }).waitFor();
});

test("signing in shows models and tools", async () => {
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByLabel("Browser tool").check();
  assert.ok((await page.getByLabel("Model").locator("option").count()) > 0);
  await page.getByLabel("Model").selectOption("stub-model");
});

test("two tool rounds and a confirmation", async () => {
  await ask(script(calls("look", { what: "moon" }), calls("confirm", { what: "go on?" }), { text: "All done: {{result}}" }));
  const dialog = page.getByRole("dialog", { name: "Sure?" });
  await dialog.getByText("go on?").waitFor();
  assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled());
  await dialog.getByRole("button", { name: "OK" }).click();
  await state("Done.");
  await answer().getByText("All done: True").waitFor();
  await answer().getByText("seen moon").waitFor();
  await answer().getByText("Tool look (completed)").click();
  await answer().getByText('{"what":"moon"}').waitFor();
  assert.equal(await answer().getByRole("link", { name: "Almanac" }).getAttribute("href"), "https://example.com/almanac");
  const result = answer().locator(".result").first();
  await result.getByText("Result (completed)").click();
  await result.getByText("<b>moon</b>").waitFor(); // shown as text
});

test("declining and an embedded page", async () => {
  await ask(script(calls("confirm", { what: "really?" }), calls("page"), { text: "answered {{result}}" }));
  await page.getByRole("dialog", { name: "Sure?" }).getByRole("button", { name: "Cancel" }).click();
  await state("Done.");
  await answer().locator(".result").first().getByText("Result (completed)").click();
  await answer().getByText("False", { exact: true }).waitFor();
  const frame = answer().locator("iframe");
  assert.equal(await frame.getAttribute("sandbox"), "allow-scripts allow-forms");
  await page.frameLocator("article:last-child iframe").getByText("embedded").waitFor();
});

test("stopping a run", async () => {
  await ask(script({ text: "0123456789".repeat(200), chunk: 10, interval: 0.1 }));
  await answer().getByText("0123456789").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await state("Stopped.");
  assert.ok((await answer().locator(".text").textContent()).length < 2000);
});

test("a line that breaks is taken up where it was", async () => {
  await page.getByRole("button", { name: "New chat" }).click();
  let cut = 0;
  await page.route("**/events", async (route) => {
    if (cut++ < 1) return route.abort();
    return route.continue();
  });
  await ask(script({ text: "abcdefghij".repeat(10), chunk: 10, interval: 0.1 }));
  await state("Done.");
  assert.equal(await answer().locator(".text").textContent(), "abcdefghij".repeat(10));
  assert.ok(cut > 1);
  await page.unroute("**/events");
});

test("a session survives a reload, and ends with signing out", async () => {
  await page.reload();
  await page.getByLabel("Prompt").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  assert.deepEqual(problems, []);
});
