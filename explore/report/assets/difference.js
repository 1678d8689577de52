"use strict";

// The page of a comparison of two runs.
//
// A row has: index, name, kind, layers of a and of b, bound of a and of b, and for each figure a, b, difference, ratio.

const ROW_KINDS = { only_a: "only in A", only_b: "only in B", rest: "in no layer" };
const MORE = "more in B";
const FEWER = "less in B";

const plural = (count, word) => `${decimal(count)} ${word}${count === 1 ? "" : "s"}`;
const ratioText = (value) => (known(value) ? value.toFixed(3) : NONE);
const signOf = (value) => (value > 0 ? "+" : value < 0 ? "−" : "");

/** Return the figures that the page shows, by key: title, unit, and a function that writes an amount. */
function measuresOf({ layers, totals }) {
  const amounts = (key) => layers.flatMap((row) => [row[key].a, row[key].b]);
  const scaled = (key, units) => {
    const [factor, unit] = unitFor(amounts(key), units);
    return { unit, factor, text: (value) => significant(known(value) ? value * factor : null) };
  };
  const bytes = { unit: "KiB", factor: 1 / 1024, text: kib };
  const measures = {
    cycles: { title: "Cycles", unit: "", factor: 1, text: decimal },
    seconds: { title: "Time", ...scaled("seconds", TIME_UNITS) },
    bytes_moved: { title: "DRAM bytes moved", ...bytes },
    bytes_read: { title: "DRAM bytes read", ...bytes },
    bytes_written: { title: "DRAM bytes written", ...bytes },
    energy_pj: { title: "Energy", ...scaled("energy_pj", ENERGY_UNITS) },
  };
  return Object.fromEntries(Object.entries(measures).filter(([key]) => known(totals[key].difference)));
}

/** Return an amount with its sign. */
const signedText = (value, measure) => (known(value) ? `${signOf(value)}${measure.text(Math.abs(value))}` : NONE);

/** Return a figure of one layer of a run. */
function amountOf(layer, key, run) {
  if (key === "bytes_moved") return layer.bytes_read + layer.bytes_written;
  if (key === "seconds") return known(layer.cycles) ? layer.cycles / run.clock_hz : null;
  return layer[key];
}

/** Return how the `runs` differ in the layers of a row; a text, or the layers themselves to unfold. */
function noteOf(row, key, measure, runs) {
  if (ROW_KINDS[row.kind]) return ROW_KINDS[row.kind];
  const hosts = ["a", "b"].filter((side) => row.layers[side].some(({ on }) => on === "host"));
  if (row.kind === "layer") return hosts.length === 1 ? `on the host in ${hosts[0].toUpperCase()}: ${row.layers[hosts[0]][0].reason}` : "";
  const lines = ["a", "b"].flatMap((side) => row.layers[side].map((layer) => make("li", {}, `${side.toUpperCase()}: ${layer.name}, ${measure.text(amountOf(layer, key, runs[side]))}`)));
  const summary = `${plural(row.layers.a.length, "layer")} in A, ${decimal(row.layers.b.length)} in B`;
  return make("details", {}, make("summary", {}, summary), make("ul", {}, ...lines));
}

/** Put a table without sorting into a place: heads, and rows of texts of which the first is the head of its row. */
function plainTable(place, caption, heads, rows, textColumns) {
  const kind = (number) => (textColumns.includes(number) ? "text" : null);
  const head = make("tr", {}, ...heads.map((title, number) => make("th", { scope: "col", class: ["plain", kind(number)].filter(Boolean).join(" ") }, title)));
  const lines = rows.map((row) => make("tr", {}, ...row.map((text, number) => (number ? make("td", { class: kind(number) }, text) : make("th", { scope: "row", class: "text" }, text)))));
  place.replaceChildren(make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...lines)));
}

/** Return a setting of one run; of a list what the other run's list does not have. */
function settingText(value, other) {
  if (!Array.isArray(value)) return known(value) ? String(value) : NONE;
  const alone = value.filter((each) => !other?.includes(each));
  return alone.length ? `also ${alone.join(", ")}` : NONE;
}

/** Return the name of a row for a chart: its first layer, and how many more there are. */
function shortName({ name, layers }) {
  const more = Math.max(layers.a.length, layers.b.length) - 1;
  return more > 0 ? `${(layers.b.length > layers.a.length ? layers.b : layers.a)[0].name} +${decimal(more)}` : name;
}

class DifferencePage {
  constructor(data) {
    this.data = data;
    this.rows = data.layers.map((row, index) => ({ ...row, index }));
    this.measures = measuresOf(data);
    this.#head();
    this.#totals();
    this.#changed();
    byId("measure").append(...Object.entries(this.measures).map(([key, { title }]) => make("option", { value: key }, title)));
    byId("measure").addEventListener("change", () => {
      this.#table();
      this.draw();
    });
    byId("order").addEventListener("change", () => this.draw());
    byId("find").addEventListener("input", () => this.#filter());
    this.#table();
    followTheme(byId("theme"), () => this.draw());
  }

  get key() {
    return byId("measure").value;
  }

  draw() {
    return drawDifferences(byId("bars"), this.rows, this.key, this.measures[this.key], byId("order").value === "difference");
  }

  #head() {
    const { a, b, differs } = this.data;
    byId("title").textContent = `Two runs of ${a.network}`;
    for (const [side, run] of [["a", a], ["b", b]]) {
      byId(`about-${side}`).textContent = `${side.toUpperCase()}: ${run.file} · ${run.network} on ${run.target} · ${decimal(run.clock_hz / 1e6, 1)} MHz · device ${run.device}`;
    }
    byId("verdict").textContent = differs ? "" : "Nothing differs: the same target, and the same figures of every layer.";
    byId("verdict").hidden = differs;
  }

