// Tables with sorting and search, and the small charts in their cells.

const MOST_ROWS = 1500; // drawn at once

// Columns: { title, under, value(row), cell(row), isText, isHead, isPath, isSigned }. A column without `value` can't be
// sorted. A signed column is sorted by absolute value first, then descending, then ascending.
function table({ label, columns, rows, sortBy, isDown = true, search, noun, isWhole }) {
  const order = { column: sortBy, isDown, isBySize: columns[sortBy]?.isSigned ?? false };
  let query = "";
  let most = MOST_ROWS;
  const body = el("tbody");
  const live = el("span", { class: "live", role: "status" });
  const rest = el("button", {
    type: "button",
    class: "rest",
    hidden: true,
    onclick: () => {
      most = rows.length;
      show();
    },
  });
  const drawn = new Map();
  const heads = columns.map((column, c) => {
    const title = column.value
      ? el("button", { type: "button", onclick: () => sort(c) }, el("span", { class: "clamp" }, column.title))
      : el("span", { class: "clamp" }, column.title);
    return el("th", { scope: "col", class: classOf(column), title: column.help }, title, column.under);
  });

  function draw(row) {
    if (!drawn.has(row)) {
      const cells = columns.map((column) => {
        const given = column.cell(row);
        const attributes = { class: classOf(column) };
        if (column.isHead) {
          const shown = el("span", { class: "clamp" }, column.isPath ? brief(given, isNarrow() ? 26 : 90) : given);
          return el("th", { ...attributes, scope: "row", dir: "auto", title: given }, shown);
        }
        return el("td", attributes, given);
      });
      drawn.set(row, el("tr", {}, cells));
    }
    return drawn.get(row);
  }

  function show() {
    const wanted = query.trim().toLocaleLowerCase();
    const matching = rows.filter((row) => !wanted || search(row).toLocaleLowerCase().includes(wanted));
    if (order.column !== undefined) {
      const { value: given } = columns[order.column];
      const value = (row) => (order.isBySize && isNumber(given(row)) ? Math.abs(given(row)) : given(row));
      const sign = order.isDown ? -1 : 1;
      matching.sort((one, other) => compare(value(one), value(other), sign));
    }
    body.replaceChildren(...matching.slice(0, most).map(draw));
    if (search) live.textContent = `${integer(matching.length)} of ${integer(rows.length)} ${noun}`;
    rest.hidden = matching.length <= most;
    rest.textContent = `Show all ${integer(matching.length)} (now: the first ${integer(most)})`;
    heads.forEach((head, c) => {
      const way = order.isBySize ? "other" : order.isDown ? "descending" : "ascending";
      if (c === order.column) head.setAttribute("aria-sort", way);
      else head.removeAttribute("aria-sort");
    });
  }

  function sort(c) {
    const isAgain = order.column === c;
    const isFirst = !isAgain || (columns[c].isSigned && !order.isBySize && !order.isDown);
    order.isDown = isFirst ? !columns[c].isText : order.isBySize || !order.isDown;
    order.isBySize = isFirst && Boolean(columns[c].isSigned);
    order.column = c;
    show();
  }

  show();
  const box = el(
    "div",
    { class: isWhole ? "scroll whole" : "scroll", tabindex: 0, role: "region", "aria-label": label },
    el("table", { "aria-label": label }, el("thead", {}, el("tr", {}, heads)), body),
    rest,
  );
  // Other rows, in the same order and with the same search. Rows that stay keep their elements, unless all have changed.
  const refresh = (fresh, isChanged) => {
    if (isChanged) drawn.clear();
    const staying = new Set(fresh);
    rows.filter((row) => !staying.has(row)).forEach((row) => drawn.delete(row));
    rows = fresh;
    const focused = document.activeElement;
    show();
    if (body.contains(focused)) focused.focus({ preventScroll: true });
  };
  if (!search) return Object.assign(box, { refresh });
  const field = el("input", {
    type: "search",
    placeholder: "all",
    oninput: (event) => {
      query = event.target.value;
      show();
    },
  });
  const whole = el("div", {}, el("div", { class: "controls" }, el("label", {}, `Search ${noun}`, field), live), box);
  return Object.assign(whole, { refresh });
}

const classOf = (column) => [column.isText ? "text" : "", column.class || ""].join(" ").trim() || null;

// Undefined numbers come last in both directions.
function compare(one, other, sign) {
  const isMissing = [one, other].map((value) => value === null || value === undefined);
  if (isMissing[0] || isMissing[1]) return isMissing[0] - isMissing[1];
  return sign * (typeof one === "string" ? one.localeCompare(other) : one - other);
}

// Values between 0 and 1 with their confidence intervals, one per line: { value, low, high, ink }.
function whiskers(rows) {
  const x = (at) => (4 + 112 * at).toFixed(1);
  const line = (y, { value, low, high, ink }) => {
    const drawn = [
      isNumber(low) ? svg("line", { class: "span", x1: x(low), x2: x(high), y1: y, y2: y }) : null,
      svg("line", { class: "point", x1: x(value), x2: x(value), y1: y - 5, y2: y + 5 }),
    ];
    drawn.forEach((each) => {
      if (each) each.style.stroke = ink;
    });
    return drawn;
  };
  const height = 2 + 12 * rows.length;
  return svg(
    "svg",
    { class: "whisker", width: 120, height, "aria-hidden": "true" },
    svg("line", { class: "floor", x1: 4, x2: 116, y1: height / 2, y2: height / 2 }),
    rows.flatMap((row, i) => (isNumber(row.value) ? line(7 + 12 * i, row) : [])),
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
