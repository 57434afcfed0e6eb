// The page: knobs, figures, charts, and what can be copied out of it. What follows from the knobs is in figures.js, what
// the charts show of it in rows.js.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const SPECS = JSON.parse(document.getElementById("charts").textContent);
const PLAN = DATA.plan, PERIODS = PLAN.periods.length > 1 ? PLAN.periods : [];
const BY_PERIOD = whole(DATA.tables, DATA.shared);
// Tables of the chosen period.
let TABLES = BY_PERIOD[0] ?? null;
const $ = (id) => document.getElementById(id);
const VIEWS = new Map();
const START = start();
let state = { ...START };

// ---------------------------------------------------------------- words

const digits = (x, n = 3) => Number(x).toLocaleString("en", { maximumSignificantDigits: n });
const shown = (x, unit = "", n = 3) =>
  x === null || x === undefined || !Number.isFinite(x) ? "–" : digits(x, n) + (unit && ` ${unit}`);
const percent = (x) => (x === null || !Number.isFinite(x) ? "–" : `${digits(100 * x)} %`);
const money = (x) => (x === null || x === undefined ? "–" : x.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }));

function element(tag, text, attributes = {}) {
  const found = document.createElement(tag);
  found.textContent = text;
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  return found;
}

// ---------------------------------------------------------------- state

// Where the knobs stand at first: at the plan; where its pools are full, at the busiest rate with a steady state.
function start() {
  const busiest = PERIODS.reduce((best, p, i) => (p.demand_req_per_s > PERIODS[best].demand_req_per_s ? i : best), 0);
  if (!TABLES) return { threshold: null, rate: PLAN.throughput_req_per_s, sizes: [], period: busiest };
  TABLES = BY_PERIOD[Math.min(busiest, BY_PERIOD.length - 1)];
  const at = { threshold: TABLES.planned_tokens, sizes: planned(TABLES), period: busiest };
  const most = highestRate(TABLES, at), rates = TABLES.exact ? TABLES.exact.req_per_s : [];
  const stated = rates.find((r) => r === (TABLES.by_factor ? TABLES.planned_req_per_s : PLAN.throughput_req_per_s) && r < most);
  return { ...at, rate: stated || rates.filter((r) => r <= 0.9 * most).pop() || 0.85 * most };
}

// A node that a value stands for, but for rounding; else the value itself.
const near = (nodes, value) => nodes.find((x) => Math.abs(x - value) <= 1e-8 * Math.abs(x)) ?? value;

// Another period: every knob stays where it is beside the plan.
function choose(period) {
  const before = TABLES;
  state.period = period;
  TABLES = BY_PERIOD[Math.min(period, BY_PERIOD.length - 1)] ?? null;
  if (TABLES === before) return;
  state.threshold = near(TABLES.node_tokens, (TABLES.planned_tokens * state.threshold) / before.planned_tokens);
  state.rate = near([TABLES.planned_req_per_s], (TABLES.planned_req_per_s * state.rate) / before.planned_req_per_s);
}

function readHash() {
  const asked = new URLSearchParams(location.hash.slice(1)), found = { ...START, sizes: [...START.sizes] };
  const number = (name, low, high) => {
    const value = Number(asked.get(name));
    return asked.has(name) && Number.isFinite(value) ? Math.min(Math.max(value, low), high) : null;
  };
  choose(START.period);
  state = found;
  choose(Math.round(number("h", 0, Math.max(PERIODS.length - 1, 0)) ?? START.period));
  if (TABLES) {
    const nodes = TABLES.fine_tokens;
    found.threshold = number("t", nodes[0], nodes[nodes.length - 1]) ?? found.threshold;
    found.rate = number("r", 1e-6, 1e9) ?? found.rate;
    const sizes = (asked.get("n") || "").split(",").map((text) => (text ? Number(text) : NaN));
    const fits = (n, i) => Number.isInteger(n) && n >= least(TABLES.pools[i]) && n < 1e5;
    if (sizes.length === START.sizes.length && sizes.every(fits)) found.sizes = sizes;
  }
  return found;
}

