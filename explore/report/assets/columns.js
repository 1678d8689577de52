"use strict";

// A file of columns: the length of its header, the header as JSON, and arrays of numbers.

const COLUMN_TYPES = { uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, int32: Int32Array, float64: Float64Array };

/** Return the values and the columns, by name, of the file of columns that the page holds. */
async function unpackColumns() {
  const buffer = await unpackedBytes();
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const columns = {};
  for (const [name, [type, place, count]] of Object.entries(header.columns)) {
    columns[name] = new COLUMN_TYPES[type](buffer, 4 + size + place, count);
  }
  return { meta: header.meta, columns };
}

/** Return the sums of the differences that a column holds. */
function summed(steps) {
  const values = new Int32Array(steps.length);
  let value = 0;
  for (let place = 0; place < steps.length; place++) values[place] = value += steps[place];
  return values;
}

/** Return the first place of an ascending array whose value is not less than `value`. */
function lowerBound(values, value) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
