"use strict";

// The page of the debugger: where it stands, the state there, chains of causes, and the instructions.

const PAGE_ROWS = 16;
const MOST_LINKS = 60;
const MOST_QUEUED = 8;

class DebugPage {
  constructor(file) {
    this.run = new Recorded(file);
    [this.cycle, this.selected, this.firstRow] = [0, NEVER, 0];
    this.memories = new Memories(this.run);
    this.counters = new Counters(this.run);
    this.breakpoints = new Breakpoints(this.run, this.memories, this.counters);
    const link = (index) => this.#link(index);
    [this.pads, this.panel] = [new Pads(this.run, this.memories, link), new Panel(this.run, this.memories, link)];
    this.lanes = new Lanes(this.run, { chosen: (cycle) => this.goto(cycle), looked: (window) => this.#window(window) });
    this.#head();
    this.#controls();
    this.#keys();
    this.#layerTable();
    this.#errors();
    followTheme(byId("theme"), () => this.draw());
  }

  draw() {
    this.#legend();
    if (this.state) this.show();
    else this.#begin();
    this.#window(this.lanes.window);
  }

  // Errors

  /** Go to where the first error shows; to the begin of the run where there is none. */
  #begin() {
    const [first] = this.run.errors;
    if (first) this.#gotoError(first);
    else this.show();
  }

  #gotoError([, , instruction, cycle]) {
    this.#move(cycle, instruction);
  }

  #errors() {
    byId("errors-section").hidden = !this.run.errors.length;
    const rows = this.run.errors.map((error, number) => {
      const [kind, text, instruction, cycle, others] = error;
      const own = instruction === NEVER ? make("button", { type: "button", class: "small", click: () => this.#gotoError(error) }, "Cycle") : this.#link(instruction);
      const next = others.map(([index, relation]) => make("li", {}, this.#link(index), ` ${relation}`));
      return make("tr", { "data-error": number }, make("th", { scope: "row" }, own), make("td", {}, decimal(cycle)), make("td", { class: "text" }, kind), make("td", { class: "text long" }, text, make("ul", {}, ...next)));
    });
    byId("errors").replaceChildren(plainTable("A number leads to its instruction; those below the text are to be looked at next", ["Number", "Cycle", "Kind", "Error"], rows));
  }

  // Breakpoints

  #addBreakpoint() {
    try {
      const { text, cycles } = this.breakpoints.add(byId("condition").value);
      byId("break-text").textContent = `${text} begins to hold ${decimal(cycles.length)} ${cycles.length === 1 ? "time" : "times"}`;
      byId("condition").value = "";
    } catch (error) {
      byId("break-text").textContent = error.message;
    }
    this.#listBreakpoints();
  }

  #listBreakpoints() {
    const { points } = this.breakpoints;
    const drop = (number) => {
      points.splice(number, 1);
      this.#listBreakpoints();
    };
    byId("breakpoints").replaceChildren(...points.map(({ text }, number) => make("li", {},
      make("code", {}, text), " ", make("button", { type: "button", class: "small", "data-delete": number, "aria-label": `Delete ${text}`, click: () => drop(number) }, "✕"))));
  }

  /** Go on to the next breakpoint, or back; to the end or the begin of the run where there is none. */
  resume(forwards) {
    const stop = this.breakpoints.nearest(this.cycle, forwards);
    byId("break-text").textContent = stop ? `breakpoint: ${stop.text}` : "the run has no other stop";
    this.goto(stop ? stop.cycle : forwards ? this.run.cycles : 0);
  }

  // Moving

  goto(cycle) {
    this.#move(cycle, NEVER);
  }

  gotoInstruction(index) {
    const started = this.run.started[index];
    this.#move(started === NEVER ? this.run.cycles : started, index);
  }

  #move(cycle, selected) {
    this.cycle = Math.max(0, Math.min(this.run.cycles, cycle));
    this.selected = selected;
    this.firstRow = this.#firstAround(selected === NEVER ? this.#nearest() : selected);
    this.show();
  }

