// Precision and recall, and AP by IoU threshold, of the models, classes and thresholds that are chosen.

// Colours distinguish models where several are drawn, else classes, else thresholds; dashes distinguish the rest.
function lines(model) {
  const thresholds = state.thresholds.filter((t) => t < model.curves.thresholds.length);
  const { classes, models } = state;
  const several = { models: models.length > 1, classes: classes.length > 1, thresholds: thresholds.length > 1 };
  const ink = (m, c, t, k) => {
    if (several.models) return color(m);
    if (several.classes) return k === MEAN ? "var(--ink)" : color(c - classes.includes(MEAN));
    return several.thresholds || k !== MEAN ? color(t) : "var(--ink)";
  };
  const dash = (m, c, t) => {
    if (several.models) return c + t + Math.floor(m / NUM_COLORS);
    if (several.classes) return several.thresholds ? t : Math.floor(c / NUM_COLORS);
    return Math.floor(t / NUM_COLORS);
  };
  const chosen = [];
  classes.forEach((k, c) => {
    thresholds.forEach((t, index) => {
      const threshold = model.curves.thresholds[t];
      models.forEach((m) => {
        const of = report.models[m];
        const own = { k: indexIn(of, model, k), t: of.curves.thresholds.indexOf(threshold) };
        if (own.k === undefined || own.t < 0) return;
        const at = several.thresholds ? `, ${report.similarity} ${iou(report.thresholds[threshold])}` : "";
        chosen.push({
          m,
          k,
          own,
          color: ink(m, c, index, k),
          dash: DASHES[dash(m, c, index) % DASHES.length],
          width: k === MEAN ? 2.5 : 1.75,
          label: `${modelPrefix(m)}${title(model, k)}${at}`,
        });
      });
    });
  });
  return chosen.slice(0, MOST_LINES);
}
// The prefix of a line's label: the model's name, where several models are drawn.
const modelPrefix = (m) => (state.models.length > 1 ? `${shortNames[m]}: ` : "");

function choose(k, isChosen) {
  state.classes = state.classes.filter((other) => other !== k);
  if (isChosen) state.classes.push(k);
  if (!state.classes.length) state.classes = [MEAN];
  redraw();
}

// Remove a line: its class, or its model where there is no other class.
function removeLine({ k, m }) {
  if (state.classes.length > 1 || k !== MEAN || state.models.length === 1) return choose(k, false);
  state.models = state.models.filter((other) => other !== m);
  return redraw();
}

