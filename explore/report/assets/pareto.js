"use strict";

// The Pareto chart: every point, the front among those shown, and a brush that sets the ranges of both axes.
// A parameter may be told apart by the colour or the shape of the marks, or by a panel for each value.

const SHAPES = ["circle", "square", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left", "diamond"];
const HUES = ["blue", "orange", "green", "pink", "yellow", "grey"]; // more values get shades of one scale
const EMPTY = { within: 0.85, perhaps: 0.25, beyond: 0 }; // how full marks are, by where they stand to the limits

class ParetoChart {
  constructor(place, state) {
    Object.assign(this, { place, state, charts: [] });
    this.update = oncePerFrame(() => this.#update());
  }

  async draw() {
    const { state, place } = this;
    for (const { element } of this.charts) element.view?.finalize();
    this.charts = [];
    if (!state.rows.length) return drawNothing(place, "No point has a result.");
    const panels = this.#panels();
    place.replaceChildren(...panels.map(({ title, element }) => make("div", {}, title && make("p", { class: "panel" }, title), element)));
    place.classList.toggle("panels", panels.length > 1);
    await Promise.all(panels.map((panel) => this.#drawPanel(panel, panels.length > 1)));
    this.charts = panels;
  }

  /** Return the panels: of all rows, or one for each value of the parameter that is told apart. */
  #panels() {
    const { state } = this;
    const field = state.as === "panels" && state.by ? state.field(state.by) : null;
    const panel = (title, has) => ({ title, has, element: make("div", { class: "chart" }) });
    if (!field) return [panel(null, () => true)];
    const texts = [...new Set(field.raw.map(parameterText))];
    return texts.map((text) => panel(`${field.title} = ${text}`, (row) => parameterText(row[field.key]) === text));
  }

  async #drawPanel(panel, isOneOfMany) {
    const { state } = this;
    const view = await draw(panel.element, this.#spec(state.field(state.x), state.field(state.y), panel, isOneOfMany));
    if (!isOneOfMany) view.addSignalListener("brush", (_, range) => this.#brushed(range));
    view.addEventListener("click", (_, item) => {
      if (known(item?.datum?.point)) state.chooseNext(item.datum.point);
    });
  }

  #spec(x, y, panel, isOneOfMany) {
    const { state } = this;
    const axis = (field) => ({ field: field.key, type: "quantitative", title: axisTitle(field), scale: this.#scale(field), axis: { format: "~s", tickCount: isOneOfMany ? 4 : 6 } });
    const [orange, ink] = ["orange", "ink"].map(colour);
    const { points, front, chosen, stacks } = this.#data(panel);
    const when = (test, value, otherwise) => ({ condition: { test, value }, value: otherwise });
    const place = { x: axis(x), y: axis(y) };
    const brush = { name: "brush", select: { type: "interval", on: "[pointerdown[!event.item || !event.item.datum || !isValid(event.item.datum.point)], window:pointerup] > window:pointermove!" } };
    const full = Object.entries(EMPTY).map(([verdict, value]) => ({ test: `datum.limits === "${verdict}"`, value }));
    return {
      width: "container",
      height: isOneOfMany ? 240 : 380,
      autosize: { type: "fit", contains: "padding" },
      data: { name: "points", values: points },
      layer: [
        ...limitLayers(state, x, "x"),
        ...limitLayers(state, y, "y"),
        { data: { name: "front", values: front }, mark: { type: "line", interpolate: "step-after", color: orange, strokeWidth: 1.5, aria: false }, encoding: { ...place, order: { field: "rank", type: "quantitative" } } },
        {
          name: "dots",
          ...(isOneOfMany ? {} : { params: [brush] }),
          mark: { type: "point", filled: true, cursor: "pointer", strokeWidth: 1.2 },
          encoding: {
            ...place,
            ...this.#hues(),
            size: when("datum.front", 110, 44),
            fillOpacity: { condition: [{ test: "!datum.shown", value: 0.06 }, ...full], value: 0.85 },
            strokeOpacity: when("datum.shown", 0.9, 0.08),
            description: { field: "description" },
            tooltip: this.#tooltip(),
          },
        },
        { data: { name: "stacks", values: stacks }, mark: { type: "text", color: ink, fontSize: 11, fontWeight: 600, align: "left", dx: 8, dy: -8, aria: false, tooltip: null }, encoding: { ...place, text: { field: "count" } } },
        { data: { name: "chosen", values: chosen }, mark: { type: "point", filled: false, stroke: ink, strokeWidth: 2.5, size: 260, aria: false, tooltip: null }, encoding: place },
      ],
    };
  }

  /** Return the colour and shape of marks: what is on the front, and the values that are told apart. */
  #hues() {
    const { state } = this;
    const field = state.by && state.as !== "panels" ? state.field(state.by) : null;
    const when = (test, value, otherwise) => ({ condition: { test, value }, value: otherwise });
    const front = when("datum.front", colour("orange"), colour("blue"));
    const diamond = when("datum.front", "diamond", "circle");
    if (!field) return { fill: front, stroke: front, shape: diamond };
    const texts = [...new Set(field.raw.map(parameterText))];
    const own = (range) => ({ field: `${field.key}_text`, type: range.scheme ? "ordinal" : "nominal", title: field.title, sort: null, scale: { domain: texts, ...range } });
    if (state.as === "shape") return { fill: front, stroke: front, shape: own({ range: texts.map((_, number) => SHAPES[number % SHAPES.length]) }) };
    const few = texts.length <= HUES.length;
    const hue = own(few ? { range: HUES.slice(0, texts.length).map(colour) } : { scheme: { name: "viridis", extent: isDark() ? [0.3, 1] : [0, 0.88] } });
    return { fill: hue, stroke: hue, shape: diamond };
  }

  #scale(field) {
    const common = { domain: domainOf(field), nice: false, padding: 12 };
    return this.state.log && field.low > 0 ? { type: "log", ...common } : { zero: false, ...common };
  }

  #tooltip() {
    const own = this.state.fields.map(({ key, label, result, title }) => ({ field: `${key}_text`, type: "nominal", title: result ? label : title }));
    const limits = this.state.data.limits.length ? [{ field: "limits_text", type: "nominal", title: "Limits" }] : [];
    return [{ field: "point", type: "quantitative", title: "Point" }, { field: "stack_text", type: "nominal", title: "At this place" }, ...own, ...limits];
  }

  #brushed(range) {
    const { state } = this;
    const [x, y] = [range[state.x] ?? null, range[state.y] ?? null];
    if (!x && !y && !this.brushing) return;
    this.brushing = Boolean(x && y);
    state.setRanges({ [state.x]: x && sorted(x), [state.y]: y && sorted(y) });
  }

  /** Return the rows of a panel: its points, its front, the chosen one, and the places where several stand. */
  #data({ has }) {
    const { state } = this;
    const rows = state.rows.filter((row) => known(row[state.x]) && known(row[state.y]) && has(row));
    const front = state.frontOf(rows);
    const stacks = state.stacksOf(rows).filter((stack) => stack.length > 1);
    const together = new Map(stacks.flatMap((stack) => stack.map((row) => [row, stackText(stack)])));
    const points = rows.map((row) => ({ ...row, front: front.includes(row), stack_text: together.get(row) ?? "this point", limits_text: row.limits_why || VERDICT_TEXTS[row.limits] || NONE }));
    points.sort((a, b) => a.front - b.front); // the front is drawn last
    return {
      points,
      front: front.map((row, rank) => ({ ...row, rank })),
      chosen: points.filter((row) => row.point === state.chosen),
      stacks: stacks.map(([row, ...more]) => ({ [state.x]: row[state.x], [state.y]: row[state.y], count: `×${more.length + 1}` })),
    };
  }

  #update() {
    for (const chart of this.charts) {
      const { view } = chart.element;
      for (const [name, rows] of Object.entries(this.#data(chart))) view?.data(name, rows);
      view?.runAsync();
    }
  }

  /** Remove the brush, whose ranges are no longer those of the state. */
  clearBrush() {
    this.brushing = false;
    return this.draw();
  }
}

/** Return what a tooltip says of the points that stand at one place. */
function stackText(stack) {
  const most = 8; // names
  const names = stack.slice(0, most).map((row) => row.point).join(", ");
  return `${stack.length} points: ${names}${stack.length > most ? ", …" : ""}`;
}

function axisTitle(field) {
  return `${field.label}${field.better > 0 ? " – more is better" : ""}`;
}