  /** Return the instruction that the list shows for a cycle: the oldest at work, or the next to be dispatched. */
  #nearest() {
    const { units, dispatch } = this.run.at(this.cycle);
    const working = units.flatMap((unit) => unit.working);
    return working.length ? Math.min(...working) : Math.max(0, dispatch.following);
  }

  #firstAround(index) {
    return Math.max(0, Math.min(this.run.instructions - PAGE_ROWS, index - (PAGE_ROWS >> 1)));
  }

  /** Go on by cycles, instructions or layers, or back. */
  step(what, by) {
    if (what === "cycle") return this.goto(this.cycle + by);
    if (what === "layer") return this.#stepLayer(by);
    const unit = byId("unit").value;
    const belongs = (index) => unit === "" || this.run.columns.unit[index] === Number(unit);
    return this.#gotoFound(this.run.next(this.cycle, this.selected, by > 0, belongs));
  }

  #gotoFound(index) {
    if (index !== NEVER) this.gotoInstruction(index);
    return index;
  }

  #stepLayer(by) {
    const begins = this.run.layers.filter(([, , begin, end]) => begin < end).map(([, , begin]) => begin);
    const found = by > 0 ? begins.find((begin) => begin > this.cycle) : begins.findLast((begin) => begin < this.cycle);
    if (known(found)) this.goto(found);
  }

  /** Go to the next match of the search box, or to the one before. */
  find(forwards) {
    let matches;
    try {
      matches = matching(this.run, byId("find").value);
    } catch (error) {
      byId("matches").textContent = error.message;
      return;
    }
    const found = this.#gotoFound(this.run.next(this.cycle, this.selected, forwards, (index) => matches.has(index)));
    const count = `${decimal(matches.size)} ${matches.size === 1 ? "instruction matches" : "instructions match"}`;
    byId("matches").textContent = found === NEVER ? `${count}; none ${forwards ? "behind" : "before"} this cycle` : count;
  }

  #controls() {
    const { run } = this;
    const any = make("option", { value: "" }, "of any unit");
    byId("unit").append(any, ...run.units.map((name, unit) => make("option", { value: unit }, `of the ${name} unit`)));
    byId("layer").append(...run.layers.map(([name], layer) => make("option", { value: layer }, name)));
    for (const id of ["layer-steps", "layers-section", "path-layer"]) byId(id).hidden = !run.layers.length;
    byId("layer").addEventListener("change", (event) => this.#gotoLayer(Number(event.target.value)));
    for (const button of document.querySelectorAll("[data-step]")) button.addEventListener("click", () => this.step(button.dataset.step, Number(button.dataset.by)));
    for (const button of document.querySelectorAll("[data-act]")) button.addEventListener("click", () => this.lanes.act(button.dataset.act));
    for (const button of document.querySelectorAll("[data-page]")) button.addEventListener("click", () => this.#turn(Number(button.dataset.page)));
    byId("cycle").max = run.cycles;
    byId("cycle").addEventListener("change", (event) => this.goto(Math.round(Number(event.target.value) || 0)));
    byId("search").addEventListener("submit", (event) => {
      event.preventDefault();
      if (document.activeElement === byId("cycle")) this.goto(Math.round(Number(byId("cycle").value) || 0));
      else this.find(true);
    });
    document.querySelector("[data-find='-1']").addEventListener("click", () => this.find(false));
    byId("break-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#addBreakpoint();
    });
    for (const button of document.querySelectorAll("[data-continue]")) button.addEventListener("click", () => this.resume(button.dataset.continue === "1"));
    byId("path-run").addEventListener("click", () => this.explain(run.bases[run.kinds.END]));
    byId("path-layer").addEventListener("click", () => this.#layerPath());
    byId("follow").addEventListener("click", () => this.#listAt(this.#nearest()));
  }

  #keys() {
    const steps = { ArrowLeft: ["cycle", -1], ArrowRight: ["cycle", 1], p: ["instruction", -1], n: ["instruction", 1], k: ["layer", -1], j: ["layer", 1] };
    const acts = { "+": "in", "=": "in", "-": "out", Home: "all" };
    addEventListener("keydown", (event) => {
      const scrolls = event.target.closest?.("input, select, .scroll");
      if (scrolls || event.ctrlKey || event.metaKey || event.altKey || !(steps[event.key] || acts[event.key])) return;
      event.preventDefault();
      if (steps[event.key]) this.step(...steps[event.key]);
      else this.lanes.act(acts[event.key]);
    });
  }

  #gotoLayer(layer) {
    this.goto(this.run.layers[layer][2]);
    const first = this.run.columns.layer.indexOf(layer);
    if (first !== NEVER) this.#listAt(first);
  }

  #listAt(index) {
    this.firstRow = this.#firstAround(index + (PAGE_ROWS >> 1) - 1);
    this.#instructions();
  }

  #turn(by) {
    this.firstRow = Math.max(0, Math.min(this.run.instructions - PAGE_ROWS, this.firstRow + by * PAGE_ROWS));
    this.#instructions();
  }

  // Showing

  #head() {
    const { name, configuration, memory, instructions, cycles, fault } = this.run;
    byId("title").textContent = `Debugger: ${name}`;
    const stopped = fault ? ` · the hardware stops the run: ${fault}` : "";
    byId("about").textContent = `Cycle simulator · configuration ${configuration} · memory: ${memory} · ${decimal(instructions)} instructions · ${decimal(cycles)} cycles${stopped}`;
  }

  #legend() {
    const items = this.run.states.map((name) => make("li", {}, swatch(name), STATE_TITLES[name] ?? name));
    byId("legend").replaceChildren(...items);
  }

  #window([from, to]) {
    byId("window").textContent = `Cycles ${decimal(from)} to ${decimal(to)} are shown`;
  }

  show() {
    const { run, cycle, selected } = this;
    this.state = run.at(cycle);
    this.lanes.show(cycle, selected);
    byId("cycle").value = cycle;
    const layer = this.state.layer;
    if (layer !== NEVER) byId("layer").value = layer;
    byId("path-layer").disabled = layer === NEVER;
    const parts = [`Cycle ${decimal(cycle)} of ${decimal(run.cycles)}`];
    if (layer !== NEVER) parts.push(`layer ${run.layers[layer][0]}`);
    if (selected !== NEVER) parts.push(`instruction ${selected}: ${run.lines[selected]}`);
    byId("place").textContent = parts.join(" · ");
    byId("state").replaceChildren(...this.state.units.map((view, unit) => this.#unitCard(view, unit)), this.#sharedCard(), this.#counterCard());
    this.panel.show(selected);
    this.pads.show(cycle, selected);
    this.#instructions();
  }

  /** Return a button that goes to the start of an instruction. */
  #link(index) {
    return make("button", { type: "button", class: "small", "data-instruction": index, title: this.run.lines[index], click: () => this.gotoInstruction(index) }, String(index));
  }

  #unitCard(view, unit) {
    const { run } = this;
    const why = make("button", { type: "button", class: "small", "data-why": unit, click: () => this.explain(run.freeing(unit, this.cycle)) }, "Why?");
    const queue = view.queue.slice(0, MOST_QUEUED).map((index) => this.#link(index));
    const more = view.queue.length > MOST_QUEUED ? ` and ${decimal(view.queue.length - MOST_QUEUED)} more` : "";
    const level = make("meter", { min: 0, max: run.depths[unit], value: view.queue.length, "aria-label": `Queue of the ${run.units[unit]} unit` });
    return make("article", { class: "card", "data-unit": run.units[unit] },
      make("h3", {}, `${run.units[unit]} unit`),
      make("p", { class: "doing" }, swatch(view.name), make("span", {}, view.text), " ", view.waits ? why : null),
      this.#instructionLine("In progress", view.working),
      this.#instructionLine("Next", view.queue.slice(0, 1)),
      make("p", {}, `Queue ${view.queue.length} of ${run.depths[unit]} `, level),
      make("p", { class: "links" }, ...queue, more));
  }

  #instructionLine(title, indices) {
    const own = indices.flatMap((index) => [make("dd", { class: "wide" }, this.#link(index), " ", make("code", {}, this.run.lines[index]))]);
    return make("dl", {}, make("dt", {}, title), ...(own.length ? own : [make("dd", { class: "wide" }, NONE)]));
  }

  #sharedCard() {
    const { run, state } = this;
    const tokens = state.tokens.map(({ held, taken }, edge) => [
      make("dt", {}, run.edges[edge].name),
      make("dd", { "data-edge": run.edges[edge].name }, `${held}${taken > held ? ` and ${taken - held} promised` : ""}`),
    ]);
    const { following, text } = state.dispatch;
    const bursts = state.bursts.slice(0, 4).map(({ client, instruction, beats, phase }) =>
      make("li", {}, `${beats} beats of ${instruction === NEVER ? client : `instruction ${instruction}`} ${phase}`));
    const inFlight = state.bursts.length === 1 ? "1 burst in flight" : `${state.bursts.length} bursts in flight`;
    return make("article", { class: "card" },
      make("h3", {}, "tokens"), make("dl", { id: "tokens" }, ...tokens.flat()),
      make("h3", {}, "dispatch"), make("p", { id: "dispatch" }, text, following === NEVER ? null : ": ", following === NEVER ? null : this.#link(following)),
      make("h3", {}, "memory"), make("p", { id: "memory" }, inFlight), make("ul", {}, ...bursts));
  }

  #counterCard() {
    const counted = this.counters.at(this.cycle).filter(([, value]) => value > 0);
    const rows = counted.flatMap(([name, value]) => [make("dt", {}, name), make("dd", { "data-counter": name }, decimal(value))]);
    return make("article", { class: "card counters" }, make("h3", {}, "counters of the cycles before"), make("dl", { id: "counters" }, ...rows));
  }

  #instructions() {
    const { run, firstRow } = this;
    const last = Math.min(run.instructions, firstRow + PAGE_ROWS);
    const rows = [];
    for (let index = firstRow; index < last; index++) {
      const layer = run.columns.layer[index];
      const why = make("button", { type: "button", class: "small", click: () => this.explain(run.bases[run.kinds.STARTED] + index) }, "Why?");
      rows.push(make("tr", { "data-row": index, "aria-current": index === this.selected ? "true" : null },
        make("th", { scope: "row" }, this.#link(index)), make("td", { class: "text" }, run.units[run.columns.unit[index]]),
        make("td", {}, cycleText(run.queued[index])), make("td", {}, cycleText(run.started[index])), make("td", {}, cycleText(run.retired[index])),
        make("td", {}, why), make("td", { class: "text" }, layer === NEVER ? "" : run.layers[layer][0]), make("td", { class: "text" }, make("code", {}, run.lines[index]))));
    }
    const heads = ["Number", "Unit", "Queued", "Starts", "Retires", "", "Layer", "Assembly"];
    byId("instructions").replaceChildren(plainTable("Instructions in the order of the stream, with the cycles of their events", heads, rows));
    byId("listed").textContent = `${decimal(firstRow)} to ${decimal(last - 1)} of ${decimal(run.instructions)}`;
  }

  #layerTable() {
    const { run } = this;
    const counts = new Array(run.layers.length).fill(0);
    for (const layer of run.columns.layer) if (layer !== NEVER) counts[layer]++;
    const rows = run.layers.map(([name, op, begin, end], layer) => make("tr", { "data-row": layer },
      make("th", { scope: "row", class: "text" }, make("button", { type: "button", class: "small", click: () => this.#gotoLayer(layer) }, name)),
      make("td", { class: "text" }, op), make("td", {}, decimal(begin)), make("td", {}, decimal(end)), make("td", {}, decimal(end - begin)), make("td", {}, decimal(counts[layer]))));
    byId("layers").replaceChildren(plainTable("A layer leads to its begin and to its first instruction", ["Layer", "Operator", "Begins", "Ends", "Cycles", "Instructions"], rows));
  }

  #layerPath() {
    const layer = this.state.layer;
    const last = this.run.lastOf(layer);
    if (last !== NEVER) this.explain(this.run.bases[this.run.kinds.RETIRED] + last, this.run.layers[layer][2]);
  }

  /** Show the chain of causes of an event. */
  explain(number, since = NEVER) {
    if (number === null) return;
    const { run } = this;
    const chain = run.chain(number, since);
    const links = run.joined(chain.links);
    this.lanes.mark(chain.links.map(({ cause }) => cause.instruction));
    byId("why-text").textContent = `${run.eventText(chain.event)}: ${chain.event.cycle === NEVER ? "never" : `cycle ${decimal(chain.event.cycle)}`}. ${this.#rootText(chain)}`;
    const rows = links.slice(0, MOST_LINKS).map((link) => make("tr", {},
      make("td", {}, decimal(link.cycles)), make("td", {}, cycleText(link.cause.cycle)), make("td", { class: "text" }, run.reasonText(link)),
      make("td", { class: "text" }, link.cause.instruction === NEVER ? null : this.#link(link.cause.instruction), " ", run.eventText(link.cause))));
    if (links.length > MOST_LINKS) {
      const rest = links.slice(MOST_LINKS);
      rows.push(make("tr", {}, make("td", {}, decimal(rest.reduce((sum, link) => sum + link.cycles, 0))), make("td", {}, ""), make("td", { class: "text" }, `${decimal(rest.length)} links more`), make("td", {}, "")));
    }
    const total = Math.max(1, chain.cycles);
    const reasons = run.byReason(chain.links).map(({ text, count, cycles }) => make("tr", {}, make("td", {}, decimal(cycles)), make("td", {}, percent(cycles / total)), make("td", {}, decimal(count)),
      make("td", { class: "text" }, make("button", { type: "button", class: "small", "data-reason": text, click: () => this.#longest(chain, text) }, text))));
    byId("links").replaceChildren(plainTable("Each event waited for the next; the bursts of an instruction are one link", ["Cycles", "At cycle", "Waited for", "Event"], rows));
    byId("reasons").replaceChildren(plainTable("The cycles of the chain by what its events waited for; a reason leads to the longest wait", ["Cycles", "Share", "Links", "Waited for"], reasons));
    byId("chain").hidden = false;
  }

  /** Go to the instruction of a chain that waited longest for a reason. */
  #longest(chain, text) {
    const own = chain.links.filter((link) => this.run.reasonText(link) === text);
    const { event, cause } = own.reduce((most, link) => (link.cycles > most.cycles ? link : most));
    const blamed = this.run.blamed.includes(own[0].reason) || event.instruction === NEVER;
    const index = blamed ? cause.instruction : event.instruction;
    if (index !== NEVER) this.gotoInstruction(index);
    else this.goto(Math.max(0, cause.cycle));
  }

  #rootText({ links, root, turns, cycles }) {
    const sum = `${decimal(links.length)} links, ${decimal(cycles)} cycles`;
    if (root.kind === this.run.kinds.NOTHING) return `${sum}, to an event that no instruction of the stream provides.`;
    if (turns) return `${sum}, to ${this.run.eventText(root)}: a cycle of waits.`;
    return `${sum}, back to cycle ${decimal(root.cycle)}: ${this.run.eventText(root)}.`;
  }
}

/** Return the mark of a state of a unit. */
const swatch = (name) => make("span", { class: "swatch", style: `background: ${colour(STATE_COLOURS[name])}` });

/** Return a table with a caption, the titles of its columns, and rows. */
function plainTable(caption, heads, rows) {
  const left = new Set(["Unit", "Layer", "Assembly", "Operator", "Waited for", "Event", "Access", "Tensor", "Values", "Kind", "Error"]);
  const head = heads.map((title) => make("th", { scope: "col", class: left.has(title) ? "plain text" : "plain" }, title));
  return make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}

start(DebugPage, unpackColumns);
