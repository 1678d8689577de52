"use strict";

// A recorded run: its state at any cycle, and the chain of causes of any event, looked up in columns.
//
// The registers of a state are those at the start of the cycle; the state of a unit says what the unit does in
// the cycle.

const NEVER = -1;

/** Return a cycle as text. */
const cycleText = (cycle) => (cycle === NEVER ? "never" : decimal(cycle));

class Recorded {
  constructor({ meta, columns }) {
    Object.assign(this, meta);
    this.columns = columns;
    this.eventCycles = summed(columns.cycles);
    this.owner = summed(columns.owner);
    this.lines = new TextDecoder().decode(columns.text).split("\n");
    [this.queued, this.started, this.retired] = ["QUEUED", "STARTED", "RETIRED"].map((kind) => this.#events(kind));
    this.lanes = this.units.map((name, unit) => this.#lane(name, unit));
    this.orders = this.units.map((_, unit) => this.#ordered((index) => index < this.reached && columns.unit[index] === unit));
    this.tracks = [0, 1, 2, 3].map((track) => this.#ordered((index) => columns.track[index] === track));
    this.tokens = this.edges.map((_, edge) => this.#tokenTimes(1 << edge));
    this.starts = Array.from({ length: this.instructions }, (_, index) => index).filter((index) => this.started[index] !== NEVER);
    this.starts.sort((a, b) => this.started[a] - this.started[b] || a - b);
    this.startTimes = Int32Array.from(this.starts, (index) => this.started[index]);
    this.dispatchTimes = this.#happened(this.queued.subarray(0, this.reached));
  }

  /** Return the cycles of the events of a kind. */
  #events(kind) {
    const number = this.kinds[kind];
    return this.eventCycles.subarray(this.bases[number], this.bases[number + 1]);
  }

  #lane(name, unit) {
    const [state, length] = [this.columns[`state ${name}`], this.columns[`length ${name}`]];
    return new Lane({ name, state, length, texts: this.texts[unit] });
  }

  #happened(times) {
    return times.filter((cycle) => cycle !== NEVER);
  }

  /** Return the instructions for which `belongs` holds, in order, and when they enter the queue, start, retire. */
  #ordered(belongs) {
    const instructions = [];
    for (let index = 0; index < this.instructions; index++) if (belongs(index)) instructions.push(index);
    const of = (times) => this.#happened(Int32Array.from(instructions, (index) => times[index]));
    return { instructions, queued: of(this.queued), started: of(this.started), retired: of(this.retired) };
  }

  /** Return when tokens of an edge are promised, pushed and popped. */
  #tokenTimes(bit) {
    const { pushes, pops } = this.columns;
    const users = (flags, times) => {
      const found = [];
      for (let index = 0; index < this.reached; index++) if (flags[index] & bit && times[index] !== NEVER) found.push(times[index]);
      return Int32Array.from(found);
    };
    return { promised: users(pushes, this.started), pushed: users(pushes, this.retired), popped: users(pops, this.started) };
  }

