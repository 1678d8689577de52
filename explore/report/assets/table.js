"use strict";

// A table that sorts: a button in each header, nothing-values last, and rows that can be hidden or chosen.
//
// A column has: key, title, value(row) to sort by, text(row) to show, and may have unit, left (text is
// aligned left), long (text may wrap) and content(row) (an element to show instead of the text).

class SortableTable {
  /** Put a table into `place`. `choose(row)`, where given, makes the first column one of buttons. */
  constructor(place, { caption, columns, rows, choose, label }) {
    this.columns = columns;
    this.sorted = { key: null, descending: false };
    this.heads = new Map(columns.map((column) => [column.key, this.#head(column)]));
    this.lines = rows.map((row) => this.#line(row, choose, label));
    this.body = make("tbody", {}, ...this.lines.map((line) => line.element));
    const head = make("thead", {}, make("tr", {}, ...this.heads.values()));
    place.replaceChildren(make("table", {}, make("caption", {}, caption), head, this.body));
  }

  #head(column) {
    const unit = column.unit ? make("span", { class: "unit" }, column.unit) : null;
    const button = make("button", { type: "button", click: () => this.sortBy(column.key) }, make("span", { class: "title" }, column.title), unit);
    return make("th", { scope: "col", class: column.left ? "text" : null, "aria-sort": "none" }, button);
  }

  #line(row, choose, label) {
    const element = make("tr", { "data-row": label ? label(row) : null });
    this.columns.forEach((column, number) => {
      const text = column.content ? column.content(row) : column.text(row);
      const kind = [column.left && "text", column.long && "long"].filter(Boolean).join(" ") || null;
      if (number) element.append(make("td", { class: kind }, text));
      else {
        const act = choose && make("button", { type: "button", click: () => choose(row) }, text);
        element.append(make("th", { scope: "row", class: kind }, act ?? text));
      }
    });
    return { row, element, words: element.textContent.toLowerCase() };
  }

  /** Sort by a column; the second time the other way round. */
  sortBy(key) {
    const descending = this.sorted.key === key && !this.sorted.descending;
    const { value } = this.columns.find((column) => column.key === key);
    this.sorted = { key, descending };
    this.lines.sort((a, b) => compared(value(a.row), value(b.row), descending));
    this.body.append(...this.lines.map((line) => line.element));
    for (const [name, head] of this.heads) {
      head.setAttribute("aria-sort", name !== key ? "none" : descending ? "descending" : "ascending");
    }
  }

  /** Hide the rows for which `keeps(row, words)` is false; `words` are the row's texts in small letters. */
  filter(keeps) {
    for (const line of this.lines) line.element.hidden = !keeps(line.row, line.words);
  }

  /** Mark the rows for which `is(row)` is true as the current ones. */
  mark(is) {
    for (const { row, element } of this.lines) {
      if (is(row)) element.setAttribute("aria-current", "true");
      else element.removeAttribute("aria-current");
    }
  }
}

function compared(a, b, descending) {
  if (!known(a) || !known(b)) return known(b) - known(a);
  const order = a < b ? -1 : a > b ? 1 : 0;
  return descending ? -order : order;
}
