"use strict";

// Breakpoints: conditions on a recorded run, as the cycles at which they begin to hold; see `breakpoints.py`.

const COMPARISONS = { ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, "==": (a, b) => a === b, ">": (a, b) => a > b, "<": (a, b) => a < b };
const CONDITION_FORMS = "write instruction N, /PATTERN/, address N, element MEMORY N, tokens EDGE >= N, queue UNIT >= N or COUNTER >= N";

class Breakpoints {
  constructor(run, memories, counters) {
    Object.assign(this, { run, memories, counters: Object.fromEntries(counters.named), points: [] });
  }

  /** Add the breakpoint that a text describes; throw an error that says what is wrong where it describes none. */
  add(text) {
    const found = { text: text.trim(), cycles: this.cyclesOf(text.trim()) };
    this.points.push(found);
    return found;
  }

  /** Return the nearest breakpoint behind a cycle, or before it, with its cycle; null where there is none. */
  nearest(cycle, forwards) {
    const stops = this.points.map(({ text, cycles }) => {
      const place = forwards ? lowerBound(cycles, cycle + 1) : lowerBound(cycles, cycle) - 1;
      return { text, cycle: cycles[place] };
    });
    const known = stops.filter((stop) => stop.cycle !== undefined);
    return known.reduce((best, stop) => (!best || (forwards ? stop.cycle < best.cycle : stop.cycle > best.cycle) ? stop : best), null);
  }

  /** Return the cycles, ascending, at which a condition begins to hold. */
  cyclesOf(text) {
    if (text.length > 2 && text.startsWith("/") && text.endsWith("/")) return this.#starts(matching(this.run, text.slice(1, -1)));
    const words = text.split(/\s+/);
    const form = `${words[0]} ${words.length}`;
    if (form === "instruction 2") return this.#starts([this.#instruction(words[1])]);
    if (form === "address 2") return this.#starts(this.#touching(this.run.dram, words[1]));
    if (form === "element 3") return this.#starts(this.#touching(this.#named(this.#pads(), words[1], "scratchpad"), words[2]));
    if (form === "tokens 4") return this.#begins(this.#level(this.#named(this.#edges(), words[1], "token edge")), words[2], words[3]);
    if (form === "queue 4") return this.#begins(this.#level(this.#named(this.#queues(), words[1], "unit")), words[2], words[3]);
    if (words.length === 3 && words[1] in COMPARISONS) return this.#begins(this.#named(this.counters, words[0], "counter"), words[1], words[2]);
    throw new Error(`${text || "an empty condition"} has no form of a breakpoint; ${CONDITION_FORMS}`);
  }

  #starts(instructions) {
    const cycles = new Set([...instructions].map((index) => this.run.started[index]).filter((cycle) => cycle !== NEVER));
    return Int32Array.from([...cycles].sort((a, b) => a - b));
  }

  #instruction(text) {
    const index = wholeNumber(text);
    if (index >= this.run.instructions) throw new Error(`instruction ${index} is outside the stream; choose 0 to ${this.run.instructions - 1}`);
    return index;
  }

  #touching(memory, text) {
    return this.memories.history(memory, wholeNumber(text)).map((touch) => this.memories.owner[touch]);
  }

  #pads() {
    return Object.fromEntries(this.run.scratchpads.map(([memory, name]) => [name, memory]));
  }

  #edges() {
    return Object.fromEntries(this.run.edges.map(({ name }, edge) => [name, [this.run.tokens[edge].pushed, this.run.tokens[edge].popped]]));
  }

  #queues() {
    return Object.fromEntries(this.run.units.map((name, unit) => [name, [this.run.orders[unit].queued, this.run.orders[unit].started]]));
  }

  #named(values, name, what) {
    if (!Object.hasOwn(values, name)) throw new Error(`there is no ${what} ${name}; choose ${Object.keys(values).join(", ")}`);
    return values[name];
  }

  /** Return the quantity that events raise and lower. */
  #level([raised, lowered]) {
    const changes = new Map();
    const move = (cycle, by) => changes.set(cycle + 1, (changes.get(cycle + 1) ?? 0) + by);
    for (const cycle of raised) move(cycle, 1);
    for (const cycle of lowered) move(cycle, -1);
    return new Level(summedSteps(changes));
  }

  #begins(counter, sign, text) {
    if (!(sign in COMPARISONS)) throw new Error(`${sign} is not a comparison; write one of ${Object.keys(COMPARISONS).join(" ")}`);
    return counter.begins(sign, wholeNumber(text));
  }
}

/** Return the whole number that a text is, decimal or hexadecimal; throw an error where it is none. */
function wholeNumber(text) {
  const plain = text.replaceAll(",", "");
  if (!/^(\d+|0x[0-9a-f]+)$/i.test(plain)) throw new Error(`${text || "nothing"} is not a whole number; write one, such as 64 or 0x40`);
  return Number(plain);
}

/** Return the instructions whose assembly or layer matches a regular expression. */
function matching(run, text) {
  let pattern;
  try {
    pattern = new RegExp(text);
  } catch (error) {
    throw new Error(`${error.message}; put \\ before characters that stand for themselves`);
  }
  const { lines, layers, columns, instructions } = run;
  const named = layers.map(([name]) => pattern.test(name));
  const found = new Set();
  for (let index = 0; index < instructions; index++) if (pattern.test(lines[index]) || named[columns.layer[index]]) found.add(index);
  return found;
}
