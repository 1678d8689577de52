"use strict";

// Limits on the results of a sweep: where rows stand to them, what the page says of them, and how charts draw them.
//
// A limit has: name (a column of the table of points), value, least (it is the least), and may have worst and
// designs: the error of estimates, in parts, and the number of designs that it was measured on.

const VERDICTS = ["within", "perhaps", "beyond"]; // the best first
const VERDICT_TEXTS = { within: "within", perhaps: "may be within", beyond: "beyond" };
const KEPT = { all: VERDICTS, open: ["within", "perhaps"], within: ["within"] }; // verdicts by choice of the filter
const FIELD_KEYS = { seconds: "time", energy_pj: "energy" }; // columns of the table by the names of their fields

/** Return the worst of verdicts; nothing where there is none. */
function worstVerdict(verdicts) {
  return verdicts.filter(known).reduce((worst, one) => (VERDICTS.indexOf(one) > VERDICTS.indexOf(worst) ? one : worst), null);
}

/** Return why a row is not within the limits on several workloads: each reason once. */
function limitReasons(runs) {
  return [...new Set(runs.map((run) => run.limits_why).filter(Boolean))].join("; ");
}

/** Return the limit on a field in its unit; nothing where it has none. */
function limitOn(state, field) {
  const limit = state.data.limits.find(({ name }) => (FIELD_KEYS[name] ?? name) === field.key);
  return limit && { ...limit, value: limit.value * (state.factors[field.key] ?? 1) };
}

/** Return a sentence for each limit, and how many points stand where. */
function limitNote(state) {
  const { limits } = state.data;
  if (!limits.length) return "";
  const texts = limits.map((limit) => {
    const field = state.field(FIELD_KEYS[limit.name] ?? limit.name);
    const own = field ? limitOn(state, field) : limit;
    const estimated = field?.label.includes("estimated") && limit.worst > 0;
    const error = estimated ? ` (estimates were off by up to ${percent(limit.worst)} on ${limit.designs} measured designs)` : "";
    return `${field?.title ?? limit.name} at ${limit.least ? "least" : "most"} ${field ? field.text(own.value) : decimal(own.value)}${field?.unit ? ` ${field.unit}` : ""}${error}`;
  });
  const count = (verdict) => decimal(state.rows.filter((row) => row.limits === verdict).length);
  return `Limits: ${texts.join("; ")}. ${count("within")} points are surely within, ${count("perhaps")} may or may not be (pale marks), ${count("beyond")} are beyond (empty marks, on no front).`;
}

/** Return the layers of a chart that draw the limit of an axis: a line, and a band where an estimate decides nothing. */
function limitLayers(state, field, channel) {
  const limit = limitOn(state, field);
  if (!limit) return [];
  const inside = (value) => Math.min(Math.max(value, field.low), field.high);
  const error = field.label.includes("estimated") ? (limit.worst ?? 0) : 0;
  const [from, to] = [inside(limit.value / (1 + error)), inside(limit.value / (1 - error))];
  const datum = (value) => ({ datum: value, type: "quantitative" });
  const common = { color: colour("pink"), aria: false, tooltip: null, clip: true };
  const band = { data: { values: [{}] }, mark: { type: "rect", opacity: 0.16, ...common }, encoding: { [channel]: datum(from), [`${channel}2`]: datum(to) } };
  const line = { data: { values: [{}] }, mark: { type: "rule", strokeDash: [6, 4], strokeWidth: 1.5, ...common }, encoding: { [channel]: datum(limit.value) } };
  const within = field.low <= limit.value && limit.value <= field.high;
  return [...(from < to ? [band] : []), ...(within ? [line] : [])];
}

const limitColumn = () => ({ key: "limits", title: "Limits", left: true, value: (row) => VERDICTS.indexOf(row.limits), text: (row) => VERDICT_TEXTS[row.limits] ?? NONE, content: (row) => make("span", { class: `limit ${row.limits}`, title: row.limits_why || null }, VERDICT_TEXTS[row.limits] ?? NONE) });
