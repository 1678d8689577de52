"use strict";

// The performance counters of a recorded run at any cycle; see `levels.py`.

/** A counter that rises by 1 in the cycles `first`, `first + step`, ... `last` of runs, which are in order. */
class Tally {
  constructor(firsts, lasts, step) {
    Object.assign(this, { firsts, lasts, step, before: new Float64Array(firsts.length + 1) });
    firsts.forEach((first, run) => this.before[run + 1] = this.before[run] + Math.floor((lasts[run] - first) / step) + 1);
  }

  /** Return how many cycles before `cycle` count. */
  at(cycle) {
    const run = lowerBound(this.firsts, cycle) - 1;
    if (run < 0) return 0;
    return this.before[run] + Math.floor((Math.min(cycle - 1, this.lasts[run]) - this.firsts[run]) / this.step) + 1;
  }

  /** Return the cycles, at most one, at which a comparison with a number begins to hold. */
  begins(sign, number) {
    return begun(this.before, sign, number, (run, place) => this.firsts[run] + (place - 1) * this.step);
  }

  /** Return the `number`-th cycle from 0 on that does not count; `step` must be 1. */
  uncounted(number) {
    const run = lowerBound(this.firsts.map((first, place) => first - this.before[place]), number);
    return number - 1 + this.before[run];
  }
}

/** A counter of steps, each of which counts in the cycle of its last slot; the store unit takes the slots that `lent` counts. */
class StepTally {
  constructor(run, counter, lent) {
    const { columns, started, instructions } = run;
    const belongs = (index) => columns.counter[index] === counter && started[index] !== NEVER;
    this.own = Int32Array.from({ length: instructions }, (_, index) => index).filter(belongs);
    Object.assign(this, { columns, lent, started: this.own.map((index) => started[index]), before: new Float64Array(this.own.length + 1) });
    this.own.forEach((index, place) => this.before[place + 1] = this.before[place] + columns.steps[index]);
  }

  /** Return the steps issued in the cycles before `cycle`. */
  at(cycle) {
    const place = lowerBound(this.started, cycle) - 1;
    if (place < 0) return 0;
    const begin = this.started[place] + 1;
    const slots = cycle - begin - (this.lent.at(cycle) - this.lent.at(begin));
    return Math.min(this.before[place + 1], this.before[place] + this.#issued(this.own[place], slots));
  }

  begins(sign, number) {
    return begun(this.before, sign, number, (place, step) => {
      const begin = this.started[place] + 1;
      return this.lent.uncounted(begin - this.lent.at(begin) + this.#slotsUntil(this.own[place], step));
    });
  }

  /** Return a row of an instruction: its steps, the slots up to its first, those of each other, all its slots. */
  #row(index) {
    const [steps, first, each] = ["row steps", "row first", "row each"].map((name) => this.columns[name][index]);
    return { steps, first, each, slots: first + (steps - 1) * each };
  }

  /** Return the steps that the first slots of an instruction issue. */
  #issued(index, issued) {
    const { steps, first, each, slots } = this.#row(index);
    return Math.floor(issued / slots) * steps + Math.max(Math.floor((issued % slots - first) / each) + 1, 0);
  }

  /** Return the slots of an instruction up to a step, counted from 1. */
  #slotsUntil(index, step) {
    const { steps, first, each, slots } = this.#row(index);
    return Math.floor((step - 1) / steps) * slots + first + ((step - 1) % steps) * each;
  }
}

/**
 * Return the cycles, at most one, at which a comparison of a count that never falls with a number begins to hold.
 *
 * @param before counts before each part of the run, and at its end.
 * @param cycleOf the cycle in which a part counts up by 1 for the n-th time.
 */
function begun(before, sign, number, cycleOf) {
  const value = number + (sign === ">" ? 1 : 0);
  if (sign.startsWith("<") || value <= 0 || value > before[before.length - 1]) return new Int32Array(0);
  const part = lowerBound(before, value) - 1;
  return Int32Array.of(cycleOf(part, value - before[part]) + 1);
}

/** A quantity that has other values from some cycles on: pairs of a cycle and a value, in order; 0 before. */
class Level {
  constructor(steps) {
    this.cycles = Float64Array.from(steps, ([cycle]) => cycle);
    this.values = steps.map(([, value]) => value);
  }

  /** Return the cycles at which a comparison with a number begins to hold. */
  begins(sign, number) {
    const holds = (value) => COMPARISONS[sign](value, number);
    return Int32Array.from(this.cycles.filter((_, place) => holds(this.values[place]) && !holds(this.values[place - 1] ?? 0)));
  }
}

class Counters {
  constructor(run) {
    const states = run.counters.map(([name, unit, state]) => [name, stateTally(run.lanes[unit], state)]);
    const beats = run.beat_counters.map((name, counter) => [name, beatTally(run, counter)]);
    const lent = new Tally(summed(run.columns["lent first"]), summed(run.columns["lent last"]), 1);
    const steps = run.step_counters.map((name, counter) => [name, new StepTally(run, counter, lent)]);
    this.named = new Map([...states, ...beats, ...steps]);
  }

  /** Return the name and the value of each counter at the start of a cycle. */
  at(cycle) {
    return [...this.named].map(([name, counter]) => [name, counter.at(cycle)]);
  }
}

/** Return the counter of the cycles that a unit is in a state. */
function stateTally(lane, state) {
  const [firsts, lasts] = [[], []];
  for (let span = 0; span < lane.ends.length; span++) {
    if (lane.state[span] !== state) continue;
    firsts.push(span ? lane.ends[span - 1] : 1);
    lasts.push(lane.ends[span] - 1);
  }
  return new Tally(Int32Array.from(firsts), Int32Array.from(lasts), 1);
}

function beatTally(run, counter) {
  const [firsts, lasts] = ["beat first", "beat last"].map((name) => {
    const own = run.columns[name].filter((_, place) => run.columns["beat counter"][place] === counter);
    return summed(own);
  });
  return new Tally(firsts, lasts, run.cycles_per_beat);
}

/** Return changes by cycle as steps: cycle and sum, where the sum changes. */
function summedSteps(changes) {
  let value = 0;
  const moved = [...changes].filter(([, by]) => by !== 0).sort(([a], [b]) => a - b);
  return moved.map(([cycle, by]) => [cycle, value += by]);
}
