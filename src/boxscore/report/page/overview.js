// The summary, and the table of classes.

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
    isNumber(low)
      ? el("div", { class: "between" }, range(low, high), " ", el("span", { class: "soft" }, sureness(model)))
      : null,
    el(
      "dl",
      { class: "counts" },
      counts.flatMap(([what, num]) => [el("dt", {}, what), el("dd", {}, whole(num))]),
    ),
  );
  const rows = report.measures.map((measure, m) => ({ measure, m }));
  const many = report.models.length > 1;
  const numbers = many
    ? report.models.map((each, i) => ({
        title: each.name,
        class: i === state.model ? "sure" : "",
        cell: ({ m }) => fraction(each.numbers[m]),
      }))
    : [{ title: "value", cell: ({ m }) => fraction(model.numbers[m]) }];
  const columns = [
    { title: "number", isText: true, isHead: true, cell: ({ measure }) => measure.name },
    ...numbers,
    ...(model.intervals
      ? [
          {
            title: many ? `${model.name}: ${sureness(model)}` : sureness(model),
            class: "range",
            cell: ({ m }) => range(...between(model, m)),
          },
        ]
      : []),
    { title: "0 to 1", isText: true, cell: ({ m }) => whisker(model.numbers[m], ...between(model, m)) },
    ...["", "IoU", "area", "limit"].map((title, i) => ({
      title,
      isText: true,
      class: "soft",
      cell: ({ measure }) => measure.meaning[i],
    })),
  ];
  return section(
    "summary",
    "Summary",
    model.intervals
      ? reading(
          `${model.intervals.title}.`,
          many && !report.comparison
            ? "Models whose intervals overlap may still differ: boxscore compare tells."
            : null,
        )
      : null,
    el("div", { class: "hero" }, headline, table({ label: "All numbers", columns, rows, isWhole: true })),
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
    ...(sure
      ? [
          {
            title: sureness(model),
            class: "range",
            help: "Sorts by its width",
            value: (k) => (isNumber(sure.low[k]) ? sure.high[k] - sure.low[k] : null),
            cell: (k) => range(sure.low[k], sure.high[k]),
          },
        ]
      : []),
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
    reading("Sort by a column's title. A class that is ticked is drawn in the charts below."),
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