function curves() {
  const chips = el("ul", { class: "chips", "aria-label": "Lines" });
  const isOne = report.thresholds.length === 1;
  const containers = { curves: el("div"), ious: el("div") };
  const field = el("input", {
    list: "class-names",
    placeholder: "class name",
    "aria-describedby": "lines-status",
    onchange: (event) => add(event.target),
  });
  const options = el("datalist", { id: "class-names" });
  const boxes = el("fieldset", {}, el("legend", {}, report.similarity));
  const isOfMany = report.models.length > 1;
  const modelBoxes = el(
    "fieldset",
    { class: "models" },
    el("legend", {}, "Models"),
    report.models.map((each, m) =>
      el(
        "label",
        {},
        el("input", { type: "checkbox", value: m, onchange: pickModels }),
        named(each.name, shortNames[m]),
      ),
    ),
  );
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
      ...model.curves.thresholds.map((t, index) =>
        el(
          "label",
          {},
          el("input", {
            type: "checkbox",
            value: index,
            onchange: pick,
          }),
          iou(report.thresholds[t]),
        ),
      ),
    );
  }
  function pickModels() {
    const chosen = [...modelBoxes.querySelectorAll("input:checked")].map((input) => Number(input.value));
    state.models = chosen.length ? chosen : [state.model];
    redraw();
  }
  function pick() {
    const chosen = [...boxes.querySelectorAll("input:checked")].map((input) => Number(input.value));
    state.thresholds = chosen.length ? chosen : null;
    setDefaultThresholds();
    redraw();
  }
  function draw(model) {
    const drawn = lines(model);
    const isFocused = chips.contains(document.activeElement); // on a button that is about to be removed
    chips.replaceChildren(
      ...drawn.map((line) =>
        el(
          "li",
          {},
          swatch(line),
          el("span", { class: "name", dir: "auto" }, line.label),
          line.k === MEAN && state.classes.length === 1 && state.models.length === 1
            ? null
            : el(
                "button",
                { type: "button", "aria-label": `Remove ${line.label}`, onclick: () => removeLine(line) },
                "×",
              ),
        ),
      ),
    );
    if (isFocused) (chips.querySelector("button") ?? field).focus();
    boxes.querySelectorAll("input").forEach((box) => {
      box.checked = state.thresholds.includes(Number(box.value));
    });
    modelBoxes.querySelectorAll("input").forEach((box) => {
      box.checked = state.models.includes(Number(box.value));
    });
    const num = state.classes.length * state.thresholds.length * state.models.length;
    status.textContent = num > drawn.length ? `showing the first ${drawn.length} of ${num} lines` : "";
    containers.curves.replaceChildren(prChart(model, drawn));
    if (!isOne) containers.ious.replaceChildren(iouChart(model));
    document.querySelectorAll("input[data-class]").forEach((box) => {
      box.checked = state.classes.includes(Number(box.dataset.class));
    });
  }
  const element = section(
    "curves",
    "Precision and recall",
    caption(
      `${report.curve} Better detectors are closer to the upper right.`,
      hint("Hover over the chart to read values."),
      isOne ? null : `AP by ${report.similarity} threshold: a steep fall means that objects are found, but localized poorly.`,
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
    isOfMany ? el("div", { class: "controls" }, modelBoxes) : null,
    isOne ? null : el("div", { class: "controls" }, boxes),
    together(chips, el("div", { class: isOne ? null : "lopsided" }, containers.curves, isOne ? null : containers.ious)),
  );
  return { element, start, draw };
}

function prChart(model, drawn) {
  const points = drawn.map(({ m, own }) => curve(report.models[m], own.t, own.k));
  // Models may have curves at different recalls, as curves of many classes are thinned.
  const read = points.map((line) => new Map((line ?? []).map(({ recall, precision }) => [recall, precision])));
  const readings = model.curves.recall.map((at) => {
    const values = drawn.flatMap((line, s) => (read[s].has(at) ? [[line.label, short(read[s].get(at))]] : []));
    return { recall: at, tip: [["recall", at.toFixed(2)], ...values] };
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
  const isOfMany = state.models.length > 1;
  const drawn = state.classes
    .flatMap((k, c) => state.models.map((m) => ({ m, k, c, own: indexIn(report.models[m], model, k) })))
    .filter(({ own }) => own !== undefined)
    .slice(0, MOST_LINES);
  const label = ({ m, k }) => `${modelPrefix(m)}${title(model, k)}`;
  const lowest = report.thresholds[0],
    highest = report.thresholds.at(-1);
  const x = {
    field: "iou",
    type: "quantitative",
    title: `${report.similarity} threshold`,
    scale: { domain: [lowest, highest], nice: false, padding: 8 },
    axis: { values: report.thresholds, format: ".2f", labelOverlap: true },
  };
  return chart(`AP by ${report.similarity} threshold: ${drawn.map(label).join("; ")}`, 340, {
    layer: drawn.map((line) => {
      const { m, k, c, own } = line;
      const aps = apByThreshold(report.models[m], own);
      const one = k === MEAN ? "var(--ink)" : color(c - state.classes.includes(MEAN));
      const ink = isOfMany ? color(m) : one;
      const values = report.thresholds
        .map((at, t) => ({
          iou: at,
          ap: aps[t],
          who: label(line),
          tip: [
            ...(isOfMany ? [["model", shortNames[m]]] : []),
            ["class", title(model, k)],
            [report.similarity, iou(at)],
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
          strokeDash: isOfMany ? DASHES[c % DASHES.length] : [],
          point: { fill: ink, stroke: null, size: 38 },
          tooltip: TIP,
        },
        encoding: { x, y: unit("ap", "AP"), description: WHO },
      };
    }),
  });
}
