"use strict";

// Spans of a unit at any zoom: found by bisection, and drawn together where they are narrower than a pixel.

const STATE_COLOURS = { busy: "blue", memory: "orange", token_prev: "yellow", token_next: "green", room: "pink", instruction: "grey", idle: "grid" };
const STATE_TITLES = {
  busy: "works", memory: "waits for memory", token_prev: "for the unit before it", token_next: "for the unit after it",
  room: "for room for a token", instruction: "for an instruction", idle: "idle",
};

class Lane {
  /** @param unit state, length and instruction of each span, in order; the first begins in cycle 1. */
  constructor(unit) {
    Object.assign(this, unit);
    this.ends = new Float64Array(unit.length.length);
    let end = 1;
    unit.length.forEach((length, number) => (this.ends[number] = end += length));
  }

  /** Return the number of the first span that ends after a cycle. */
  first(cycle) {
    let [low, high] = [0, this.ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ends[middle] > cycle) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  begin(number) {
    return this.ends[number] - this.length[number];
  }

  /**
   * Return the rectangles of [from, to): {begin, end, state, count, number}. None but the last is shorter than
   * `least` cycles: shorter spans are joined until they are not, and take the state of most of their cycles.
   */
  visible(from, to, least) {
    const found = [];
    let open = null;
    for (let number = this.first(from); number < this.ends.length && this.begin(number) < to; number++) {
      const [begin, end] = [Math.max(from, this.begin(number)), Math.min(to, this.ends[number])];
      if (end <= begin) continue;
      open ??= { begin, cycles: new Map(), count: 0, number };
      open.end = end;
      open.count += 1;
      open.cycles.set(this.state[number], (open.cycles.get(this.state[number]) ?? 0) + end - begin);
      if (end - open.begin >= least) {
        append(found, closed(open));
        open = null;
      }
    }
    if (open) append(found, closed(open));
    return found;
  }

  /** Return the cycles of each of `count` states within [from, to). */
  cyclesOfStates(from, to, count) {
    const cycles = new Array(count).fill(0);
    for (let number = this.first(from); number < this.ends.length && this.begin(number) < to; number++) {
      cycles[this.state[number]] += Math.min(to, this.ends[number]) - Math.max(from, this.begin(number));
    }
    return cycles;
  }
}

function closed({ begin, end, cycles, count, number }) {
  const [state] = [...cycles].reduce((most, one) => (one[1] > most[1] ? one : most));
  return { begin, end, state, count, number };
}

/** Add a rectangle; one of several spans continues the one before it, if that is of several in the same state. */
function append(found, one) {
  const last = found[found.length - 1];
  if (last && last.count > 1 && one.count > 1 && last.state === one.state && last.end === one.begin) {
    last.end = one.end;
    last.count += one.count;
  } else found.push(one);
}

/** Return the window [begin, end) of `length` cycles from a cycle on, at least `least` long, as far as a run of
 *  `cycles` goes. */
function windowFrom(from, length, cycles, least) {
  const whole = Math.min(cycles, Math.max(least, length));
  const begin = Math.max(0, Math.min(cycles - whole, from));
  return [Math.round(begin), Math.round(begin + whole)];
}

/** Return the window that is `factor` times as long as another; the cycle `fixed` stays where it is. */
function zoomed([from, to], factor, fixed, cycles, least) {
  const length = Math.min(cycles, Math.max(least, (to - from) * factor));
  return windowFrom(fixed - ((fixed - from) * length) / (to - from), length, cycles, least);
}
