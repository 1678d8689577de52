"use strict";

// The timeline of one launch: an overview with a brush, the units in the part that is looked at, and the shares
// of their states there.

const BINS = 240;
const LEAST_CYCLES = 20; // of the deepest zoom

class Timeline {
  constructor(data) {
    this.data = data;
    this.place = byId("timeline");
    this.update = oncePerFrame(() => this.#update());
    this.#controls();
    this.launch(0);
  }

  /** Take the launch of a number, and look at all of it. */
  launch(number) {
    this.run = this.data.launches[number];
    this.lanes = this.run.units.map((unit) => new Lane(unit));
    this.window = [0, this.run.cycles];
    const layers = this.run.layers.map(({ name }, index) => make("option", { value: index }, name));
    byId("layer").replaceChildren(make("option", { value: "" }, "all"), ...layers);
  }

  async draw() {
    this.states = this.data.states.map((name) => colour(STATE_COLOURS[name]));
    await Promise.all([this.#drawOverview(), this.#drawUnits()]);
    this.#update();
  }

  #controls() {
    byId("launch").replaceChildren(...this.data.launches.map(({ name }, number) => make("option", { value: number }, name)));
    byId("launch-label").hidden = this.data.launches.length < 2;
    byId("launch").addEventListener("change", (event) => {
      this.launch(Number(event.target.value));
      this.draw();
    });
    byId("layer").addEventListener("change", (event) => this.lookAtLayer(event.target.value));
    for (const button of document.querySelectorAll("button[data-act]")) button.addEventListener("click", () => this.act(button.dataset.act));
    const keys = { ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", Home: "all" };
    this.place.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.act(keys[event.key]);
    });
    this.#mouse();
  }

  #mouse() {
    const { place } = this;
    place.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY / 200), this.#cycleAt(event));
    }, { passive: false });
    place.addEventListener("dblclick", (event) => this.zoom(0.25, this.#cycleAt(event)));
    place.addEventListener("pointerdown", (event) => {
      const [from, to] = this.window;
      const start = event.clientX;
      const move = (now) => this.look(from + ((start - now.clientX) * (to - from)) / this.view.signal("width"), to - from);
      const end = () => removeEventListener("pointermove", move);
      addEventListener("pointermove", move);
      addEventListener("pointerup", end, { once: true });
    });
  }

  #cycleAt(event) {
    const [from, to] = this.window;
    const left = plotLeft(this.view, this.place);
    return from + ((event.clientX - left) / this.view.signal("width")) * (to - from);
  }

  act(name) {
    const [from, to] = this.window;
    const length = to - from;
    if (name === "all") this.look(0, this.run.cycles);
    if (name === "in") this.zoom(0.5);
    if (name === "out") this.zoom(2);
    if (name === "left") this.look(from - length / 4, length);
    if (name === "right") this.look(from + length / 4, length);
  }

  /** Make the window `factor` times as long; `fixed` is the cycle that stays where it is. */
  zoom(factor, fixed = (this.window[0] + this.window[1]) / 2) {
    const [begin, end] = zoomed(this.window, factor, fixed, this.run.cycles, LEAST_CYCLES);
    this.look(begin, end - begin);
  }

  /** Look at `length` cycles from a cycle on, as far as the run goes. */
  look(from, length) {
    this.window = windowFrom(from, length, this.run.cycles, LEAST_CYCLES);
    this.update();
  }

  lookAtLayer(index) {
    if (index === "") return this.act("all");
    const { begin, end } = this.run.layers[index];
    this.look(begin, end - begin);
  }

  async #drawOverview() {
    const width = this.run.cycles / BINS;
    const busy = this.data.states.indexOf("busy");
    const values = this.lanes.flatMap((lane) =>
      Array.from({ length: BINS }, (_, bin) => {
        const [begin, end] = [bin * width, (bin + 1) * width];
        return { unit: lane.name, begin, end, share: lane.cyclesOfStates(begin, end, this.states.length)[busy] / width };
      }),
    );
    this.overview = await draw(byId("overview"), {
      width: "container", height: 104, autosize: { type: "fit", contains: "padding" },
      data: { values },
      params: [{ name: "part", select: { type: "interval", encodings: ["x"], mark: { fill: colour("ink"), fillOpacity: 0.12, stroke: colour("ink"), strokeOpacity: 0.8 } } }],
      mark: { type: "rect", aria: false, tooltip: null },
      encoding: {
        x: { field: "begin", type: "quantitative", title: null, axis: { format: "~s", grid: false, tickCount: 8 }, scale: { domain: [0, this.run.cycles], nice: false } },
        x2: { field: "end" },
        y: { field: "unit", type: "nominal", title: null, sort: null, axis: { ticks: false, domain: false, minExtent: 64 }, scale: { paddingInner: 0.2 } },
        color: { field: "share", type: "quantitative", title: null, scale: { domain: [0, 1], range: [colour("panel"), colour("blue")] }, legend: null },
      },
    });
    this.overview.addSignalListener("part", (_, { begin }) => this.#brushed(begin));
  }

  #brushed(range) {
    if (!range || this.marking) return;
    const [from, to] = sorted(range);
    if (to - from >= 1) this.look(from, to - from);
  }

  async #drawUnits() {
    const lanes = ["layers", ...this.lanes.map((lane) => lane.name)];
    const pixel = (end) => `floor(scale('x', datum.${end}))`; // on whole pixels neighbours leave no seam
    const ends = { x: { signal: pixel("begin") }, x2: { signal: `max(${pixel("begin")} + 1, ${pixel("end")})` } };
    const band = { y: { scale: "lane", field: "lane" }, height: { scale: "lane", band: 1 } };
    const definition = {
      width: Math.max(200, this.place.clientWidth - 108), height: 190, padding: { left: 68, right: 40, top: 4, bottom: 40 }, autosize: "none",
      signals: [{ name: "window", value: this.window }],
      data: [{ name: "spans" }, { name: "layers" }],
      scales: [
        { name: "x", type: "linear", domain: { signal: "window" }, range: "width", nice: false, zero: false },
        { name: "lane", type: "band", domain: lanes, range: "height", paddingInner: 0.25 },
      ],
      axes: [{ orient: "bottom", scale: "x", title: "Cycle", format: ",d", tickMinStep: 1, grid: true, labelOverlap: true, tickCount: { signal: "width / 110" } }, { orient: "left", scale: "lane", ticks: false, domain: false, labelPadding: 6 }],
      marks: [{
        type: "group", clip: true, encode: { update: { width: { signal: "width" }, height: { signal: "height" } } },
        marks: [
          { type: "rect", from: { data: "spans" }, encode: { update: { ...ends, ...band, fill: { field: "colour" }, tooltip: { field: "tip" } } } },
          { type: "rect", from: { data: "layers" }, encode: { update: { ...ends, ...band, fill: { value: colour("panel") }, stroke: { value: colour("quiet") }, strokeWidth: { value: 0.75 }, tooltip: { field: "tip" } } } },
          { type: "text", from: { data: "layers" }, interactive: false, encode: { update: { x: { signal: "scale('x', (max(datum.begin, window[0]) + min(datum.end, window[1])) / 2)" }, y: { scale: "lane", value: "layers", band: 0.5 }, text: { field: "name" }, align: { value: "center" }, baseline: { value: "middle" }, fontSize: { value: 11 }, fill: { value: colour("ink") }, limit: { signal: "max(1, scale('x', min(datum.end, window[1])) - scale('x', max(datum.begin, window[0])) - 6)" }, opacity: { signal: "scale('x', min(datum.end, window[1])) - scale('x', max(datum.begin, window[0])) > 34 ? 1 : 0" } } } },
        ],
      }],
    };
    this.view = await draw(this.place, { definition, renderer: "canvas" }, "vega");
  }

  #update() {
    if (!this.view || !this.overview) return;
    const [from, to] = this.window;
    const least = (to - from) / this.view.signal("width");
    const spans = this.lanes.flatMap((lane) => lane.visible(from, to, least).map((span) => this.#rectangle(lane, span)));
    const layers = this.run.layers.filter(({ begin, end }) => end > from && begin < to && end - begin > least);
    this.view.signal("window", this.window).data("spans", spans).data("layers", layers.map((layer) => ({ ...layer, lane: "layers", tip: { Layer: layer.name, Cycles: `${decimal(layer.begin)} to ${decimal(layer.end)}` } }))).runAsync();
    this.#mark();
    byId("window").textContent = `Cycles ${decimal(from)} to ${decimal(to)} of ${decimal(this.run.cycles)}`;
    this.#shares();
  }

  #rectangle(lane, { begin, end, state, count, number }) {
    const what = lane.texts[state];
    const instruction = lane.labels[lane.instruction[number]];
    const own = { Unit: lane.name, State: what, ...(instruction ? { Instruction: instruction } : {}) };
    const tip = count > 1 ? { Unit: lane.name, Spans: decimal(count), Mostly: what } : own;
    return { lane: lane.name, begin, end, colour: this.states[state], tip: { ...tip, Cycles: `${decimal(begin)} to ${decimal(end)} (${decimal(end - begin)})` } };
  }

  /** Draw the window on the overview. */
  #mark() {
    const [from, to] = this.window;
    const all = to - from >= this.run.cycles;
    const scale = this.overview.scale("x");
    this.marking = true;
    this.overview.signal("part_x", all ? [] : [scale(from), scale(to)]).runAsync().then(() => (this.marking = false));
  }

  /** Show which share of the window each unit spends in each state. */
  #shares() {
    const [from, to] = this.window;
    const shown = this.data.states.map((name, state) => ({ name, state }));
    const swatch = (state) => make("span", { class: "swatch", style: `background: ${this.states[state]}` });
    const head = shown.map(({ name, state }) => make("th", { scope: "col", class: "plain" }, swatch(state), STATE_TITLES[name] ?? name));
    const rows = this.lanes.map((lane) => {
      const cycles = lane.cyclesOfStates(from, to, this.data.states.length);
      const total = cycles.reduce((sum, one) => sum + one, 0) || 1;
      return make("tr", {}, make("th", { scope: "row", class: "text" }, lane.name), ...shown.map(({ state }) => make("td", {}, percent(cycles[state] / total))));
    });
    const caption = make("caption", {}, "Shares of the cycles shown above, by what each unit does");
    byId("states").replaceChildren(make("table", {}, caption, make("thead", {}, make("tr", {}, make("th", { scope: "col", class: "plain text" }, "Unit"), ...head)), make("tbody", {}, ...rows)));
  }
}

/** Return where the plot of a view begins, in pixels of the window. */
function plotLeft(view, place) {
  return place.querySelector("canvas").getBoundingClientRect().left + view.padding().left;
}
