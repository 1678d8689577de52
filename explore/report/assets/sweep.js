"use strict";

// The page of a sweep: connects the state with its views.

class SweepPage {
  constructor(data) {
    this.state = new State(data, (what) => this.changed(what));
    this.pareto = new ParetoChart(byId("pareto"), this.state);
    this.parallel = new ParallelChart(byId("parallel"), this.state);
    this.detail = new Detail(this.state, () => this.link.save());
    this.link = new Link(this);
    this.filter = oncePerFrame(() => this.#filter());
    this.#head(data);
    this.#controls(data);
    follow(this, location.hash.slice(1));
    this.#showChoices();
    followTheme(byId("theme"), () => this.draw());
    followWidth(byId("parallel"), () => this.parallel.draw());
  }

  /** Draw what depends on what changed. */
  changed(what) {
    this.link.save();
    if (what === "rows") return this.draw();
    if (what === "marks") return this.pareto.draw();
    if (what === "axes") {
      this.pareto.draw();
      this.parallel.update();
    } else {
      const brush = this.#matches();
      if (brush) this.pareto.update();
      else this.pareto.clearBrush();
      this.parallel.update();
    }
    if (what === "chosen") this.detail.show();
    this.filter();
  }

  /** Show a state that came from outside. */
  show() {
    this.#showChoices();
    return this.draw();
  }

  /** Let the controls show the state. */
  #showChoices() {
    const { state } = this;
    for (const box of byId("workloads").querySelectorAll("input")) box.checked = state.workloads.some(({ name }) => name === box.value);
    byId("log").checked = state.log;
    const values = { find: state.words, by: state.by ?? "", as: state.as, kept: state.kept };
    for (const [id, value] of Object.entries(values)) byId(id).value = value;
    byId("as").parentElement.hidden = !state.by;
  }

  /** Draw everything anew. */
  async draw() {
    this.#axes();
    this.#table();
    this.#ranges();
    this.#notes();
    this.detail.show();
    this.filter();
    await Promise.all([this.pareto.draw(), this.parallel.draw()]);
  }