// Fewest instances of a pool: none of one that the plan does without.
const least = (pool) => Math.min(pool.n_planned, 1);

function hash() {
  const parts = [];
  if (TABLES) parts.push(`t=${state.threshold}`, `r=${state.rate}`, `n=${state.sizes.join(",")}`);
  if (PERIODS.length) parts.push(`h=${state.period}`);
  return `#${parts.join("&")}`;
}

// As a shell reads it.
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

function command() {
  if (!TABLES) return DATA.command;
  const sets = TABLES.pools.map((pool, i) => `${pool.size_key}=${state.sizes[i]}`);
  if (!BY_PERIOD[0].by_factor) {
    if (TABLES.is_split) sets.push(`routing.threshold_tokens=${state.threshold}`);
    sets.push(`demand_req_per_s=${state.rate}`);
  }
  sets.push(...TABLES.fixed);
  return [DATA.command, ...sets.map((text) => `--set ${quoted(text)}`)].join(" ");
}

// ---------------------------------------------------------------- figures

// Between nodes nothing is said beyond the tables' sizes and last utilisation: waits grow without end there.
function inTables(knobs) {
  const used = busy(TABLES, knobs);
  return TABLES.pools.every((pool, i) => {
    if (!pool.waits) return true;
    const { use, n_instances: sizes } = pool.waits, n = knobs.sizes[i];
    return used[i] <= use[use.length - 1] && n >= sizes[0] && n <= sizes[sizes.length - 1];
  });
}

const LATENCY = new Map(), MOST_KNOWN = 2000;

// Several figures and charts ask for the same knobs: found once.
function latencyNow({ threshold, rate, sizes }) {
  const knobs = { threshold, rate, sizes }, key = JSON.stringify([knobs, state.period]);
  if (LATENCY.size > MOST_KNOWN) LATENCY.clear();
  if (!LATENCY.has(key)) LATENCY.set(key, isNode(TABLES, knobs) || inTables(knobs) ? latency(TABLES, knobs) : null);
  return LATENCY.get(key);
}

function figures(knobs = state) {
  const fine = logPlace(TABLES.fine_tokens, knobs.threshold), seconds = latencyNow(knobs) || {};
  return {
    threshold_tokens: TABLES.is_split ? knobs.threshold : null,
    offload_fraction: TABLES.is_split ? between(TABLES.offload_fraction, fine) : null,
    throughput_req_per_s: knobs.rate,
    max_throughput_req_per_s: highestRate(TABLES, knobs),
    ...Object.fromEntries(LATENCIES.map((name) => [name, seconds[name] ?? null])),
    usd_per_hour: usdPerHour(TABLES, knobs),
    usd_per_million_input_tokens: usdPerMillion(TABLES, knobs, TABLES.mean_total_tokens),
    usd_per_million_output_tokens: usdPerMillion(TABLES, knobs, TABLES.mean_output_tokens),
    n_accelerators: TABLES.pools.reduce((sum, pool, i) => sum + pool.accelerators_per_instance * knobs.sizes[i], 0),
  };
}

function plannedFigures() {
  return {
    ...PLAN, ...PLAN.latency, ...PLAN.cost,
    n_accelerators: PLAN.pools.reduce((sum, pool) => sum + pool.n_accelerators, 0),
  };
}

// A period: rent goes on at every hour, and power and traffic follow the demand.
function periodFigures() {
  const now = PERIODS[state.period], hours = PERIODS.reduce((sum, p) => sum + p.hours, 0);
  const meanUse = PERIODS.reduce((sum, p) => sum + (p.hours / hours) * p.use_usd_per_hour, 0);
  const usd = PLAN.cost.usd_per_hour === null ? null : PLAN.cost.usd_per_hour - meanUse + now.use_usd_per_hour;
  const rates = PLAN.classes.map((c) => Object.values(now.decoded_req_per_s[c.name] ?? {}).reduce((a, b) => a + b, 0));
  const tokens = (name) => PLAN.classes.reduce((sum, c, i) => sum + rates[i] * c[name], 0);
  const each = (name) => (usd === null || !tokens(name) ? null : (1e6 * usd) / (3600 * tokens(name)));
  const size = new Map(PLAN.pools.map((pool) => [pool.name, pool.accelerators_per_instance ?? 0]));
  return {
    throughput_req_per_s: now.demand_req_per_s, offload_fraction: now.offload_fraction, ...now.latency,
    usd_per_hour: usd,
    usd_per_million_input_tokens: each("mean_total_tokens"),
    usd_per_million_output_tokens: each("mean_output_tokens"),
    n_accelerators: now.pools.reduce((sum, pool) => sum + pool.n_instances * size.get(pool.name), 0),
  };
}

