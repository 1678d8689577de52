"use strict";

// What the person has chosen, and the rows that follow from it. Views draw from it and change it only here.

class State {
  /** @param changed called with what changed: "rows", "filters", "axes", "marks" or "chosen". */
  constructor(data, changed) {
    this.data = data;
    this.changed = changed;
    this.workloads = data.workloads.slice(0, 1);
    const { fields, fixed } = parameterFields(data);
    this.parameters = fields;
    this.fixed = fixed;
    this.ranges = new Map(); // field key -> [low, high] on its axis
    this.words = "";
    this.log = false; // whether both axes are logarithmic
    this.kept = "all"; // which verdicts on limits are shown, a key of KEPT
    this.by = null; // key of the parameter that marks tell apart
    this.as = "colour"; // how they do: by "colour", "shape" or in "panels"
    this.x = this.y = null;
    this.chosen = null;
    this.#rebuild();
  }

  #rebuild() {
    const { rows, time, energy, factors } = rowsOf(this.data, this.parameters, this.workloads);
    this.factors = factors;
    this.rows = rows.filter((row) => !row.failed.length);
    this.failed = rows.filter((row) => row.failed.length);
    const all = [...this.parameters, ...resultFields(this.data.family, time, energy)];
    this.fields = all.map((field) => withAxis(field, this.rows)).filter((field) => field.raw.length);
    this.results = this.fields.filter((field) => field.result);
    const has = (key) => this.results.some((field) => field.key === key);
    const [x, y] = [...this.data.objectives.map((name) => FIELD_KEYS[name] ?? name), "cycles", "lut", "energy", ...this.results.map(({ key }) => key)].filter((key, place, all) => has(key) && all.indexOf(key) === place);
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
    const allowed = (row) => !known(row.limits) || KEPT[this.kept].includes(row.limits);
    for (const row of this.rows) row.shown = allowed(row) && ranges.every(([field, range]) => within(placeOn(field, row), range));
    this.front = this.frontOf(this.rows);
    this.stacks = this.stacksOf(this.rows);
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

  /** Return the front of the rows that are shown and not beyond a limit. */
  frontOf(rows) {
    return frontOf(rows.filter((row) => row.shown && row.limits !== "beyond"), this.field(this.x), this.field(this.y));
  }

  /** Return the rows that are shown and whose marks hide each other; a mark that is alone is a list of one. */
  stacksOf(rows) {
    const [x, y] = [this.field(this.x), this.field(this.y)];
    return x && y ? stacksOf(rows.filter((row) => row.shown), x, y, this.log) : [];
  }

  /** Make both axes logarithmic or linear. */
  setLog(log) {
    this.log = log;
    this.#filter();
    this.changed("axes");
  }

  /** Show the points with these verdicts on limits. */
  keep(kept) {
    this.kept = kept;
    this.#filter();
    this.changed("filters");
  }

  /** Tell the values of a parameter apart; nothing: of none. */
  tellApart(by, as) {
    [this.by, this.as] = [by || null, as];
    this.changed("marks");
  }

  /** Take over a state from outside; unknown parts are left as they are. `ranges(field)` returns a range or null. */
  restore({ workloads, x, y, log, kept, by, as, words, point, ranges }) {
    this.workloads = this.data.workloads.filter(({ name }) => workloads.includes(name));
    this.ranges.clear();
    this.words = words.toLowerCase();
    this.kept = kept in KEPT ? kept : "all";
    this.as = MANNERS.includes(as) ? as : "colour";
    this.chosen = point === "" ? null : Number(point);
    [this.x, this.y, this.log] = [x, y, log];
    this.#rebuild();
    this.by = this.fields.some((field) => !field.result && field.key === by) ? by : null;
    for (const field of this.fields) {
      const range = ranges(field);
      if (range) this.ranges.set(field.key, range);
    }
    this.#filter();
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

  /** Choose a point; of several at its place the next one, where one of them is chosen already. */
  chooseNext(point) {
    const stack = (this.stacks.find((rows) => rows.some((row) => row.point === point)) ?? []).map((row) => row.point);
    const place = stack.indexOf(this.chosen);
    this.choose(place < 0 ? point : stack[(place + 1) % stack.length]);
  }

  choose(point) {
    this.chosen = point;
    this.changed("chosen");
  }
}

const within = (place, [low, high]) => known(place) && low <= place && place <= high;

const MANNERS = ["colour", "shape", "panels"];

const MARK = 0.012; // of an axis: marks that are nearer hide each other

/** Return the rows whose marks hide each other on two axes: lists, each in the order of the rows. */
function stacksOf(rows, x, y, isLog) {
  const cells = new Map();
  for (const row of rows.filter((row) => known(row[x.key]) && known(row[y.key]))) {
    const place = [x, y].map((field) => shareOf(field, row[field.key], isLog) / MARK);
    const near = around(place).map((cell) => cells.get(cell)).find((stack) => stack && stack.place.every((value, axis) => Math.abs(value - place[axis]) < 1));
    if (near) near.rows.push(row);
    else cells.set(place.map(Math.floor).join(" "), { place, rows: [row] });
  }
  return [...cells.values()].map((stack) => stack.rows);
}

/** Return the cells of one mark's size in which a neighbour may stand. */
function around([x, y]) {
  const steps = [-1, 0, 1];
  return steps.flatMap((across) => steps.map((up) => `${Math.floor(x) + across} ${Math.floor(y) + up}`));
}

/** Return where a value stands on an axis: 0 at its beginning and 1 at its end. */
function shareOf({ low, high }, value, isLog) {
  if (low === high) return 0;
  return isLog && low > 0 ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

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
