"use strict";

// The memories of a recorded run: what instructions touch, whence they have it, and what lies in scratchpads.

const [READS, WRITES] = [1, 2];

class Memories {
  constructor(run) {
    const { columns } = run;
    this.run = run;
    this.names = new Map([...run.scratchpads.map(([memory, name]) => [memory, name]), [run.dram, "DRAM"]]);
    this.lanes = new Map(run.element_lanes);
    this.owner = summed(columns.touch);
    this.reader = summed(columns.flow);
    [this.memory, this.kind, this.begin, this.width, this.stride, this.count, this.area] = ["memory", "kind", "begin", "width", "stride", "count", "area"].map((name) => columns[`touch ${name}`]);
    this.tables = new Map(run.scratchpads.map(([memory, , depth]) => [memory, this.#table(memory, depth)]));
  }

  /** Return an empty table of the writers of a scratchpad, and its writes in the order in which they end. */
  #table(memory, depth) {
    const { retired } = this.run;
    const writes = [];
    for (let touch = 0; touch < this.owner.length; touch++) if (this.memory[touch] === memory && this.kind[touch] & WRITES && retired[this.owner[touch]] !== NEVER) writes.push(touch);
    writes.sort((a, b) => retired[this.owner[a]] - retired[this.owner[b]] || a - b);
    return { writes, times: Int32Array.from(writes, (touch) => retired[this.owner[touch]]), next: 0, last: new Int32Array(depth).fill(NEVER) };
  }

  /** Return the instruction that wrote each element of a scratchpad last, of those that have retired at a cycle. */
  writers(memory, cycle) {
    const table = this.tables.get(memory);
    const end = lowerBound(table.times, cycle);
    if (end < table.next) {
      table.last.fill(NEVER);
      table.next = 0;
    }
    for (; table.next < end; table.next++) {
      const touch = table.writes[table.next];
      for (const [from, to] of this.rows(touch)) table.last.fill(this.owner[touch], from, to);
    }
    return table.last;
  }

  /** Yield begin and end of each row of a touch. */
  *rows(touch) {
    for (let row = 0; row < this.count[touch]; row++) {
      const from = this.begin[touch] + row * this.stride[touch];
      yield [from, from + this.width[touch]];
    }
  }

  /** Return what lies in a scratchpad at a cycle: neighbouring elements with one label, and their writers. */
  held(memory, cycle) {
    const { label } = this.run.columns;
    const writers = this.writers(memory, cycle);
    const found = [];
    for (let element = 0; element < writers.length; element++) {
      const writer = writers[element];
      if (writer === NEVER) continue;
      const last = found[found.length - 1];
      if (last && last.end === element && last.label === label[writer]) {
        last.end++;
        last.writers.add(writer);
      } else found.push({ begin: element, end: element + 1, label: label[writer], writers: new Set([writer]) });
    }
    return found.map((each) => ({ ...each, label: this.run.labels[each.label], writers: [...each.writers].sort((a, b) => a - b) }));
  }

  /** Return whether a touch has a row with a place. */
  holds(touch, place) {
    const offset = place - this.begin[touch];
    if (offset < 0) return false;
    const row = Math.min(Math.floor(offset / Math.max(this.stride[touch], 1)), this.count[touch] - 1);
    return offset - row * this.stride[touch] < this.width[touch];
  }

  /** Return the values that a touch leaves in a place; null where the page does not have them. */
  valuesAt(touch, place) {
    const first = this.run.columns["touch value"][touch];
    if (first === NEVER || !this.run.columns.values.length) return null;
    const offset = place - this.begin[touch];
    const row = Math.min(Math.floor(offset / Math.max(this.stride[touch], 1)), this.count[touch] - 1);
    const lanes = this.lanes.get(this.memory[touch]);
    const from = first + (row * this.width[touch] + offset - row * this.stride[touch]) * lanes;
    return [...this.run.columns.values.subarray(from, from + lanes)];
  }

  /** Return the touches of an instruction. */
  of(instruction) {
    const found = [];
    for (let touch = lowerBound(this.owner, instruction); this.owner[touch] === instruction; touch++) found.push(touch);
    return found;
  }

  /** Return the touches of an element of a scratchpad or of a byte of DRAM, in the order of the stream. */
  history(memory, place) {
    const found = [];
    for (let touch = 0; touch < this.owner.length; touch++) if (this.memory[touch] === memory && this.holds(touch, place)) found.push(touch);
    return found;
  }

  /** Return by memory the instructions that wrote what an instruction reads; -1 stands for what was there before. */
  sources(instruction) {
    const found = new Map();
    for (let flow = lowerBound(this.reader, instruction); this.reader[flow] === instruction; flow++) this.#add(found, flow, this.#writer(flow));
    return found;
  }

  /** Return by memory the instructions that read what an instruction wrote. */
  readers(instruction) {
    const found = new Map();
    for (let flow = 0; flow < this.reader.length; flow++) if (this.#writer(flow) === instruction) this.#add(found, flow, this.reader[flow]);
    return found;
  }

  #writer(flow) {
    return this.reader[flow] - this.run.columns["flow writer"][flow];
  }

  #add(found, flow, instruction) {
    const memory = this.run.columns["flow memory"][flow];
    found.set(memory, [...(found.get(memory) ?? []), instruction]);
  }

  /** Return the places of a touch as text. */
  placesText(touch) {
    const [begin, width, count, stride] = [this.begin[touch], this.width[touch], this.count[touch], this.stride[touch]];
    const shown = (place) => (this.memory[touch] === this.run.dram ? `0x${place.toString(16)}` : String(place));
    const first = width > 1 ? `${shown(begin)}..${shown(begin + width - 1)}` : shown(begin);
    return count === 1 ? first : `${first}, ${count} rows at a distance of ${stride}`;
  }

  verb(touch) {
    return ["", "reads", "writes", "adds to"][this.kind[touch]];
  }

  areaName(touch) {
    return this.area[touch] === NEVER ? "" : this.run.areas[this.area[touch]][0];
  }
}
