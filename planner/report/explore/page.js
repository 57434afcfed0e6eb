// The page: knobs, figures, charts, and what can be copied out of it. What follows from the knobs is in figures.js.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const SPECS = JSON.parse(document.getElementById("charts").textContent);
const PLAN = DATA.plan, TABLES = DATA.tables, PERIODS = PLAN.periods.length > 1 ? PLAN.periods : [];
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
  const at = { threshold: TABLES.planned_tokens, sizes: planned(TABLES), period: busiest };
  const most = highestRate(TABLES, at), rates = TABLES.exact ? TABLES.exact.req_per_s : [];
  const stated = rates.find((r) => r === PLAN.throughput_req_per_s);
  return { ...at, rate: stated || rates.filter((r) => r <= 0.9 * most).pop() || 0.85 * most };
}

function readHash() {
  const asked = new URLSearchParams(location.hash.slice(1)), found = { ...START };
  const number = (name, low, high) => {
    const value = Number(asked.get(name));
    return asked.has(name) && Number.isFinite(value) ? Math.min(Math.max(value, low), high) : null;
  };
  if (TABLES) {
    const nodes = TABLES.fine_tokens;
    found.threshold = number("t", nodes[0], nodes[nodes.length - 1]) ?? START.threshold;
    found.rate = number("r", 1e-6, 1e9) ?? START.rate;
    const sizes = (asked.get("n") || "").split(",").map(Number);
    if (sizes.length === START.sizes.length && sizes.every((n) => Number.isInteger(n) && n >= 1 && n < 1e5)) found.sizes = sizes;
  }
  found.period = Math.round(number("h", 0, Math.max(PERIODS.length - 1, 0)) ?? START.period);
  return found;
}

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
  if (TABLES.is_split) sets.push(`routing.threshold_tokens=${state.threshold}`);
  sets.push(`demand_req_per_s=${state.rate}`, ...TABLES.fixed);
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

const latencyNow = (knobs) => (isNode(TABLES, knobs) || inTables(knobs) ? latency(TABLES, knobs) : null);

