// Tables that sort and search, and the small drawings in their cells.

// Columns: { title, value(row), cell(row), isText, isHead, width }; a column without `value` can't be sorted by.
function table({ label, columns, rows, sortBy, isDown = true, search, noun, isWhole }) {
  const order = { column: sortBy, isDown };
  let query = "";
  const body = el("tbody");
  const live = el("span", { class: "live", role: "status" });
  const drawn = new Map();
  const heads = columns.map((column, c) => {
    const title = column.value
      ? el("button", { type: "button", onclick: () => sort(c) }, column.title)
      : el("span", {}, column.title);
    return el("th", { scope: "col", class: classOf(column), title: column.help }, title);
  });

  function draw(row) {
    if (!drawn.has(row)) {
      const cells = columns.map((column) => {
        const given = column.cell(row);
        const attributes = { class: classOf(column) };
        if (column.isHead) return el("th", { ...attributes, scope: "row", dir: "auto", title: given }, given);
        return el("td", attributes, given);
      });
      drawn.set(row, el("tr", {}, cells));
    }
    return drawn.get(row);
  }

  function show() {
    const wanted = query.trim().toLocaleLowerCase();
    const kept = rows.filter((row) => !wanted || search(row).toLocaleLowerCase().includes(wanted));
    if (order.column !== undefined) {
      const { value } = columns[order.column];
      const sign = order.isDown ? -1 : 1;
      kept.sort((one, other) => compare(value(one), value(other), sign));
    }
    body.replaceChildren(...kept.map(draw));
    if (search) live.textContent = `${whole(kept.length)} of ${whole(rows.length)} ${noun}`;
    heads.forEach((head, c) => {
      if (c === order.column) head.setAttribute("aria-sort", order.isDown ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  function sort(c) {
    order.isDown = order.column === c ? !order.isDown : !columns[c].isText;
    order.column = c;
    show();
  }

  show();
  const box = el(
    "div",
    { class: isWhole ? "scroll whole" : "scroll", tabindex: 0, role: "region", "aria-label": label },
    el("table", { "aria-label": label }, el("thead", {}, el("tr", {}, heads)), body),
  );
  if (!search) return box;
  const field = el("input", {
    type: "search",
    placeholder: "all",
    oninput: (event) => {
      query = event.target.value;
      show();
    },
  });
  return el("div", {}, el("div", { class: "controls" }, el("label", {}, `Search ${noun}`, field), live), box);
}

const classOf = (column) => [column.isText ? "text" : "", column.class || ""].join(" ").trim() || null;

// Undefined numbers come last, whichever way the others go.
function compare(one, other, sign) {
  const isMissing = [one, other].map((value) => value === null || value === undefined);
  if (isMissing[0] || isMissing[1]) return isMissing[0] - isMissing[1];
  return sign * (typeof one === "string" ? one.localeCompare(other) : one - other);
}

function meter(value) {
  const bar = el("i");
  bar.style.width = `${100 * (value || 0)}%`;
  return [el("span", { class: "meter", "aria-hidden": "true" }, bar), fraction(value)];
}

function whisker(value, low, high) {
  if (!isNumber(value)) return null;
  const x = (at) => (4 + 112 * at).toFixed(1);
  return svg(
    "svg",
    { class: "whisker", width: 120, height: 14, "aria-hidden": "true" },
    svg("line", { class: "floor", x1: 4, x2: 116, y1: 7, y2: 7 }),
    isNumber(low) ? svg("line", { class: "span", x1: x(low), x2: x(high), y1: 7, y2: 7 }) : null,
    svg("line", { class: "point", x1: x(value), x2: x(value), y1: 2, y2: 12 }),
  );
}

function spark(points) {
  if (points === null) return null;
  const path = points.map(({ recall, precision }) => `${(72 * recall).toFixed(1)},${(20 - 19 * precision).toFixed(1)}`);
  return svg(
    "svg",
    { class: "spark", width: 72, height: 21, "aria-hidden": "true" },
    svg("line", { class: "floor", x1: 0, x2: 72, y1: 20.5, y2: 20.5 }),
    svg("path", { class: "area", d: `M0,20L${path.join("L")}L72,20Z` }),
    svg("path", { class: "edge", d: `M${path.join("L")}` }),
  );
}