// Every threshold of a period, by class and by the site that decodes.
const thresholdRows = () => (PERIODS.length && isAsPlanned() ? Object.entries(PERIODS[state.period].thresholds) : []).flatMap(
  ([name, sites]) => Object.entries(sites).map(([site, tokens]) => ({ name, site, tokens })));

const isAsPlanned = () => !TABLES || state.threshold === TABLES.planned_tokens;

const ROWS = [
  ["requests per second", "throughput_req_per_s", (x) => shown(x, "", 4)],
  ["capacity, requests per second", "max_throughput_req_per_s", (x) => shown(x, "", 4)],
  ["threshold (tokens)", "threshold_tokens", (x) => shown(x, "", 6)],
  ["long prompts, sent to their own pool", "offload_fraction", percent],
  ["TTFT, mean", "ttft_mean_s", (x) => shown(x, "s")],
  ["TTFT, half of all within", "ttft_p50_s", (x) => shown(x, "s")],
  ["TTFT, 90 % within", "ttft_p90_s", (x) => shown(x, "s")],
  ["TTFT, 99 % within", "ttft_p99_s", (x) => shown(x, "s")],
  ["TTFT without a queue, 90 % within", "ttft_unloaded_p90_s", (x) => shown(x, "s")],
  ["time per output token", "tpot_mean_s", (x) => (x === null ? "–" : shown(1000 * x, "ms"))],
  ["USD per hour", "usd_per_hour", money],
  ["USD per million input tokens", "usd_per_million_input_tokens", money],
  ["USD per million output tokens", "usd_per_million_output_tokens", money],
  ["accelerators", "n_accelerators", (x) => shown(x, "", 9)],
];

function drawFigures() {
  const before = plannedFigures(), now = TABLES ? figures() : PERIODS.length ? periodFigures() : null;
  const body = $("figures").tBodies[0];
  body.replaceChildren(...ROWS.map(([title, name, words]) => {
    const row = document.createElement("tr");
    row.append(element("th", title, { scope: "row" }), element("td", words(before[name] ?? null)));
    if (now) row.append(element("td", words(now[name] ?? null), { "data-name": name }));
    return row;
  }));
  body.append(...thresholdRows().map(({ name, site, tokens }) => {
    const row = document.createElement("tr"), words = tokens === null ? "all stay" : shown(tokens, "", 6);
    row.append(element("th", `threshold of ${name} at ${site} (tokens)`, { scope: "row" }), element("td", ""), element("td", words));
    return row;
  }));
  $("now-title").hidden = !now;
  $("now-title").textContent = [TABLES && "as set", PERIODS.length && PERIODS[state.period].name].filter(Boolean).join(", ");
  $("status").textContent = statusWords(now);
}

