// What follows from the knobs: this file adds, multiplies and interpolates in tables that Python made.
// It says the same as planner/studies/explore/combination.py and tests/explore_reference.py, function by function.
"use strict";

const QUANTILES = { ttft_p50_s: 0.5, ttft_p90_s: 0.9, ttft_p99_s: 0.99 };
const LATENCIES = ["ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "tpot_mean_s"];
const LEVELS = [1, 0.7, 0.45, 0.25, 0.12, 0.05, 0.02, 0.006];
const STEPS = 28, RARE = 1e-6, LEAST = 1e-12;

// What the file has once though the tables have it several times.
function whole(value, shared) {
  if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map((part) => whole(part, shared));
  if (value === null || typeof value !== "object") return value;
  if ("shared" in value) return whole(shared[value.shared], shared);
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, whole(part, shared)]));
}

// Where a value lies among ascending nodes: between a node and the next, and how far; outside, at the nearest end.
function place(nodes, value) {
  if (nodes.length === 1) return { left: 0, part: 0 };
  let left = 0;
  while (left < nodes.length - 2 && nodes[left + 1] <= value) left += 1;
  const part = (value - nodes[left]) / (nodes[left + 1] - nodes[left]);
  return { left, part: Math.min(Math.max(part, 0), 1) };
}

function logPlace(nodes, value) {
  const found = place(nodes, value);
  if (found.part === 0 || found.part === 1) return found;
  const low = Math.max(nodes[found.left], LEAST), high = Math.max(nodes[found.left + 1], LEAST);
  return { left: found.left, part: Math.log(value / low) / Math.log(high / low) };
}

// The value of a row at a place, on a straight line; at a node exactly its value.
function between(row, at) {
  if (at.part === 0) return row[at.left];
  if (at.part === 1) return row[at.left + 1];
  return row[at.left] + at.part * (row[at.left + 1] - row[at.left]);
}

// knobs: { sizes: [instances per pool], threshold: tokens, rate: requests per second }
function busy(tables, knobs) {
  const fine = logPlace(tables.fine_tokens, knobs.threshold);
  return tables.pools.map((pool, i) => {
    const work = knobs.rate * between(pool.work_s, fine);
    return knobs.sizes[i] ? work / knobs.sizes[i] : work > 0 ? Infinity : 0;
  });
}

function capacities(tables, knobs) {
  const fine = logPlace(tables.fine_tokens, knobs.threshold);
  return tables.pools.map((pool, i) => {
    const work = between(pool.work_s, fine);
    return work > 0 ? knobs.sizes[i] * between(pool.taken_fraction, fine) / work : null;
  });
}

// Rate of all requests that each pool and link would allow alone, pools first.
function limits(tables, knobs) {
  const fine = logPlace(tables.fine_tokens, knobs.threshold);
  const limit = (capacity, each) => (each > 0 ? capacity / each : Infinity);
  return [
    ...tables.pools.map((pool, i) => limit(knobs.sizes[i], between(pool.work_s, fine))),
    ...tables.links.map((link) => limit(link.capacity_gbps, between(link.gbps_per_req_per_s, fine))),
  ];
}

function highestRate(tables, knobs) {
  return Math.min(...limits(tables, knobs));
}

function linkGbps(tables, knobs) {
  const fine = logPlace(tables.fine_tokens, knobs.threshold);
  return tables.links.map((link) => knobs.rate * between(link.gbps_per_req_per_s, fine));
}

// What each pool, link and the traffic cost an hour; usd is null where a price is missing.
function bill(tables, knobs) {
  const fine = logPlace(tables.fine_tokens, knobs.threshold);
  const items = tables.pools.map((pool, i) => {
    const power = knobs.rate * between(pool.work_s, fine) * pool.busy_usd_per_hour;
    const each = pool.usd_per_instance_hour;
    return { what: pool.name, usd: knobs.sizes[i] && each === null ? null : knobs.sizes[i] * (each || 0) + power };
  });
  linkGbps(tables, knobs).forEach((gbps, j) => {
    const link = tables.links[j];
    items.push({ what: link.name, usd: link.usd_per_hour });
    if (link.usd_per_gb) items.push({ what: `${link.name}: traffic`, usd: (gbps / 8) * 3600 * link.usd_per_gb });
  });
  return items;
}

function usdPerHour(tables, knobs) {
  const items = bill(tables, knobs);
  return items.some((item) => item.usd === null) ? null : items.reduce((sum, item) => sum + item.usd, 0);
}

