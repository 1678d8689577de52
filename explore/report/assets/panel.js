"use strict";

// The chosen instruction: what it waited for, its tokens, what it reads and writes, its bursts and its slots.

const MOST_LINKED = 8;

class Panel {
  /** @param link returns a button that leads to an instruction. */
  constructor(run, memories, link) {
    Object.assign(this, { run, memories, link });
    this.users = run.edges.map((_, edge) => this.#users(1 << edge));
  }

  /** Return the instructions that push onto an edge, and those that pop from it, in order. */
  #users(bit) {
    const { columns, reached } = this.run;
    const of = (flags) => Array.from({ length: reached }, (_, index) => index).filter((index) => flags[index] & bit);
    return { pushing: of(columns.pushes), popping: of(columns.pops) };
  }

  /** Show an instruction; nothing where none is chosen. */
  show(index) {
    byId("instruction-section").hidden = index === NEVER;
    if (index === NEVER) return;
    const { run } = this;
    const layer = run.columns.layer[index];
    byId("instruction-title").textContent = `Instruction ${index}`;
    byId("instruction-text").replaceChildren(make("code", {}, run.lines[index]));
    const about = `${run.units[run.columns.unit[index]]} unit${layer === NEVER ? "" : ` · layer ${run.layers[layer][0]}`} · ${run.labels[run.columns.label[index]]}`;
    byId("instruction-about").textContent = about;
    const cards = [["Waits", this.#waits(index)], ["Tokens", this.#tokens(index)], ["Reads and writes", this.#touches(index)], ["Work", this.#work(index)]];
    byId("instruction").replaceChildren(...cards.map(([title, lines]) => make("article", { class: "card", "data-card": title }, make("h3", {}, title), make("ul", {}, ...lines))));
  }

  #waits(index) {
    const { run } = this;
    return ["QUEUED", "STARTED", "RETIRED"].map((kind) => {
      const number = run.bases[run.kinds[kind]] + index;
      const cycle = run.eventCycles[number];
      const when = `${run.words[run.kinds[kind]]}: ${cycle === NEVER ? "never" : `cycle ${decimal(cycle)}`}`;
      const link = run.firstLink(number);
      if (!link) return make("li", {}, when);
      const { cause } = link;
      const other = cause.instruction !== NEVER && cause.instruction !== index ? this.link(cause.instruction) : null;
      const waited = cycle === NEVER || cause.cycle === NEVER ? "waits" : `${decimal(link.cycles)} ${link.cycles === 1 ? "cycle" : "cycles"}`;
      return make("li", {}, `${when}, ${waited} for ${run.reasonText(link)}${this.#place(link, index)}: ${run.eventText(cause)} `, other);
    });
  }

  /** Return which queue an instruction waited for a place in, with its depth. */
  #place(link, index) {
    const { run } = this;
    const unit = run.columns.unit[index];
    return run.reasons[link.reason] === run.reasons[run.place_reason] ? ` (${run.depths[unit]} places in the ${run.units[unit]} queue)` : "";
  }

  #tokens(index) {
    const rows = this.run.edges.flatMap(({ name }, edge) => {
      const { pushing, popping } = this.users[edge];
      const [taken, given] = [popping.indexOf(index), pushing.indexOf(index)];
      return [
        taken < 0 ? null : this.#token(`takes a token ${name} of `, pushing[taken]),
        given < 0 ? null : this.#token(`gives a token ${name} to `, popping[given]),
      ];
    });
    const own = rows.filter(known);
    return own.length ? own : [make("li", {}, NONE)];
  }

  #token(text, other) {
    return make("li", {}, text, other === undefined ? "no instruction" : this.link(other));
  }

  #touches(index) {
    const { memories } = this;
    const [sources, readers] = [memories.sources(index), memories.readers(index)];
    const rows = memories.of(index).map((touch) => {
      const memory = memories.memory[touch];
      const area = memories.areaName(touch);
      const parts = [`${memories.verb(touch)} ${memories.names.get(memory)} ${memories.placesText(touch)}${area ? ` of ${area}` : ""}`];
      if (memories.kind[touch] & READS) parts.push(...this.#linked(", written by ", sources.get(memory)));
      if (memories.kind[touch] & WRITES) parts.push(...this.#linked(", read by ", readers.get(memory)));
      return make("li", {}, ...parts);
    });
    return rows.length ? rows : [make("li", {}, NONE)];
  }

  /** Return a text and links to instructions; nothing where there are none. */
  #linked(text, instructions) {
    const own = (instructions ?? []).filter((each) => each !== NEVER);
    if (!own.length) return [];
    const more = own.length > MOST_LINKED ? ` and ${own.length - MOST_LINKED} more` : "";
    return [text, ...own.slice(0, MOST_LINKED).flatMap((each, place) => [place ? " " : null, this.link(each)]), more];
  }

  #work(index) {
    const { run } = this;
    const lines = [];
    const { slots, lent, counter } = run.columns;
    if (counter[index] < run.step_counters.length && run.retired[index] !== NEVER) {
      lines.push(`issues ${decimal(slots[index])} slots`);
      if (lent[index]) lines.push(`the store unit took ${decimal(lent[index])} slots more at the port of the accumulators: `);
    }
    const rows = lines.map((line) => make("li", {}, line));
    if (lent[index] && rows.length > 1) rows[1].append(...this.#linked("", this.#storesDuring(index)));
    rows.push(...this.#bursts(index).map((line) => make("li", {}, line)));
    return rows.length ? rows : [make("li", {}, NONE)];
  }

  #storesDuring(index) {
    const { run } = this;
    const [from, to] = [run.started[index], run.retired[index]];
    return run.orders[run.orders.length - 1].instructions.filter((store) => run.started[store] !== NEVER && run.started[store] < to && (run.retired[store] === NEVER || run.retired[store] > from));
  }

  #bursts(index) {
    const { run } = this;
    const own = [];
    run.owner.forEach((owner, burst) => owner === index && own.push(burst));
    if (!own.length) return [];
    const beats = own.reduce((sum, burst) => sum + run.columns.beats[burst], 0);
    const times = ["ASKED", "FIRST", "LAST"].map((kind) => run.eventCycles.subarray(run.bases[run.kinds[kind]]));
    const [asked, last] = [times[0][own[0]], times[2][own[own.length - 1]]];
    const moving = own.reduce((sum, burst) => sum + times[2][burst] - times[1][burst] + 1, 0);
    const count = `${decimal(own.length)} ${own.length === 1 ? "burst" : "bursts"} of ${decimal(beats)} ${beats === 1 ? "beat" : "beats"}`;
    if (last <= 0) return [count];
    return [count, `${decimal(last - asked)} cycles from the first request to the last beat, ${decimal(moving)} of them from first to last beats`, run.memory];
  }
}