  /** Return the state at a cycle. */
  at(cycle) {
    const tokens = this.tokens.map(({ promised, pushed, popped }) => {
      const gone = lowerBound(popped, cycle);
      return { held: lowerBound(pushed, cycle) - gone, taken: lowerBound(promised, cycle) - gone };
    });
    const units = this.units.map((_, unit) => this.#unit(unit, cycle, tokens));
    return { cycle, units, tokens, dispatch: this.#dispatch(cycle, units), bursts: this.#bursts(cycle), layer: this.layerAt(cycle) };
  }

  /** Return the number of the state that a unit is in. */
  stateOf(unit, cycle) {
    const lane = this.lanes[unit];
    const place = lane.first(cycle);
    const idle = this.states.indexOf("idle");
    return cycle < 1 || place >= lane.ends.length ? idle : lane.state[place];
  }

  #unit(unit, cycle, tokens) {
    const { instructions, queued, started } = this.orders[unit];
    const queue = instructions.slice(lowerBound(started, cycle), lowerBound(queued, cycle));
    const tracks = this.tracks.map(({ instructions: own, started: begins, retired }) => own.slice(lowerBound(retired, cycle), lowerBound(begins, cycle)));
    const working = tracks.flat().filter((index) => this.columns.unit[index] === unit).sort((a, b) => a - b);
    const state = this.stateOf(unit, cycle);
    const name = this.states[state];
    const lacks = queue.length ? this.#lacks(queue[0], name, tokens) : [];
    const waits = name !== "busy" && name !== "idle";
    const waiting = name === "memory" ? working[0] : waits ? queue[0] : undefined;
    return { state, name, queue, working, lacks, waits, waiting: waiting ?? NEVER, text: this.#unitText(unit, state, name, lacks) };
  }

  #lacks(head, name, tokens) {
    const { pushes, pops } = this.columns;
    return this.edges.map((_, edge) => edge).filter((edge) => {
      if (name === "token_prev" || name === "token_next") return pops[head] & (1 << edge) && tokens[edge].held === 0;
      return name === "room" && pushes[head] & (1 << edge) && tokens[edge].taken === this.token_depth;
    });
  }

  #unitText(unit, state, name, lacks) {
    if (name !== "room" && lacks.length < 2) return this.texts[unit][state];
    const what = name === "room" ? "room for a token" : "tokens";
    return `waits for ${what} ${lacks.map((edge) => this.edges[edge].name).join(", ")}`;
  }

