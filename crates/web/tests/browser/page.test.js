// The page in headless Chromium, with the made-up numbers of an example.
//
// Skipped, with the reason, where Chromium, the example or the packages are missing. `HEADWAY_SCREENSHOTS=DIR` keeps pictures.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { after, before, test } from "node:test";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const EXAMPLE = process.env.HEADWAY_MADE_UP ?? new URL("../../../../target/debug/examples/made_up", import.meta.url).pathname;
const PICTURES = process.env.HEADWAY_SCREENSHOTS;
const SOON = 2000; // ms within which a flow and a decision are shown.

const require = createRequire(import.meta.url);
let chromium;
let axe;
try {
  ({ chromium } = require("playwright-core"));
  axe = require.resolve("axe-core/axe.min.js");
} catch { /* Said below. */ }

function missing() {
  if (!chromium) return "playwright-core and axe-core are not installed: make browser";
  if (!existsSync(CHROMIUM)) return `there is no ${CHROMIUM}: apt-get install chromium`;
  if (!existsSync(EXAMPLE)) return "the example is not built: cargo build -p headway-web --example made_up";
  return false;
}
const skip = missing();
if (skip) console.log("SKIPPED the page in a browser:", skip);

let browser;
let server;
let address; // Of the server with the usual numbers.

// A port that is free now, so that a server can come back to it.
const freePort = () => new Promise((resolve) => {
  const listener = createServer().listen(0, "127.0.0.1", () => {
    const { port } = listener.address();
    listener.close(() => resolve(port));
  });
});

const start = (at, ...more) => new Promise((resolve, reject) => {
  const started = spawn(EXAMPLE, [at, ...more]);
  started.once("error", reject);
  started.stdout.once("data", () => resolve(started));
});

const stop = (started) => new Promise((resolve) => {
  started.once("exit", resolve);
  started.kill();
});

before(async () => {
  if (skip) return;
  address = `127.0.0.1:${await freePort()}`;
  server = await start(address);
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
});

after(async () => {
  if (skip) return;
  await browser.close();
  await stop(server);
});

// Opens the page, and notes what must not happen. `events` answers for the event stream.
async function open(options = {}, events = null, host = address) {
  const context = await browser.newContext({ bypassCSP: false, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const problems = [];
  page.on("console", (message) => { if (message.type() === "error") problems.push(message.text()); });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => {
    if (new URL(request.url()).host !== host) problems.push("asked " + request.url());
  });
  if (events) await page.route("**/v1/events", events);
  await page.goto(`http://${host}/`);
  return { page, problems, close: () => context.close() };
}

const flow = "#flow-rows tbody tr td:nth-child(10)";
const decision = "#decisions tbody tr td:nth-child(5)";

test("a flow and a decision are shown soon, without an error and without a request elsewhere", { skip }, async () => {
  const { page, problems, close } = await open();
  await page.locator(flow).first().waitFor({ timeout: SOON });
  await page.locator(decision).first().waitFor({ timeout: SOON });
  assert.match(await page.locator("#mode").textContent(), /Dry run/);
  assert.equal(await page.locator("#status").textContent(), "Live");
  const first = await page.locator("#counted dd").first().textContent();
  await page.waitForFunction((old) => document.querySelector("#counted dd").textContent !== old, first, { timeout: SOON });
  assert.deepEqual(problems, []);
  await close();
});

test("the page says that the server is away, and goes on when it is back", { skip }, async () => {
  const { page, problems, close } = await open();
  await page.locator(flow).first().waitFor({ timeout: SOON });
  await stop(server);
  await page.getByText("Server away since").waitFor();
  server = await start(address);
  await page.getByText("Live", { exact: true }).waitFor({ timeout: 10_000 });
  const refused = (text) => /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE/.test(text);
  assert.deepEqual(problems.filter((text) => !refused(text)), [], "only what the browser itself says of a server that is away");
  await close();
});

test("the keyboard reads a curve and changes its span", { skip }, async () => {
  const { page, close } = await open();
  await page.locator(flow).first().waitFor({ timeout: SOON });
  await page.locator("#down .curve").focus();
  await page.keyboard.press("ArrowLeft");
  assert.match(await page.locator("#down .reading").textContent(), /\d\d:\d\d:\d\d: .*b\/s, available .*, capacity/);
  await page.locator("#span input").first().focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.locator("#span input:checked").inputValue(), "900");
  await close();
});

