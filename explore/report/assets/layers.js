"use strict";

// The layers of one run: their table, bars and roofline. Shared by the pages of a sweep and of a run.
//
// A layer has: index, name, op, on, cycles, macs, utilisation, bytes_read, bytes_written, energy_pj, bound, reason; of a run also seconds.

const BOUND_COLOURS = { compute: "blue", memory: "orange", latency: "pink", host: "grey" };

const kib = (bytes) => (known(bytes) ? decimal(bytes / 1024, 1) : NONE);
const boundOf = (layer) => layer.bound || (layer.on === "host" ? "host" : NONE);

function layerColumns(layers) {
  const [factor, unit] = unitFor(layers.map((layer) => layer.energy_pj), ENERGY_UNITS);
  const [perSecond, timeUnit] = unitFor(layers.map((layer) => layer.seconds), TIME_UNITS);
  const total = layers.reduce((sum, layer) => sum + (layer.cycles ?? 0), 0);
  const number = (key, title, text, unit) => ({ key, title, unit, value: (layer) => layer[key], text: (layer) => text(layer[key]) });
  const columns = [
    { key: "name", title: "Layer", left: true, long: true, value: (layer) => layer.index, text: (layer) => layer.name },
    { key: "op", title: "Operator", left: true, value: (layer) => layer.op, text: (layer) => layer.op },
    { key: "on", title: "Runs on", left: true, value: (layer) => layer.on, text: (layer) => layer.on },
    number("cycles", "Cycles", decimal),
    { key: "seconds", title: "Time", unit: timeUnit, value: (layer) => layer.seconds, text: (layer) => significant(known(layer.seconds) ? layer.seconds * perSecond : null) },
    { key: "share", title: "Share", unit: "of cycles", value: (layer) => layer.cycles, text: (layer) => percent(known(layer.cycles) && total ? layer.cycles / total : null) },
    { ...number("macs", "MACs", (value) => (value ? decimal(value / 1e6, 2) : NONE), "millions") },
    number("utilisation", "Used", percent, "multipliers"),
    number("bytes_read", "Read", kib, "KiB"),
    number("bytes_written", "Written", kib, "KiB"),
    { key: "energy_pj", title: "Energy", unit, value: (layer) => layer.energy_pj, text: (layer) => significant(known(layer.energy_pj) ? layer.energy_pj * factor : null) },
    { key: "bound", title: "Bound by", left: true, long: layers.some((layer) => layer.reason), value: boundOf, text: (layer) => layer.reason || boundOf(layer) },
  ];
  return columns.filter(({ key }) => !["energy_pj", "seconds"].includes(key) || layers.some((layer) => known(layer[key])));
}

function layerTable(place, layers, caption) {
  return new SortableTable(place, { caption, columns: layerColumns(layers), rows: layers, label: (layer) => layer.name });
}

/** Return what the bars may show: measures by key, with title and value. */
function layerMeasures(layers) {
  const [factor, unit] = unitFor(layers.map((layer) => layer.energy_pj), ENERGY_UNITS);
  const measures = {
    cycles: { title: "Cycles", value: (layer) => layer.cycles },
    energy: { title: `Energy (${unit})`, value: (layer) => layer.energy_pj * factor },
    bytes: { title: "Bytes moved (KiB)", value: (layer) => (layer.bytes_read + layer.bytes_written) / 1024 },
  };
  if (!layers.some((layer) => known(layer.energy_pj))) delete measures.energy;
  return measures;
}

/** Draw the layers as bars; `longest`, where given, is the end of the axis. */
async function drawBars(place, layers, measure, longest) {
  const values = layers.filter((layer) => layer.on !== "host" && known(measure.value(layer))).map((layer) => ({ ...layerTexts(layer), place: layer.index, length: measure.value(layer) }));
  if (!values.length) return drawNothing(place, "No layer ran on the accelerator.");
  const names = Object.fromEntries(values.map(({ place, name }) => [place, name]));
  return draw(place, {
    width: "container",
    height: 15 * values.length + 70, // of which 70 are the axis and the legend
    autosize: { type: "fit", contains: "padding" },
    data: { values },
    mark: { type: "bar", height: 11 },
    encoding: {
      y: { field: "place", type: "ordinal", title: null, axis: { labelExpr: `${JSON.stringify(names)}[datum.value]`, ticks: false, domain: false, labelLimit: 150 } },
      x: { field: "length", type: "quantitative", title: measure.title, scale: longest ? { domain: [0, longest] } : {}, axis: { format: "~s", tickCount: 5, orient: "top" } },
      color: boundColours("Bound by", values),
      tooltip: layerTooltip(),
      description: { field: "description" },
    },
  });
}

