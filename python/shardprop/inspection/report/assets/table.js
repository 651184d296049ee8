// A table that sorts by its heads and shows rows in portions.
//
// A column: {title, value(row), show(row)?, number?, meter?, wrap?}. `value` is what is sorted by;
// `show` gives a text or nodes; `meter` draws a bar as long as the value's part of the largest.

const PORTION = 100;

function makeTable(caption, columns, rows, sortedBy) {
  let order = sortedBy === undefined ? null : { column: sortedBy, down: true };
  let shown = PORTION;
  let current = rows;
  const heads = columns.map((column, index) =>
    element("th", { scope: "col", class: column.number ? "number" : "" },
      element("button", { type: "button", onclick: () => sortBy(index) }, column.title)));
  const body = element("tbody");
  const more = element("button", { type: "button", class: "more", onclick: () => { shown += PORTION; draw(); } });
  const largest = columns.map((column) =>
    column.meter ? Math.max(0, ...rows.map((row) => column.value(row) || 0)) : 0);

  function sortBy(index) {
    const same = order && order.column === index;
    order = { column: index, down: same ? !order.down : Boolean(columns[index].number) };
    draw();
  }

  function compare(a, b) {
    const { value } = columns[order.column];
    const [x, y] = [value(a), value(b)];
    const less = typeof x === "string" ? x.localeCompare(y) : (x === null ? Infinity : x) - (y === null ? Infinity : y);
    return order.down ? -less : less;
  }

  function cell(row, column, index) {
    const made = element("td", { class: [column.number ? "number" : "", column.wrap ? "wrap" : ""].join(" ").trim() });
    made.append(...[(column.show || column.value)(row)].flat().filter((part) => part !== null));
    if (column.meter && column.value(row) > 0) {
      const meter = element("span", { class: "meter" });
      meter.style.width = Math.max(1, (100 * column.value(row)) / largest[index]) + "%";
      made.append(meter);
    }
    return made;
  }

  function draw() {
    const sorted = order ? [...current].sort(compare) : current;
    body.replaceChildren(...sorted.slice(0, shown).map((row) =>
      element("tr", {}, ...columns.map((column, index) => cell(row, column, index)))));
    heads.forEach((head, index) => {
      if (order && order.column === index) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const rest = current.length - Math.min(shown, current.length);
    more.hidden = rest === 0;
    more.textContent = `Show ${Math.min(rest, PORTION)} more of ${countText(rest)}`;
  }

  draw();
  return {
    node: element("div", {},
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
        element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body)),
      more),
    keep(rowsToShow) { current = rowsToShow; shown = PORTION; draw(); },
  };
}
