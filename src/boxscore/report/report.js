// Draws the report from the data in this file. All text goes in as text nodes: no name can become markup.
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const content = document.getElementById("content");
  const MEAN = -1; // the place of "all classes" among the classes
  const MOST_LINES = 24;
  const NUM_COLORS = 8;
  const state = { model: 0, classes: [MEAN], thresholds: null, theme: null };

  // ---- elements -------------------------------------------------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat()) {
      if (child !== null && child !== undefined) element.append(child);
    }
    return element;
  }
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  // ---- numbers --------------------------------------------------------------------------------------------------

  const isNumber = (value) => typeof value === "number";
  const fraction = (value) => (isNumber(value) ? value.toFixed(4) : "–");
  const short = (value) => (isNumber(value) ? value.toFixed(3) : "–");
  const whole = (value) => (isNumber(value) ? value.toLocaleString("en-US") : "–");
  const signed = (value) => (isNumber(value) ? (value < 0 ? "−" : "+") + Math.abs(value).toFixed(4) : "–");
  const range = (low, high) => (isNumber(low) && isNumber(high) ? `${short(low)} – ${short(high)}` : "");
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const iou = (threshold) => threshold.toFixed(2);

  const sum = (values) => values.reduce((total, value) => total + value, 0);

  function decode(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Array.from({ length: bytes.length / 2 }, (_, i) => view.getUint16(2 * i, true));
  }

  // Precision of class k (or of all) at the t-th drawn threshold, at every drawn recall; null if it has no truths.
  function curve(model, t, k) {
    const { recall } = model.curves;
    const numClasses = model.classes.name.length;
    model.curves.samples ??= decode(model.curves.precision);
    model.curves.means ??= decode(model.curves.mean);
    const [samples, start] =
      k === MEAN
        ? [model.curves.means, t * recall.length]
        : [model.curves.samples, (t * numClasses + k) * recall.length];
    if (samples[start] === 65535) return null;
    return recall.map((at, i) => ({ recall: at, precision: samples[start + i] / 65534 }));
  }

  // ---- tables ---------------------------------------------------------------------------------------------------

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

  // ---- charts ---------------------------------------------------------------------------------------------------

  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
  const AXIS = {
    labelColor: "var(--soft)",
    titleColor: "var(--soft)",
    titleFontWeight: "normal",
    labelFontSize: 11,
    titleFontSize: 12,
    gridColor: "var(--line)",
    domainColor: "var(--rule)",
    tickColor: "var(--rule)",
    labelFlush: false,
  };
  const CONFIG = {
    background: null,
    font: FONT,
    view: { stroke: null },
    axis: AXIS,
    text: { color: "var(--ink)", fontSize: 11 },
    rule: { color: "var(--rule)" },
  };
  const color = (i) => `var(--c${1 + (i % NUM_COLORS)})`;
  const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

  // What a mark says when it is pointed at is the datum's `tip`, pairs of a name and a text, and to a screen reader its
  // `who`. Names are data for Vega, never a part of its specifications: those have expressions and names of their own.
  const tip = document.body.appendChild(el("div", { id: "tip", "aria-hidden": "true", hidden: true }));
  const TIP = { content: "data" };
  // Vega keeps the values of an axis in a plain object, where "__proto__" is no key like others: so a mark that is not seen.
  const tick = (label) => `\u2060${label}`;
  const WHO = { field: "who", type: "nominal" };

  function showTip(_, event, item, datum) {
    tip.hidden = !datum?.tip;
    if (tip.hidden) return;
    tip.replaceChildren(el("table", {}, el("tbody", {}, datum.tip.map(([what, value]) => el("tr", {}, el("td", { dir: "auto" }, what), el("td", {}, value))))));
    const room = 12;
    const left = event.clientX + room + tip.offsetWidth < window.innerWidth ? event.clientX + room : event.clientX - room - tip.offsetWidth;
    const top = Math.min(event.clientY + room, window.innerHeight - tip.offsetHeight - room);
    tip.style.left = `${Math.max(room, left)}px`;
    tip.style.top = `${Math.max(room, top)}px`;
  }

  // A figure that Vega fills; `spec` is a Vega-Lite view. Expressions are interpreted: the page's policy has no eval.
  function chart(description, height, spec) {
    const place = el("div", { class: "chart" });
    const whole = { width: "container", height, autosize: { type: "fit", contains: "padding" }, description, config: CONFIG, ...spec };
    // The width is that of the place, which it has only once it is in the page.
    requestAnimationFrame(() => {
      window
        .vegaEmbed(place, whole, { mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false, tooltip: showTip })
        .catch((error) => console.error(`${description}: ${error}`));
    });
    return el("figure", { "aria-label": description }, place);
  }
  const unit = (field, title, more = {}) => ({
    field,
    type: "quantitative",
    title,
    scale: { domain: [0, 1] },
    axis: { tickCount: 5, format: ".1f" },
    ...more,
  });

  function swatch(line) {
    const dash = line.dash.length ? line.dash.join(" ") : null;
    const stroke = svg("line", { x1: 0, x2: 22, y1: 5, y2: 5, "stroke-width": line.width, "stroke-dasharray": dash });
    stroke.style.stroke = line.color;
    return svg("svg", { width: 22, height: 10, "aria-hidden": "true" }, stroke);
  }
  const legend = (items) =>
    el("ul", { class: "chips", "aria-label": "Legend" }, items.map((item) => el("li", {}, swatch({ dash: [], width: 3, ...item }), item.label)));

  // ---- sections -------------------------------------------------------------------------------------------------

  const section = (id, title, how, ...children) =>
    el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), how ? el("p", { class: "how" }, how) : null, children);
  const missing = (why) => el("p", { class: "note" }, why);

  const sureness = (model) => model.intervals.name;
  const between = (model, m) => model.intervals?.numbers[m] ?? [null, null];

  function summary(model) {
    const [low, high] = between(model, 0);
    const counts = [
      ["images", model.counts.images],
      ["truths", model.counts.truths],
      ["detections", model.counts.detections],
      ["classes", model.classes.name.length],
    ];
    const headline = el(
      "div",
      { class: "headline" },
      el("div", { class: "what" }, `mAP, ${report.measures[0].meaning[1]}`),
      el("div", { class: "value" }, short(model.numbers[0])),
      isNumber(low) ? el("div", { class: "between" }, range(low, high), " ", el("span", { class: "soft" }, sureness(model))) : null,
      el("dl", { class: "counts" }, counts.flatMap(([what, num]) => [el("dt", {}, what), el("dd", {}, whole(num))])),
    );
    const rows = report.measures.map((measure, m) => ({ measure, m }));
    const many = report.models.length > 1;
    const numbers = many
      ? report.models.map((each, i) => ({ title: each.name, class: i === state.model ? "sure" : "", cell: ({ m }) => fraction(each.numbers[m]) }))
      : [{ title: "value", cell: ({ m }) => fraction(model.numbers[m]) }];
    const columns = [
      { title: "number", isText: true, isHead: true, cell: ({ measure }) => measure.name },
      ...numbers,
      ...(model.intervals ? [{ title: many ? `${model.name}: ${sureness(model)}` : sureness(model), class: "range", cell: ({ m }) => range(...between(model, m)) }] : []),
      { title: "0 to 1", isText: true, cell: ({ m }) => whisker(model.numbers[m], ...between(model, m)) },
      ...["", "IoU", "area", "limit"].map((title, i) => ({ title, isText: true, class: "soft", cell: ({ measure }) => measure.meaning[i] })),
    ];
    const how = model.intervals ? `${model.intervals.title}.${many && !report.comparison ? " Models whose intervals overlap may still differ: boxscore compare tells." : ""}` : null;
    return section("summary", "Summary", how, el("div", { class: "hero" }, headline, table({ label: "All numbers", columns, rows, isWhole: true })));
  }

  function comparison() {
    const all = report.comparison.differences;
    const place = el("div");

    function draw(of) {
      const marked = ([, , , difference, low, high]) => (!isNumber(low) || (low <= 0 && high >= 0) ? "" : difference > 0 ? "better sure" : "worse sure");
      const columns = (what) => [
        { title: what, isText: true, isHead: true, value: (row) => row[0], cell: (row) => row[0] },
        { title: of.first, value: (row) => row[1], cell: (row) => fraction(row[1]) },
        { title: of.second, value: (row) => row[2], cell: (row) => fraction(row[2]) },
        { title: "difference", value: (row) => row[3], cell: (row) => el("span", { class: marked(row) }, signed(row[3])) },
        { title: "interval", class: "range", value: (row) => (isNumber(row[4]) ? row[5] - row[4] : null), cell: (row) => (isNumber(row[4]) ? `${signed(row[4])} to ${signed(row[5])}` : "") },
        { title: "p", value: (row) => row[6], cell: (row) => short(row[6]) },
      ];
      const values = of.numbers.filter((row) => isNumber(row[3])).map((row) => ({
        number: row[0],
        difference: row[3],
        low: row[4],
        high: row[5],
        ink: isNumber(row[4]) && row[4] <= 0 && row[5] >= 0 ? "var(--soft)" : row[3] > 0 ? "var(--c1)" : "var(--c2)",
        tip: [["number", row[0]], ["difference", signed(row[3])], ["interval", `${signed(row[4])} to ${signed(row[5])}`], ["p", short(row[6])]],
      }));
      const ink = { field: "ink", type: "nominal", scale: null, legend: null };
      const y = { field: "number", type: "nominal", sort: null, title: null, axis: { ticks: false, domain: false, labelFontSize: 12, labelColor: "var(--ink)" } };
      const x = { type: "quantitative", title: "← first is better · second is better →", axis: { tickCount: 4, format: "+.3~f" } };
      const images = [
        { title: "image", isText: true, isHead: true, value: (row) => row[0], cell: (row) => row[0] },
        { title: "truths", value: (row) => row[1], cell: (row) => whole(row[1]) },
        { title: `${of.first}: TP / FP`, cell: (row) => `${whole(row[2])} / ${whole(row[3])}` },
        { title: `${of.second}: TP / FP`, cell: (row) => `${whole(row[4])} / ${whole(row[5])}` },
        { title: "gain", value: (row) => row[6], cell: (row) => el("span", { class: row[6] > 0 ? "better" : "worse" }, (row[6] > 0 ? "+" : "−") + whole(Math.abs(row[6]))) },
      ];
      place.replaceChildren(
        el("div", { class: "lopsided more" },
          table({ label: `Differences between ${of.first} and ${of.second}`, columns: columns("number"), rows: of.numbers, isWhole: true }),
          values.length ? chart(`Differences of all numbers with their intervals: ${of.second} less ${of.first}`, 60 + 26 * values.length, {
            data: { values },
            layer: [
              { data: { values: [{}] }, mark: { type: "rule", aria: false, strokeWidth: 1.5 }, encoding: { x: { datum: 0, type: "quantitative" } } },
              { mark: { type: "rule", strokeWidth: 3, strokeOpacity: 0.5, aria: false, tooltip: TIP }, encoding: { y, x: { ...x, field: "low" }, x2: { field: "high" }, color: ink } },
              { mark: { type: "point", filled: true, size: 60, opacity: 1, tooltip: TIP }, encoding: { y, x: { ...x, field: "difference" }, color: ink } },
            ],
          }) : null),
        el("h3", {}, "AP by class"),
        table({ label: "Differences by class", columns: columns("class"), rows: of.classes, sortBy: 3, search: (row) => row[0], noun: "classes" }),
        el("h3", {}, "Images that changed most"),
        el("p", { class: "how" }, "With the detections that each model has at its best F1. A gain is so many mistakes fewer, false or missed, with the second model."),
        of.images.length ? table({ label: "Images that changed most", columns: images, rows: of.images, search: (row) => row[0], noun: "images" }) : missing("No image changed."),
      );
    }

    draw(all[0]);
    const box = select(`${all[0].first} against`, all.map(({ second }, i) => [i, second]), (value) => draw(all[value]));
    return section(
      "comparison",
      "Comparison",
      `${report.comparison.title}. A difference in colour is one whose interval does not hold 0; p is how surprising it would be if there were none.`,
      el("div", { class: "controls" }, box),
      place,
    );
  }

  function classes(model) {
    const of = model.classes;
    const sure = model.intervals;
    const rows = of.name.map((_, k) => k);
    const main = iou(report.thresholds[report.main]);
    const column = (title, key, cell) => ({ title, value: (k) => of[key][k], cell: (k) => cell(of[key][k]) });
    const drawn = model.curves.thresholds.indexOf(report.main);
    const columns = [
      { title: "chart", help: "Drawn in the charts below", isText: true, class: "choice", cell: (k) => choice(k) },
      { title: "class", isText: true, isHead: true, value: (k) => of.name[k], cell: (k) => of.name[k] },
      { title: "AP", value: (k) => of.ap[k], cell: (k) => meter(of.ap[k]) },
      ...(sure ? [{ title: sureness(model), class: "range", help: "Sorts by its width", value: (k) => (isNumber(sure.low[k]) ? sure.high[k] - sure.low[k] : null), cell: (k) => range(sure.low[k], sure.high[k]) }] : []),
      { title: `PR@${main}`, isText: true, cell: (k) => spark(curve(model, drawn, k)) },
      column("AR", "ar", fraction),
      column("truths", "truths", whole),
      column("detections", "detections", whole),
      column(`TP@${main}`, "true", whole),
      column(`FP@${main}`, "false", whole),
      column("best F1", "f1", short),
      column("at score", "score", short),
    ];
    return section(
      "classes",
      "Classes",
      "Sort by a column's title. A class that is ticked is drawn in the charts below.",
      table({ label: "Classes", columns, rows, sortBy: 2, search: (k) => of.name[k], noun: "classes" }),
    );
  }

  function choice(k) {
    const name = report.models[state.model].classes.name[k];
    return el("input", { type: "checkbox", "data-class": k, "aria-label": `Show ${name} in the charts`, onchange: (event) => choose(k, event.target.checked) });
  }

  // ---- the choice of classes and thresholds, for two charts ------------------------------------------------------

  const title = (model, k) => (k === MEAN ? "mean of classes" : model.classes.name[k]);

  function lines(model) {
    const thresholds = state.thresholds.filter((t) => t < model.curves.thresholds.length);
    const byThreshold = state.classes.length === 1;
    const found = [];
    state.classes.forEach((k, c) => {
      thresholds.forEach((t, place) => {
        const isMean = k === MEAN && !(byThreshold && thresholds.length > 1);
        found.push({
          k,
          t,
          color: isMean ? "var(--ink)" : color(byThreshold ? place : c - state.classes.includes(MEAN)),
          dash: byThreshold ? DASHES[Math.floor(place / NUM_COLORS)] : DASHES[(thresholds.length > 1 ? place : Math.floor(c / NUM_COLORS)) % DASHES.length],
          width: k === MEAN ? 2.5 : 1.75,
          label: thresholds.length > 1 ? `${title(model, k)}, IoU ${iou(report.thresholds[model.curves.thresholds[t]])}` : title(model, k),
        });
      });
    });
    return found.slice(0, MOST_LINES);
  }

  function choose(k, isChosen) {
    state.classes = state.classes.filter((other) => other !== k);
    if (isChosen) state.classes.push(k);
    if (!state.classes.length) state.classes = [MEAN];
    redraw();
  }

  function curves() {
    const chips = el("ul", { class: "chips", "aria-label": "Lines" });
    const places = { curves: el("div"), ious: el("div") };
    const field = el("input", { list: "class-names", placeholder: "its name", "aria-describedby": "lines-status", onchange: (event) => add(event.target) });
    const options = el("datalist", { id: "class-names" });
    const boxes = el("fieldset", {}, el("legend", {}, "IoU"));
    const status = el("span", { class: "live", role: "status", id: "lines-status" });

    function add(input) {
      const model = report.models[state.model];
      const wanted = input.value.trim();
      const k = model.classes.name.findIndex((each, i) => wanted === each || wanted === unique(model, i));
      if (k < 0) return;
      input.value = "";
      choose(k, true);
    }
    const quick = (text, pick) =>
      el("button", { type: "button", onclick: () => { state.classes = pick(report.models[state.model]); redraw(); } }, text);
    const ranked = (model, sign) =>
      model.classes.ap.map((ap, k) => ({ ap, k })).filter(({ ap }) => isNumber(ap)).sort((one, other) => sign * (one.ap - other.ap)).slice(0, 5).map(({ k }) => k);

    function start(model) {
      options.replaceChildren(...model.classes.name.map((_, k) => el("option", { value: unique(model, k) })));
      boxes.replaceChildren(
        boxes.firstChild,
        ...model.curves.thresholds.map((t, place) =>
          el("label", {}, el("input", { type: "checkbox", value: place, checked: state.thresholds.includes(place), onchange: () => pick() }), iou(report.thresholds[t]))),
      );
    }
    function pick() {
      const chosen = [...boxes.querySelectorAll("input:checked")].map((input) => Number(input.value));
      state.thresholds = chosen.length ? chosen : null;
      settle();
      start(report.models[state.model]);
      redraw();
    }
    function draw(model) {
      const drawn = lines(model);
      chips.replaceChildren(...drawn.map((line) => el("li", {}, swatch(line), el("span", { class: "name", dir: "auto" }, line.label),
        line.k === MEAN && state.classes.length === 1 ? null : el("button", { type: "button", "aria-label": `Take out ${line.label}`, onclick: () => choose(line.k, false) }, "×"))));
      const num = state.classes.length * state.thresholds.length;
      status.textContent = num > drawn.length ? `the first ${drawn.length} of ${num} lines` : "";
      places.curves.replaceChildren(prChart(model, drawn));
      if (report.thresholds.length > 1) places.ious.replaceChildren(iouChart(model));
      document.querySelectorAll("input[data-class]").forEach((box) => { box.checked = state.classes.includes(Number(box.dataset.class)); });
    }
    const element = section(
      "curves",
      "Precision and recall",
      `The precision at a recall or beyond, as AP averages it: the better the detector, the further the line reaches to the upper right. Point at the chart to read it.${report.thresholds.length > 1 ? " Beside it, AP by IoU threshold: a steep fall means that boxes are found, but not tight." : ""}`,
      el("div", { class: "controls" }, el("label", {}, "Add a class", field), options, quick("mean only", () => [MEAN]), quick("best 5", (model) => ranked(model, -1)), quick("worst 5", (model) => ranked(model, 1)), status),
      el("div", { class: "controls" }, boxes),
      chips,
      el("div", { class: "lopsided" }, places.curves, places.ious),
    );
    return { element, start, draw };
  }

  // A name that no other class has.
  function unique(model, k) {
    const { name: names, label } = model.classes;
    return names.filter((other) => other === names[k]).length > 1 ? `${names[k]} (${label[k]})` : names[k];
  }

  function prChart(model, drawn) {
    const points = drawn.map(({ t, k }) => curve(model, t, k));
    const readings = model.curves.recall.map((at, i) => {
      const read = drawn.flatMap((line, s) => (points[s] ? [[line.label, short(points[s][i].precision)]] : []));
      return { recall: at, tip: [["recall", at.toFixed(2)], ...read] };
    });
    const x = unit("recall", "recall");
    return chart(`Precision by recall: ${drawn.map((line) => line.label).join("; ")}`, 340, {
      layer: [
        ...drawn.map((line, s) => ({
          data: { values: (points[s] || []).map((point) => ({ ...point, who: line.label })) },
          mark: { type: "line", stroke: line.color, strokeDash: line.dash, strokeWidth: line.width, clip: true },
          encoding: { x, y: unit("precision", "precision"), description: WHO },
        })),
        {
          data: { values: readings },
          mark: { type: "rule", strokeWidth: 9, aria: false, color: "var(--rule)", opacity: 0, tooltip: TIP },
          encoding: { x },
        },
      ],
    });
  }

  function iouChart(model) {
    const drawn = state.classes.slice(0, MOST_LINES);
    const lowest = report.thresholds[0], highest = report.thresholds.at(-1);
    const x = { field: "iou", type: "quantitative", title: "IoU threshold", scale: { domain: [lowest, highest], nice: false, padding: 8 }, axis: { values: report.thresholds, format: ".2f", labelOverlap: true } };
    return chart(`AP by IoU threshold: ${drawn.map((k) => title(model, k)).join("; ")}`, 340, {
      layer: drawn.map((k, c) => {
        const aps = k === MEAN ? model.per_threshold : model.classes.ap_at[k];
        const ink = k === MEAN ? "var(--ink)" : color(c - drawn.includes(MEAN));
        const values = report.thresholds.map((at, t) => ({ iou: at, ap: aps[t], who: title(model, k), tip: [["class", title(model, k)], ["IoU", iou(at)], ["AP", fraction(aps[t])]] })).filter(({ ap }) => isNumber(ap));
        return {
          data: { values },
          mark: { type: "line", stroke: ink, strokeWidth: k === MEAN ? 2.5 : 1.75, point: { fill: ink, stroke: null, size: 38 }, tooltip: TIP },
          encoding: { x, y: unit("ap", "AP"), description: WHO },
        };
      }),
    });
  }

  function sizes(model) {
    const values = report.measures.flatMap((measure, m) => {
      const value = model.numbers[m];
      const [low, high] = between(model, m);
      return measure.is_size && isNumber(value) ? [{ what: measure.meaning[0], area: tick(measure.meaning[2]), value, low, high, tip: [["number", measure.name], ["value", fraction(value)], ...(isNumber(low) ? [[sureness(model), range(low, high)]] : [])] }] : [];
    });
    const areas = report.areas.map((area) => tick(area.name));
    const encoding = {
      x: { field: "area", type: "nominal", sort: null, scale: { domain: areas }, title: null, axis: { labelAngle: 0, ticks: false, labelFontSize: 12 } },
      xOffset: { field: "what", type: "nominal", sort: ["AP", "AR"] },
    };
    const ink = { field: "what", type: "nominal", legend: null, scale: { domain: ["AP", "AR"], range: ["var(--c1)", "var(--c5)"] } };
    return section(
      "sizes",
      "By object size",
      `${report.areas.map(({ name: each, text }) => `${each}: ${text}`).join("; ")}.${model.intervals ? " The thin lines are the intervals." : ""}`,
      legend([{ label: "AP", color: "var(--c1)" }, { label: "AR", color: "var(--c5)" }]),
      chart("AP and AR by object size", 250, {
        data: { values },
        layer: [
          { mark: { type: "bar", fillOpacity: 0.85, width: { band: 0.9 }, tooltip: TIP }, encoding: { ...encoding, y: unit("value", null), color: ink } },
          ...(model.intervals ? [{ mark: { type: "rule", color: "var(--ink)", strokeWidth: 1.25, aria: false }, encoding: { ...encoding, y: unit("low", null), y2: { field: "high" } } }] : []),
        ],
      }),
    );
  }

  function scores(model) {
    const of = model.scores;
    const place = el("div");
    const chosen = { t: report.main, k: MEAN, isLog: of.is_log };
    const found = el("p", { class: "how", role: "status" });

    function draw() {
      const [hits, misses] = chosen.k === MEAN ? [of.true[chosen.t], of.false[chosen.t]] : [of.true_of_class[chosen.k], of.false_of_class[chosen.k]];
      const rows = (counts, sign) => counts.map((num, i) => ({ from: of.edge[i], to: of.edge[i + 1], drawn: sign * num, tip: [["score", `${short(of.edge[i])} to ${short(of.edge[i + 1])}`], [sign > 0 ? "true positives" : "false positives", whole(num)]] }));
      const best = chosen.k === MEAN ? of.best[chosen.t] : { score: model.classes.score[chosen.k], f1: model.classes.f1[chosen.k] };
      const hasBest = isNumber(best.score);
      found.textContent = hasBest ? `Best F1: ${short(best.f1)}, with detections of score ${short(best.score)} and above (the dashed line).` : "";
      const most = Math.max(1, ...hits, ...misses);
      const decades = Array.from({ length: 1 + Math.floor(Math.log10(most)) }, (_, i) => 10 ** i);
      const x = { field: "from", type: "quantitative", title: "score", bin: { binned: true }, scale: { domain: [of.edge[0], of.edge.at(-1)], nice: false } };
      const y = {
        field: "drawn",
        type: "quantitative",
        title: "detections",
        stack: null,
        scale: { type: chosen.isLog ? "symlog" : "linear" },
        axis: { labelExpr: "format(abs(datum.value), '~s')", tickCount: 6, ...(chosen.isLog ? { values: [0, ...decades, ...decades.map((each) => -each)] } : {}) },
      };
      const bars = (values, ink, what) => ({
        data: { values },
        mark: { type: "bar", fill: ink, fillOpacity: 0.85, binSpacing: 1, description: what, tooltip: TIP },
        encoding: { x, x2: { field: "to" }, y },
      });
      place.replaceChildren(
        chart(`Histogram of scores: ${whole(sum(hits))} true positives upwards, ${whole(sum(misses))} false positives downwards`, 260, {
          layer: [
            bars(rows(hits, 1), "var(--c1)", "true positives"),
            bars(rows(misses, -1), "var(--c2)", "false positives"),
            { data: { values: [{}] }, mark: { type: "rule", aria: false }, encoding: { y: { datum: 0 } } },
            ...(hasBest ? [{ data: { values: [{ ...best, tip: [["best F1", short(best.f1)], ["at score", short(best.score)]] }] }, mark: { type: "rule", color: "var(--ink)", strokeDash: [4, 3], strokeWidth: 1.5, tooltip: TIP }, encoding: { x: { field: "score", type: "quantitative" } } }] : []),
          ],
        }),
      );
    }

    const thresholds = select("IoU", report.thresholds.map((each, t) => [t, iou(each)]), (value) => { chosen.t = value; chosen.k = MEAN; if (who) who.querySelector("select").value = MEAN; draw(); });
    const who = of.true_of_class
      ? select("Class", [[MEAN, "all"], ...model.classes.name.map((each, k) => [k, each])], (value) => { chosen.k = value; if (value !== MEAN) { chosen.t = report.main; thresholds.querySelector("select").value = report.main; } draw(); })
      : null;
    const log = el("label", {}, el("input", { type: "checkbox", checked: chosen.isLog, onchange: (event) => { chosen.isLog = event.target.checked; draw(); } }), "logarithmic");
    thresholds.querySelector("select").value = report.main;
    draw();
    return section(
      "scores",
      "Scores",
      "How many true (upwards) and false positives (downwards) there are at each score. The better the score, the further right the first and left the second.",
      el("div", { class: "controls" }, report.thresholds.length > 1 ? thresholds : null, who, log),
      legend([{ label: "true positives", color: "var(--c1)" }, { label: "false positives", color: "var(--c2)" }]),
      place,
      found,
    );
  }

  function select(label, options, onchange) {
    const box = el("select", { onchange: (event) => onchange(Number(event.target.value)) }, options.map(([value, text]) => el("option", { value }, text)));
    return el("label", {}, label, box);
  }

  function calibration(model) {
    const of = model.calibration;
    if (of.missing) return section("calibration", "Calibration", null, missing(of.missing));
    const values = of.bins.map((bin) => ({
      ...bin,
      tip: [["score", `${bin.from.toFixed(2)} to ${bin.to.toFixed(2)}`], ["mean score", short(bin.score)], ["precision", short(bin.precision)], ["detections", whole(bin.num)]],
    }));
    const y = unit("precision", "precision");
    return section(
      "calibration",
      "Calibration",
      `Detections by score, and how many of them are right at IoU ${iou(of.iou)}. On the diagonal a score is the chance of being right; below it scores promise too much. Expected calibration error: ${fraction(of.error)}.`,
      chart(`Calibration: precision by score, expected calibration error ${fraction(of.error)}`, 260, {
        layer: [
          { data: { values }, mark: { type: "bar", fill: "var(--c1)", fillOpacity: 0.22, binSpacing: 1, aria: false, tooltip: TIP }, encoding: { x: unit("from", "score", { bin: { binned: true } }), x2: { field: "to" }, y } },
          { data: { values: [{ x: 0, y: 0 }, { x: 1, y: 1 }] }, mark: { type: "line", color: "var(--soft)", strokeDash: [4, 3], strokeWidth: 1.25, aria: false }, encoding: { x: unit("x", "score"), y: unit("y", "precision") } },
          { data: { values }, mark: { type: "line", color: "var(--c1)", strokeWidth: 1.75, point: { fill: "var(--c1)", stroke: null, size: 42 }, tooltip: TIP }, encoding: { x: unit("score", "score"), y } },
        ],
      }),
    );
  }

  function errors(model) {
    const of = model.errors;
    if (of.missing) return section("errors", "Errors", null, missing(of.missing));
    const how = `What fixing all errors of one type would add to AP at IoU ${iou(of.iou)}, which is ${fraction(of.ap)}. The types are TIDE's. Gains don't add up: a fix changes what the others would do.`;
    const values = of.rows.filter(({ is_type: isType }) => isType).map((row) => ({ ...row, tip: [["error", row.type], ["count", whole(row.count)], ["gain in AP", signed(row.gain)]] }));
    const columns = [
      { title: "error", isText: true, isHead: true, cell: (row) => row.type },
      { title: "count", cell: (row) => whole(row.count) },
      { title: "gain in AP", cell: (row) => signed(row.gain) },
      { title: "a box", isText: true, class: "soft wide", cell: (row) => row.meaning },
    ];
    return section(
      "errors",
      "Errors",
      how,
      !isNumber(of.ap) ? missing("AP is undefined: there are no truths.") : el("div", { class: "pair" },
        chart(`What fixing each type of error would add to AP: ${values.map((row) => `${row.type} ${signed(row.gain)}`).join(", ")}`, 230, {
          data: { values },
          mark: { type: "bar", fill: "var(--c2)", fillOpacity: 0.85, height: { band: 0.68 }, tooltip: TIP },
          encoding: {
            y: { field: "type", type: "nominal", sort: null, title: null, axis: { ticks: false, domain: false, labelFontSize: 12, labelColor: "var(--ink)" } },
            x: { field: "gain", type: "quantitative", title: "gain in AP", axis: { tickCount: 5 } },
          },
        }),
        table({ label: "Errors by type", columns, rows: of.rows, isWhole: true })),
    );
  }

  function confusion(model) {
    const of = model.confusion;
    if (of.missing) return section("confusion", "Confusion", null, missing(of.missing));
    const numClasses = model.classes.name.length;
    const label = (k) => (k === numClasses ? "background" : unique(model, k));
    const isPart = of.shown.length <= numClasses;
    const isTight = of.shown.length > 12;
    const isNarrow = window.innerWidth < 560;
    const values = of.cells.map(([truth, found, num, share]) => ({
      truth: tick(label(truth)),
      found: tick(label(found)),
      num,
      share,
      tip: [["truth", label(truth)], ["detected as", label(found)], ["boxes", whole(num)], ["of the row", percent(share)]],
    }));
    const names = of.shown.map((k) => tick(label(k)));
    const axis = (title, more) => ({ title, labelFontSize: isTight ? (isNarrow ? 8 : 10) : 12, ticks: false, domain: false, grid: false, labelColor: "var(--ink)", labelLimit: 110, ...more });
    const x = { field: "found", type: "nominal", sort: null, scale: { domain: names }, axis: axis("detected as", { orient: "top", labelAngle: isNarrow ? -90 : -45 }) };
    const y = { field: "truth", type: "nominal", sort: null, scale: { domain: names }, axis: axis("truth") };
    const depth = { field: "share", type: "quantitative", legend: null, scale: { type: "sqrt", domain: [0, 1], range: [0, 1] } };
    const columns = [
      { title: "truth", isText: true, isHead: true, value: (row) => label(row[0]), cell: (row) => label(row[0]) },
      { title: "detected as", isText: true, value: (row) => label(row[1]), cell: (row) => el("span", { dir: "auto" }, label(row[1])) },
      { title: "boxes", value: (row) => row[2], cell: (row) => whole(row[2]) },
      { title: "of its truths", value: (row) => row[3], cell: (row) => percent(row[3]) },
    ];
    const how = [
      `What truths (rows) were detected as (columns), with detections of score ${short(of.score)} and above, at IoU ${iou(of.iou)}.`,
      "The darker a cell, the larger its share of the row. In the last column are truths that nothing was found on, in the last row detections on nothing.",
      isPart ? `Drawn are the ${of.shown.length - 1} classes that are confused most; the table is of all.` : "",
    ];
    return section(
      "confusion",
      "Confusion",
      how.join(" "),
      el("div", { class: "lopsided" },
        chart(`Confusion matrix of ${of.shown.length - 1} classes and background`, 80 + Math.max(20 * of.shown.length, 180), {
          data: { values },
          layer: [
            { mark: { type: "rect", fill: "var(--c1)", stroke: "var(--page)", strokeWidth: 1, aria: !isTight, tooltip: TIP }, encoding: { x, y, fillOpacity: depth } },
            ...(isTight ? [] : [{ mark: { type: "text", fontSize: 11, aria: false, tooltip: TIP }, encoding: { x, y, text: { field: "num", type: "quantitative", format: "," } } }]),
          ],
        }),
        of.pairs.length ? table({ label: "Most frequent confusions", columns, rows: of.pairs, sortBy: 2 }) : missing("No truth was detected as another class.")),
    );
  }

  function worst(model) {
    const of = model.worst;
    const column = (title, i) => ({ title, value: (row) => row[i], cell: (row) => whole(row[i]) });
    const columns = [
      { title: "image", isText: true, isHead: true, value: (row) => row[0], cell: (row) => row[0] },
      { title: "errors", value: (row) => row[2] + row[3], cell: (row) => whole(row[2] + row[3]) },
      column("false positives", 2),
      column("truths not found", 3),
      column("true positives", 1),
    ];
    return section(
      "images",
      "Worst images",
      `The ${of.rows.length} images with the most errors, with detections of score ${short(of.score)} and above, at IoU ${iou(of.iou)}.`,
      table({ label: "Worst images", columns, rows: of.rows, sortBy: 1, search: (row) => row[0], noun: "images" }),
    );
  }

  function protocol() {
    const row = ([what, value]) => [el("dt", {}, what), el("dd", {}, value)];
    return section(
      "protocol",
      "How it was made",
      "All that decided a number, and the versions that computed it.",
      el("dl", { class: "counts" }, report.made.flatMap(row)),
    );
  }

  // ---- the page -------------------------------------------------------------------------------------------------

  let chooser = null;
  const redraw = () => chooser.draw(report.models[state.model]);

  // Without a choice, the main threshold is drawn.
  function settle() {
    state.thresholds ??= [report.models[state.model].curves.thresholds.indexOf(report.main)];
  }

  function show() {
    const model = report.models[state.model];
    settle();
    const keep = [...content.children].filter((child) => child.dataset.kept !== undefined);
    chooser = curves();
    const sections = [
      summary(model),
      report.comparison ? comparison() : null,
      classes(model),
      chooser.element,
      el("div", { class: "row" }, report.areas.length > 1 ? sizes(model) : null, scores(model), calibration(model)),
      errors(model),
      confusion(model),
      worst(model),
      protocol(),
    ].filter((each) => each !== null);
    content.replaceChildren(...keep, ...sections);
    chooser.start(model);
    chooser.draw(model);
    document.getElementById("sections").replaceChildren(
      ...[...content.querySelectorAll("section[id]")].map((each) => el("a", { href: `#${each.id}` }, each.querySelector("h2").textContent)),
    );
  }

  function head() {
    content.querySelector("h1").dataset.kept = "";
    const lead = el("p", { class: "lead", "data-kept": "" }, report.subtitle);
    content.append(lead);
    if (report.models.length > 1) {
      const box = select("Model", report.models.map((model, i) => [i, model.name]), (value) => { state.model = value; state.classes = [MEAN]; show(); });
      content.append(el("div", { class: "controls", "data-kept": "" }, box));
    }
    content.querySelectorAll("noscript").forEach((each) => each.remove());
  }

  function theme() {
    const button = document.getElementById("theme");
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (state.theme ?? (system.matches ? "dark" : "light")) === "dark";
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours"); };
    button.addEventListener("click", () => { state.theme = isDark() ? "light" : "dark"; document.documentElement.dataset.theme = state.theme; label(); });
    system.addEventListener("change", label);
    button.hidden = false;
    label();
  }

  head();
  theme();
  show();
})();
