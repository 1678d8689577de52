"use strict";

// The page of a run.

/** Return the tiles that compare a run with its lower bounds; none without operands in DRAM. */
function movedTiles({ roofline_share, bytes_moved, bytes_once }) {
  if (!bytes_once) return [];
  const times = decimal(bytes_moved / bytes_once, 2);
  return [
    [percent(roofline_share), "of the roofline's speed reached, each layer bound by its MACs or its tensors once"],
    [`${decimal(bytes_moved / 1e6, 1)} MB`, `of DRAM read and written, ${times} times the tensors of each layer`],
  ];
}

/** Return the tiles on launches, operators on the host and copies: value and title. */
function summaryTiles(summary) {
  return [
    [decimal(summary.launches), summary.launches === 1 ? "launch" : "launches"],
    ...movedTiles(summary),
    [percent(summary.mac_share), "of multiply-accumulates on the accelerator"],
    [decimal(summary.host_operators), summary.host_operators === 1 ? "operator on the host" : "operators on the host"],
    [`${kib(summary.bytes_in)} KiB`, "to the accelerator"],
    [`${kib(summary.bytes_out)} KiB`, "back to the host"],
  ];
}

/** Return the measured time of the host as a sentence: it depends on the machine, and is no tile. */
function hostTimeText(summary) {
  const times = [summary.host_seconds ?? 0, summary.copy_seconds ?? 0];
  const [factor, unit] = unitFor(times, TIME_UNITS);
  const [operators, copies] = times.map((seconds) => `${significant(seconds * factor)} ${unit}`);
  return `On the machine that wrote this page, operators on the host took ${operators} and copies ${copies}. This time varies from run to run and is not part of the cycles.`;
}

/** Return the energy of a component with its share. */
function componentText([name, picojoules], total) {
  const [factor, unit] = unitFor([picojoules], ENERGY_UNITS);
  return `${name}: ${significant(picojoules * factor)} ${unit}, ${percent(picojoules / total)}`;
}

function reasonText({ why, count, operators }) {
  const kinds = Object.entries(operators).map(([op, own]) => (own === 1 ? op : `${decimal(own)} ${op}`));
  return `${decimal(count)}: ${why} (${kinds.join(", ")})`;
}

class RunPage {
  constructor(data) {
    this.data = data;
    this.layers = data.layers.map((layer, index) => ({ ...layer, index }));
    this.timeline = data.launches.length ? new Timeline(data) : null;
    byId("timeline-section").hidden = !this.timeline;
    this.#head();
    this.#table();
    followTheme(byId("theme"), () => this.draw());
    followWidth(byId("timeline"), () => this.timeline?.draw());
  }

  async draw() {
    const { data, layers, timeline } = this;
    await Promise.all([timeline?.draw(), this.bars(), drawRoofline(byId("roofline"), layers, data.peak, data.bus)]);
  }

  bars() {
    return drawBars(byId("bars"), this.layers, layerMeasures(this.layers)[byId("measure").value]);
  }

  #head() {
    const { totals, target, name, peak, bus, clock_mhz, clock_source, summary } = this.data;
    byId("title").textContent = `Run of ${name}`;
    byId("about").textContent = `Cycle simulator · configuration ${target.name} · target ${target.digest.slice(0, 12)} · ${decimal(clock_mhz, 1)} MHz`;
    const [perSecond, time] = unitFor([totals.seconds], TIME_UNITS);
    const [perPicojoule, energy] = unitFor([totals.energy_pj], ENERGY_UNITS);
    const tiles = [
      [decimal(totals.cycles), "cycles"],
      [`${significant(known(totals.seconds) ? totals.seconds * perSecond : null)} ${time}`, `at ${decimal(clock_mhz, 1)} MHz, ${clock_source}`],
      [percent(totals.utilisation), `of ${decimal(peak)} multipliers used`],
      totals.macs < 1e5 ? [decimal(totals.macs / 1e3, 1), "thousand multiply-accumulates"] : [decimal(totals.macs / 1e6, 1), "million multiply-accumulates"],
      [`${decimal(bus, 2)} bytes`, "of DRAM per cycle at most"],
    ];
    tiles.push(...summaryTiles(summary));
    if (known(totals.energy_pj)) tiles.splice(2, 0, [`${significant(totals.energy_pj * perPicojoule)} ${energy}`, "energy, from the target's table"]);
    byId("summary").append(...tiles.map(([value, what]) => make("li", {}, make("strong", {}, value), what)));
    byId("energy").hidden = !this.data.energy.length;
    byId("components").append(...this.data.energy.map((entry) => make("li", {}, componentText(entry, totals.energy_pj))));
    byId("host-time").textContent = hostTimeText(summary);
    byId("why").hidden = !summary.reasons.length;
    byId("reasons").append(...summary.reasons.map((reason) => make("li", {}, reasonText(reason))));
    const values = Object.entries(target.parameters).flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, Array.isArray(value) ? value.join(", ") || "none" : String(value))]);
    byId("configuration").append(...values);
    const measures = Object.entries(layerMeasures(this.layers));
    byId("measure").append(...measures.map(([key, { title }]) => make("option", { value: key }, title)));
    byId("measure").addEventListener("change", () => this.bars());
  }

  #table() {
    const table = layerTable(byId("layers"), this.layers, "Layers in the order in which they run");
    const show = () => {
      const words = byId("find").value.trim().toLowerCase();
      let count = 0;
      table.filter((_, own) => {
        const keeps = own.includes(words);
        count += keeps;
        return keeps;
      });
      byId("shown").textContent = `${decimal(count)} of ${decimal(this.layers.length)} layers shown`;
    };
    byId("find").addEventListener("input", show);
    show();
  }
}

start(RunPage);
