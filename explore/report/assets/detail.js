"use strict";

// The chosen point: its figures, the commands that reproduce it, and its layers on one workload.

class Detail {
  /** @param changed called when a choice within this part of the page changes. */
  constructor(state, changed) {
    this.state = state;
    this.workload = null;
    this.other = { point: null, workload: null }; // what stands beside; nothing: the same
    this.measure = "cycles"; // of the bars
    this.beside = new Beside(this);
    this.changed = () => {
      this.show();
      changed();
    };
    byId("workload").addEventListener("change", (event) => {
      this.workload = event.target.value;
      this.changed();
    });
    byId("measure").addEventListener("change", (event) => {
      this.measure = event.target.value;
      this.#bars();
      changed();
    });
    byId("copy").addEventListener("click", () => this.#copy());
  }

  /** Show the chosen point everywhere on the page. */
  show() {
    const { state } = this;
    const row = state.row;
    byId("chosen").hidden = !row;
    if (!row) return;
    this.#offerWorkloads();
    byId("summary-title").textContent = `Point ${row.point}`;
    byId("chosen-title").textContent = `Point ${row.point} on ${this.workload}`;
    byId("summary").replaceChildren(...this.#figures(row));
    byId("commands").textContent = commandsOf(state.data, row, this.#chosenWorkload()).join("\n");
    byId("copied").textContent = "";
    this.layers = layersOf(state.data, this.#chosenWorkload(), row.index);
    this.#run(row);
    this.#charts(row);
    this.beside.show(row);
  }

  #chosenWorkload() {
    return this.state.data.workloads.find(({ name }) => name === this.workload);
  }

  #offerWorkloads() {
    const names = this.state.workloads.map(({ name }) => name);
    if (!names.includes(this.workload)) this.workload = names[0];
    byId("workload").replaceChildren(...names.map((name) => make("option", { selected: name === this.workload }, name)));
    byId("workload-label").hidden = names.length < 2;
  }

  #figures(row) {
    const { state } = this;
    const line = (field) => [make("dt", {}, field.label), make("dd", {}, `${field.text(row[field.key])}${field.more?.(row) ?? ""}`)];
    const parameters = state.fields.filter((field) => !field.result);
    const limits = known(row.limits) ? [make("hr"), make("dt", {}, "Limits"), make("dd", { class: row.limits_why ? "wide" : null }, row.limits_why || VERDICT_TEXTS[row.limits])] : [];
    return [...parameters.flatMap(line), make("hr"), ...state.results.flatMap(line), ...limits];
  }

  #run(row) {
    const { runs, name } = this.#chosenWorkload();
    const [cycles, macs, used] = [runs.cycles[row.index], runs.macs[row.index], runs.utilisation[row.index]];
    const own = runs.default_cycles?.[row.index];
    const gain = known(own) ? ` by tuning (${decimal(own)} by the default choices)` : "";
    byId("run").textContent = `${name}: ${decimal(cycles)} cycles${gain}, ${decimal(macs / 1e6, 1)} million MACs, ${percent(used)} of the multipliers`;
  }

  #charts(row) {
    const { layers } = this;
    if (!layers.length) {
      for (const id of ["bars", "roofline"]) drawNothing(byId(id), "No layers were recorded for this run.");
      byId("layers").replaceChildren();
      return;
    }
    const measures = Object.entries(layerMeasures(layers));
    byId("measure").replaceChildren(...measures.map(([key, { title }]) => make("option", { value: key, selected: key === this.measure }, title)));
    layerTable(byId("layers"), layers, `Layers of point ${row.point} on ${this.workload}, in the order in which they run`);
    const { peak, bus } = this.state.data.points;
    this.#bars();
    drawRoofline(byId("roofline"), layers, peak[row.index], bus[row.index]);
  }

  #bars() {
    return drawBars(byId("bars"), this.layers, layerMeasures(this.layers)[byId("measure").value]);
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(byId("commands").textContent);
      byId("copied").textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(byId("commands"));
      byId("copied").textContent = "This browser does not let pages copy; the commands are selected.";
    }
  }
}

/** Return the commands that write a point's configuration and its Verilog, and compile and run the network. */
function commandsOf(data, { point, index }, workload) {
  const file = `point${point}.toml`;
  const commands = [`vdla config ${data.points.settings[index]} -o ${file}`, `vdla verilog --config ${file} -o point${point}/`];
  if (workload.model) commands.push(`vdla compile ${workload.model} --config ${file} --tuned none -o point${point}.vdla`, `vdla run point${point}.vdla --device cycle`);
  else commands.push(`# ${workload.name} is a layer that the specification gives by its shape; vdla compile takes ONNX files`);
  const own = workload.runs.default_cycles?.[index];
  if (known(own) && own !== workload.runs.cycles[index]) commands.push(`# this compiles the default choices, ${decimal(own)} cycles; [tune] of the specification found the ${decimal(workload.runs.cycles[index])}`);
  return commands;
}

/** Return the layers of a point on a workload. */
function layersOf(data, workload, index) {
  const { shapes, shape, cycles, bytes_read, bytes_written, energy_pj, bound } = workload.layers;
  const found = shapes[shape[index]];
  if (!found) return [];
  const peak = data.points.peak[index];
  return found.name.map((name, number) => {
    const [macs, own] = [found.macs[number], cycles[index][number]];
    return {
      index: number, name, op: found.op[number], on: found.on[number], macs, cycles: own,
      utilisation: own && peak ? macs / peak / own : null,
      bytes_read: bytes_read[index][number], bytes_written: bytes_written[index][number],
      energy_pj: energy_pj[index][number], bound: bound[index][number],
    };
  });
}
