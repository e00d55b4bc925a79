// Differences between models.

function comparison() {
  const all = report.comparison.differences;
  const container = el("div");

  function draw(of) {
    const names = of.class_names || report.models[0].classes.name;
    const classes = of.classes.map((change, k) => [names[k], ...change]);
    const [first, second] = [of.first, of.second].map(shortName);
    const marked = ([, , , difference, low, high]) =>
      !isNumber(low) || (low <= 0 && high >= 0) ? "" : difference > 0 ? "better strong" : "worse strong";
    const columns = (what) => [
      {
        title: what,
        isText: true,
        isHead: true,
        class: what === "number" ? "measure" : null,
        value: (row) => row[0],
        cell: (row) => row[0],
      },
      {
        title: named(of.first, first),
        class: "model",
        value: (row) => row[1],
        cell: (row) => fraction(row[1]),
      },
      {
        title: named(of.second, second),
        class: "model",
        value: (row) => row[2],
        cell: (row) => fraction(row[2]),
      },
      {
        title: "difference",
        help: "Sorts by absolute value, then descending, then ascending",
        isSigned: true,
        value: (row) => row[3],
        cell: (row) => [
          el("span", { class: marked(row) }, signed(row[3])),
          el("div", { class: "range narrow" }, spanned(row)),
        ],
      },
      {
        title: "confidence interval",
        class: "range broad",
        help: "Sorts by width",
        value: (row) => (isNumber(row[4]) ? row[5] - row[4] : null),
        cell: spanned,
      },
      { title: "p", class: "p", value: (row) => row[6], cell: (row) => pText(row[6], row[7]) },
    ];
    const values = of.numbers
      .filter((row) => isNumber(row[3]))
      .map((row) => ({
        number: row[0],
        difference: row[3],
        low: row[4],
        high: row[5],
        ink: isNumber(row[4]) && row[4] <= 0 && row[5] >= 0 ? "var(--soft)" : row[3] > 0 ? "var(--c1)" : "var(--c2)",
        tip: [
          ["number", row[0]],
          ["difference", signed(row[3])],
          ["confidence interval", spanned(row)],
          ["p", pText(row[6], row[7])],
        ],
      }));
    const reach = Math.max(1e-4, ...values.flatMap((row) => [row.difference, row.low, row.high].map(Math.abs)));
    const ink = { field: "ink", type: "nominal", scale: null, legend: null };
    const y = {
      field: "number",
      type: "nominal",
      sort: null,
      title: null,
      axis: { ticks: false, domain: false, labelFontSize: 12, labelColor: "var(--ink)" },
    };
    const x = {
      type: "quantitative",
      title: null,
      scale: { domain: [-reach, reach], nice: true },
      axis: { tickCount: 5, format: "+.3~f", labelOverlap: true },
    };
    const images = [
      { title: "image", isText: true, isHead: true, isPath: true, value: (row) => row[0], cell: (row) => row[0] },
      { title: "truths", value: (row) => row[1], cell: (row) => integer(row[1]) },
      {
        title: named(of.first, first),
        under: el("div", {}, "TP / FP"),
        class: "model",
        cell: (row) => `${integer(row[2])} / ${integer(row[3])}`,
      },
      {
        title: named(of.second, second),
        under: el("div", {}, "TP / FP"),
        class: "model",
        cell: (row) => `${integer(row[4])} / ${integer(row[5])}`,
      },
      {
        title: "gain",
        isSigned: true,
        value: (row) => row[6],
        cell: (row) =>
          el("span", { class: row[6] > 0 ? "better" : "worse" }, (row[6] > 0 ? "+" : "−") + integer(Math.abs(row[6]))),
      },
    ];
    container.replaceChildren(
      el(
        "div",
        { class: "lopsided more" },
        table({
          label: `Differences between ${of.first} and ${of.second}`,
          columns: columns("number"),
          rows: of.numbers,
          isWhole: true,
        }),
        values.length
          ? el(
              "div",
              {},
              chart(
                `Differences of all numbers with their confidence intervals: ${of.second} minus ${of.first}`,
                60 + 26 * values.length,
                {
                  data: { values },
                  layer: [
                    {
                      data: { values: [{}] },
                      mark: { type: "rule", aria: false, strokeWidth: 1.5 },
                      encoding: { x: { datum: 0, type: "quantitative" } },
                    },
                    {
                      mark: { type: "rule", strokeWidth: 3, strokeOpacity: 0.5, aria: false, tooltip: TIP },
                      encoding: { y, x: { ...x, field: "low" }, x2: { field: "high" }, color: ink },
                    },
                    {
                      mark: { type: "point", filled: true, size: 60, opacity: 1, tooltip: TIP },
                      encoding: { y, x: { ...x, field: "difference" }, color: ink },
                    },
                  ],
                },
              ),
              sides(first, second),
            )
          : null,
      ),
      el("h3", {}, "AP by class"),
      caption(
        "Largest changes first.",
        of.classes.length < of.num_classes
          ? `The table has the ${integer(of.classes.length)} of ${integer(of.num_classes)} classes that changed most.`
          : null,
      ),
      table({
        label: "Differences by class",
        columns: columns("class"),
        rows: classes,
        sortBy: 3,
        search: (row) => row[0],
        noun: "classes",
      }),
      el("h3", {}, "Images that changed most"),
      caption(
        "Each model is at its score threshold with the best F1.",
        "The gain is how many fewer errors (false positives and false negatives) the second model has.",
      ),
      of.images.length
        ? table({
            label: "Images that changed most",
            columns: images,
            rows: of.images,
            search: (row) => row[0],
            noun: "images",
          })
        : missing("No image changed."),
    );
  }

  draw(all[0]);
  const box = select(
    `${shortName(all[0].first)} compared with`,
    all.map(({ second }, i) => [i, second]),
    (value) => draw(all[value]),
  );
  const [only] = all;
  const names =
    all.length > 1 ? null : el("p", { class: "against" }, named(only.first), " compared with ", named(only.second));
  return section(
    "comparison",
    "Comparison",
    caption(
      `${report.comparison.title}.`,
      "A difference is coloured if its confidence interval excludes 0.",
      "p is the p-value under the hypothesis of no difference; \u201c≤\u201d marks the smallest that this number of resamples can show.",
    ),
    names,
    all.length > 1 ? el("div", { class: "controls" }, box) : null,
    container,
  );
}

const spanned = (row) => (isNumber(row[4]) ? `${signed(row[4])} to ${signed(row[5])}` : "");

// Below a chart: which model is better on which side of 0.
const sides = (first, second) =>
  el(
    "div",
    { class: "sides" },
    el("span", {}, "← ", el("bdi", {}, first), " is better"),
    el("span", {}, el("bdi", {}, second), " is better →"),
  );
