// The summary, and the table of classes.

const MOST_WHISKERS = 4;

function summary(model) {
  const [low, high] = intervalOf(model, 0);
  const counts = [
    ["images", integer(model.counts.images)],
    ["ground truths", integer(model.counts.truths)],
    [
      "detections",
      report.limit === null
        ? integer(model.counts.detections)
        : [
            `${integer(model.counts.detections)} `,
            el("span", { class: "soft" }, `at most ${report.limit}`),
          ],
    ],
    ["classes", integer(model.counts.classes)],
  ];
  const many = report.models.length > 1;
  const headline = el(
    "div",
    { class: "headline" },
    el(
      "div",
      {},
      el("div", { class: "what" }, `mAP, ${report.measures[0].meaning[1]}`),
      el("div", { class: "value" }, short(model.numbers[0])),
      isNumber(low)
        ? el("div", { class: "interval" }, range(low, high), " ", el("span", { class: "soft" }, intervalName(model)))
        : null,
      el("div", { class: "comparable" }, model.comparable),
    ),
    el(
      "dl",
      { class: "counts" },
      counts.flatMap(([what, num]) => [el("dt", {}, what), el("dd", {}, num)]),
    ),
  );
  const rows = report.measures.map((measure, m) => ({ measure, m }));
  return section(
    "summary",
    "Summary",
    model.intervals
      ? caption(
          `${model.intervals.title}.`,
          many && !report.comparison
            ? "Models whose confidence intervals overlap may still differ significantly: use boxscore compare."
            : null,
        )
      : null,
    ...report.notes.map(missing),
    el(
      "div",
      { class: many ? "hero many" : "hero" },
      many ? el("div", {}, el("div", { class: "whose" }, named(model.name)), headline) : headline,
      table({ label: "All numbers", columns: many ? ofMany() : ofOne(model), rows, isWhole: true }),
    ),
  );
}

const NUMBER = { title: "number", isText: true, isHead: true, class: "measure", cell: ({ measure }) => measure.name };

function ofOne(model) {
  return [
    NUMBER,
    { title: "value", cell: ({ m }) => fraction(model.numbers[m]) },
    ...(model.intervals
      ? [
          {
            title: model.intervals.short,
            help: intervalName(model),
            class: "range",
            cell: ({ m }) => range(...intervalOf(model, m)),
          },
        ]
      : []),
    { title: "0 to 1", isText: true, class: "drawn", cell: ({ m }) => whiskers([whisker(model, m, "var(--c1)")]) },
    ...["", report.similarity, "area", "limit"].map((title, i) => ({
      title,
      isText: true,
      class: "soft",
      cell: ({ measure }) => measure.meaning[i],
    })),
  ];
}

const whisker = (model, m, ink) => {
  const [low, high] = intervalOf(model, m);
  return { value: model.numbers[m], low, high, ink };
};

// A column for each model, with the interval below the number.
function ofMany() {
  const { models } = report;
  const isDrawn = models.length <= MOST_WHISKERS;
  const mark = (i) => {
    const spot = el("i", { class: "spot", "aria-hidden": "true" });
    spot.style.background = color(i);
    return spot;
  };
  const column = (model, i) => ({
    title: named(model.name, shortNames[i]),
    under: isDrawn ? mark(i) : null,
    class: i === state.model ? "model strong" : "model",
    cell: ({ m }) => [
      fraction(model.numbers[m]),
      model.intervals ? el("div", { class: "range" }, range(...intervalOf(model, m))) : null,
    ],
  });
  const drawn = {
    title: "0 to 1",
    isText: true,
    class: "drawn",
    cell: ({ m }) => whiskers(models.map((model, i) => whisker(model, m, color(i)))),
  };
  return [
    NUMBER,
    ...models.map(column),
    ...(isDrawn ? [drawn] : []),
    { title: "", isText: true, class: "soft wide meaning", cell: ({ measure }) => meaning(measure) },
  ];
}

// The meaning of a number, in one cell.
const meaning = ({ meaning: [what, at, area, limit] }) => [what, at, area, limit].filter((part) => part).join(", ");

function classes(model) {
  const of = model.classes;
  const intervals = model.intervals;
  const rows = of.name.map((_, k) => k);
  const main = iou(report.thresholds[report.main]);
  const column = (title, key, cell) => ({ title, value: (k) => of[key][k], cell: (k) => cell(of[key][k]) });
  const drawn = model.curves.thresholds.indexOf(report.main);
  const isOne = report.thresholds.length === 1;
  const atMain = (k) => apByThreshold(model, k)[report.main];
  const columns = [
    { title: "chart", help: "Show in the charts below", isText: true, class: "choice", cell: (k) => choice(k) },
    { title: "class", isText: true, isHead: true, value: (k) => of.name[k], cell: (k) => of.name[k] },
    column("AP", "ap", fraction),
    ...(intervals
      ? [
          {
            title: intervals.short,
            class: "range",
            help: `${intervalName(model)}; sorts by width`,
            value: (k) => (isNumber(intervals.low[k]) ? intervals.high[k] - intervals.low[k] : null),
            cell: (k) => range(intervals.low[k], intervals.high[k]),
          },
        ]
      : []),
    ...(isOne ? [] : [{ title: `AP${cents(main)}`, value: atMain, cell: (k) => fraction(atMain(k)) }]),
    { title: `PR@${main}`, isText: true, class: "curve", cell: (k) => spark(curve(model, drawn, k)) },
    column("AR", "ar", fraction),
    { ...column("truths", "truths", integer), help: "Ground truths that count" },
    {
      ...column("detections", "detections", integer),
      help: `Within the limit (${report.limit ?? "none"}); ignored detections are neither TP nor FP`,
    },
    column(`TP@${main}`, "true", integer),
    column(`FP@${main}`, "false", integer),
    { ...column("best F1", "f1", short), help: `The best F1 over all score thresholds, at ${report.similarity} ${main}` },
    { ...column("at score", "score", short), help: "The score threshold with the best F1" },
    { ...column("P", "precision", short), help: "Precision at this score threshold" },
    { ...column("R", "recall", short), help: "Recall at this score threshold" },
    ...Object.entries(of.extra).map(([title, values]) => ({
      title,
      help: report.measures.find(({ name }) => name === title)?.meaning[0],
      value: (k) => values[k],
      cell: (k) => fraction(values[k]),
    })),
  ];
  return section(
    "classes",
    "Classes",
    caption(
      `TP, FP and the best F1, with its score threshold, precision (P) and recall (R), are at ${report.similarity} ${main}.`,
      report.limit === null ? null : `Detections are counted within the limit of ${report.limit}.`,
      hint("Click a column title to sort. Ticked classes are drawn in the charts below."),
    ),
    table({ label: "Classes", columns, rows, sortBy: 2, search: (k) => of.name[k], noun: "classes" }),
  );
}

function choice(k) {
  const name = report.models[state.model].classes.name[k];
  return el("input", {
    type: "checkbox",
    "data-class": k,
    "aria-label": `Show ${name} in the charts`,
    onchange: (event) => choose(k, event.target.checked),
  });
}

// A threshold as in names of numbers: "50" for "0.50".
const cents = (threshold) => threshold.replace(/^0\./, "");
