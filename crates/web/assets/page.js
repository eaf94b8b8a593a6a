// Shows what /v1/events sends. Texts from the network become text nodes and nothing else.
"use strict";

const SECONDS = 3600; // Points that are kept, one a second.
const ROWS = 200; // Most flows that are shown: more cannot be read.
const GAP = 3; // Points further apart, in parts of their usual distance, are not joined by a line.
// Spans that the router reads from its history, and their length.
const PAST_S = { day: 86400, month: 30 * 86400, year: 365 * 86400 };
const OFTEN_MS = 60000; // A span is asked for again after this, or when it has a new point.
const SELDOM_MS = 600000; // How long the router gives the same answer at most.
const QUIET_MS = 5000; // After so long without news something is wrong.
const AGAIN_MS = 2000; // Pause before a new stream, when the browser does not open one by itself.
const SIDES = ["down", "up"];
const NONE = "–";

const byId = (id) => document.getElementById(id);

// ---- Numbers as people read them: three digits, and the unit. ----

function scaled(value, units, step) {
  let power = 0;
  while (value >= 999.5 && power < units.length - 1) { value /= step; power += 1; }
  const digits = power === 0 ? 0 : value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return value.toFixed(digits) + "\u00a0" + units[power];
}
const rate = (bps) => bps == null ? NONE : scaled(bps, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"], 1000);
const bytes = (count) => count == null ? NONE : scaled(count, ["B", "kB", "MB", "GB", "TB"], 1000);
const count = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");
function time(ns) {
  if (ns == null) return NONE;
  const ms = ns / 1e6;
  return ms >= 10000 ? (ms / 1000).toFixed(1) + "\u00a0s" : ms.toFixed(ms >= 100 ? 0 : ms >= 10 ? 1 : 2) + "\u00a0ms";
}
const age = (ms) => ms < 60000 ? (ms / 1000).toFixed(1) + "\u00a0s" : (ms / 60000).toFixed(0) + "\u00a0min";
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const date = (ms) => new Date(ms).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
const moment = (ms) => date(ms) + " " + clock(ms).slice(0, 5);
const ends = (flow) => flow.client + "\n→ " + flow.server;
const interval = (low, high) => low == null ? NONE : rate(low) + " to\u00a0" + rate(high);

// ---- Elements ----

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text != null) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A cell is [text, small text below, class].
function setCell(cell, [text, small, kind], column) {
  const key = text + "\n" + (small ?? "");
  if (cell.dataset.key === key) return;
  cell.dataset.key = key;
  cell.dataset.column = column;
  cell.className = (kind ?? "") + (text === NONE ? " none" : "");
  cell.replaceChildren(document.createTextNode(text));
  if (small) cell.append(element("small", small));
}

// Rows keep their elements while their key stays, so that a selection survives.
class Table {
  constructor(id, empty) {
    const table = byId(id);
    this.body = table.tBodies[0];
    this.columns = Array.from(table.tHead.rows[0].cells, (cell) => cell.textContent);
    this.rows = new Map();
    this.empty = empty;
    table.setAttribute("role", "table");
  }

  row() {
    const row = element("tr");
    row.setAttribute("role", "row");
    for (let at = 0; at < this.columns.length; at += 1) {
      const cell = element("td");
      cell.setAttribute("role", "cell");
      row.append(cell);
    }
    return row;
  }

  none() {
    const row = element("tr");
    row.setAttribute("role", "row");
    const cell = element("td", this.empty, "none empty");
    cell.setAttribute("role", "cell");
    cell.colSpan = this.columns.length;
    row.append(cell);
    return row;
  }

  // Takes pairs of a key and cells, in their order.
  show(items) {
    const old = this.rows;
    this.rows = new Map();
    const wanted = [];
    for (const [key, cells] of items) {
      const row = old.get(key) ?? this.row();
      cells.forEach((cell, at) => setCell(row.cells[at], cell, this.columns[at]));
      this.rows.set(key, row);
      wanted.push(row);
    }
    if (wanted.length === 0) wanted.push(this.none());
    const now = this.body.children;
    if (wanted.length !== now.length || wanted.some((row, at) => row !== now[at])) this.body.replaceChildren(...wanted);
  }
}

