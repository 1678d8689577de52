"use strict";

// The layers of two runs side by side: of another point, of another workload, or both.

class Beside {
  constructor(detail) {
    this.detail = detail;
    for (const id of ["other-point", "other-workload"]) byId(id).addEventListener("change", () => this.#chose());
    byId("beside-measure").addEventListener("change", () => this.#bars());
  }

  #chose() {
    const [point, workload] = ["other-point", "other-workload"].map((id) => byId(id).value);
    this.detail.other = { point: point === "" ? null : Number(point), workload: workload || null };
    this.detail.changed();
  }

  /** Show the layers of the chosen run beside those of the other one, if there is another. */
  show(row) {
    const { detail } = this;
    const { state, other } = detail;
    this.#offer(row);
    const beside = state.rows.find(({ point }) => point === (other.point ?? row.point));
    const workload = state.data.workloads.find(({ name }) => name === (other.workload ?? detail.workload));
    const isOther = beside && workload && (beside !== row || workload.name !== detail.workload);
    byId("beside").hidden = !isOther;
    if (!isOther) return;
    this.sides = [
      { title: `Point ${row.point} on ${detail.workload}`, layers: detail.layers },
      { title: `Point ${beside.point} on ${workload.name}`, layers: layersOf(state.data, workload, beside.index) },
    ];
    byId("beside-title").textContent = this.sides.map(({ title }) => title).join(" beside ").replace("Point", "Layers of point").replace(" Point", " point");
    const measures = Object.entries(layerMeasures(this.sides.flatMap(({ layers }) => layers)));
    const before = byId("beside-measure").value;
    byId("beside-measure").replaceChildren(...measures.map(([key, { title }]) => make("option", { value: key, selected: key === before }, title)));
    pairTable(byId("beside-table"), this.sides);
    this.#bars();
  }

  #offer(row) {
    const { state, other, workload } = this.detail;
    const option = (value, text, selected) => make("option", { value, selected }, text);
    byId("other-point").replaceChildren(
      option("", "the same point", other.point === null),
      ...state.rows.filter((one) => one !== row).map(({ point }) => option(point, `point ${point}`, point === other.point)),
    );
    byId("other-workload").replaceChildren(
      option("", "the same workload", other.workload === null),
      ...state.data.workloads.filter(({ name }) => name !== workload).map(({ name }) => option(name, name, name === other.workload)),
    );
    byId("other-workload").parentElement.hidden = state.data.workloads.length < 2;
  }

  #bars() {
    const measure = layerMeasures(this.sides.flatMap(({ layers }) => layers))[byId("beside-measure").value];
    const longest = Math.max(...this.sides.flatMap(({ layers }) => layers.filter(({ on }) => on !== "host").map(measure.value)));
    return Promise.all(this.sides.map(({ title, layers }, side) => {
      byId(`side-title-${side}`).textContent = title;
      return drawBars(byId(`side-${side}`), layers, measure, longest);
    }));
  }
}

/** Return the layers of two runs in pairs of the same name; of a repeated name, the first with the first and so on. */
function layerPairs([first, second]) {
  const named = (layers) => {
    const seen = new Map();
    return new Map(layers.map((layer) => {
      const place = seen.get(layer.name) ?? 0;
      seen.set(layer.name, place + 1);
      return [`${layer.name} ${place}`, layer];
    }));
  };
  const [a, b] = [named(first), named(second)];
  return [...new Set([...a.keys(), ...b.keys()])].map((key, index) => ({ index, a: a.get(key), b: b.get(key), any: a.get(key) ?? b.get(key) }));
}

function pairTable(place, sides) {
  const of = (side, key, title, text, left = false) => ({
    key: `${key} ${side}`, title, left, unit: sides[side === "a" ? 0 : 1].title, value: (pair) => pair[side]?.[key], text: (pair) => (pair[side] ? text(pair[side]) : NONE),
  });
  const change = ({ a, b }) => (a?.cycles && known(b?.cycles) ? b.cycles / a.cycles - 1 : null);
  const signed = (value) => (known(value) ? `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(100 * value).toFixed(1)} %` : NONE);
  const both = (key, title, text, left) => ["a", "b"].map((side) => of(side, key, title, text, left));
  const columns = [
    { key: "name", title: "Layer", left: true, long: true, value: (pair) => pair.index, text: (pair) => pair.any.name },
    { key: "op", title: "Operator", left: true, value: (pair) => pair.any.op, text: (pair) => pair.any.op },
    ...both("cycles", "Cycles", (layer) => decimal(layer.cycles)),
    { key: "change", title: "Change", unit: "of cycles", value: change, text: (pair) => signed(change(pair)) },
    ...both("utilisation", "Multipliers used", (layer) => percent(layer.utilisation)),
    ...both("bound", "Bound by", boundOf, true),
  ];
  const rows = layerPairs(sides.map(({ layers }) => layers));
  return new SortableTable(place, { caption: "Layers of the same name in one row", columns, rows, label: (pair) => pair.any.name });
}