  /** Tell whether the brush of the Pareto chart, if it has one, shows the ranges of its axes. */
  #matches() {
    const { ranges, x, y } = this.state;
    return !this.pareto.brushing || (ranges.has(x) && ranges.has(y));
  }

  #head(data) {
    const { state } = this;
    byId("title").textContent = `Sweep ${data.name}`;
    const facts = [
      `${decimal(data.points.point.length)} points`,
      data.workloads.length > 1 ? `${data.workloads.length} workloads` : data.workloads[0]?.name,
      data.family && `FPGA family ${data.family}`,
      data.version && `vdla ${data.version}`,
      data.sources && `sources ${data.sources.slice(0, 12)}`,
      data.created && `begun ${data.created.replace("T", " ").replace("+00:00", " UTC")}`,
    ];
    byId("about").textContent = facts.filter(Boolean).join(" · ");
    if (state.fixed.length) byId("about").append(make("br"), `The same in all points: ${state.fixed.join(", ")}`);
  }

  #controls(data) {
    const { state } = this;
    byId("workloads").hidden = data.workloads.length < 2;
    byId("workloads").append(
      ...data.workloads.map(({ name }) => {
        const box = make("input", { type: "checkbox", value: name, checked: state.workloads.some((own) => own.name === name), change: () => this.#tickWorkload(box) });
        return make("label", {}, box, ` ${name}`);
      }),
      make("span", { class: "quiet" }, "Several give the geometric mean."),
    );
    for (const id of ["x", "y"]) byId(id).addEventListener("change", () => state.setAxes(byId("x").value, byId("y").value));
    byId("log").addEventListener("change", () => state.setLog(byId("log").checked));
    byId("find").addEventListener("input", () => {
      state.words = byId("find").value.trim().toLowerCase();
      this.link.save();
      this.filter();
    });
    byId("clear").addEventListener("click", () => {
      byId("find").value = state.words = "";
      byId("kept").value = state.kept = "all";
      state.clearRanges();
    });
    byId("by").append(make("option", { value: "" }, "nothing"), ...state.fields.filter(({ result, values }) => !result && values).map(({ key, title }) => make("option", { value: key }, title)));
    for (const id of ["by", "as"]) {
      byId(id).addEventListener("change", () => {
        state.tellApart(byId("by").value, byId("as").value);
        this.#showChoices();
      });
    }
    byId("kept").addEventListener("change", () => state.keep(byId("kept").value));
    byId("kept").parentElement.hidden = !data.limits.length;
    byId("share").addEventListener("click", () => this.#share());
  }

  /** Copy the address of the page with its state. */
  async #share() {
    try {
      await navigator.clipboard.writeText(location.href);
      byId("shared").textContent = "Copied.";
    } catch {
      byId("shared").textContent = "This browser does not let pages copy; the address of the page is the link.";
    }
  }

  /** Take the ticked workloads; one always stays ticked. */
  #tickWorkload(box) {
    const ticked = [...byId("workloads").querySelectorAll("input:checked")].map(({ value }) => value);
    if (ticked.length) this.state.setWorkloads(new Set(ticked));
    else box.checked = true;
  }

  #axes() {
    const { state } = this;
    for (const id of ["x", "y"]) {
      byId(id).replaceChildren(...state.results.map(({ key, title }) => make("option", { value: key, selected: key === state[id] }, title)));
    }
  }

  #notes() {
    const { state } = this;
    const area = sourceOf("area_source", state.rows);
    const clock = sourceOf("clock_source", state.rows);
    const unknown = new Set(state.rows.map((row) => row.area_source).filter((source) => source && !SOURCES.includes(source)));
    const notes = [
      area && `Area: ${area}.`,
      ...[...unknown].map((reason) => (reason === "none" ? "Area was not asked for." : `Area is not known for some points: ${reason}.`)),
      clock && `Clock, and time with it: ${clock === "target" ? "that of the target" : clock}.`,
      "Cycles are exact: the cycle simulator ran every program.",
    ];
    byId("limits-note").textContent = limitNote(state);
    byId("sources").textContent = state.rows.length ? notes.filter(Boolean).join(" ") : "";
    this.#failures();
  }

  #failures() {
    const rows = this.state.failed.flatMap((row) => byReason(row.failed, this.state.workloads.length).map((failure) => ({ ...row, ...failure })));
    byId("failed").hidden = !rows.length;
    if (!rows.length) return;
    byId("failed-title").textContent = `Points without a result (${decimal(this.state.failed.length)})`;
    const columns = [
      pointColumn(),
      ...this.state.parameters.map(fieldColumn),
      { key: "workload", title: "Workload", left: true, long: true, value: (row) => row.workload, text: (row) => row.workload },
      { key: "reason", title: "Reason", left: true, long: true, value: (row) => row.reason, text: (row) => row.reason },
    ];
    const place = byId("failed").querySelector(".scroll");
    new SortableTable(place, { caption: "Points that cannot be built, compiled or run, with the reason", columns, rows });
  }

  #table() {
    const { state } = this;
    const columns = [
      pointColumn(),
      { key: "front", title: "Front", left: true, value: (row) => !row.front, text: () => "" },
      ...(state.data.limits.length ? [limitColumn()] : []),
      ...state.fields.map(fieldColumn),
      ...(state.rows.some((row) => row.mhz_limited_by) ? CLOCK_COLUMNS : []),
    ];
    const caption = `Points on ${state.workloads.map(({ name }) => name).join(", ")}${state.workloads.length > 1 ? " (geometric means)" : ""}; choose one by its number`;
    this.table = new SortableTable(byId("table"), { caption, columns, rows: state.rows, choose: (row) => state.choose(row.point), label: (row) => row.point });
    this.table.sortBy(state.x ?? "point");
  }

  /** Make the inputs that set the same ranges as brushes do. */
  #ranges() {
    const { state } = this;
    const input = (field, end) => make("input", { type: "text", inputmode: "decimal", "aria-label": `${field.title}, ${end ? "most" : "least"}`, "data-field": field.key, "data-end": end, change: () => this.#typed(field) });
    byId("ranges").querySelector(".fields").replaceChildren(
      ...state.fields.map((field) => make("fieldset", {}, make("legend", {}, field.label), input(field, 0), "to", input(field, 1))),
    );
  }

  #inputs(field) {
    return [...byId("ranges").querySelectorAll(`input[data-field="${field.key}"]`)];
  }

  #typed(field) {
    const places = this.#inputs(field).map(({ value }, end) => typedPlace(field, value.trim(), end));
    const all = this.#inputs(field).every(({ value }) => !value.trim());
    this.state.setRanges({ [field.key]: all ? null : places });
  }

  /** Show which rows are within the filters: in the table, its count, the chips and the inputs. */
  #filter() {
    const { state, table } = this;
    let count = 0;
    table.filter((row, words) => {
      const keeps = row.shown && words.includes(state.words);
      count += keeps;
      return keeps;
    });
    table.mark((row) => row.point === state.chosen);
    for (const { row, element } of table.lines) element.children[1].replaceChildren(...(row.front ? [make("span", { class: "front" }, "◆ front")] : []));
    byId("shown").textContent = `${decimal(count)} of ${decimal(state.rows.length)} points shown`;
    const [x, y] = [state.field(state.x), state.field(state.y)];
    byId("front").textContent = x && y ? this.#frontNote() : "";
    this.#chips();
    this.#showRanges();
  }

  /** Say how many points are on the front, at how many places, and how many stand on others. */
  #frontNote() {
    const { state } = this;
    const places = state.stacksOf(state.front).length;
    const at = places < state.front.length ? `, at ${decimal(places)} places` : "";
    const hidden = state.stacks.reduce((sum, stack) => sum + stack.length - 1, 0);
    const stacked = hidden ? " ×N counts the points that one mark hides; clicks choose one after the other." : "";
    const panels = state.as === "panels" && state.by ? " Each panel has its own front." : "";
    return `Diamonds: no other point shown is better in both. ${decimal(state.front.length)} of ${decimal(state.rows.filter((row) => row.shown).length)} points are on this front${at}.${panels}${stacked}`;
  }

  #chips() {
    const { state } = this;
    byId("filters").replaceChildren(
      ...[...state.ranges].map(([key, range]) => {
        const field = state.field(key);
        const text = `${field.title}: ${rangeText(field, range)} ×`;
        return make("li", {}, make("button", { type: "button", class: "small", "aria-label": `Remove the range of ${field.title}`, click: () => state.setRanges({ [key]: null }) }, text));
      }),
    );
  }

  #showRanges() {
    for (const field of this.state.fields) {
      const range = this.state.ranges.get(field.key);
      const ends = range ? endsOf(field, range) : ["", ""];
      this.#inputs(field).forEach((input, end) => {
        if (document.activeElement !== input) input.value = ends[end];
      });
    }
  }
}