test("a day, a month and a year of the history are shown, with their decisions", { skip }, async () => {
  const { page, problems, close } = await open();
  await page.locator(flow).first().waitFor({ timeout: SOON });
  assert.equal(await page.locator("#no-history").isVisible(), false);
  for (const [span, each] of [["day", "1 min"], ["month", "30 min"], ["year", "6 h"]]) {
    await page.locator(`#span input[value=${span}]`).check();
    await page.locator("#past", { hasText: `a point for each ${each}` }).waitFor();
    await page.locator("#decisions-count", { hasText: "in the span of the curves" }).waitFor();
    await page.locator("#down .curve").focus();
    await page.keyboard.press("ArrowLeft");
    assert.match(await page.locator("#down .reading").textContent(), /\d+ \w+ \d\d:\d\d: .*b\/s \(peak .*\), available .*, capacity/);
  }
  await page.locator("#span input").first().check();
  await page.locator("#decisions-count", { hasText: /the last \d+$/ }).waitFor();
  assert.equal(await page.locator("#peak").isVisible(), false);
  assert.deepEqual(problems, []);
  await close();
});

test("without a history its spans cannot be chosen, and the reason is beside them", { skip }, async () => {
  const { page, close } = await open({}, (route) => route.fulfill({
    contentType: "text/event-stream",
    body: `data: ${JSON.stringify({ run: 1, history: false, number: 0, all: true, decided: 0, point: { time_ms: 0 }, decisions: [] })}\n\n`,
  }));
  await page.locator("#status", { hasText: /Waiting|away/ }).waitFor();
  assert.equal(await page.locator("#span input:disabled").count(), 3);
  assert.equal(await page.locator("#no-history").textContent(), "needs --history");
  assert.ok(await page.locator("#no-history").isVisible());
  await close();
});

test("names and sentences that are markup stay text, those of the history too", { skip }, async () => {
  const evil = "<img src=/x onerror=\"document.title='taken'\"><script>document.title='taken'</script><b>x</b>";
  const port = await freePort();
  const hostile = await start(`127.0.0.1:${port}`, evil);
  const { page, problems, close } = await open({}, null, `127.0.0.1:${port}`);
  await page.locator(flow).first().waitFor({ timeout: SOON });
  for (const span of ["300", "day"]) {
    await page.locator(`#span input[value="${span}"]`).check();
    if (span === "day") await page.locator("#past", { hasText: "a point for each" }).waitFor();
    for (const place of [flow, decision, "#decisions tbody td:nth-child(3)", "#flow-rows tbody td:nth-child(2)", "#estimates tbody td:nth-child(3)", "#paths tbody td"]) {
      assert.ok((await page.locator(place).first().textContent()).includes(evil), place);
    }
  }
  assert.equal(await page.locator("main img, main script, main b:not(dl b)").count(), 0);
  assert.equal(await page.title(), "Headway edge");
  assert.deepEqual(problems, []);
  await close();
  await stop(hostile);
});

const axeRun = { resultTypes: ["violations"] };
for (const colorScheme of ["light", "dark"]) {
  for (const width of [390, 1280]) {
    test(`axe has nothing to say at ${width} px, ${colorScheme}, and nothing is cut off`, { skip }, async () => {
      const { page, close } = await open({ colorScheme, viewport: { width, height: 844 } });
      await page.locator(flow).first().waitFor({ timeout: SOON });
      if (PICTURES) {
        mkdirSync(PICTURES, { recursive: true });
        await page.waitForFunction(() => document.querySelectorAll(".curve canvas").length === 2);
        await page.screenshot({ path: `${PICTURES}/${width}-${colorScheme}.png`, fullPage: true });
        await page.locator("#span input[value=day]").check();
        await page.locator("#past", { hasText: "a point for each" }).waitFor();
        await page.screenshot({ path: `${PICTURES}/${width}-${colorScheme}-day.png` });
      }
      const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      assert.ok(tooWide <= 0, `${tooWide} px too wide`);
      // From the debugger, which the page's Content-Security-Policy does not hold back.
      await page.evaluate(require("node:fs").readFileSync(axe, "utf8"));
      const { violations } = await page.evaluate((options) => globalThis.axe.run(document, options), axeRun);
      assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html).slice(0, 3)]), []);
      await close();
    });
  }
}
