"use strict";

// Parallel coordinates: a line per point, an axis per field, and a brush on each axis that sets its range.

const PARALLEL = { height: 260, least: 92, left: 46, right: 60 };

const LEAST_DRAG = 3; // pixels: less is a click

class ParallelChart {
  constructor(place, state) {
    Object.assign(this, { place, state, view: null });
    this.update = oncePerFrame(() => this.#update());
  }

  async draw() {
    const { state, place } = this;
    if (!state.rows.length) return drawNothing(place, "No point has a result.");
    const varied = state.fields.filter(({ low, high }) => low !== high);
    this.fields = varied.length ? varied : state.fields;
    this.step = Math.max(PARALLEL.least, (place.clientWidth - PARALLEL.left - PARALLEL.right) / Math.max(1, this.fields.length - 1));
    const view = await draw(place, { definition: this.#spec() }, "vega");
    this.scales = this.fields.map((_, number) => view.scale(`y${number}`));
    this.paths = new Map(state.rows.map((row) => [row.point, this.#path(row)]));
    this.fields.forEach((field, number) => view.addSignalListener(`range${number}`, (_, range) => this.#brushed(field, number, range)));
    view.addEventListener("click", (_, item) => {
      if (known(item?.datum?.point)) state.choose(item.datum.point);
    });
    this.view = view;
    this.#update();
    return view;
  }

  #spec() {
    const numbered = this.fields.map((field, number) => [field, number]);
    return {
      width: Math.round(this.step * Math.max(1, this.fields.length - 1)),
      height: PARALLEL.height,
      padding: { left: PARALLEL.left, right: PARALLEL.right, top: 78, bottom: 14 }, // titles stand above
      autosize: "none",
      data: [{ name: "lines" }],
      signals: numbered.map(([, number]) => brushSignal(number)),
      scales: numbered.map(([field, number]) => ({ name: `y${number}`, type: field.log ? "log" : "linear", domain: domainOf(field), zero: false, range: [PARALLEL.height, 0] })),
      axes: numbered.map(([field, number]) => this.#axis(field, number)),
      marks: [this.#lines(), ...numbered.flatMap(([field, number]) => this.#brush(field, number))],
    };
  }

  #axis(field, number) {
    const ticks = field.values
      ? { values: field.values.map((_, step) => step), encode: { labels: { update: { text: { signal: `${JSON.stringify(field.values.map(shortValue))}[datum.value]` } } } } }
      : { tickCount: 5, format: "~s" };
    return { orient: "left", scale: `y${number}`, offset: -Math.round(number * this.step), title: titleLines(field), titleAngle: 0, titleAlign: "center", titleAnchor: "start", titleX: 0, titleY: -66, titleBaseline: "top", titleFontSize: 11.5, titleLineHeight: 13, domainColor: colour("quiet"), zindex: 1, ...ticks };
  }

  #lines() {
    return {
      type: "path",
      name: "paths",
      from: { data: "lines" },
      encode: {
        update: {
          path: { field: "path" },
          stroke: { field: "stroke" },
          strokeWidth: { field: "width" },
          strokeOpacity: { field: "opacity" },
          zindex: { field: "level" },
          tooltip: { field: "tip" },
          description: { field: "description" },
          cursor: { value: "pointer" },
        },
        hover: { strokeWidth: { value: 3 }, strokeOpacity: { value: 1 } },
      },
    };
  }

  #brush(field, number) {
    const x = Math.round(number * this.step);
    const range = `range${number}`;
    return [
      { type: "rect", name: `axis${number}`, description: `Brush on ${field.label}`, encode: { enter: { x: { value: x - 13 }, width: { value: 26 }, y: { value: -6 }, height: { value: PARALLEL.height + 12 }, fill: { value: "transparent" }, cursor: { value: "ns-resize" } } } },
      { type: "rect", interactive: false, encode: { enter: { x: { value: x - 8 }, width: { value: 16 }, fill: { value: colour("orange") }, fillOpacity: { value: 0.3 }, stroke: { value: colour("orange") } }, update: { y: { signal: `min(${range}[0], ${range}[1])` }, y2: { signal: `max(${range}[0], ${range}[1])` }, opacity: { signal: `${range}[0] === ${range}[1] ? 0 : 1` } } } },
    ];
  }

  #brushed(field, number, [start, end]) {
    const scale = this.scales[number];
    const range = Math.abs(start - end) < LEAST_DRAG ? null : sorted([scale.invert(start), scale.invert(end)]);
    const own = this.state.ranges.get(field.key);
    if (range ? own && own[0] === range[0] && own[1] === range[1] : !own) return;
    this.state.setRanges({ [field.key]: range });
  }

  #update() {
    const { state, view, fields } = this;
    if (!view) return;
    const colours = Object.fromEntries(["blue", "orange", "ink"].map((name) => [name, colour(name)]));
    view.data("lines", state.rows.map((row) => this.#line(row, colours)));
    fields.forEach((field, number) => this.#showRange(field, number));
    view.runAsync();
  }

  /** Draw the brush where the state's range is, unless it stands there. */
  #showRange(field, number) {
    const range = this.state.ranges.get(field.key);
    const shown = this.view.signal(`range${number}`);
    const [low, high] = domainOf(field);
    const inside = (value) => Math.min(Math.max(value, low), high); // open ends are infinite
    const wanted = range ? range.map((value) => clamped(this.scales[number](inside(value)))) : [0, 0];
    const apart = sorted(wanted).map((end, side) => Math.abs(end - sorted(shown)[side]));
    const same = range ? Math.max(...apart) < 0.5 : Math.abs(shown[0] - shown[1]) < LEAST_DRAG;
    if (!same) this.view.signal(`range${number}`, wanted);
  }

  #line(row, colours) {
    const chosen = row.point === this.state.chosen;
    return {
      point: row.point,
      path: this.paths.get(row.point),
      tip: row.tip,
      description: row.description,
      stroke: chosen ? colours.ink : row.front ? colours.orange : colours.blue,
      width: chosen ? 3 : row.front ? 2 : 1,
      opacity: !row.shown ? 0.04 : chosen || row.front ? 1 : 0.45,
      level: chosen ? 2 : row.front ? 1 : 0,
    };
  }

  #path(row) {
    let pen = "M";
    return this.fields.map((field, number) => {
      const place = placeOn(field, row);
      if (!known(place)) {
        pen = "M";
        return "";
      }
      const part = `${pen}${(number * this.step).toFixed(1)},${this.scales[number](place).toFixed(1)}`;
      pen = "L";
      return part;
    }).join("");
  }
}

const clamped = (y) => Math.max(0, Math.min(PARALLEL.height, y));

/** Return the signal of the brush on one axis: where it starts and ends, in pixels; equal without a brush. */
function brushSignal(number) {
  const inside = `clamp(y(), 0, ${PARALLEL.height})`;
  return {
    name: `range${number}`,
    value: [0, 0],
    on: [
      { events: `@axis${number}:pointerdown`, update: `[${inside}, ${inside}]` },
      { events: `[@axis${number}:pointerdown, window:pointerup] > window:pointermove!`, update: `[range${number}[0], ${inside}]` },
    ],
  };
}

/** Return the ends of a field's axis; a single value stands in its middle. */
function domainOf({ values, low, high }) {
  if (low === high) return values ? [low - 0.5, high + 0.5] : [low * 0.9 - (low === 0), high * 1.1 + (high === 0)];
  return values ? [low - 0.25, high + 0.25] : [low, high];
}

/** Return a field's title, unit and source in lines that fit between two axes. */
function titleLines(field) {
  const note = field.label.slice(field.title.length).trim().slice(1, -1);
  const notes = note ? note.split(", ").flatMap((part) => wrapped(part, " ")) : [];
  return [...wrapped(field.title, field.result ? " " : "_"), ...notes];
}

/** Return a text in lines of at most 14 letters, broken after `separator`. */
function wrapped(text, separator) {
  const lines = [""];
  for (const word of text.split(separator).map((part, number, parts) => (number < parts.length - 1 ? part + separator : part))) {
    if (lines[0] && lines[lines.length - 1].length + word.length > 14) lines.push(word);
    else lines[lines.length - 1] += word;
  }
  return lines;
}

/** Return a step's text: a size of 1,024 bytes or more as KiB or MiB where that is a whole number. */
function shortValue(text) {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1024 || value % 1024) return text;
  return value % 1048576 ? `${value / 1024} Ki` : `${value / 1048576} Mi`;
}
