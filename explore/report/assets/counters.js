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
    const value = number + (sign === ">" ? 1 : 0);
    if (sign.startsWith("<") || value <= 0 || value > this.before[this.before.length - 1]) return new Int32Array(0);
    const run = lowerBound(this.before, value) - 1;
    return Int32Array.of(this.firsts[run] + (value - 1 - this.before[run]) * this.step + 1);
  }
}

/** A quantity that has other values from some cycles on: pairs of a cycle and a value, in order; 0 before. */
class Level {
  constructor(steps) {
    this.cycles = Float64Array.from(steps, ([cycle]) => cycle);
    this.values = steps.map(([, value]) => value);
  }

  at(cycle) {
    return this.values[lowerBound(this.cycles, cycle + 1) - 1] ?? 0;
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
    const steps = run.step_counters.map((name, counter) => [name, stepLevel(run, counter)]);
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

/** Return the counter of steps, which count when their instruction starts. */
function stepLevel({ columns, started, instructions }, counter) {
  const changes = new Map();
  for (let index = 0; index < instructions; index++) {
    const cycle = started[index] + 1;
    if (columns.counter[index] === counter && cycle > 0) changes.set(cycle, (changes.get(cycle) ?? 0) + columns.steps[index]);
  }
  return new Level(summedSteps(changes));
}

/** Return changes by cycle as steps: cycle and sum, where the sum changes. */
function summedSteps(changes) {
  let value = 0;
  const moved = [...changes].filter(([, by]) => by !== 0).sort(([a], [b]) => a - b);
  return moved.map(([cycle, by]) => [cycle, value += by]);
}
