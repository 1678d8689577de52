"use strict";

// Reading the page's data, writing numbers and making elements.

/** Return the data of the page as a response: they stand in it as gzip in base64. */
function unpacked() {
  const text = document.getElementById("data").textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/** Return the JSON values of the page. */
const unpack = async () => JSON.parse(await unpacked().text());

/** Return the data of the page as an ArrayBuffer. */
const unpackedBytes = () => unpacked().arrayBuffer();

const NONE = "–";
const known = (value) => value !== null && value !== undefined;

const formats = new Map(); // making one takes longer than using it a hundred times

function written(value, least, most) {
  const key = `${least} ${most}`;
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat("en-US", { minimumFractionDigits: least, maximumFractionDigits: most }));
  return formats.get(key).format(value);
}

/** Return a number with separators of thousands and at most `digits` decimals. */
const decimal = (value, digits = 0) => (known(value) ? written(value, 0, digits) : NONE);

/** Return a number with three significant digits, or more where they stand before the point. */
function significant(value) {
  if (!known(value)) return NONE;
  const before = value === 0 ? 1 : Math.floor(Math.log10(Math.abs(value))) + 1;
  const digits = Math.max(0, Math.min(6, 3 - before));
  return written(value, digits, digits);
}

const percent = (value) => (known(value) ? `${(100 * value).toFixed(1)} %` : NONE);

const TIME_UNITS = [[1, "s"], [1e3, "ms"], [1e6, "µs"], [1e9, "ns"]];
const ENERGY_UNITS = [[1e-12, "J"], [1e-9, "mJ"], [1e-6, "µJ"], [1e-3, "nJ"], [1, "pJ"]];

/** Return the pair of factor and name with which the median of `values` is at least 1. */
function unitFor(values, units) {
  const sorted = values.filter((value) => known(value) && value > 0).sort((a, b) => a - b);
  const middle = sorted[sorted.length >> 1] ?? 1;
  return units.find(([factor]) => middle * factor >= 1) ?? units[units.length - 1];
}

/** Return an element with attributes and children; a child may be a text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && known(value)) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter(known));
  return element;
}

const byId = (id) => document.getElementById(id);

/** Call `work` once before the next frame, however often this is called until then. */
function oncePerFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

/** Return a range with its lesser end first. */
const sorted = (range) => [...range].sort((a, b) => a - b);

/** Make the page from its data, which `read` returns, and draw it; say on the page where that fails. */
async function start(Page, read = unpack) {
  try {
    window.page = new Page(await read());
    await window.page.draw();
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    const text = `This page cannot be drawn (${error.message}). It needs a browser of 2024 or later.`;
    document.querySelector("main").prepend(make("p", { class: "note", role: "alert" }, text));
    throw error;
  }
}
