// Precision and recall, and AP by IoU threshold, of the classes and thresholds that are chosen.

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
        dash: byThreshold
          ? DASHES[Math.floor(place / NUM_COLORS)]
          : DASHES[(thresholds.length > 1 ? place : Math.floor(c / NUM_COLORS)) % DASHES.length],
        width: k === MEAN ? 2.5 : 1.75,
        label:
          thresholds.length > 1
            ? `${title(model, k)}, IoU ${iou(report.thresholds[model.curves.thresholds[t]])}`
            : title(model, k),
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
  const isOne = report.thresholds.length === 1;
  const places = { curves: el("div"), ious: el("div") };
  const field = el("input", {
    list: "class-names",
    placeholder: "its name",
    "aria-describedby": "lines-status",
    onchange: (event) => add(event.target),
  });
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
    el(
      "button",
      {
        type: "button",
        onclick: () => {
          state.classes = pick(report.models[state.model]);
          redraw();
        },
      },
      text,
    );
  const ranked = (model, sign) =>
    model.classes.ap
      .map((ap, k) => ({ ap, k }))
      .filter(({ ap }) => isNumber(ap))
      .sort((one, other) => sign * (one.ap - other.ap))
      .slice(0, 5)
      .map(({ k }) => k);

  function start(model) {
    options.replaceChildren(...model.classes.name.map((_, k) => el("option", { value: unique(model, k) })));
    boxes.replaceChildren(
      boxes.firstChild,
      ...model.curves.thresholds.map((t, place) =>
        el(
          "label",
          {},
          el("input", {
            type: "checkbox",
            value: place,
            onchange: pick,
          }),
          iou(report.thresholds[t]),
        ),
      ),
    );
  }
  function pick() {
    const chosen = [...boxes.querySelectorAll("input:checked")].map((input) => Number(input.value));
    state.thresholds = chosen.length ? chosen : null;
    settle();
    redraw();
  }
  function draw(model) {
    const drawn = lines(model);
    const isFocused = chips.contains(document.activeElement); // on a button that is about to go
    chips.replaceChildren(
      ...drawn.map((line) =>
        el(
          "li",
          {},
          swatch(line),
          el("span", { class: "name", dir: "auto" }, line.label),
          line.k === MEAN && state.classes.length === 1
            ? null
            : el(
                "button",
                { type: "button", "aria-label": `Take out ${line.label}`, onclick: () => choose(line.k, false) },
                "×",
              ),
        ),
      ),
    );
    if (isFocused) (chips.querySelector("button") ?? field).focus();
    boxes.querySelectorAll("input").forEach((box) => {
      box.checked = state.thresholds.includes(Number(box.value));
    });
    const num = state.classes.length * state.thresholds.length;
    status.textContent = num > drawn.length ? `the first ${drawn.length} of ${num} lines` : "";
    places.curves.replaceChildren(prChart(model, drawn));
    if (!isOne) places.ious.replaceChildren(iouChart(model));
    document.querySelectorAll("input[data-class]").forEach((box) => {
      box.checked = state.classes.includes(Number(box.dataset.class));
    });
  }
  const element = section(
    "curves",
    "Precision and recall",
    reading(
      "The precision at a recall or beyond, as AP averages it: the better the detector, the further the line reaches",
      "to the upper right. Point at the chart to read it.",
      isOne ? null : "Beside it, AP by IoU threshold: a steep fall means that boxes are found, but not tight.",
    ),
    el(
      "div",
      { class: "controls" },
      el("label", {}, "Add a class", field),
      options,
      quick("mean only", () => [MEAN]),
      quick("best 5", (model) => ranked(model, -1)),
      quick("worst 5", (model) => ranked(model, 1)),
      status,
    ),
    isOne ? null : el("div", { class: "controls" }, boxes),
    chips,
    el("div", { class: isOne ? null : "lopsided" }, places.curves, isOne ? null : places.ious),
  );
  return { element, start, draw };
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
  const lowest = report.thresholds[0],
    highest = report.thresholds.at(-1);
  const x = {
    field: "iou",
    type: "quantitative",
    title: "IoU threshold",
    scale: { domain: [lowest, highest], nice: false, padding: 8 },
    axis: { values: report.thresholds, format: ".2f", labelOverlap: true },
  };
  return chart(`AP by IoU threshold: ${drawn.map((k) => title(model, k)).join("; ")}`, 340, {
    layer: drawn.map((k, c) => {
      const aps = apByThreshold(model, k);
      const ink = k === MEAN ? "var(--ink)" : color(c - drawn.includes(MEAN));
      const values = report.thresholds
        .map((at, t) => ({
          iou: at,
          ap: aps[t],
          who: title(model, k),
          tip: [
            ["class", title(model, k)],
            ["IoU", iou(at)],
            ["AP", fraction(aps[t])],
          ],
        }))
        .filter(({ ap }) => isNumber(ap));
      return {
        data: { values },
        mark: {
          type: "line",
          stroke: ink,
          strokeWidth: k === MEAN ? 2.5 : 1.75,
          point: { fill: ink, stroke: null, size: 38 },
          tooltip: TIP,
        },
        encoding: { x, y: unit("ap", "AP"), description: WHO },
      };
    }),
  });
}