  #totals() {
    const counts = { launches: { title: "Launches", unit: "", text: decimal }, instructions: { title: "Instructions", unit: "", text: decimal } };
    const rows = Object.entries({ ...this.measures, ...counts }).map(([key, measure]) => {
      const { a, b, difference, ratio } = this.data.totals[key];
      const title = measure.unit ? `${measure.title} (${measure.unit})` : measure.title;
      return [title, measure.text(a), measure.text(b), signedText(difference, measure), ratioText(ratio)];
    });
    plainTable(byId("totals"), "Both runs", ["Figure", "A", "B", "Difference", "Ratio"], rows, [0]);
  }

  #changed() {
    const rows = Object.entries(this.data.changed).map(([name, { a, b }]) => [name, settingText(a, b), settingText(b, a)]);
    const same = this.data.differs ? "The same target; compilers, schedules or options of compilation differ." : "Nothing.";
    byId("changed").hidden = !rows.length;
    byId("changed-text").textContent = rows.length ? "" : same;
    plainTable(byId("changed"), "Settings and circumstances", ["Name", "A", "B"], rows, [0, 1, 2]);
    for (const cell of byId("changed").querySelectorAll("td")) cell.className = "text long";
  }

  #table() {
    const { key } = this;
    const measure = this.measures[key];
    const figure = (field, title, text) => ({ key: field, title, unit: measure.unit, value: (row) => row[key][field], text: (row) => text(row[key][field]) });
    const bound = (side) => ({ key: `bound-${side}`, title: `Bound in ${side.toUpperCase()}`, left: true, value: (row) => row.bound[side], text: (row) => row.bound[side] || NONE });
    const columns = [
      { key: "name", title: "Layer", left: true, long: true, value: (row) => row.index, text: (row) => row.name },
      figure("a", "A", measure.text),
      figure("b", "B", measure.text),
      figure("difference", "Difference", (value) => signedText(value, measure)),
      { ...figure("ratio", "Ratio", ratioText), unit: "B / A" },
      bound("a"),
      bound("b"),
      { key: "note", title: "Layers", left: true, long: true, value: (row) => row.layers.a.length + row.layers.b.length, content: (row) => noteOf(row, key, measure, this.data) },
    ];
    this.table = new SortableTable(byId("layers"), { caption: `${measure.title} in the order in which A runs its layers`, columns, rows: this.rows, label: (row) => row.name });
    const { a, b, difference, ratio } = this.data.totals[key];
    const cells = [measure.text(a), measure.text(b), signedText(difference, measure), ratioText(ratio), "", "", ""];
    const total = make("tr", {}, make("th", { scope: "row", class: "text" }, "Total"), ...cells.map((text) => make("td", {}, text)));
    byId("layers").querySelector("table").append(make("tfoot", {}, total));
    this.#filter();
  }

  #filter() {
    const words = byId("find").value.trim().toLowerCase();
    let count = 0;
    this.table.filter((_, own) => {
      const keeps = own.includes(words);
      count += keeps;
      return keeps;
    });
    byId("shown").textContent = `${decimal(count)} of ${decimal(this.rows.length)} rows shown`;
  }
}

/** Draw what B has more or less than A in each row, as bars to both sides of zero. */
async function drawDifferences(place, rows, key, measure, ranked) {
  const shown = rows.filter((row) => row[key].difference);
  if (!shown.length) return drawNothing(place, `${measure.title}: no layer differs.`);
  const ordered = ranked ? [...shown].sort((one, other) => Math.abs(other[key].difference) - Math.abs(one[key].difference)) : shown;
  const values = ordered.map((row, position) => {
    const { a, b, difference, ratio } = row[key];
    const change = signedText(difference, measure);
    return {
      position, name: row.name, length: difference * measure.factor, side: difference > 0 ? MORE : FEWER, a: measure.text(a), b: measure.text(b), change, ratio: ratioText(ratio),
      bounds: `${row.bound.a || NONE} in A, ${row.bound.b || NONE} in B`, description: `${row.name}: ${change} ${measure.unit}`,
    };
  });
  const names = ordered.map(shortName);
  const title = measure.unit ? `Difference of ${measure.title.toLowerCase()} (${measure.unit})` : `Difference of ${measure.title.toLowerCase()}`;
  const titles = { name: "Layers", a: `A ${measure.unit}`, b: `B ${measure.unit}`, change: "Difference", ratio: "Ratio", bounds: "Bound by" };
  const present = [MORE, FEWER].filter((side) => values.some((value) => value.side === side));
  const colours = { [MORE]: colour("orange"), [FEWER]: colour("blue") };
  return draw(place, {
    width: "container",
    height: 15 * values.length + 80, // of which 80 are the axis and the legend
    autosize: { type: "fit", contains: "padding" },
    data: { values },
    mark: { type: "bar", height: 11 },
    encoding: {
      y: { field: "position", type: "ordinal", title: null, axis: { labelExpr: `${JSON.stringify(names)}[datum.value]`, ticks: false, domain: false, labelLimit: 170 } },
      x: { field: "length", type: "quantitative", title, axis: { format: "~s", tickCount: 5, orient: "top" } },
      color: { field: "side", type: "nominal", title: null, scale: { domain: present, range: present.map((side) => colours[side]) } },
      tooltip: Object.entries(titles).map(([field, name]) => ({ field, type: "nominal", title: name })),
      description: { field: "description" },
    },
  });
}

start(DifferencePage);