  #dispatch(cycle, units) {
    const following = lowerBound(this.dispatchTimes, cycle);
    if (following >= this.reached) return { following: NEVER, text: "has moved every instruction" };
    const unit = this.columns.unit[following];
    const full = units[unit].queue.length === this.depths[unit];
    if (this.queued[following] === cycle) return { following, text: "moves it" };
    return { following, text: full ? `waits for a place in the ${this.units[unit]} queue` : "waits for fetch" };
  }

  #bursts(cycle) {
    const [asked, accepted, first, last] = ["ASKED", "ACCEPTED", "FIRST", "LAST"].map((kind) => this.#events(kind));
    const found = [];
    for (let burst = lowerBound(last, cycle); burst < lowerBound(asked, cycle); burst++) {
      const phase = accepted[burst] >= cycle ? "requested" : first[burst] < cycle && first[burst] !== NEVER ? "moving" : "accepted";
      found.push({ client: this.clients[this.columns.client[burst]], instruction: this.owner[burst], beats: this.columns.beats[burst], phase });
    }
    return found;
  }

  /** Return the number of the layer that runs in a cycle, or -1. */
  layerAt(cycle) {
    return this.layers.findIndex(([, , begin, end]) => begin <= cycle && cycle < end);
  }

  // Events and chains

  event(number) {
    const kind = this.bases.findIndex((base) => base > number) - 1;
    const place = number - this.bases[kind];
    const ofBurst = kind >= this.kinds.ASKED && kind <= this.kinds.LAST;
    const instruction = kind <= this.kinds.RETIRED ? place : ofBurst ? this.owner[place] : NEVER;
    return { number, kind, instruction, burst: ofBurst ? place : NEVER, cycle: this.eventCycles[number] };
  }

  /** Return the link from an event to its cause; null where it is a root. */
  firstLink(number) {
    const { cause, reason, edge } = this.columns;
    if (number - cause[number] === NEVER) return null;
    const [event, following] = [this.event(number), this.event(number - cause[number])];
    const known = event.cycle !== NEVER && following.cycle !== NEVER;
    return { event, cause: following, reason: reason[number], edge: edge[number], cycles: known ? event.cycle - following.cycle : 0 };
  }

  /** Return the links of causes from an event to a root, and that root; see `chains.py`. */
  chain(number, since = NEVER) {
    const links = [];
    const met = new Set([number]);
    const first = this.event(number);
    let event = first;
    for (let link = this.firstLink(number); link; link = this.firstLink(event.number)) {
      links.push(link);
      event = link.cause;
      if (met.has(event.number) || (NEVER < event.cycle && event.cycle <= since)) break;
      met.add(event.number);
    }
    return { event: first, links, root: event, cycles: links.reduce((sum, link) => sum + link.cycles, 0), turns: links.some((link) => link.event.number === event.number) };
  }

  /** Return links with those between bursts of one instruction joined, for the reason that costs most. */
  joined(links) {
    const found = [];
    const joins = (before, link) => [before.event, link.event, link.cause].every(({ burst, instruction }) => burst !== NEVER && instruction === before.event.instruction);
    for (const link of links) {
      const last = found[found.length - 1];
      if (last && joins(last[last.length - 1], link)) last.push(link);
      else found.push([link]);
    }
    return found.map((own) => {
      const costs = new Map();
      for (const { reason, cycles } of own) costs.set(reason, (costs.get(reason) ?? 0) + cycles);
      const [reason] = [...costs].reduce((most, one) => (one[1] > most[1] ? one : most));
      return { event: own[0].event, cause: own[own.length - 1].cause, reason, edge: own[0].edge, cycles: own.reduce((sum, link) => sum + link.cycles, 0) };
    });
  }

  /** Return what the events of a chain waited for, with how many of them and the cycles: the largest first. */
  byReason(links) {
    const found = new Map();
    for (const link of links) {
      const text = this.reasonText(link);
      const [count, cycles] = found.get(text) ?? [0, 0];
      found.set(text, [count + 1, cycles + link.cycles]);
    }
    return [...found].map(([text, [count, cycles]]) => ({ text, count, cycles })).sort((a, b) => b.cycles - a.cycles || (a.text < b.text ? -1 : 1));
  }

  reasonText({ reason, edge }) {
    return edge < 0 ? this.reasons[reason] : `${this.reasons[reason]} ${this.edges[edge].name}`;
  }

  eventText({ kind, instruction, burst }) {
    const words = this.words[kind];
    if (burst !== NEVER) return `burst ${burst} of ${instruction === NEVER ? "fetch" : `instruction ${instruction}`} ${words}`;
    return instruction === NEVER ? words : `instruction ${instruction} ${words}`;
  }

  /** Return the event that the wait of a unit at a cycle ends with; null where it does not wait. */
  freeing(unit, cycle) {
    const view = this.at(cycle).units[unit];
    if (!view.waits) return null;
    if (!view.queue.length && !view.working.length) {
      const own = this.orders[unit].instructions[lowerBound(this.orders[unit].queued, cycle)];
      return own === undefined ? this.bases[this.kinds.END] : this.bases[this.kinds.QUEUED] + own;
    }
    if (view.waiting === NEVER) return null;
    return this.bases[view.working.includes(view.waiting) ? this.kinds.RETIRED : this.kinds.STARTED] + view.waiting;
  }

  /** Return the last instruction of a layer to retire, or -1. */
  lastOf(layer) {
    let found = NEVER;
    for (let index = 0; index < this.instructions; index++) {
      if (this.columns.layer[index] === layer && this.retired[index] !== NEVER && (found === NEVER || this.retired[index] > this.retired[found])) found = index;
    }
    return found;
  }

  // Moving

  /** Return the place in `starts` that a step from a cycle and a chosen instruction leads to. */
  placeOf(cycle, selected, forwards) {
    const [first, end] = [lowerBound(this.startTimes, cycle), lowerBound(this.startTimes, cycle + 1)];
    if (selected === NEVER || this.started[selected] !== cycle) return forwards ? end : first;
    const chosen = this.starts.indexOf(selected, first);
    return forwards ? chosen + 1 : chosen;
  }

  /** Return the instruction that starts next, or before, of those for which `belongs` holds; -1: none. */
  next(cycle, selected, forwards, belongs) {
    const step = forwards ? 1 : -1;
    let place = this.placeOf(cycle, selected, forwards) - (forwards ? 0 : 1);
    while (place >= 0 && place < this.starts.length) {
      if (belongs(this.starts[place])) return this.starts[place];
      place += step;
    }
    return NEVER;
  }
}