function boundColours(title, values) {
  const present = Object.keys(BOUND_COLOURS).filter((bound) => values.some((value) => value.bound === bound));
  return { field: "bound", type: "nominal", title, scale: { domain: present, range: present.map((bound) => colour(BOUND_COLOURS[bound])) } };
}

/** Return a layer with the texts of its tooltip. */
function layerTexts(layer) {
  const moved = layer.bytes_read + layer.bytes_written;
  return {
    name: layer.name, op: layer.op, bound: boundOf(layer), cycles: decimal(layer.cycles), used: percent(layer.utilisation), moved: `${kib(moved)} KiB`,
    description: `${layer.name}: ${decimal(layer.cycles)} cycles, bound by ${boundOf(layer)}`,
  };
}

function layerTooltip() {
  const titles = { name: "Layer", op: "Operator", cycles: "Cycles", used: "Multipliers used", moved: "Bytes moved", bound: "Bound by" };
  return Object.entries(titles).map(([field, title]) => ({ field, type: "nominal", title }));
}

/** Draw the layers that multiply under the roof of `peak` MAC and `bus` bytes per cycle. */
async function drawRoofline(place, layers, peak, bus) {
  if (!peak || !bus) return drawNothing(place, "The configuration of this point is not known here.");
  const values = layers
    .filter((layer) => layer.macs && layer.cycles && layer.bytes_read + layer.bytes_written)
    .map((layer) => ({ ...layerTexts(layer), intensity: layer.macs / (layer.bytes_read + layer.bytes_written), rate: layer.macs / layer.cycles }));
  if (!values.length) return drawNothing(place, "No layer multiplies on the accelerator.");
  const ridge = peak / bus;
  const [low, high] = [Math.min(ridge, ...values.map((value) => value.intensity)) / 2, Math.max(ridge, ...values.map((value) => value.intensity)) * 2];
  const roof = [low, ridge, high].map((intensity) => ({ intensity, rate: Math.min(peak, intensity * bus) }));
  const axis = (field, title) => ({ field, type: "quantitative", title, scale: { type: "log", nice: false, ...(field === "intensity" ? { domain: [low, high] } : { padding: 14 }) }, axis: { format: "~s", tickCount: 5 } });
  const note = (values, text) => ({ data: { values: [values] }, mark: { type: "text", text, color: colour("quiet"), fontSize: 11.5, ...values.mark }, encoding: {} });
  return draw(place, {
    width: "container",
    height: 360,
    autosize: { type: "fit", contains: "padding" },
    encoding: { x: axis("intensity", "MACs per byte moved"), y: axis("rate", "MACs per cycle") },
    layer: [
      { data: { values: roof }, mark: { type: "line", color: colour("quiet"), strokeWidth: 1.75, aria: false } },
      note({ intensity: high, rate: peak, mark: { align: "right", dy: -8 } }, `${decimal(peak)} MACs per cycle`),
      note({ intensity: low, rate: low * bus, mark: { align: "left", dx: 14, dy: 4 } }, `${decimal(bus, 2)} bytes per cycle`),
      {
        data: { values },
        mark: { type: "point", filled: true, size: 60, opacity: 0.85 },
        encoding: { color: boundColours("Bound by", values), shape: { field: "bound", type: "nominal", title: "Bound by", scale: { domain: ["compute", "memory", "latency"].filter((bound) => values.some((value) => value.bound === bound)) } }, tooltip: layerTooltip(), description: { field: "description" } },
      },
    ],
  });
}
