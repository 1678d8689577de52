"use strict";

// The Pareto chart: every point, the front among those shown, and a brush that sets the ranges of both axes.

class ParetoChart {
  constructor(place, state) {
    Object.assign(this, { place, state, view: null });
    this.update = oncePerFrame(() => this.#update());
  }

  async draw() {
    const { state, place } = this;
    if (!state.rows.length) return drawNothing(place, "No point has a result.");
    this.view = await draw(place, this.#spec(state.field(state.x), state.field(state.y)));
    this.view.addSignalListener("brush", (_, range) => this.#brushed(range));
    this.view.addEventListener("click", (_, item) => {
      if (known(item?.datum?.point)) state.choose(item.datum.point);
    });
    return this.view;
  }

  #spec(x, y) {
    const axis = (field) => ({ field: field.key, type: "quantitative", title: axisTitle(field), scale: this.#scale(field), axis: { format: "~s", tickCount: 6 } });
    const [blue, orange, ink] = ["blue", "orange", "ink"].map(colour);
    const { points, front, chosen } = this.#data();
    const when = (test, value, otherwise) => ({ condition: { test, value }, value: otherwise });
    return {
      width: "container",
      height: 380,
      autosize: { type: "fit", contains: "padding" },
      data: { name: "points", values: points },
      encoding: { x: axis(x), y: axis(y) },
      layer: [
        { data: { name: "front", values: front }, mark: { type: "line", interpolate: "step-after", color: orange, strokeWidth: 1.5, aria: false }, encoding: { order: { field: "rank", type: "quantitative" } } },
        {
          name: "dots",
          params: [{ name: "brush", select: { type: "interval", on: "[pointerdown[!event.item || !event.item.datum || !isValid(event.item.datum.point)], window:pointerup] > window:pointermove!" } }],
          mark: { type: "point", filled: true, cursor: "pointer" },
          encoding: {
            color: when("datum.front", orange, blue),
            shape: when("datum.front", "diamond", "circle"),
            size: when("datum.front", 110, 44),
            opacity: when("datum.shown", 0.85, 0.08),
            description: { field: "description" },
            tooltip: this.#tooltip(),
          },
        },
        { data: { name: "chosen", values: chosen }, mark: { type: "point", filled: false, stroke: ink, strokeWidth: 2.5, size: 260, aria: false, tooltip: null }, encoding: {} },
      ],
    };
  }

  #scale(field) {
    const common = { domain: domainOf(field), nice: false, padding: 12 };
    return byId("log").checked && field.low > 0 ? { type: "log", ...common } : { zero: false, ...common };
  }

  #tooltip() {
    const own = this.state.fields.map(({ key, label, result, title }) => ({ field: `${key}_text`, type: "nominal", title: result ? label : title }));
    return [{ field: "point", type: "quantitative", title: "Point" }, ...own];
  }

  #brushed(range) {
    const { state } = this;
    const [x, y] = [range[state.x] ?? null, range[state.y] ?? null];
    if (!x && !y && !this.brushing) return;
    this.brushing = Boolean(x && y);
    state.setRanges({ [state.x]: x && sorted(x), [state.y]: y && sorted(y) });
  }

  #data() {
    const { state } = this;
    const rows = state.rows.filter((row) => known(row[state.x]) && known(row[state.y]));
    const points = rows.map((row) => ({ ...row })).sort((a, b) => a.front - b.front); // the front is drawn last
    return { points, front: state.front.map((row, rank) => ({ ...row, rank })), chosen: points.filter((row) => row.point === state.chosen) };
  }

  #update() {
    for (const [name, rows] of Object.entries(this.#data())) this.view?.data(name, rows);
    this.view?.runAsync();
  }

  /** Remove the brush, whose ranges are no longer those of the state. */
  clearBrush() {
    this.brushing = false;
    return this.draw();
  }
}



function axisTitle(field) {
  return `${field.label}${field.better > 0 ? " – more is better" : ""}`;
}
