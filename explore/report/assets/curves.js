"use strict";

// Curves of a tuning: the best cycles so far against trials, one line for each explorer, a band for its seeds.

const EXPLORER_LOOKS = { model: ["blue", [1, 0]], evolutionary: ["orange", [7, 3]], random: ["green", [2, 2]], exhaustive: ["pink", [9, 3, 2, 3]] };
const OTHER_LOOKS = [["yellow", [5, 2, 1, 2]], ["grey", [1, 3]]]; // of explorers without a look of their own
const HUNDRED = 100;
const AXIS = "Cycles (% of the default choice)";

/** Return the colour's name and the dashes of each explorer. */
function looksOf(explorers) {
  let others = 0;
  return explorers.map((name) => EXPLORER_LOOKS[name] ?? OTHER_LOOKS[others++ % OTHER_LOOKS.length]);
}

/** Return a row for each place where a curve changes, with its texts. All curves reach to `last`. */
function curveRows(curves, start, last) {
  return curves.flatMap(({ explorer, seeds, trials, middle, least, most }) => {
    const at = trials.map((trial, place) => ({ trial: Math.max(trial, start), middle: middle[place], least: least[place], most: most[place] }));
    const from = at.slice(at.findLastIndex(({ trial }) => trial === start));
    if (from[from.length - 1].trial < last) from.push({ ...from[from.length - 1], trial: last });
    return from.map((row) => ({
      explorer, trial: row.trial, middle: HUNDRED * row.middle, least: HUNDRED * row.least, most: HUNDRED * row.most,
      trials: decimal(row.trial), best: `${(HUNDRED * row.middle).toFixed(2)} %`,
      spread: seeds > 1 ? `${(HUNDRED * row.least).toFixed(2)} to ${(HUNDRED * row.most).toFixed(2)} % of ${seeds} seeds` : "one seed",
    }));
  });
}

/** Draw curves. `bound` is the lower bound relative to the default choice, where it is one to show. */
async function drawCurves(place, curves, { log, bound }) {
  if (!curves.length) return drawNothing(place, "No explorer has a trial here whose gain is known.");
  const start = log ? 1 : 0;
  const last = Math.max(start + 1, ...curves.map(({ trials }) => trials[trials.length - 1]));
  const values = curveRows(curves, start, last);
  const explorers = [...new Set(curves.map(({ explorer }) => explorer))].sort((a, b) => lookOrder(a) - lookOrder(b));
  const looks = looksOf(explorers);
  const x = { field: "trial", type: "quantitative", title: "Trials of a task", scale: { type: log ? "log" : "linear", domain: [start, last], nice: false }, axis: { format: "~s", tickCount: 8 } };
  const y = (field) => ({ field, type: "quantitative", title: AXIS, scale: { zero: false, nice: true, padding: 6 }, axis: { format: ".4~r", tickCount: 6 } });
  const look = (range) => ({ field: "explorer", type: "nominal", title: "Explorer", scale: { domain: explorers, range }, legend: { symbolType: "stroke", symbolOpacity: 1, symbolSize: 500, symbolStrokeWidth: 2.5 } });
  const hues = look(looks.map(([name]) => colour(name)));
  const rules = [{ data: { values: [{}] }, mark: { type: "rule", color: colour("quiet"), strokeDash: [3, 3], aria: false, tooltip: null }, encoding: { y: { datum: HUNDRED } } }];
  if (known(bound)) rules.push(...boundMarks(HUNDRED * bound, last));
  return draw(place, {
    width: "container",
    height: 340,
    autosize: { type: "fit", contains: "padding" },
    data: { values },
    layer: [
      { mark: { type: "area", interpolate: "step-after", opacity: 0.16, aria: false, tooltip: null }, encoding: { x, y: y("least"), y2: { field: "most" }, color: hues } },
      ...rules,
      { mark: { type: "line", interpolate: "step-after", strokeWidth: 2, clip: true }, encoding: { x, y: y("middle"), color: hues, strokeDash: look(looks.map(([, dash]) => dash)) } },
      { mark: { type: "point", filled: true, size: 70, opacity: 0, aria: false }, encoding: { x, y: y("middle"), tooltip: curveTooltip() } },
    ],
  });
}

const lookOrder = (explorer) => {
  const order = Object.keys(EXPLORER_LOOKS).indexOf(explorer);
  return order < 0 ? Infinity : order;
};

/** Return the line of a lower bound and its text. */
function boundMarks(percentage, last) {
  const at = { y: { datum: percentage } };
  return [
    { data: { values: [{}] }, mark: { type: "rule", color: colour("ink"), strokeWidth: 1.5, aria: false, tooltip: null }, encoding: at },
    { data: { values: [{ last }] }, mark: { type: "text", text: "lower bound", align: "right", dy: -7, fontSize: 11.5, color: colour("quiet") }, encoding: { ...at, x: { field: "last", type: "quantitative" } } },
  ];
}

function curveTooltip() {
  const titles = { explorer: "Explorer", trials: "Trials", best: "Best so far", spread: "Spread" };
  return Object.entries(titles).map(([field, title]) => ({ field, type: "nominal", title }));
}
