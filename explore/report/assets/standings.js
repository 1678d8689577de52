"use strict";

// The tasks of a tuning: their table, what was gained of each, and how the cost model orders their choices.
//
// A task has: number, layers, kind, sizes, text, default, best, bound, trials, illegal, choices, choice, explorer,
// points, learned, analytic; and the ratios left (best / default) and reached (bound / best).

/** Return the first layer of a task and how many more there are; where the log names none, its number and kind. */
const nameOf = ({ number, kind, layers }) => (layers.length ? `${layers[0]}${layers.length > 1 ? ` +${decimal(layers.length - 1)}` : ""}` : `${number} ${kind}`);
const signed = (share) => (known(share) ? `${share > 0 ? "+" : share < 0 ? "−" : ""}${Math.abs(HUNDRED * share).toFixed(2)} %` : NONE);
const correlation = (value) => (known(value) ? value.toFixed(3).replace("-", "−") : NONE);

/** Return the tasks of a part of the log as rows. */
function taskRows({ tasks }) {
  return tasks.text.map((_, place) => {
    const row = { place, number: place + 1 };
    for (const [name, column] of Object.entries(tasks)) row[name] = column[place];
    row.left = known(row.default) && known(row.best) ? row.best / row.default : null;
    row.reached = known(row.bound) && row.best ? row.bound / row.best : null;
    return row;
  });
}

function taskTable(place, rows, choose) {
  const number = (key, title, text, unit) => ({ key, title, unit, value: (row) => row[key], text: (row) => text(row[key]) });
  const columns = [
    { key: "number", title: "Task", value: (row) => row.number, text: (row) => String(row.number) },
    { key: "layers", title: "Layers", left: true, long: true, value: (row) => row.layers[0] ?? "", text: (row) => row.layers.join(", ") || NONE },
    { key: "kind", title: "Kind", left: true, value: (row) => row.kind, text: (row) => row.kind },
    { key: "sizes", title: "Sizes", left: true, long: true, value: (row) => row.sizes, text: (row) => row.sizes },
    number("default", "Default choice", decimal, "cycles"),
    number("best", "Best", decimal, "cycles"),
    { key: "left", title: "Change", unit: "of cycles", value: (row) => row.left, text: (row) => signed(known(row.left) ? row.left - 1 : null) },
    { key: "reached", title: "Lower bound", unit: "share of the best", value: (row) => row.reached, text: (row) => percent(row.reached) },
    number("trials", "Trials", decimal),
    number("illegal", "Illegal", decimal),
    number("choices", "Choices", decimal, "there are"),
    number("learned", "Model", correlation, "rank correlation"),
    number("analytic", "Estimate", correlation, "rank correlation"),
    { key: "explorer", title: "Found by", left: true, value: (row) => row.explorer, text: (row) => row.explorer ?? NONE },
    { key: "choice", title: "Best choice", left: true, long: true, value: (row) => row.choice, text: (row) => row.choice ?? "every choice was illegal" },
  ];
  const caption = "Tasks in the order of the log; choose one by its number to see its curves";
  return new SortableTable(place, { caption, columns, rows, choose, label: (row) => row.number });
}

/** Return the encoding of tasks on a vertical axis, in the order of the log. */
function taskAxis(rows) {
  const names = Object.fromEntries(rows.map((row) => [row.number, nameOf(row)]));
  return { field: "number", type: "ordinal", title: null, scale: { domain: rows.map(({ number }) => number) }, axis: { labelExpr: `${JSON.stringify(names)}[datum.value]`, ticks: false, domain: false, grid: true, labelLimit: 150 } };
}

const taskHeight = (rows) => 22 * rows.length + 80; // of which 80 are the axis and the legend

