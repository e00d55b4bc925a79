// What models differ in.

function comparison() {
  const all = report.comparison.differences;
  const place = el("div");

  function draw(of) {
    const names = of.class_names || report.models[0].classes.name;
    const classes = of.classes.map((change, k) => [names[k], ...change]);
    const marked = ([, , , difference, low, high]) =>
      !isNumber(low) || (low <= 0 && high >= 0) ? "" : difference > 0 ? "better sure" : "worse sure";
    const columns = (what) => [
      { title: what, isText: true, isHead: true, value: (row) => row[0], cell: (row) => row[0] },
      { title: of.first, value: (row) => row[1], cell: (row) => fraction(row[1]) },
      { title: of.second, value: (row) => row[2], cell: (row) => fraction(row[2]) },
      {
        title: "difference",
        value: (row) => row[3],
        cell: (row) => el("span", { class: marked(row) }, signed(row[3])),
      },
      {
        title: "interval",
        class: "range",
        value: (row) => (isNumber(row[4]) ? row[5] - row[4] : null),
        cell: (row) => (isNumber(row[4]) ? `${signed(row[4])} to ${signed(row[5])}` : ""),
      },
      { title: "p", value: (row) => row[6], cell: (row) => short(row[6]) },
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
          ["interval", `${signed(row[4])} to ${signed(row[5])}`],
          ["p", short(row[6])],
        ],
      }));
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
      title: "← first is better · second is better →",
      axis: { tickCount: 4, format: "+.3~f" },
    };
    const images = [
      { title: "image", isText: true, isHead: true, value: (row) => row[0], cell: (row) => row[0] },
      { title: "truths", value: (row) => row[1], cell: (row) => whole(row[1]) },
      { title: `${of.first}: TP / FP`, cell: (row) => `${whole(row[2])} / ${whole(row[3])}` },
      { title: `${of.second}: TP / FP`, cell: (row) => `${whole(row[4])} / ${whole(row[5])}` },
      {
        title: "gain",
        value: (row) => row[6],
        cell: (row) =>
          el("span", { class: row[6] > 0 ? "better" : "worse" }, (row[6] > 0 ? "+" : "−") + whole(Math.abs(row[6]))),
      },
    ];
    place.replaceChildren(
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
          ? chart(
              `Differences of all numbers with their intervals: ${of.second} less ${of.first}`,
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
            )
          : null,
      ),
      el("h3", {}, "AP by class"),
      table({
        label: "Differences by class",
        columns: columns("class"),
        rows: classes,
        sortBy: 3,
        search: (row) => row[0],
        noun: "classes",
      }),
      el("h3", {}, "Images that changed most"),
      reading(
        "With the detections that each model has at its best F1.",
        "A gain is so many mistakes fewer, false or missed, with the second model.",
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
    `${all[0].first} against`,
    all.map(({ second }, i) => [i, second]),
    (value) => draw(all[value]),
  );
  return section(
    "comparison",
    "Comparison",
    reading(
      `${report.comparison.title}.`,
      "A difference in colour is one whose interval does not hold 0;",
      "p is how surprising it would be if there were none.",
    ),
    el("div", { class: "controls" }, box),
    place,
  );
}