// A list of names and values; each is [name, value, small text, whether large].
function showList(list, items) {
  while (list.children.length > items.length) list.lastChild.remove();
  items.forEach(([name, value, small, kind], at) => {
    let pair = list.children[at];
    if (!pair) {
      pair = element("div");
      pair.append(element("dt"), element("dd"));
      list.append(pair);
    }
    pair.className = kind === "wide" ? "wide" : "";
    setText(pair.firstChild, name);
    const key = value + "\n" + (small ?? "");
    if (pair.dataset.key === key) return;
    pair.dataset.key = key;
    pair.lastChild.replaceChildren(element(kind === "large" ? "b" : "span", value));
    if (small) pair.lastChild.append(element("small", small));
  });
}

// ---- Curves ----

const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const perMega = (bps) => bps == null ? null : bps / 1e6;

// Adds points to the columns of a curve. Those of which more than two are missing between are not joined.
function append(data, times, columns, step) {
  const { high_bps, low_bps, rate_bps, available_bps, capacity_bps, peak_bps } = columns;
  times.forEach((ms, at) => {
    const seconds = ms / 1000;
    const last = data[0].at(-1);
    if (last !== undefined && seconds <= last) return;
    if (last !== undefined && seconds - last > GAP * step) push(data, [last + step]);
    push(data, [seconds, ...[high_bps, low_bps, rate_bps, available_bps, capacity_bps, peak_bps].map((column) => perMega(column?.[at]))]);
  });
}
const push = (data, values) => data.forEach((column, at) => column.push(values[at] ?? null));

// One direction of the link. Columns: time, high, low, rate, available, capacity, peak.
const COLUMNS = 7;
class Curve {
  constructor(side) {
    this.box = document.querySelector("#" + side + " .curve");
    this.reading = document.querySelector("#" + side + " .reading");
    this.clear();
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("blur", () => this.say(null));
    new ResizeObserver(() => this.resize()).observe(this.box);
  }

  clear() { this.data = Array.from({ length: COLUMNS }, () => []); }

  load(times, columns) {
    this.clear();
    append(this.data, times, columns, 1);
  }

  // Takes what the history has, which is shown until there is a reason for the present.
  loadPast(past, columns) {
    this.past = Array.from({ length: COLUMNS }, () => []);
    append(this.past, past.time_ms, columns, past.step_ms / 1000);
  }

  add(ms, link) {
    append(this.data, [ms], Object.fromEntries(Object.entries(link).map(([name, value]) => [name, [value]])), 1);
    const old = this.data[0].length - SECONDS;
    if (old > 0) this.data.forEach((column) => column.splice(0, old));
  }

  build() {
    this.plot?.destroy();
    const line = (name, stroke, dash, width) => ({ label: name, stroke: colour(stroke), dash, width, points: { show: false } });
    const edge = { stroke: "transparent", width: 0, points: { show: false } };
    const axis = {
      stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1, size: 4 },
      font: "11px system-ui, sans-serif",
    };
    const options = {
      width: this.box.clientWidth, height: this.box.clientHeight, legend: { show: false }, padding: [8, 8, 0, 0],
      cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { show: false } },
      scales: { x: { time: true, range: () => this.span() }, y: { range: (_, __, high) => [0, (high || 1) * 1.06] } },
      series: [{}, edge, edge, { ...line("rate", "rate", undefined, 1.5), fill: colour("fill") },
        line("available", "available", [7, 4], 1.5), line("capacity", "capacity", [2, 3], 1.5),
        line("peak", "rate", [1, 3], 1)],
      bands: [{ series: [1, 2], fill: colour("band") }],
      axes: [{ ...axis, space: 70, size: 26, values: (_, ticks) => ticks.map((tick) => tickName(tick * 1000)) },
        { ...axis, size: 54, values: (_, ticks) => ticks.map((tick) => tick + (tick === 0 ? "" : " M")) }],
      hooks: { setCursor: [(plot) => this.say(plot.cursor.idx)] },
    };
    this.plot = new uPlot(options, this.data, this.box);
  }

  span() {
    const past = PAST_S[chosen()];
    const last = (past ? this.past : this.data)?.[0].at(-1) ?? Date.now() / 1000;
    return [last - (past ?? Number(chosen())), last];
  }

  draw() {
    if (!this.plot) this.build();
    const data = PAST_S[chosen()] ? this.past : this.data;
    if (!data) return;
    const left = this.span()[0];
    const from = Math.max(data[0].findIndex((at) => at >= left) - 1, 0);
    this.shown = data.map((column) => column.slice(from));
    this.plot.setData(this.shown);
  }

  resize() {
    if (this.plot && this.box.clientWidth > 0) this.plot.setSize({ width: this.box.clientWidth, height: this.box.clientHeight });
  }

  // Says in words what the curve has at one place.
  say(at) {
    const data = this.shown;
    if (at == null || !data || data[0][at] === undefined) { setText(this.reading, ""); return; }
    const [when, high, low, passed, available, capacity, peak] = data.map((column) => column[at]);
    const bps = (mega) => mega == null ? null : mega * 1e6;
    const free = available == null ? "" : ", available " + rate(bps(available)) + " (" + interval(bps(low), bps(high)) + ")";
    const most = peak == null ? "" : " (peak " + rate(bps(peak)) + ")";
    const told = PAST_S[chosen()] ? moment(when * 1000) : clock(when * 1000);
    setText(this.reading, told + ": " + rate(bps(passed)) + most + free + ", capacity " + rate(bps(capacity)));
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60, Home: -SECONDS, End: SECONDS }[event.key];
    if (!steps || !this.shown) return;
    event.preventDefault();
    const last = this.shown[0].length - 1;
    const at = Math.min(Math.max((this.plot.cursor.idx ?? last) + steps, 0), last);
    this.plot.setCursor({ left: this.plot.valToPos(this.shown[0][at], "x"), top: 0 });
  }
}