/** Draw what was gained of each task: a line from its lower bound to the default choice, and the best. */
async function drawStandings(place, rows) {
  const shown = rows.filter((row) => known(row.left));
  if (!shown.length) return drawNothing(place, "The log has no cycles of the default choices.");
  const values = shown.map((row) => ({
    name: nameOf(row), number: row.number, best: HUNDRED * row.left, bound: known(row.bound) ? (HUNDRED * row.bound) / row.default : null, all: HUNDRED,
    sizes: row.sizes, change: signed(row.left - 1), cycles: `${decimal(row.best)} of ${decimal(row.default)}`, least: known(row.bound) ? decimal(row.bound) : NONE,
    description: `${nameOf(row)}: ${signed(row.left - 1)}, ${decimal(row.best)} cycles`,
  }));
  const bounded = values.filter((row) => known(row.bound));
  const lowest = Math.min(...values.map((row) => Math.min(row.best, row.bound ?? row.best)));
  const x = (field) => ({ field, type: "quantitative", title: AXIS, scale: { domain: [Math.max(0, Math.floor(lowest / 10) * 10 - 2), 102], nice: false, zero: false }, axis: { orient: "top", format: ".3~r", tickCount: 6 } });
  const tooltip = Object.entries({ name: "Task", sizes: "Sizes", cycles: "Cycles", change: "Change", least: "Lower bound" }).map(([field, title]) => ({ field, type: "nominal", title }));
  const legend = (what) => ({ color: { datum: what, type: "nominal", title: null, scale: { domain: ["best choice", "lower bound"], range: [colour("blue"), colour("quiet")] }, legend: { symbolOpacity: 1 } }, shape: { datum: what, type: "nominal", title: null, scale: { domain: ["best choice", "lower bound"], range: ["circle", "M0,-1V1"] }, legend: { symbolOpacity: 1 } } });
  return draw(place, {
    width: "container",
    height: taskHeight(values),
    autosize: { type: "fit", contains: "padding" },
    encoding: { y: taskAxis(shown) },
    layer: [
      { data: { values: bounded }, mark: { type: "rule", color: colour("line"), strokeWidth: 3, aria: false, tooltip: null }, encoding: { x: x("bound"), x2: { field: "all" } } },
      { data: { values: bounded }, mark: { type: "point", filled: false, size: 160, strokeWidth: 2.5, aria: false }, encoding: { x: x("bound"), ...legend("lower bound"), tooltip } },
      { data: { values }, mark: { type: "point", filled: true, size: 80, opacity: 1 }, encoding: { x: x("best"), ...legend("best choice"), tooltip, description: { field: "description" } } },
    ],
  });
}

/** Draw the rank correlations of the model and of the estimate for each task, with their medians. */
async function drawRanks(place, rows, reason) {
  const kinds = { learned: "learned model", analytic: "compiler's estimate" };
  const shown = rows.filter((row) => known(row.learned) || known(row.analytic));
  if (!shown.length) return drawNothing(place, reason);
  const values = Object.entries(kinds).flatMap(([key, kind]) =>
    shown.filter((row) => known(row[key])).map((row) => ({
      kind, name: nameOf(row), number: row.number, value: row[key], text: correlation(row[key]), sizes: row.sizes, points: decimal(row.points),
      description: `${nameOf(row)}: ${correlation(row[key])} by the ${kind}`,
    })));
  const medians = Object.entries(kinds).map(([key, kind]) => ({ kind, value: median(shown.map((row) => row[key])) })).filter(({ value }) => known(value));
  const domain = Object.values(kinds);
  const range = [colour("blue"), colour("orange")];
  const x = { field: "value", type: "quantitative", title: "Rank correlation", scale: { domain: [Math.min(0, ...values.map(({ value }) => Math.floor(10 * value) / 10)), 1], nice: false, padding: 8 }, axis: { orient: "top", format: ".2~f", tickCount: 6 } };
  const hue = { field: "kind", type: "nominal", title: null, scale: { domain, range } };
  const tooltip = Object.entries({ name: "Task", sizes: "Sizes", kind: "Scores of the", text: "Rank correlation", points: "Points" }).map(([field, title]) => ({ field, type: "nominal", title }));
  return draw(place, {
    width: "container",
    height: taskHeight(shown),
    autosize: { type: "fit", contains: "padding" },
    layer: [
      { data: { values: medians }, mark: { type: "rule", strokeWidth: 1.5, strokeDash: [5, 3], aria: false, tooltip: null }, encoding: { x, color: hue } },
      { data: { values }, mark: { type: "point", filled: true, size: 80, opacity: 0.9 }, encoding: { x, y: taskAxis(shown), color: hue, shape: { ...hue, scale: { domain, range: ["circle", "diamond"] } }, tooltip, description: { field: "description" } } },
    ],
  });
}

/** Return the median of the known values; nothing where there are none. */
function median(values) {
  const own = values.filter(known).sort((a, b) => a - b);
  if (!own.length) return null;
  return (own[(own.length - 1) >> 1] + own[own.length >> 1]) / 2;
}