function statusWords(now) {
  if (!TABLES) return PERIODS.length ? `Period ${PERIODS[state.period].name}.` : "The plan as it is.";
  const idle = TABLES.pools.filter((pool, i) => !state.sizes[i] && busy(TABLES, state)[i] > 0).map((pool) => pool.name);
  if (idle.length) return `Prompts would go to ${idle.join(", ")}, without instances.`;
  if (state.rate >= now.max_throughput_req_per_s * (1 - 1e-9)) return "More than this fleet serves: its queues grow without end.";
  const short = stockWords();
  if (short) return short;
  const late = TABLES.promised_ttft_s, name = `ttft_p${TABLES.promised_percentile}_s`;
  const broken = late !== null && now[name] > late ? ` The promise of ${digits(late)} s is broken.` : "";
  if (isNode(TABLES, state)) return `Every figure is that of planner optimize${TABLES.by_factor ? ", with the ways of the plan" : ""}.${broken}`;
  if (now.ttft_mean_s === null) return "Times: unknown so near saturation, or so far from the plan's sizes. The command tells them. All other figures hold.";
  return `Times are interpolated, within ${TABLES.by_factor ? 8 : 2} % in tests. Rates and cost ${onFine() ? "are exact" : "are interpolated"}.${broken}`;
}

const onFine = () => TABLES.fine_tokens.includes(state.threshold);

function stockWords() {
  for (const stock of TABLES.stocks) {
    const used = TABLES.pools.reduce((sum, pool, i) =>
      sum + (stock.pools.includes(pool.name) ? state.sizes[i] * pool.accelerators_per_instance : 0), 0);
    if (used > stock.n_accelerators)
      return `More than there is: ${used} of ${stock.n_accelerators} ${stock.hardware} at ${stock.site}.`;
  }
  return "";
}

// ---------------------------------------------------------------- charts

function look() {
  const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
  const axis = { labelColor: colour("--ink"), titleColor: colour("--ink"), gridColor: colour("--line"),
    domainColor: colour("--soft"), tickColor: colour("--soft"), labelFontSize: 12, titleFontSize: 12,
    labelOverlap: "greedy", labelSeparation: 8, tickCount: innerWidth < 500 ? 4 : 7 };
  const words = { labelColor: colour("--ink"), titleColor: colour("--ink"), labelLimit: 220 };
  return { aria: false, background: "transparent", view: { stroke: null }, axis, font: "system-ui, sans-serif",
    legend: { ...words, orient: "bottom", columns: innerWidth < 500 ? 1 : 3, title: null }, text: { fill: colour("--ink"), fontSize: 13 } };
}

function drawChart(name, rows) {
  const box = $(`figure-${name}`);
  box.hidden = !rows || !isWorthIt(rows);
  if (box.hidden) return Promise.resolve();
  let known = VIEWS.get(name), changed = false;
  if (!known) {
    const compiled = vegaLite.compile({ ...coloured(SPECS[name]), ...room(name, rows) }, { config: look() });
    const view = new vega.View(vega.parse(compiled.spec), { renderer: "svg", container: $(`chart-${name}`), hover: false });
    if (name === "hours") view.addEventListener("click", (_, item) => choosePeriod(item && item.datum && item.datum.hour));
    known = { view, drawn: new Map() };
    VIEWS.set(name, known);
  }
  for (const [data, some] of Object.entries(rows)) {
    const text = JSON.stringify(some);
    if (known.drawn.get(data) === text) continue;
    known.drawn.set(data, text);
    known.view.data(data, some);
    changed = true;
  }
  if (!changed) return Promise.resolve();
  $(`chart-${name}`).setAttribute("aria-label", `${box.querySelector("figcaption").textContent} ${spoken(rows)}`);
  return known.view.runAsync().then(hideMarks);
}

function choosePeriod(name) {
  const found = PERIODS.findIndex((period) => period.name === name);
  if (found >= 0) { choose(found); soon(); }
}

// The box of a chart says in words what it shows; its marks would say it again, one by one.
const hideMarks = (view) => view.container().querySelector("svg").setAttribute("aria-hidden", "true");

// The same name has the same colour and mark in every chart, whichever of them are shown.
function coloured(spec) {
  const named = (all) => all.map((x) => x.name);
  const domains = { fleets: [...named(fleets()), "as set"], places: named([...PLAN.pools, ...PLAN.links]) };
  return JSON.parse(JSON.stringify(spec), (key, value) => (key === "domain" && value in domains ? domains[value] : value));
}

// A chart is as wide as its box; one of bars as high as they need.
function room(name, rows) {
  const step = SPECS[name].height.step, autosize = { type: "fit-x", contains: "padding", resize: true };
  return step ? { autosize, height: step * Object.values(rows)[0].length } : { autosize };
}

