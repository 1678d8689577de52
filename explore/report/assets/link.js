"use strict";

// The state of the page of a sweep in the address: a link that keeps axes, filters and the chosen point.
//
// The part behind # has a key for each choice that differs from the page's own, and `range.KEY=least..most` for
// each range, by the key of its field.

const OWN = { log: "", find: "", limits: "all", by: "", as: "colour", measure: "cycles", other: "", against: "" };

/** Return the state of the page as the part of an address behind #. */
function linkOf(page) {
  const { state, detail } = page;
  const named = {
    workloads: state.workloads.map(({ name }) => name).join(","), x: state.x, y: state.y, point: state.chosen, log: state.log ? "1" : "", find: state.words,
    limits: state.kept, by: state.by ?? "", as: state.as, workload: detail.workload, measure: byId("measure").value, other: detail.other.point ?? "", against: detail.other.workload ?? "",
  };
  const link = new URLSearchParams();
  for (const [key, value] of Object.entries(named)) if (known(value) && String(value) !== OWN[key]) link.set(key, value);
  for (const [key, range] of state.ranges) link.set(`range.${key}`, rangeInLink(state.field(key), range));
  return link.toString();
}

function rangeInLink(field, range) {
  if (field.values) return endsOf(field, range).join("..");
  return range.map((end) => (Number.isFinite(end) ? String(end) : "")).join("..");
}

/** Return the range of a field that a link holds; nothing where the field or the text is unknown. */
function rangeFromLink(field, text) {
  const ends = text.split("..");
  const range = field && ends.length === 2 ? ends.map((end, side) => typedPlace(field, end, side)) : [];
  return range.some(Number.isFinite) ? range : null;
}

/** Bring the page to the state of a link; what the link does not name is as the page has it on its own. */
function follow(page, text) {
  const link = new URLSearchParams(text);
  const { state, detail } = page;
  const given = (key) => link.get(key) ?? OWN[key] ?? "";
  const there = new Set(state.data.workloads.map(({ name }) => name));
  const names = given("workloads").split(",").filter((name) => there.has(name));
  detail.workload = given("workload") || null;
  detail.measure = given("measure");
  detail.other = { point: /^\d+$/.test(given("other")) ? Number(given("other")) : null, workload: given("against") || null };
  state.restore({
    workloads: names.length ? names : state.data.workloads.slice(0, 1).map(({ name }) => name),
    x: given("x"), y: given("y"), log: given("log") === "1", kept: given("limits"), by: given("by"), as: given("as"), words: given("find"), point: given("point"),
    ranges: (field) => { const own = link.get(`range.${field.key}`); return own === null ? null : rangeFromLink(field, own); },
  });
}

/** Keep the address of the page at its state, and the page at an address that is typed. */
class Link {
  constructor(page) {
    this.page = page;
    this.save = oncePerFrame(() => this.#save());
    addEventListener("hashchange", () => {
      if (location.hash.slice(1) === this.saved) return;
      follow(page, location.hash.slice(1));
      page.show();
    });
  }

  #save() {
    this.saved = linkOf(this.page);
    history.replaceState(null, "", `#${this.saved}`);
  }
}