function usdPerMillion(tables, knobs, tokens) {
  const usd = usdPerHour(tables, knobs);
  return usd === null || !(tokens > 0) || !(knobs.rate > 0) ? null : (1e6 * usd) / (knobs.rate * 3600) / tokens;
}

const planned = (tables) => tables.pools.map((pool) => pool.n_planned);
const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

// Whether latency is that of `planner optimize`, and not interpolated.
function isNode(tables, knobs) {
  const exact = tables.exact;
  return Boolean(exact) && same(knobs.sizes, planned(tables)) &&
    tables.node_tokens.includes(knobs.threshold) && exact.req_per_s.includes(knobs.rate);
}

// Latency; through the exact nodes where the sizes are the plan's. null: a queue has no steady state.
function latency(tables, knobs) {
  const found = combined(tables, knobs);
  if (!found || !tables.exact || !same(knobs.sizes, planned(tables))) return found;
  const around = corners(tables, knobs);
  return Object.fromEntries(
    LATENCIES.map((name) => [name, found[name] && found[name] * correction(tables, name, around)]));
}

function corners(tables, knobs) {
  const t = logPlace(tables.node_tokens, knobs.threshold), r = place(tables.exact.req_per_s, knobs.rate);
  const found = [];
  for (const [i, a] of [[0, 1 - t.part], [1, t.part]])
    for (const [j, b] of [[0, 1 - r.part], [1, r.part]])
      if (a * b > 0) found.push([t.left + i, r.left + j, a * b]);
  return found;
}

const CORRECTIONS = new WeakMap();

// Exact over combined at a node; null: no steady state.
function correctionAt(tables, name, i, j) {
  if (!CORRECTIONS.has(tables)) CORRECTIONS.set(tables, new Map());
  const known = CORRECTIONS.get(tables), key = `${name} ${i} ${j}`;
  if (!known.has(key)) {
    const exact = tables.exact.figures[name][i][j];
    const here = { sizes: planned(tables), threshold: tables.node_tokens[i], rate: tables.exact.req_per_s[j] };
    const base = exact === null ? null : combined(tables, here);
    known.set(key, base && base[name] ? exact / base[name] : null);
  }
  return known.get(key);
}

function correction(tables, name, around) {
  let total = 0, weight = 0;
  for (const [i, j, part] of around) {
    const ratio = correctionAt(tables, name, i, j);
    if (ratio !== null) { total += part * ratio; weight += part; }
  }
  return weight ? total / weight : 1;
}

// Latency from the tables of the pools alone.
function combined(tables, knobs) {
  const used = busy(tables, knobs), nothing = Object.fromEntries(LATENCIES.map((name) => [name, null]));
  if (Math.max(...used) >= 1 || knobs.rate >= highestRate(tables, knobs)) return null;
  const node = logPlace(tables.node_tokens, knobs.threshold), fine = logPlace(tables.fine_tokens, knobs.threshold);
  const first = { left: 0, part: 0 }, after = new Map(), paths = [];
  for (const path of tables.paths) {
    const share = between(path.share, fine), [before, last] = [tables.pools[path.prefill], tables.pools[path.decode]];
    if (share <= 0) continue;
    if (!before.waits || !last.waits) return nothing;
    if (!after.has(path.decode)) {
      const wait = waitAt(last.waits, first, knobs.sizes[path.decode], used[path.decode]);
      after.set(path.decode, { mean: wait.waiting * wait.given, values: values(tables.wait_multiples, wait),
        step: stepSeconds(last, knobs.sizes[path.decode], used[path.decode]) });
    }
    const high = path.kinds_s[Math.min(node.left + 1, path.kinds_s.length - 1)];
    const kinds = path.kinds_s[node.left].map((x, k) => between([x, high[k]], { left: 0, part: node.part }));
    const wait = waitAt(before.waits, node, knobs.sizes[path.prefill], used[path.prefill]);
    paths.push({ share, kinds, wait, after: after.get(path.decode) });
  }
  const meanOf = (path) => path.kinds.reduce((total, x, k) => total + tables.kind_weights[k] * x, 0) +
    path.wait.waiting * path.wait.given + path.after.mean;
  const mean = paths.reduce((sum, path) => sum + path.share * meanOf(path), 0), found = { ...nothing, ttft_mean_s: mean };
  for (const [name, q] of Object.entries(QUANTILES)) found[name] = quantile(tables, paths, 1 - q, mean);
  const steps = paths.reduce((sum, path) => sum + path.share * path.after.step, 0);
  found.tpot_mean_s = paths.length && paths.every((path) => path.after.step !== null)
    ? steps / paths.reduce((sum, path) => sum + path.share, 0) : null;
  return found;
}