// A chart of one point among others says nothing, and so do markers without what they mark.
const isWorthIt = (rows) => ("others" in rows ? rows.front.length + rows.others.length > 1 : Object.values(rows)[0].length > 0);

// The rows of a chart in words, for who does not see it; a long one by its ends.
function spoken(rows) {
  const some = Object.values(rows).find((x) => x.length) || [];
  const words = (row) => Object.entries(row).filter(([, value]) => value !== null && typeof value !== "boolean")
    .map(([key, value]) => `${key.replaceAll("_", " ")} ${typeof value === "number" ? digits(value) : value}`).join(", ");
  const picked = some.length <= 8 ? some : [some[0], some[some.length - 1]];
  return `${some.length} values: ${picked.map(words).join("; ")}.`;
}

let drawing = Promise.resolve(), asked = false;

function draw() {
  drawFigures();
  drawKnobs();
  $("command").textContent = command();
  history.replaceState(null, "", hash());
  drawing = Promise.all(Object.entries(charts()).map(([name, rows]) => drawChart(name, rows)));
  for (const section of document.querySelectorAll("section.figures"))
    section.hidden = !section.querySelector("figure:not([hidden])");
  return drawing;
}

// Many moves between two frames are drawn once.
function soon() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

// ---------------------------------------------------------------- knobs

const along = (nodes, value) => (nodes.length > 1 ? Math.log(value / nodes[0]) / Math.log(nodes[nodes.length - 1] / nodes[0]) : 0);

// A slider's threshold: a node that is near, else whole tokens.
function sliderTokens(part) {
  const nodes = TABLES.fine_tokens, value = nodes[0] * (nodes[nodes.length - 1] / nodes[0]) ** part;
  const close = [TABLES.planned_tokens, ...TABLES.node_tokens].find((t) => Math.abs(along(nodes, t) - part) < 0.006);
  return close ?? Math.round(value);
}