const chosen = () => document.querySelector("#span input:checked").value;
function tickName(ms) {
  if (chosen() === "day") return clock(ms).slice(0, 5);
  return PAST_S[chosen()] ? date(ms) : clock(ms);
}
const curves = SIDES.map((side) => new Curve(side));
const drawCurves = () => curves.forEach((curve) => curve.draw());
byId("span").addEventListener("change", changeSpan);
dark.addEventListener("change", () => { curves.forEach((curve) => curve.build()); drawCurves(); });

async function loadHour() {
  const answer = await fetch("/v1/recent");
  if (!answer.ok) return;
  const hour = await answer.json();
  curves.forEach((curve, side) => curve.load(hour.time_ms, hour.links[side]));
  drawCurves();
}

function addPoint(point) {
  if (point.time_ms === 0) return;
  curves.forEach((curve, side) => curve.add(point.time_ms, point.links[side]));
  if (!PAST_S[chosen()]) drawCurves();
}

// ---- The history ----

let past = null; // The last answer.
let asked = { span: "", at: 0 };

function changeSpan() {
  const isPast = chosen() in PAST_S;
  past = null;
  asked = { span: "", at: 0 };
  curves.forEach((curve) => { curve.past = null; });
  setText(byId("rate-name"), isPast ? "mean rate" : "rate");
  byId("peak").hidden = !isPast;
  setText(byId("peak-name"), chosen() === "day" ? "highest second" : "highest minute");
  setText(byId("past"), "");
  if (isPast) askPast(); else drawCurves();
  showDecisions();
}

// Asks for the chosen span, unless that was done a moment ago.
async function askPast() {
  const span = chosen();
  const often = Math.min(Math.max(past?.step_ms ?? 0, OFTEN_MS), SELDOM_MS);
  if (asked.span === span && Date.now() - asked.at < often) return;
  asked = { span, at: Date.now() };
  if (!past) setText(byId("past"), "Reading the history");
  try {
    const answer = await fetch("/v1/history?span=" + span);
    if (span !== chosen()) return;
    if (answer.ok) showPast(await answer.json()); else setText(byId("past"), (await answer.text()).trim());
  } catch { /* The server is away, as the status says. */ }
}

function showPast(answer) {
  if (answer.span !== chosen()) return;
  past = answer;
  const { time_ms: times, step_ms: step } = answer;
  const points = step < 3600000 ? step / 60000 + " min" : step / 3600000 + " h";
  setText(byId("past"), times.length > 0 ? "From " + moment(times[0] - step) + ", a point for each " + points : "Nothing was kept in this time.");
  curves.forEach((curve, side) => curve.loadPast(answer, answer.links[side]));
  drawCurves();
  showDecisions();
}

