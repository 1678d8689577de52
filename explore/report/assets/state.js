"use strict";

// What the person has chosen, and the rows that follow from it. Views draw from it and change it only here.

const OBJECTIVE_KEYS = { seconds: "time", energy_pj: "energy" }; // columns of the table by the names of their fields

class State {
  /** @param changed called with what changed: "rows", "filters", "axes" or "chosen". */
  constructor(data, changed) {
    this.data = data;
    this.changed = changed;
    this.workloads = data.workloads.slice(0, 1);
    const { fields, fixed } = parameterFields(data);
    this.parameters = fields;
    this.fixed = fixed;
    this.ranges = new Map(); // field key -> [low, high] on its axis
    this.words = "";
    this.x = this.y = null;
    this.chosen = null;
    this.#rebuild();
  }

  #rebuild() {
    const { rows, time, energy } = rowsOf(this.data, this.parameters, this.workloads);
    this.rows = rows.filter((row) => !row.failed.length);
    this.failed = rows.filter((row) => row.failed.length);
    const all = [...this.parameters, ...resultFields(this.data.family, time, energy)];
    this.fields = all.map((field) => withAxis(field, this.rows)).filter((field) => field.raw.length);
    this.results = this.fields.filter((field) => field.result);
    const has = (key) => this.results.some((field) => field.key === key);
    const [x, y] = [...this.data.objectives.map((name) => OBJECTIVE_KEYS[name] ?? name), "cycles", "lut", "energy", ...this.results.map(({ key }) => key)].filter((key, place, all) => has(key) && all.indexOf(key) === place);
    if (!has(this.x)) this.x = x;
    if (!has(this.y)) this.y = y ?? x;
    for (const row of this.rows) Object.assign(row, textsOf(row, this.fields));
    this.#filter();
    if (!this.rows.includes(this.row)) this.chosen = this.#compromise();
  }

  field(key) {
    return this.fields.find((field) => field.key === key);
  }

  get row() {
    return this.rows.find((row) => row.point === this.chosen);
  }

  #filter() {
    const ranges = [...this.ranges].map(([key, range]) => [this.field(key), range]);
    for (const row of this.rows) row.shown = ranges.every(([field, range]) => within(placeOn(field, row), range));
    this.front = frontOf(this.rows.filter((row) => row.shown), this.field(this.x), this.field(this.y));
    for (const row of this.rows) row.front = false;
    for (const row of this.front) row.front = true;
  }

  /** Return the point of the front with the least product of both axes, where less is better. */
  #compromise() {
    const [x, y] = [this.field(this.x), this.field(this.y)];
    if (!this.front.length) return this.rows[0]?.point ?? null;
    const cost = (row) => row[x.key] ** -x.better * row[y.key] ** -y.better;
    return this.front.reduce((best, row) => (cost(best) <= cost(row) ? best : row)).point;
  }

  setWorkloads(names) {
    this.workloads = this.data.workloads.filter(({ name }) => names.has(name));
    for (const { key } of this.results) this.ranges.delete(key); // other workloads, other values
    this.#rebuild();
    this.changed("rows");
  }

  setAxes(x, y) {
    [this.x, this.y] = [x, y];
    this.#filter();
    this.changed("axes");
  }

  /** Keep the rows within the ranges; a range of null keeps all. */
  setRanges(ranges) {
    for (const [key, range] of Object.entries(ranges)) {
      if (range) this.ranges.set(key, range);
      else this.ranges.delete(key);
    }
    this.#filter();
    this.changed("filters");
  }

  clearRanges() {
    this.ranges.clear();
    this.#filter();
    this.changed("filters");
  }

  choose(point) {
    this.chosen = point;
    this.changed("chosen");
  }
}

const within = (place, [low, high]) => known(place) && low <= place && place <= high;

/** Return the rows that no other one beats in both fields, the best in `x` first. */
function frontOf(rows, x, y) {
  if (!x || !y) return [];
  const cost = (row, field) => -field.better * row[field.key];
  const candidates = rows.filter((row) => known(row[x.key]) && known(row[y.key]));
  candidates.sort((a, b) => cost(a, x) - cost(b, x) || cost(a, y) - cost(b, y));
  const front = [];
  for (const row of candidates) {
    const last = front[front.length - 1];
    const equal = last && cost(row, x) === cost(last, x) && cost(row, y) === cost(last, y);
    if (!last || equal || cost(row, y) < cost(last, y)) front.push(row);
  }
  return front;
}

/** Return what tooltips and screen readers say of a row. */
function textsOf(row, fields) {
  const texts = { tip: { Point: String(row.point) } };
  for (const field of fields) {
    const text = field.text(row[field.key]);
    texts[`${field.key}_text`] = text;
    texts.tip[field.label] = text;
  }
  const [first, second] = fields.filter((field) => field.result);
  texts.description = `Point ${row.point}: ${[first, second].filter(Boolean).map((field) => `${field.title} ${texts[`${field.key}_text`]}`).join(", ")}`;
  return texts;
}
