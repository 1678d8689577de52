"use strict";

// What lies in the scratchpads at a cycle: a bar for each, coloured by tensor, and who touches an element.

const BAR_HEIGHT = 16;
const MOST_HELD = 8;
const MOST_TOUCHES = 200;
const MOST_VALUES = 16;

/** Return the colour of a label: neighbours in the list of labels differ clearly. */
const labelColour = (number) => `hsl(${Math.round(number * 137.5) % 360} 55% 58%)`;

/** Return the first values of an element as text. */
const valuesText = (values) => (values ? values.slice(0, MOST_VALUES).join(", ") + (values.length > MOST_VALUES ? ", …" : "") : "");

class Pads {
  /** @param link returns a button that leads to an instruction. */
  constructor(run, memories, link) {
    Object.assign(this, { run, memories, link });
    this.numbers = new Map(run.labels.map((label, number) => [label, number]));
    const cards = run.scratchpads.map((pad) => this.#card(pad));
    byId("pads").replaceChildren(...cards);
    const options = [...run.scratchpads.map(([memory, name]) => [memory, name]), [run.dram, "DRAM"]];
    byId("element-memory").append(...options.map(([memory, name]) => make("option", { value: memory }, name)));
    byId("element-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#typed();
    });
    this.draw = oncePerFrame(() => this.#bars());
    if (cards.length) followWidth(byId("pads"), this.draw);
  }

  #card([memory, name, depth]) {
    const bar = make("canvas", { class: "bar", "data-bar": name, click: (event) => this.#clicked(event, memory, depth) });
    return make("article", { class: "card", "data-pad": name }, make("h3", {}, name, " ", make("span", { class: "quiet" })), bar, make("ul", { class: "held" }));
  }

  #clicked(event, memory, depth) {
    const element = Math.floor((event.offsetX / event.target.clientWidth) * depth);
    byId("element-memory").value = memory;
    byId("element").value = element;
    this.list(memory, element);
  }

  #typed() {
    try {
      this.list(Number(byId("element-memory").value), wholeNumber(byId("element").value.trim()));
    } catch (error) {
      byId("element-text").textContent = error.message;
    }
  }

  /** List the instructions that touch an element of a scratchpad, or a byte of DRAM. */
  list(memory, place) {
    const { run, memories } = this;
    const touches = memories.history(memory, place);
    const rows = touches.slice(0, MOST_TOUCHES).map((touch) => {
      const index = memories.owner[touch];
      return make("tr", {}, make("th", { scope: "row" }, this.link(index)), make("td", { class: "text" }, memories.verb(touch)),
        make("td", {}, cycleText(run.started[index])), make("td", {}, cycleText(run.retired[index])), make("td", { class: "text" }, run.labels[run.columns.label[index]]), make("td", { class: "text" }, valuesText(memories.valuesAt(touch, place))), make("td", { class: "text" }, make("code", {}, run.lines[index])));
    });
    const name = `${memories.names.get(memory)} ${memory === run.dram ? `0x${place.toString(16)}` : place}`;
    const more = touches.length > MOST_TOUCHES ? `; the first ${MOST_TOUCHES} are listed` : "";
    byId("element-text").textContent = `${name}: ${decimal(touches.length)} ${touches.length === 1 ? "touch" : "touches"}${more}`;
    byId("touches").replaceChildren(plainTable(`Instructions that read or write ${name}`, ["Number", "Access", "Starts", "Retires", "Tensor", "Values", "Assembly"], rows));
    byId("touches").hidden = !touches.length;
  }

  /** Show what lies in the scratchpads at a cycle; mark what an instruction touches. */
  show(cycle, selected) {
    Object.assign(this, { cycle, selected });
    for (const [memory, name, depth] of this.run.scratchpads) this.#held(memory, name, depth);
    this.draw();
  }

  #held(memory, name, depth) {
    const held = this.memories.held(memory, this.cycle);
    const used = held.reduce((sum, each) => sum + each.end - each.begin, 0);
    const card = document.querySelector(`[data-pad="${name}"]`);
    card.querySelector("span").textContent = `${decimal(used)} of ${decimal(depth)} elements written`;
    const rows = held.slice(0, MOST_HELD).map(({ begin, end, label, writers }) => make("li", {},
      make("span", { class: "swatch", style: `background: ${labelColour(this.numbers.get(label))}` }), `${begin}..${end - 1} ${label} `, this.link(writers[writers.length - 1]), writers.length > 1 ? ` and ${writers.length - 1} before` : null));
    if (held.length > MOST_HELD) rows.push(make("li", {}, `${held.length - MOST_HELD} more`));
    card.querySelector("ul").replaceChildren(...rows);
  }

  #bars() {
    const [empty, ink] = [colour("grid"), colour("ink")];
    for (const [memory, name, depth] of this.run.scratchpads) this.#bar(memory, name, depth, empty, ink);
  }

  #bar(memory, name, depth, empty, ink) {
    const place = document.querySelector(`[data-bar="${name}"]`);
    const [width, scale] = [place.clientWidth, devicePixelRatio];
    [place.width, place.height] = [Math.round(width * scale), Math.round(BAR_HEIGHT * scale)];
    const context = place.getContext("2d");
    context.scale(scale, scale);
    context.fillStyle = empty;
    context.fillRect(0, 0, width, BAR_HEIGHT);
    const x = (element) => (element / depth) * width;
    const box = (from, to, top, height) => context.fillRect(x(from), top, Math.max(1, x(to) - x(from)), height);
    for (const { begin, end, label } of this.memories.held(memory, this.cycle)) {
      context.fillStyle = labelColour(this.numbers.get(label));
      box(begin, end, 0, BAR_HEIGHT);
    }
    if (this.selected === NEVER) return;
    context.fillStyle = ink;
    for (const touch of this.memories.of(this.selected)) {
      if (this.memories.memory[touch] === memory) for (const [from, to] of this.memories.rows(touch)) box(from, to, BAR_HEIGHT - 4, 4);
    }
  }
}