function showHistory(hasHistory) {
  for (const span of Object.keys(PAST_S)) document.querySelector(`#span input[value=${span}]`).disabled = !hasHistory;
  byId("no-history").hidden = hasHistory;
  if (!(chosen() in PAST_S)) return;
  if (hasHistory) { askPast(); return; }
  document.querySelector("#span input").checked = true;
  changeSpan();
}

// ---- Tables ----

const tables = {
  estimates: new Table("estimates", "Nobody has estimated anything yet."),
  flows: new Table("flow-rows", "No flow has passed yet."),
  paths: new Table("paths", "No path has been seen yet."),
  decisions: new Table("decisions", "Nothing has been decided yet."),
};

function showLinks(state, point) {
  SIDES.forEach((side, at) => {
    const link = state.links[at];
    const free = point.links[at];
    const narrow = link.narrow[0];
    const share = link.capacity_bps > 0 ? Math.round(100 * link.rate_bps / link.capacity_bps) + "\u00a0% of capacity" : "";
    const items = [
      ["Rate", rate(link.rate_bps), share, "large"],
      ["Available", rate(free.available_bps), free.available_bps == null ? "no estimate" : interval(free.low_bps, free.high_bps), "large"],
      ["Capacity", rate(link.capacity_bps), "", "large"],
    ];
    if (narrow) items.push(["Narrow link", rate(narrow.rate_bps), interval(narrow.low_bps, narrow.high_bps), "large"]);
    showList(document.querySelector("#" + side + " dl"), items);
  });
  const said = [];
  SIDES.forEach((side, at) => {
    for (const [what, list] of [["available", state.links[at].available], ["narrow link", state.links[at].narrow]]) {
      list.forEach((one, place) => said.push([[side, what, one.source, place].join(), [
        [side], [what], [one.source, what === "available" && one.source === state.links[at].followed ? "shares follow it" : null], [rate(one.rate_bps), null, "n"], [interval(one.low_bps, one.high_bps), null, "n wide"],
        [age(one.age_ms), null, "n"]]]));
    }
  });
  tables.estimates.show(said);
}

function windowCell(flow) {
  if (flow.window_bytes == null) return [NONE, null, "n"];
  const through = flow.window_let_through_bytes ?? flow.window_bytes;
  return [bytes(through), through < flow.window_bytes ? "of " + bytes(flow.window_bytes) : "all of it", "n"];
}

function flowRow(flow) {
  return [flow.id, [
    [ends(flow), "#" + flow.id + " " + flow.protocol, "ends"],
    [flow.class ?? NONE, null, "word"], [flow.behaviour, flow.rule, "rule"],
    [rate(flow.down_bps), null, "n"], [rate(flow.up_bps), null, "n"], [time(flow.rtt_ns), null, "n"], windowCell(flow),
    [time(flow.mean_gap_ns), flow.burstiness.toFixed(2), "n"], [flow.limited_by || NONE, null, "word"], [flow.decision || NONE, null, "why"]]];
}

function pathRow(path) {
  const free = path.available;
  return [path.to, [
    [path.to, null, "ends"], [count(path.connections), null, "n"], [rate(path.rate_bps), null, "n"], [time(path.rtt_ns), null, "n"],
    [rate(path.capacity_bps), null, "n"], [rate(free?.rate_bps), free ? age(free.age_ms) + " old" : null, "n"],
    [free ? interval(free.low_bps, free.high_bps) : NONE, null, "n wide"], [path.limited_by ?? NONE]]];
}

function showProbes(probes) {
  const list = byId("probes");
  if (!probes) { showList(list, [["State", "This router sends no probes.", "", "wide"]]); return; }
  showList(list, [
    ["Spent in the last hour", bytes(probes.spent_bytes), "of " + bytes(probes.budget_bytes)],
    ["Estimates bought", count(probes.estimates), probes.estimates > 0 ? bytes(probes.spent_bytes / probes.estimates) + " each" : ""],
    ["Now", probes.state || NONE, "", "wide"],
  ]);
  showMeter(list, probes);
}

function showMeter(list, probes) {
  const place = list.children[0].lastChild;
  let meter = place.querySelector("meter");
  if (!meter) {
    meter = element("meter");
    meter.setAttribute("aria-label", "Budget of probes that is spent");
    place.append(meter);
  }
  meter.max = Math.max(probes.budget_bytes, 1);
  meter.value = probes.spent_bytes;
}