function quantile(tables, paths, allowed, guess) {
  let low = 0, high = guess;
  while (late(tables, paths, high) > allowed) [low, high] = [high, 2 * high];
  for (let step = 0; step < STEPS; step += 1) {
    const middle = (low + high) / 2;
    if (late(tables, paths, middle) > allowed) low = middle; else high = middle;
  }
  return high;
}

// Fraction of requests whose first token takes longer than x.
function late(tables, paths, x) {
  let total = 0;
  for (const path of paths)
    for (const [part, second] of path.after.values) {
      let some = 0;
      for (let k = 0; k < path.kinds.length; k += 1)
        some += tables.kind_weights[k] * survival(tables.wait_multiples, path.wait, x - second - path.kinds[k]);
      total += path.share * part * some;
    }
  return total;
}

// P(W > x): its logarithm is a straight line between the multiples of the mean, and beyond them.
function survival(multiples, wait, x) {
  if (x < 0) return 1;
  if (wait.waiting <= 0) return 0;
  const scaled = x / wait.given, last = multiples.length - 1;
  if (scaled < multiples[last]) return wait.waiting * Math.exp(between(wait.logs, place(multiples, scaled)));
  const fall = (wait.logs[last] - wait.logs[last - 1]) / (multiples[last] - multiples[last - 1]);
  return wait.waiting * Math.exp(wait.logs[last] + fall * (scaled - multiples[last]));
}

// A wait as a few values with their probabilities, its mean kept: means between levels of its survival.
function values(multiples, wait) {
  if (wait.waiting < RARE) return [[1, 0]];
  const n = LEVELS.length, last = multiples.length - 1;
  const at = LEVELS.map((level, i) => (i ? inverse(multiples, wait, level) : 0));
  const means = at.slice(1).map((high, i) => meanBetween(LEVELS[i], at[i], LEVELS[i + 1], high));
  const fall = (wait.logs[last - 1] - wait.logs[last]) / (multiples[last] - multiples[last - 1]);
  means.push(at[n - 1] + wait.given / fall);
  const parts = LEVELS.map((level, i) => level - (i + 1 < n ? LEVELS[i + 1] : 0));
  const scale = wait.given / means.reduce((sum, mean, i) => sum + parts[i] * mean, 0);
  return [[1 - wait.waiting, 0], ...means.map((mean, i) => [wait.waiting * parts[i], scale * mean])];
}

// Mean of a wait between two levels of its survival, which falls exponentially in between.
function meanBetween(a, low, b, high) {
  if (high <= low) return low;
  const span = (high - low) / Math.log(a / b);
  return (a * (low + span) - b * (high + span)) / (a - b);
}

function inverse(multiples, wait, fraction) {
  const aim = Math.log(fraction);
  for (let i = 1; i < multiples.length; i += 1)
    if (wait.logs[i] <= aim) {
      const high = wait.logs[i - 1], low = wait.logs[i], part = high > low ? (high - aim) / (high - low) : 0;
      return wait.given * (multiples[i - 1] + part * (multiples[i] - multiples[i - 1]));
    }
  return wait.given * multiples[multiples.length - 1];
}

// The wait at a threshold, with n instances that are busy so far.
function waitAt(table, node, n, use) {
  const size = place(table.n_instances, n), load = place(table.use, use), inside = { left: 0, part: node.part };
  const at = (values_, cell) => between(
    [node.left, Math.min(node.left + 1, values_.length - 1)].map((t) =>
      between(values_[t].map((row) => between(row.map(cell), load)), size)), inside);
  const itself = (x) => x, waiting = Math.exp(at(table.log_waiting, itself));
  return {
    waiting: Math.min(use >= table.use[0] ? waiting : (waiting * use) / table.use[0], 1),
    given: Math.exp(at(table.log_idle_wait, itself)) / (1 - use),
    logs: table.log_survival[0][0][0].map((_, k) => at(table.log_survival, (x) => x[k])),
  };
}

function stepSeconds(pool, n, use) {
  const size = place(pool.waits.n_instances, n), load = place(pool.waits.use, use);
  return pool.step_s.length ? between(pool.step_s.map((row) => between(row, load)), size) : null;
}