/** Return the failures of a point on `count` workloads, with one entry for each reason. */
function byReason(failures, count) {
  const reasons = new Map();
  for (const { workload, reason } of failures) reasons.set(reason, [...(reasons.get(reason) ?? []), workload]);
  return [...reasons].map(([reason, workloads]) => ({ reason, workload: count > 1 && workloads.length === count ? `all ${count}` : workloads.join(", ") }));
}

const pointColumn = () => ({ key: "point", title: "Point", value: (row) => row.point, text: (row) => String(row.point) });

const CLOCK_COLUMNS = [
  { key: "mhz_low", title: "Clock, at least", unit: "MHz", value: (row) => row.mhz_low, text: (row) => (known(row.mhz_low) ? decimal(row.mhz_low, 1) : NONE) },
  { key: "mhz_high", title: "Clock, at most", unit: "MHz", value: (row) => row.mhz_high, text: (row) => (known(row.mhz_high) ? decimal(row.mhz_high, 1) : NONE) },
  { key: "mhz_limited_by", title: "Clock limited by", left: true, value: (row) => row.mhz_limited_by, text: (row) => row.mhz_limited_by || NONE },
];

function fieldColumn(field) {
  const note = field.label ? field.label.slice(field.title.length).trim().replace(/^\(|\)$/g, "") : "";
  return { key: field.key, title: field.title, unit: note, value: (row) => (field.values ? placeOn(field, row) : row[field.key]), text: (row) => field.text(row[field.key]) };
}

/** Return where a typed end of a range stands on the axis; an empty or unknown one is no limit. */
function typedPlace(field, text, end) {
  const open = end ? Infinity : -Infinity;
  const value = Number(text.replaceAll(",", ""));
  if (!text) return open;
  if (!field.values) return Number.isNaN(value) ? open : value;
  if (field.raw.some((raw) => typeof raw !== "number")) return field.values.includes(text) ? field.values.indexOf(text) : open;
  if (Number.isNaN(value)) return open;
  const inside = field.raw.flatMap((raw, step) => ((end ? raw <= value : raw >= value) ? [step] : []));
  return inside.length ? inside[end ? inside.length - 1 : 0] : -open;
}

/** Return the ends of a range as texts: the least and the most value within it. */
function endsOf(field, [low, high]) {
  if (!field.values) return [low, high].map((value) => (Number.isFinite(value) ? significant(value) : ""));
  const inside = field.values.filter((_, step) => low <= step && step <= high);
  return inside.length ? [inside[0], inside[inside.length - 1]] : ["none", "none"];
}

function rangeText(field, range) {
  const [low, high] = endsOf(field, range);
  return low === high ? low : `${low || "any"} to ${high || "any"}`;
}

start(SweepPage);
