"use strict";

// Fields: what a point has, parameters and results, with units and formats; and the rows that hold them.
//
// A field has: key (in rows), title, unit, result (not a parameter), better (-1: less is, 1: more is), text(value),
// may have more(row) (a note after the text), and once rows are known: values (distinct, where it is shown as steps), low, high, log.

const LUT_UNITS = { ecp5: "LUT4", xc7: "LUT6" };
const RAM_UNITS = { ecp5: "of 18 Kbit", xc7: "of 36 Kbit" };
const SOURCES = ["estimated", "extrapolated", "synthesised", "routed", "target"];
const GUESSES = ["estimated", "extrapolated"];
const MOST_STEPS = 12; // distinct values of a parameter that an axis shows evenly spaced
const LOG_FROM = 30; // an axis is logarithmic where the largest value is so many times the least

function resultFields(family, time, energy) {
  const count = (value) => decimal(value);
  return [
    { key: "cycles", title: "Cycles", unit: "", better: -1, text: count },
    { key: "time", title: "Time", unit: time, better: -1, text: significant, source: "clock_source", more: (row) => between(row, ["time_low", "time_high"], significant) },
    { key: "lut", title: "LUTs", unit: LUT_UNITS[family] ?? "", better: -1, text: count, source: "area_source" },
    { key: "ff", title: "Flip-flops", unit: "", better: -1, text: count, source: "area_source" },
    { key: "dsp", title: "DSPs", unit: "blocks", better: -1, text: count, source: "area_source" },
    { key: "block_ram", title: "Block RAM", unit: RAM_UNITS[family] ?? "blocks", better: -1, text: (value) => decimal(value, 1), source: "area_source" },
    { key: "energy", title: "Energy", unit: energy, better: -1, text: significant },
    { key: "mhz", title: "Clock", unit: "MHz", better: 1, text: (value) => decimal(value, 1), source: "clock_source", more: clockNote },
    { key: "utilisation", title: "Multipliers used", unit: "%", better: 1, text: (value) => decimal(value, 1) },
  ].map((field) => ({ ...field, result: true }));
}

/** Return the fields of the parameters that differ between points, and those that do not, as texts. */
function parameterFields(data) {
  const all = data.parameters.map((name) => ({ name, found: [...new Set(data.points[name].map(parameterText))] }));
  const varied = all.filter(({ found }) => found.length > 1);
  const fields = varied.map(({ name }) => ({ key: keyOf(name), title: name, unit: "", result: false, text: parameterText, name }));
  const fixed = all.filter(({ found }) => found.length === 1).map(({ name, found }) => `${name} = ${found[0]}`);
  return { fields, fixed };
}

const keyOf = (name) => `parameter_${name.replaceAll(".", "_")}`; // no dots: Vega takes them for paths

function parameterText(value) {
  if (Array.isArray(value)) return value.join(",") || "none";
  return typeof value === "number" ? String(value) : (value ?? NONE);
}

/** Return the rows of the points on the chosen workloads; several workloads give geometric means. */
function rowsOf(data, parameters, workloads) {
  const { points } = data;
  const rows = points.point.map((point, index) => {
    const runs = workloads.map(({ runs }) => ({ status: runs.status[index], seconds: runs.seconds[index], cycles: runs.cycles[index], energy: runs.energy_pj[index], utilisation: runs.utilisation[index] }));
    const failed = workloads.flatMap(({ name }, number) => (runs[number].status === "ok" ? [] : [{ workload: name, reason: runs[number].status ?? "not run yet" }]));
    const row = { point, index, failed };
    for (const { key, name } of parameters) row[key] = points[name][index];
    for (const name of ["lut", "ff", "dsp", "block_ram", "mhz", "mhz_low", "mhz_high", "mhz_limited_by", "area_source", "clock_source"]) row[name] = points[name][index];
    for (const name of ["seconds", "cycles", "energy", "utilisation"]) row[name] = failed.length ? null : mean(runs.map((run) => run[name]));
    row.utilisation = known(row.utilisation) ? 100 * row.utilisation : null;
    const judged = workloads.map(({ runs }) => ({ limits: runs.limits?.[index], limits_why: runs.limits_why?.[index] }));
    row.limits = worstVerdict(judged.map(({ limits }) => limits));
    row.limits_why = limitReasons(judged);
    return row;
  });
  const [perSecond, time] = unitFor(rows.map((row) => row.seconds), TIME_UNITS);
  const [perPicojoule, energy] = unitFor(rows.map((row) => row.energy), ENERGY_UNITS);
  for (const row of rows) {
    row.time = known(row.seconds) ? row.seconds * perSecond : null;
    row.time_low = timeAt(row, row.mhz_high);
    row.time_high = timeAt(row, row.mhz_low);
    row.energy = known(row.energy) ? row.energy * perPicojoule : null;
  }
  return { rows, time, energy, factors: { time: perSecond, energy: perPicojoule, utilisation: 100 } };
}

/** Return the geometric mean; nothing where a value is missing. */
function mean(values) {
  if (values.length === 1) return values[0];
  if (!values.length || !values.every((value) => known(value) && value > 0)) return null;
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}

/** Return a field with its axis: the steps or the range of its values in `rows`. */
function withAxis(field, rows) {
  const values = [...new Set(rows.map((row) => row[field.key]).filter(known))];
  const numbers = values.every((value) => typeof value === "number");
  values.sort(numbers ? (a, b) => a - b : undefined);
  const steps = !field.result && (!numbers || values.length <= MOST_STEPS);
  const [low, high] = steps ? [0, values.length - 1] : [values[0], values[values.length - 1]];
  const log = !steps && low > 0 && high / low >= LOG_FROM;
  const source = field.source && sourceOf(field.source, rows);
  return { ...field, values: steps ? values.map(parameterText) : null, raw: values, low, high, log, label: labelOf(field, source) };
}

/** Return where figures come from: one of SOURCES, several joined, "partly estimated", or "" where no figure is. */
function sourceOf(name, rows) {
  const found = [...new Set(rows.map((row) => row[name]).filter((source) => SOURCES.includes(source)))];
  if (found.length < 2) return found[0] ?? "";
  const measured = found.some((source) => !GUESSES.includes(source));
  return measured && found.some((source) => GUESSES.includes(source)) ? "partly estimated" : found.join(" or ");
}

/** Return the time of a row at another clock than its own. */
const timeAt = (row, mhz) => (known(row.time) && known(mhz) ? (row.time * row.mhz) / mhz : null);

/** Return the interval of an estimate in brackets; "" where a figure has none. */
function between(row, [low, high], text) {
  return known(row[low]) && row[low] !== row[high] ? ` (${text(row[low])} to ${text(row[high])})` : "";
}

/** Return the interval of a clock, and what limits it. */
function clockNote(row) {
  const limit = row.mhz_limited_by ? `, limited by ${row.mhz_limited_by}` : "";
  return `${between(row, ["mhz_low", "mhz_high"], (value) => decimal(value, 1))}${limit}`;
}

function labelOf(field, source) {
  const notes = [field.unit, field.key === "time" && source ? `${source} clock` : source].filter(Boolean);
  return notes.length ? `${field.title} (${notes.join(", ")})` : field.title;
}

/** Return where a row stands on the axis of a field: the number of its step, or its value. */
function placeOn(field, row) {
  const value = row[field.key];
  if (!known(value)) return null;
  return field.values ? field.values.indexOf(parameterText(value)) : value;
}
