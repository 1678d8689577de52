"use strict";

// The timeline of a recorded run on a canvas: layers, and for each unit what it does and its instructions.

const LEAST_WINDOW = 20; // cycles of the deepest zoom
const ROW = { layer: 18, strip: 15, bars: 17, loads: 10, gap: 8, axis: 24 };
const LEAST_TEXT = 26; // pixels of a bar that has a text

class Lanes {
  /** @param chosen is called with the cycle that a click chooses; `looked` after the window has moved. */
  constructor(run, { chosen, looked }) {
    Object.assign(this, { run, looked, window: [0, run.cycles], cursor: 0, selected: NEVER, marked: new Set() });
    this.place = byId("lanes");
    this.draw = oncePerFrame(() => this.#draw());
    this.#mouse(chosen);
    followWidth(this.place, this.draw);
  }

  #mouse(chosen) {
    const { place } = this;
    place.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY / 200), this.#cycleAt(event));
    }, { passive: false });
    place.addEventListener("pointerdown", (event) => {
      const [from, to] = this.window;
      let moved = false;
      const move = (now) => {
        moved ||= Math.abs(now.clientX - event.clientX) > 3;
        if (moved) this.look(from + ((event.clientX - now.clientX) * (to - from)) / this.width, to - from);
      };
      const end = () => {
        removeEventListener("pointermove", move);
        if (!moved) chosen(Math.max(0, Math.min(this.run.cycles, Math.floor(this.#cycleAt(event)))));
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", end, { once: true });
    });
  }

  #cycleAt(event) {
    const [from, to] = this.window;
    return from + ((event.clientX - this.place.getBoundingClientRect().left - this.left) / this.width) * (to - from);
  }

  act(name) {
    const [from, to] = this.window;
    const length = to - from;
    if (name === "all") this.look(0, this.run.cycles);
    if (name === "in") this.zoom(0.5, this.#fixed());
    if (name === "out") this.zoom(2, this.#fixed());
    if (name === "left") this.look(from - length / 4, length);
    if (name === "right") this.look(from + length / 4, length);
  }

  /** Return the cycle that a zoom leaves where it is: the cursor, or the middle where it is not shown. */
  #fixed() {
    const [from, to] = this.window;
    return from <= this.cursor && this.cursor <= to ? this.cursor : (from + to) / 2;
  }

  zoom(factor, fixed) {
    const [begin, end] = zoomed(this.window, factor, fixed, this.run.cycles, LEAST_WINDOW);
    this.look(begin, end - begin);
  }

  look(from, length) {
    this.window = windowFrom(from, length, this.run.cycles, LEAST_WINDOW);
    this.looked(this.window);
    this.draw();
  }

  /** Put the cursor at a cycle, and move the window so that it is shown. */
  show(cycle, selected) {
    [this.cursor, this.selected] = [cycle, selected];
    const [from, to] = this.window;
    if (cycle < from || cycle > to) this.look(cycle - (to - from) / 2, to - from);
    this.draw();
  }

  /** Draw some instructions darker than the others. */
  mark(instructions) {
    this.marked = new Set(instructions);
    this.draw();
  }

  #draw() {
    const { place, run } = this;
    const heights = run.units.map((_, unit) => ROW.strip + ROW.bars + (this.#tracksOf(unit).length > 1 ? ROW.loads : 0) + ROW.gap);
    const [width, height] = [place.clientWidth, heights.reduce((sum, each) => sum + each, (run.layers.length ? ROW.layer + ROW.gap : 0) + ROW.axis)];
    const scale = devicePixelRatio;
    place.style.height = `${height}px`;
    [place.width, place.height] = [Math.round(width * scale), Math.round(height * scale)];
    this.context = place.getContext("2d");
    this.context.scale(scale, scale);
    this.context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    this.context.textBaseline = "middle";
    this.colours = Object.fromEntries(["ink", "quiet", "grid", "line", "panel", "ground", ...Object.values(STATE_COLOURS)].map((name) => [name, colour(name)]));
    this.left = 62;
    this.width = width - this.left - 8;
    this.#axis(height - ROW.axis);
    let top = 0;
    if (run.layers.length) {
      this.#layers(top);
      top += ROW.layer + ROW.gap;
    }
    run.units.forEach((_, unit) => {
      this.#unit(unit, top);
      top += heights[unit];
    });
    this.#cursor(height - ROW.axis);
  }

  /** Return the tracks of a unit that have instructions: of the compute unit, steps before LOADs. */
  #tracksOf(unit) {
    return this.run.tracks.filter(({ instructions }) => instructions.length && this.run.columns.unit[instructions[0]] === unit);
  }

  /** Return the pixel of a cycle. */
  x(cycle) {
    const [from, to] = this.window;
    return this.left + (Math.max(from, Math.min(to, cycle)) - from) / (to - from) * this.width;
  }

  #label(text, middle) {
    this.context.fillStyle = this.colours.ink;
    this.context.textAlign = "right";
    this.context.fillText(text, this.left - 8, middle);
  }

  #axis(bottom) {
    const [from, to] = this.window;
    const { context, colours } = this;
    const rough = (to - from) / Math.max(2, Math.floor(this.width / 110));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough));
    context.textAlign = "center";
    for (let cycle = Math.ceil(from / step) * step; cycle <= to; cycle += step) {
      context.fillStyle = colours.grid;
      context.fillRect(Math.round(this.x(cycle)), 0, 1, bottom);
      context.fillStyle = colours.quiet;
      const text = decimal(cycle);
      const half = context.measureText(text).width / 2;
      context.fillText(text, Math.min(this.left + this.width + 8 - half, Math.max(half, this.x(cycle))), bottom + 13);
    }
  }

  #layers(top) {
    const [from, to] = this.window;
    this.#label("layers", top + ROW.layer / 2);
    for (const [name, , begin, end] of this.run.layers) {
      if (end <= from || begin >= to || end <= begin) continue;
      this.#box(begin, end, top, ROW.layer, this.colours.panel, name, this.colours.quiet);
    }
  }

  /** Draw a bar of the cycles [begin, end), with as much of a text as fits. */
  #box(begin, end, top, height, fill, text, edge, ink = this.colours.ink) {
    const { context } = this;
    const left = Math.floor(this.x(begin));
    const width = Math.max(1, Math.floor(this.x(end)) - left);
    context.fillStyle = fill;
    context.fillRect(left, top, width, height);
    if (width > 3) {
      context.strokeStyle = edge;
      context.lineWidth = 1;
      context.strokeRect(left + 0.5, top + 0.5, width - 1, height - 1);
    }
    if (width < LEAST_TEXT || height < 12) return;
    context.save();
    context.beginPath();
    context.rect(left + 2, top, width - 4, height);
    context.clip();
    context.fillStyle = ink;
    context.textAlign = "left";
    context.fillText(text, left + 4, top + height / 2 + 0.5);
    context.restore();
  }

  #unit(unit, top) {
    const { run, context } = this;
    const [from, to] = this.window;
    this.#label(run.units[unit], top + (ROW.strip + ROW.bars) / 2);
    for (const { begin, end, state } of run.lanes[unit].visible(from, to, (to - from) / this.width)) {
      const left = Math.floor(this.x(begin));
      context.fillStyle = this.colours[STATE_COLOURS[run.states[state]]];
      context.fillRect(left, top, Math.max(1, Math.floor(this.x(end)) - left), ROW.strip);
    }
    this.#tracksOf(unit).forEach((track, place) => this.#bars(track, top + ROW.strip + 1 + place * ROW.bars, place ? ROW.loads - 1 : ROW.bars - 1));
  }

  /** Draw the instructions of a track: each from the cycle in which it is the oldest. */
  #bars({ instructions, started, retired }, top, height) {
    const { run, colours } = this;
    const [from, to] = this.window;
    let drawn = -1;
    for (let place = lowerBound(retired, from); place < started.length && started[place] < to; place++) {
      const begin = Math.max(started[place], place > 0 ? retired[place - 1] + 1 : 0);
      const end = place < retired.length ? retired[place] + 1 : run.cycles;
      const right = Math.floor(this.x(end));
      if (right === drawn) continue;
      drawn = right;
      const index = instructions[place];
      const own = index === this.selected;
      const fill = own ? colours.ink : this.marked.has(index) ? colours.line : colours.panel;
      this.#box(begin, end, top, height, fill, `${index} ${run.lines[index].split("(")[0]}`, colours.line, own ? colours.ground : colours.ink);
    }
  }

  #cursor(bottom) {
    const [from, to] = this.window;
    if (this.cursor < from || this.cursor > to) return;
    const { context } = this;
    const left = Math.round(this.x(this.cursor));
    context.fillStyle = this.colours.ink;
    context.fillRect(left - 1, 0, 2, bottom + 4);
  }
}