function showCounted(state, decided) {
  const part = state.segments > 0 ? (100 * state.lowered_segments / state.segments).toFixed(1) + "\u00a0% of TCP" : "";
  showList(byId("counted"), [
    ["Segments of TCP", count(state.segments)],
    [state.dry_run ? "Windows that would be lowered" : "Windows lowered", count(state.lowered_segments), part],
    ["Other packets", count(state.other_packets)],
    ["Decisions", count(decided)],
    ...(state.history_lost > 0 ? [["Seconds that the history lost", count(state.history_lost)]] : []),
  ]);
}

function showMode(state) {
  setText(byId("between"), state.lan ? "hosts on " + state.lan + ", link on " + state.wan : "");
  const mode = byId("mode");
  mode.hidden = !state.lan;
  mode.className = state.dry_run ? "badge warn" : "badge";
  setText(mode, state.dry_run ? "Dry run: nothing is changed" : "Acting on flows");
}

// ---- Decisions ----

let decisions = []; // Each with its place among all, the latest last.

function takeDecisions(message) {
  if (message.all) decisions = [];
  const first = message.decided - message.decisions.length;
  message.decisions.forEach((decision, at) => decisions.push([first + at, decision]));
  decisions = decisions.slice(-ROWS);
  if (message.decisions.length > 0 || message.all) showDecisions();
}

// Those of the span that the curves show, if it is one of the history.
function showDecisions() {
  const isPast = chosen() in PAST_S;
  const told = !isPast ? decisions : (past?.decisions ?? []).map((one, at) => [past.span + past.until_ms + at, one]);
  tables.decisions.show(told.map(([place, one]) => ["d" + place, [
    [isPast ? moment(one.time_ms) : clock(one.time_ms), null, "time"], [ends(one), "#" + one.flow, "ends"], [one.behaviour, null, "word"],
    [one.strategies.join(", ") || NONE, null, "word"], [one.sentence, null, "why"]]]).reverse());
  const all = isPast && past?.decided > told.length ? " of " + count(past.decided) + " in the span of the curves" : "";
  setText(byId("decisions-count"), told.length > 0 ? "the last " + told.length + all : "");
}

// ---- The stream ----

let stream = null;
let heard = 0;
let away = null;

function say(text, kind) {
  const status = byId("status");
  setText(status, text);
  status.className = "badge " + (kind ?? "");
  document.body.classList.toggle("stale", kind === "bad");
}

function show(message) {
  heard = Date.now();
  away = null;
  const { state, point } = message;
  takeDecisions(message);
  showHistory(message.history);
  if (message.number === 0) { say("Waiting for the first numbers", "warn"); return; }
  say("Live");
  showMode(state);
  addPoint(point);
  showLinks(state, point);
  const flows = state.flows.slice(0, ROWS);
  tables.flows.show(flows.map(flowRow));
  const all = Math.max(state.flows_in_all, state.flows.length);
  setText(byId("flows-count"), all > flows.length ? "the busiest " + flows.length + " of " + count(all) : count(all));
  tables.paths.show(state.paths.map(pathRow));
  showProbes(state.probes);
  showCounted(state, message.decided);
}

async function isAway() {
  away ??= Date.now();
  say("Server away since " + clock(away) + ", trying again", "bad");
  if (stream.readyState !== EventSource.CLOSED) return;
  // The server answered, but with no stream. The page names the address with the token, because the page itself stays.
  stream = null;
  try {
    const { status } = await fetch("/v1/state");
    if (status === 401) say("The token is another now: open /?token=TOKEN", "bad");
    if (status === 200) say("Too many viewers, trying again", "bad");
  } catch { /* It is away, as the status says. */ }
  setTimeout(listen, AGAIN_MS);
}

function listen() {
  if (stream || document.hidden) return;
  stream = new EventSource("/v1/events");
  stream.onopen = () => { heard = Date.now(); loadHour().catch(() => {}); };
  stream.onmessage = (event) => show(JSON.parse(event.data));
  stream.onerror = isAway;
}

// A page that nobody sees costs the router nothing.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { stream?.close(); stream = null; } else listen();
});
setInterval(() => {
  const quiet = Date.now() - heard;
  if (!away && stream && heard && quiet > QUIET_MS) say("No news from the router since " + clock(heard), "bad");
}, 1000);
curves.forEach((curve) => curve.build());
listen();
