// What every chart shows, as rows of its data: of the plan, and of where the knobs stand.
"use strict";

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
  const key = JSON.stringify([knobs, state.period]);
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
const MOST_CURVE = 8;

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

// The plan and the fleets beside it that can be had; each has one colour and mark in all charts.
const fleets = () => [{ ...PLAN, name: "plan" }, ...PLAN.baselines.filter((fleet) => !fleet.beyond_stock.length)];

function otherRows(against) {
  const found = fleets().map((fleet) => ({
    name: fleet.name, usd: fleet.cost.usd_per_hour, value: REACHED[against](fleet), sizes: planSizes(fleet) }));
  if (TABLES && !PERIODS.length && against !== "goodput") {
    const now = figures(), sizes = Object.fromEntries(TABLES.pools.map((pool, i) => [pool.name, state.sizes[i]]));
    found.push({ name: "as set", usd: now.usd_per_hour, value: REACHED[against](now), sizes: sizesText(sizes) });
  }
  return found.filter((row) => row.usd !== null && row.value !== null && row.value !== undefined);
}

// Fleets of one bill are no curve of what money buys.
const beside = (front, others) => (new Set([...front, ...others].map((row) => row.usd)).size > 1 ? { front, others } : null);

const frontOf = (against) => DATA.fronts.filter((x) => x.front.against === against);
const frontRows = (against) => frontOf(against).slice(-1).flatMap((x) => x.front.points.map((point) => ({
  usd: point.usd_per_hour, value: point.value, sizes: sizesText(point.n_instances), threshold: point.threshold_tokens })));

function hourRows() {
  const each = new Map(PLAN.pools.map((p) => [p.name, p.n_instances ? p.n_accelerators / p.n_instances : 0]));
  if (PERIODS.length)
    return PERIODS.flatMap((period, i) => period.pools.map((pool) => ({
      hour: period.name, name: pool.name, accelerators: pool.utilization * pool.n_instances * each.get(pool.name),
      busy: pool.utilization, chosen: i === state.period })).filter((row) => row.accelerators > 0));
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
      name, load: at.load, seconds: at[field].executed,
      low: at[field].ci_low ?? at[field].executed, high: at[field].ci_high ?? at[field].executed,
      predicted: at[field].predicted }))),
  };
}

// Rows of every chart; one without rows is not shown.
function charts() {
  const now = TABLES ? figures() : null;
  const here = now ? [{ tokens: state.threshold, ...now }] : [], there = TABLES ? [{ tokens: TABLES.planned_tokens }] : [];
  const split = TABLES && TABLES.is_split, prices = priceRows();
  const curve = (rows) => (new Set(rows.map((row) => row.tokens)).size > 1 ? rows : []);  // one threshold is no curve
  return {
    capacity: split && { capacity: once("capacity", state.sizes, capacityRows),
      highest: once("highest", state.sizes, highestRows), plan: there, now: here },
    ttft: split && { ttft: curve(once("ttft", [state.sizes, state.rate], ttftRows)), promise: promiseRows(), plan: there, now: here },
    cost: split && { cost: curve(once("cost", state.sizes, costRows)), plan: there, now: here },
    use: { use: useRows() },
    throughput: beside(frontRows("throughput"), otherRows("throughput")),
    goodput: beside(frontRows("goodput"), otherRows("goodput")),
    "first-token": beside(frontRows("ttft"), otherRows("first-token")),
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
