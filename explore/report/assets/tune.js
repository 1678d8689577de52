"use strict";

// The page of a tuning log.

const ALL = "all";

/** Return the geometric mean; nothing where there are no values. */
function geometric(values) {
  if (!values.length) return null;
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}

/** Return a target's name with the beginning of its timing digest, which tells targets of one name apart. */
const targetName = ({ target, timing }) => `${target} ${timing.slice(0, 8)}`;

/** Return the tiles of a network whose choices were settled: its cycles, and how they changed. */
function settledTiles({ network, before, cycles }) {
  const change = known(before) ? [[signed(cycles / before - 1), `cycles of the whole network ${network}`]] : [];
  const from = known(before) ? `, ${decimal(before)} by the default choices` : " by the settled choices";
  return [...change, [decimal(cycles), `cycles of ${network}${from}`]];
}

class TunePage {
  constructor(data) {
    this.data = data;
    this.#head();
    this.#controls();
    this.#choosePart(0);
    followTheme(byId("theme"), () => this.draw());
  }

  async draw() {
    const reason = this.part.known ? "No task has enough trials." : "The target is not known here.";
    await Promise.all([this.curves(), drawStandings(byId("standings"), this.rows), drawRanks(byId("ranks"), this.rows, reason)]);
  }

  curves() {
    const { part, task, rows } = this;
    const curves = part.curves.filter((curve) => curve.task === task);
    const row = task === null ? null : rows[task];
    const count = rows.filter(({ left }) => known(left)).length;
    const what = row ? `${row.kind}: ${row.sizes}. Default choice: ${decimal(row.default)} cycles.` : `Geometric mean over ${decimal(count)} tasks, after as many trials of each.`;
    const seeds = Math.max(0, ...curves.map((curve) => curve.seeds));
    byId("curves-text").textContent = `${what} ${seeds > 1 ? "Lines are medians over seeds, bands reach from the best seed to the worst." : "One seed."} A tuning with fewer trials keeps its best to the end.`;
    return drawCurves(byId("curves"), curves, { log: byId("log").checked, bound: row && row.bound && row.default ? row.bound / row.default : null });
  }

  #head() {
    const { name, records, torn, parts } = this.data;
    byId("title").textContent = `Tuning log ${name}`;
    const targets = parts.length > 1 ? `${decimal(parts.length)} targets or versions` : targetName(parts[0]);
    byId("about").textContent = `${decimal(records)} records · ${targets} · cycles are exact: the cycle simulator ran every choice, each task alone`;
    const notes = [torn && "The last line of the log is torn, and left out."];
    if (parts.some((part) => !part.current)) notes.push("Some records are of another version of the kit, whose cycles may differ.");
    const foreign = [...new Set(parts.filter((part) => !part.known).map(targetName))];
    if (foreign.length) notes.push(`No lower bounds and rank correlations are shown for ${foreign.join(", ")}: they need the target, which is no preset; name it with --config and --set.`);
    byId("notes").textContent = notes.filter(Boolean).join(" ");
  }

  #controls() {
    const { parts } = this.data;
    const title = (part) => `${targetName(part)}${part.current ? "" : `, version ${part.version.slice(0, 8)}`}`;
    byId("part-label").hidden = parts.length < 2;
    byId("part").append(...parts.map((part, place) => make("option", { value: place }, title(part))));
    byId("part").addEventListener("change", () => {
      this.#choosePart(Number(byId("part").value));
      this.draw();
    });
    byId("task").addEventListener("change", () => this.#chooseTask(byId("task").value));
    byId("log").addEventListener("change", () => this.curves());
    byId("find").addEventListener("input", () => this.#filter());
  }

  #choosePart(place) {
    this.part = this.data.parts[place];
    this.rows = taskRows(this.part);
    this.task = null;
    const options = this.rows.map((row) => make("option", { value: row.place }, `${nameOf(row)}: ${row.sizes}`));
    byId("task").replaceChildren(make("option", { value: ALL }, "All (geometric mean)"), ...options);
    this.table = taskTable(byId("tasks"), this.rows, (row) => this.#showTask(row));
    this.#summary();
    this.#filter();
  }

  /** Show the curves of a task that was chosen in the table. */
  #showTask(row) {
    byId("task").value = row.place;
    this.#chooseTask(row.place);
    byId("curves-title").scrollIntoView({ block: "nearest" });
  }

  #chooseTask(value) {
    this.task = value === ALL ? null : Number(value);
    this.table.mark((row) => row.place === this.task);
    this.curves();
  }

  #summary() {
    const { part, rows } = this;
    const gained = geometric(rows.map(({ left }) => left).filter(known));
    const reached = geometric(rows.map((row) => row.reached).filter(known));
    const tiles = [
      ...part.settled.flatMap(settledTiles),
      [signed(known(gained) ? gained - 1 : null), "cycles of each task alone, geometric mean over tasks"],
      [percent(reached), "of the best are the lower bound, geometric mean"],
      [`${decimal(rows.filter(({ left }) => known(left) && left < 1).length)} of ${decimal(rows.length)}`, "tasks are faster than by the default choice"],
      [decimal(part.trials), `trials, ${decimal(part.illegal)} of them illegal`],
      [decimal(part.seeds), part.seeds === 1 ? "tuning: one explorer and seed" : "tunings, each with an explorer and a seed"],
      [correlation(median(rows.map((row) => row.learned))), "rank correlation of the learned model, median"],
      [correlation(median(rows.map((row) => row.analytic))), "rank correlation of the compiler's estimate, median"],
    ];
    byId("summary").replaceChildren(...tiles.map(([value, what]) => make("li", {}, make("strong", {}, value), what)));
    const settled = part.settled.map(({ network, tasks, changed }) => make("li", {}, `${network}: ${decimal(changed)} of ${decimal(tasks)} tasks have another choice than the default choice`));
    const none = make("li", {}, "No choices were settled for a whole network, so its gain is not known: tasks alone gain more than they do together");
    byId("settled").replaceChildren(...(settled.length ? settled : [none]));
    byId("why").hidden = !part.reasons.length;
    byId("reasons").replaceChildren(...part.reasons.map(({ why, count }) => make("li", {}, `${decimal(count)}: ${why}`)));
  }

  #filter() {
    const words = byId("find").value.trim().toLowerCase();
    let count = 0;
    this.table.filter((_, own) => {
      const keeps = own.includes(words);
      count += keeps;
      return keeps;
    });
    byId("shown").textContent = `${decimal(count)} of ${decimal(this.rows.length)} tasks shown`;
  }
}

start(TunePage);