function figures(knobs = state) {
  const fine = logPlace(TABLES.fine_tokens, knobs.threshold), seconds = latencyNow(knobs) || {};
  const long = TABLES.pools.findIndex((pool) => pool.role === "prefill");
  return {
    threshold_tokens: TABLES.is_split ? knobs.threshold : null,
    offload_fraction: TABLES.is_split ? between(TABLES.pools[long].taken_fraction, fine) : null,
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

function periodFigures() {
  const now = PERIODS[state.period];
  return { throughput_req_per_s: now.demand_req_per_s, offload_fraction: now.offload_fraction, ...now.latency };
}

const ROWS = [
  ["requests per second", "throughput_req_per_s", (x) => shown(x, "", 4)],
  ["most requests per second", "max_throughput_req_per_s", (x) => shown(x, "", 4)],
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
  $("now-title").hidden = !now;
  $("now-title").textContent = TABLES ? "as set" : PERIODS.length ? PERIODS[state.period].name : "";
  $("status").textContent = statusWords(now);
}

function statusWords(now) {
  if (!TABLES) return PERIODS.length ? `Period ${PERIODS[state.period].name}.` : "The plan as it is.";
  if (state.rate >= now.max_throughput_req_per_s * (1 - 1e-9)) return "More than this fleet serves: its queues grow without end.";
  const short = stockWords();
  if (short) return short;
  const late = TABLES.promised_ttft_s, name = `ttft_p${TABLES.promised_percentile}_s`;
  const broken = late !== null && now[name] > late ? ` The promise of ${digits(late)} s is broken.` : "";
  if (isNode(TABLES, state)) return `Every figure is that of planner optimize.${broken}`;
  if (now.ttft_mean_s === null) return "Times: unknown so near saturation, or so far from the plan's sizes. The command tells them. All other figures hold.";
  return `Times are interpolated, within 2 % in tests. Rates and cost ${onFine() ? "are exact" : "are interpolated"}.${broken}`;
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

// ---------------------------------------------------------------- rows of charts

function useRows() {
  const before = new Map([...PLAN.pools, ...PLAN.links].map((x) => [x.name, x.utilization]));
  const row = (name, part) => ({ name, busy: Math.min(part, 1), exactly: part, planned: before.get(name) ?? null });
  if (TABLES) {
    const sent = linkGbps(TABLES, state);
    return [...busy(TABLES, state).map((part, i) => row(TABLES.pools[i].name, part)),
      ...TABLES.links.map((link, j) => row(link.name, link.capacity_gbps ? sent[j] / link.capacity_gbps : 0))];
  }
  const now = PERIODS.length ? PERIODS[state.period] : PLAN;
  return [...now.pools, ...now.links].map((x) => row(x.name, x.utilization));
}

const names = () => [...TABLES.pools, ...TABLES.links].map((x) => x.name);

// Rows that only some knobs change are made once for each setting of these.
const KNOWN = new Map();

function once(name, knobs, make) {
  const key = JSON.stringify(knobs);
  if (!KNOWN.has(name) || KNOWN.get(name).key !== key) KNOWN.set(name, { key, rows: make() });
  return KNOWN.get(name).rows;
}

function capacityRows() {
  return TABLES.fine_tokens.flatMap((tokens) => {
    const each = limits(TABLES, { ...state, threshold: tokens }), top = 3 * Math.min(...each);
    return names().map((name, i) => ({ tokens, name, req_per_s: each[i] <= top ? each[i] : null }));
  }).filter((row) => row.req_per_s !== null);
}

const TTFT_NAMES = { ttft_mean_s: "mean", ttft_p50_s: "50 %", ttft_p90_s: "90 %", ttft_p99_s: "99 %" };
const MOST_CURVE = 14;

// Thresholds with a steady state, thinned; nodes of the tables stay.
function curveTokens() {
  const steady = TABLES.fine_tokens.filter((tokens) => highestRate(TABLES, { ...state, threshold: tokens }) > state.rate);
  const step = Math.ceil(steady.length / MOST_CURVE);
  return steady.filter((tokens, i) => i % step === 0 || TABLES.node_tokens.includes(tokens));
}

const ttftRows = () => curveTokens().flatMap((tokens) => {
  const found = latencyNow({ ...state, threshold: tokens }) || {};
  return Object.entries(TTFT_NAMES).map(([key, name]) => ({ tokens, name, seconds: found[key] ?? null }));
}).filter((row) => row.seconds !== null);

const costRows = () => TABLES.fine_tokens.map((tokens) => {
  const at = { ...state, threshold: tokens };
  return { tokens, usd: usdPerMillion(TABLES, { ...at, rate: highestRate(TABLES, at) }, TABLES.mean_total_tokens) };
}).filter((row) => row.usd !== null);

const sizesText = (sizes) => Object.entries(sizes).map(([name, n]) => `${n} ${name}`).join(", ");
const planSizes = (fleet) => sizesText(Object.fromEntries(fleet.pools.filter((p) => p.n_instances).map((p) => [p.name, p.n_instances])));

// What a fleet reaches, by what cost is held against.
const REACHED = {
  throughput: (fleet) => fleet.max_throughput_req_per_s,
  goodput: (fleet) => fleet.goodput_req_per_s,
  "first-token": (fleet) => (fleet.latency ? fleet.latency.ttft_p90_s : fleet.ttft_p90_s),
};

function otherRows(against) {
  const found = [{ ...PLAN, name: "plan" }, ...PLAN.baselines].map((fleet) => ({
    name: fleet.name, usd: fleet.cost.usd_per_hour, value: REACHED[against](fleet), sizes: planSizes(fleet) }));
  if (TABLES && against !== "goodput") {
    const now = figures(), sizes = Object.fromEntries(TABLES.pools.map((pool, i) => [pool.name, state.sizes[i]]));
    found.push({ name: "as set", usd: now.usd_per_hour, value: REACHED[against](now), sizes: sizesText(sizes) });
  }
  return found.filter((row) => row.usd !== null && row.value !== null && row.value !== undefined);
}

const frontOf = (against) => DATA.fronts.filter((x) => x.front.against === against);
const frontRows = (against) => frontOf(against).slice(-1).flatMap((x) => x.front.points.map((point) => ({
  usd: point.usd_per_hour, value: point.value, sizes: sizesText(point.n_instances), threshold: point.threshold_tokens })));

function hourRows() {
  const each = new Map(PLAN.pools.map((p) => [p.name, p.n_instances ? p.n_accelerators / p.n_instances : 0]));
  if (PERIODS.length)
    return PERIODS.flatMap((period, i) => period.pools.map((pool) => ({
      hour: period.name, name: pool.name, accelerators: pool.utilization * pool.n_instances * each.get(pool.name),
      busy: pool.utilization, chosen: i === state.period })));
  return DATA.hours.flatMap((hour, i) => PLAN.pools.filter((pool) => pool.name in hour.utilization).map((pool) => ({
    hour: String(i), name: pool.name, accelerators: hour.utilization[pool.name] * pool.n_accelerators,
    busy: hour.utilization[pool.name], chosen: true })));
}

// Sites on a circle, links between them a little apart by direction; widths are pixels.
function mapRows() {
  const n = DATA.places.length, at = new Map();
  DATA.places.forEach((site, i) => {
    const angle = Math.PI * (n === 2 ? 1 - i : 0.5 + (2 * i) / n);
    at.set(site.name, { x: n === 1 ? 0 : Math.cos(angle), y: n === 1 ? 0 : Math.sin(angle) });
  });
  const many = (name) => PLAN.pools.filter((pool) => pool.site === name)
    .reduce((sum, pool) => sum + pool.n_accelerators, 0);
  const most = Math.max(...DATA.places.map((site) => many(site.name)), 1);
  const widest = Math.max(...PLAN.links.map((link) => link.capacity_gbps), 1e-9);
  const used = new Map(useRows().map((row) => [row.name, row.exactly]));
  const sites = DATA.places.map((site) => ({
    ...at.get(site.name), label: site.name, title: site.title, accelerators: many(site.name),
    area: 150 + (900 * many(site.name)) / most }));
  const links = PLAN.links.filter((link) => link.capacity_gbps > 0).map((link) => {
    const a = at.get(link.from), b = at.get(link.to), part = Math.min(used.get(link.name) ?? 0, 1);
    const rented = 4 + (22 * link.capacity_gbps) / widest, off = { x: 0.05 * (b.y - a.y), y: 0.05 * (a.x - b.x) };
    return { name: link.name, gbps: link.capacity_gbps, use: part, rented, used: Math.max(rented * part, 0.5),
      x: a.x + off.x, y: a.y + off.y, x2: b.x + off.x, y2: b.y + off.y };
  });
  return { sites, links };
}

function tornadoRows() {
  if (!DATA.sensitivity) return [];
  return DATA.sensitivity.inputs.slice(0, 15).map((input) => {
    const changes = input.variations.map((v) => v.objective_change).filter((x) => x !== null);
    return { name: input.title, low: Math.min(0, ...changes), high: Math.max(0, ...changes) };
  });
}

function priceRows() {
  const found = DATA.price_ratios;
  if (!found) return [];
  const rows = (name, gains) => (gains || []).map((gain, i) => ({ name, ratio: found.ratios[i], gain }));
  return [...rows("accelerators alone", found.equal_cost_gain), ...rows("whole bill", found.equal_bill_gain)];
}

function moneyRows() {
  if (TABLES) return bill(TABLES, state).filter((item) => item.usd).map((item) => ({ name: item.what, usd: item.usd }));
  const paid = [...PLAN.pools, ...PLAN.links].filter((x) => x.usd_per_hour).map((x) => ({ name: x.name, usd: x.usd_per_hour }));
  const rest = (PLAN.cost.usd_per_hour ?? 0) - paid.reduce((sum, x) => sum + x.usd, 0);
  return rest > 1e-6 ? [...paid, { name: "power and traffic by use", usd: rest }] : paid;
}

function executedRows() {
  if (!DATA.executed) return { predicted: [], executed: [] };
  const kinds = { mean_s: ["mean", "ttft_mean_s"], p90_s: ["90 %", "ttft_p90_s"] };
  const series = DATA.executed.predicted_ttft;
  return {
    predicted: Object.entries(kinds).flatMap(([key, [name]]) =>
      series[key].map((seconds, i) => ({ name, load: series.loads[i], seconds }))),
    executed: Object.values(kinds).flatMap(([name, field]) => DATA.executed.loads.map((at) => ({
      name, load: at.load, seconds: at[field].executed, low: at[field].ci_low, high: at[field].ci_high,
      predicted: at[field].predicted }))),
  };
}

// Rows of every chart; one without rows is not shown.
function charts() {
  const now = TABLES ? figures() : null;
  const here = now ? [{ tokens: state.threshold, ...now }] : [], there = TABLES ? [{ tokens: TABLES.planned_tokens }] : [];
  const split = TABLES && TABLES.is_split, prices = priceRows();
  return {
    capacity: split && { capacity: once("capacity", state.sizes, capacityRows),
      highest: once("highest", state.sizes, highestRows), plan: there, now: here },
    ttft: split && { ttft: once("ttft", [state.sizes, state.rate], ttftRows), promise: promiseRows(), plan: there, now: here },
    cost: split && { cost: once("cost", state.sizes, costRows), plan: there, now: here },
    use: { use: useRows() },
    throughput: { front: frontRows("throughput"), others: otherRows("throughput") },
    goodput: { front: frontRows("goodput"), others: otherRows("goodput") },
    "first-token": { front: frontRows("ttft"), others: otherRows("first-token") },
    hours: { hours: hourRows() },
    map: DATA.places.length > 1 ? mapRows() : null,
    tornado: { tornado: tornadoRows() },
    prices: { prices, stated: prices.length ? [{ ratio: DATA.price_ratios.stated_ratio }] : [] },
    money: { money: moneyRows() },
    executed: executedRows(),
  };
}

const highestRows = () => TABLES.fine_tokens.map((tokens) => (
  { tokens, req_per_s: highestRate(TABLES, { ...state, threshold: tokens }) }));
const promiseRows = () => (TABLES.promised_ttft_s === null ? [] : [{ seconds: TABLES.promised_ttft_s }]);

// ---------------------------------------------------------------- charts

function look() {
  const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
  const axis = { labelColor: colour("--ink"), titleColor: colour("--ink"), gridColor: colour("--line"),
    domainColor: colour("--soft"), tickColor: colour("--soft"), labelFontSize: 12, titleFontSize: 12 };
  const words = { labelColor: colour("--ink"), titleColor: colour("--ink"), labelLimit: 220 };
  return { aria: false, background: "transparent", view: { stroke: null }, axis, font: "system-ui, sans-serif",
    legend: { ...words, orient: "bottom", columns: innerWidth < 500 ? 2 : 3, title: null }, text: { fill: colour("--ink"), fontSize: 13 } };
}

function drawChart(name, rows) {
  const box = $(`figure-${name}`);
  box.hidden = !rows || !isWorthIt(rows);
  if (box.hidden) return Promise.resolve();
  let known = VIEWS.get(name), changed = false;
  if (!known) {
    const compiled = vegaLite.compile({ ...SPECS[name], ...room(name, rows) }, { config: look() });
    const view = new vega.View(vega.parse(compiled.spec), { renderer: "svg", container: $(`chart-${name}`), hover: false });
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

// The box of a chart says in words what it shows; its marks would say it again, one by one.
const hideMarks = (view) => view.container().querySelector("svg").setAttribute("aria-hidden", "true");

// A chart is as wide as its box; one of bars as high as they need.
function room(name, rows) {
  const step = SPECS[name].height.step, autosize = { type: "fit-x", contains: "padding", resize: true };
  return step ? { autosize, height: step * Object.values(rows)[0].length } : { autosize };
}

// A chart of one point among others says nothing.
const isWorthIt = (rows) => ("others" in rows ? rows.front.length + rows.others.length > 1 : Object.values(rows).some((x) => x.length));

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

const along = (nodes, value) => Math.log(value / nodes[0]) / Math.log(nodes[nodes.length - 1] / nodes[0]);

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
  $("knob-period").hidden = !PERIODS.length;
  if (TABLES) setUpTables();
  $("period").replaceChildren(...PERIODS.map((period, i) => element("option", period.name, { value: i })));
  $("period").addEventListener("input", (event) => { state.period = Number(event.target.value); soon(); });
  $("reset").addEventListener("click", () => { state = { ...START, sizes: [...START.sizes] }; soon(); });
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
    if (asked_ > 0) state.threshold = Math.min(Math.max(asked_, nodes[0]), nodes[nodes.length - 1]);
    soon();
  });
  $("rate").addEventListener("input", (event) => { state.rate = sliderRate(Number(event.target.value)); soon(); });
  $("req-per-s").addEventListener("change", (event) => {
    if (Number(event.target.value) > 0) state.rate = Number(event.target.value);
    soon();
  });
  $("sizes").replaceChildren(...TABLES.pools.map((pool, i) => stepper(pool, i)));
}

// Rates of exact nodes attract the slider; others have three digits.
function sliderRate(part) {
  const most = highestRate(TABLES, START), rates = TABLES.exact ? TABLES.exact.req_per_s : [];
  return rates.find((r) => Math.abs(r / most - part) < 0.006) ?? Number((part * most).toPrecision(3));
}

function stepper(pool, i) {
  const row = element("div", "", { class: "stepper", role: "group", "aria-label": `instances of ${pool.name}` });
  const by = (n) => () => { state.sizes = state.sizes.map((m, k) => (k === i ? Math.max(m + n, 1) : m)); soon(); };
  const less = element("button", "−", { type: "button", "aria-label": `one instance less of ${pool.name}` });
  const more = element("button", "+", { type: "button", "aria-label": `one instance more of ${pool.name}` });
  less.addEventListener("click", by(-1));
  more.addEventListener("click", by(1));
  row.append(element("span", pool.name, { class: "name" }), less, element("output", "", { id: `size-${i}` }), more);
  return row;
}

function drawKnobs() {
  if (PERIODS.length) $("period").value = state.period;
  if (!TABLES) return;
  if (TABLES.is_split) {
    $("threshold").value = along(TABLES.fine_tokens, state.threshold);
    $("threshold").setAttribute("aria-valuetext", `${digits(state.threshold, 6)} tokens`);
    $("tokens").value = state.threshold;
  }
  const load = state.rate / highestRate(TABLES, START);
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