function setUp() {
  $("knob-threshold").hidden = !(TABLES && TABLES.is_split);
  $("knob-rate").hidden = !TABLES;
  $("knob-sizes").hidden = !TABLES;
  for (const id of ["hint-threshold", "hint-ways"]) $(id).hidden = !(TABLES && TABLES.by_factor);
  $("knob-period").hidden = !PERIODS.length;
  if (TABLES) setUpTables();
  $("period").replaceChildren(...PERIODS.map((period, i) => element("option", period.name, { value: i })));
  $("hour").max = Math.max(PERIODS.length - 1, 0);
  for (const id of ["period", "hour"])
    $(id).addEventListener("input", (event) => { choose(Number(event.target.value)); soon(); });
  $("reset").addEventListener("click", () => { choose(START.period); state = { ...START, sizes: [...START.sizes] }; soon(); });
  $("copy").addEventListener("click", () => copy(command(), "The command is copied."));
  $("copy-link").addEventListener("click", () => copy(location.href, "The address is copied."));
  $("json").addEventListener("click", () => save("plan.json", "application/json", JSON.stringify(DATA, null, 1)));
  $("csv").addEventListener("click", () => save("plan.csv", "text/csv", csv()));
  window.addEventListener("hashchange", () => { if (location.hash !== hash()) { state = readHash(); soon(); } });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

function setUpTables() {
  $("threshold").addEventListener("input", (event) => { state.threshold = sliderTokens(Number(event.target.value)); soon(); });
  $("tokens").addEventListener("change", (event) => {
    const nodes = TABLES.fine_tokens, asked_ = Number(event.target.value);
    if (asked_ > 0) state.threshold = near(TABLES.node_tokens, Math.min(Math.max(asked_, nodes[0]), nodes[nodes.length - 1]));
    soon();
  });
  $("rate").addEventListener("input", (event) => { state.rate = sliderRate(Number(event.target.value)); soon(); });
  $("req-per-s").addEventListener("change", (event) => {
    if (Number(event.target.value) > 0) state.rate = Number(event.target.value);
    soon();
  });
  $("sizes").replaceChildren(...TABLES.pools.map((pool, i) => stepper(pool, i)));
}

// Most that the plan serves in the chosen period.
const highestPlanned = () => highestRate(TABLES, { threshold: TABLES.planned_tokens, sizes: planned(TABLES) });

// Rates of exact nodes attract the slider; others have three digits.
function sliderRate(part) {
  const most = highestPlanned(), rates = TABLES.exact ? TABLES.exact.req_per_s : [];
  return rates.find((r) => Math.abs(r / most - part) < 0.006) ?? Number((part * most).toPrecision(3));
}

function stepper(pool, i) {
  const row = element("div", "", { class: "stepper", role: "group", "aria-label": `instances of ${pool.name}` });
  const by = (n) => () => { state.sizes = state.sizes.map((m, k) => (k === i ? Math.max(m + n, least(pool)) : m)); soon(); };
  const less = element("button", "−", { type: "button", "aria-label": `one instance less of ${pool.name}` });
  const more = element("button", "+", { type: "button", "aria-label": `one instance more of ${pool.name}` });
  less.addEventListener("click", by(-1));
  more.addEventListener("click", by(1));
  row.append(element("span", pool.name, { class: "name" }), less, element("output", "", { id: `size-${i}` }), more);
  return row;
}

function drawKnobs() {
  if (PERIODS.length) {
    $("period").value = $("hour").value = state.period;
    $("hour").setAttribute("aria-valuetext", PERIODS[state.period].name);
  }
  if (!TABLES) return;
  if (TABLES.is_split) {
    $("threshold").value = along(TABLES.fine_tokens, state.threshold);
    $("threshold").setAttribute("aria-valuetext", `${digits(state.threshold, 6)} tokens`);
    $("tokens").value = Number(state.threshold.toPrecision(9));
  }
  const load = state.rate / highestPlanned();
  $("rate").value = load;
  $("rate").setAttribute("aria-valuetext", `${digits(state.rate, 4)} requests per second`);
  $("req-per-s").value = state.rate;
  state.sizes.forEach((n, i) => { $(`size-${i}`).textContent = n; });
}

function again() {
  for (const { view } of VIEWS.values()) view.finalize();
  VIEWS.clear();
  document.querySelectorAll(".chart").forEach((box) => box.replaceChildren());
  draw();
}

// ---------------------------------------------------------------- out of the page

function copy(text, done) {
  const said = () => { $("said").textContent = done; };
  if (navigator.clipboard && window.isSecureContext) { navigator.clipboard.writeText(text).then(said, () => select(done)); return; }
  select(done);
}

// Without a clipboard the command is marked, for the reader to copy.
function select(done) {
  getSelection().selectAllChildren($("command"));
  $("said").textContent = document.execCommand("copy") ? done : "Marked: copy it with Ctrl+C.";
}

function save(name, kind, text) {
  const link = element("a", "", { download: name, href: URL.createObjectURL(new Blob([text], { type: kind })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// A cell that no spreadsheet takes for a formula.
function cell(value) {
  if (typeof value === "number") return String(value);
  const text = value === null || value === undefined ? "" : String(value);
  return `"${(/^[=+\-@\t\r]/.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
}

function csv() {
  const lines = [["figure", "plan", "as set"].map(cell).join(",")], before = plannedFigures();
  const now = TABLES ? figures() : PERIODS.length ? periodFigures() : {};
  for (const [, name] of ROWS) lines.push([name, before[name] ?? null, now[name] ?? null].map(cell).join(","));
  for (const [chart, rows] of Object.entries(charts()))
    for (const [data, some] of Object.entries(rows || {})) {
      if (!some.length) continue;
      const columns = Object.keys(some[0]);
      lines.push("", cell(`${chart}: ${data}`), columns.map(cell).join(","));
      for (const row of some) lines.push(columns.map((name) => cell(row[name])).join(","));
    }
  return `${lines.join("\r\n")}\r\n`;
}

setUp();
state = readHash();
draw();
