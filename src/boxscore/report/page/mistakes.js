// Errors by type, the confusion matrix, the worst images.

const operatingPoint = (of) => `at score ≥ ${short(of.score)} and ${report.similarity} ${iou(of.iou)}`;

function errors(model) {
  const of = model.errors;
  if (of.missing) return section("errors", "Errors", missing(of.missing));
  const values = of.rows
    .filter(({ is_type: isType }) => isType)
    .map((row) => ({
      ...row,
      tip: [
        ["error", row.type],
        ["count", integer(row.count)],
        ["gain in AP", signed(row.gain)],
      ],
    }));
  const columns = [
    { title: "error", isText: true, isHead: true, cell: (row) => row.type },
    { title: "count", cell: (row) => integer(row.count) },
    { title: "gain in AP", cell: (row) => signed(row.gain) },
    { title: "meaning", isText: true, class: "soft wide", cell: (row) => row.meaning },
  ];
  const gains = values.map((row) => `${row.type} ${signed(row.gain)}`);
  return section(
    "errors",
    "Errors",
    caption(
      `AP at ${report.similarity} ${iou(of.iou)} is ${fraction(of.ap)}. The gain is what fixing all errors of one type would add to it.`,
      "Error types are those of TIDE. Gains do not add up, as each fix changes the effect of the others.",
    ),
    !isNumber(of.ap)
      ? missing("AP is undefined, as there is no ground truth.")
      : el(
          "div",
          { class: "pair" },
          chart(`What fixing each type of error would add to AP: ${gains.join(", ")}`, 230, {
            data: { values },
            mark: { type: "bar", fill: "var(--c2)", fillOpacity: 0.85, height: { band: 0.68 }, tooltip: TIP },
            encoding: {
              y: {
                field: "type",
                type: "nominal",
                sort: null,
                title: null,
                axis: { ticks: false, domain: false, labelFontSize: 12, labelColor: "var(--ink)" },
              },
              x: { field: "gain", type: "quantitative", title: "gain in AP", axis: { tickCount: 5 } },
            },
          }),
          table({ label: "Errors by type", columns, rows: of.rows, isWhole: true }),
        ),
  );
}

function confusion(model) {
  const of = model.confusion;
  if (of.missing) return section("confusion", "Confusion matrix", missing(of.missing));
  const label = (k) => of.names[k];
  const isPart = of.shown.length <= of.num_classes;
  const isTight = of.shown.length > 12;
  const values = of.cells.map(([truth, detected, num, share]) => ({
    truth: tick(label(truth)),
    detected: tick(label(detected)),
    num,
    share,
    ink: inkOn(Math.sqrt(share)),
    tip: [
      ["ground truth", label(truth)],
      ["detected as", label(detected)],
      ["count", integer(num)],
      ["share of the row", percent(share)],
    ],
  }));
  const names = of.shown.map((k) => tick(label(k)));
  const axis = (title, more) => ({
    title,
    labelFontSize: isTight ? (isNarrow() ? 8 : 10) : 12,
    ticks: false,
    domain: false,
    grid: false,
    labelColor: "var(--ink)",
    labelLimit: isNarrow() ? 70 : 110,
    ...more,
  });
  const x = {
    field: "detected",
    type: "nominal",
    sort: null,
    scale: { domain: names },
    axis: axis("detected as", { orient: "top", labelAngle: isNarrow() ? -90 : -45 }),
  };
  const y = { field: "truth", type: "nominal", sort: null, scale: { domain: names }, axis: axis("ground truth") };
  const depth = {
    field: "share",
    type: "quantitative",
    legend: null,
    scale: { type: "sqrt", domain: [0, 1], range: [0, 1] },
  };
  const columns = [
    { title: "ground truth", isText: true, isHead: true, value: (row) => label(row[0]), cell: (row) => label(row[0]) },
    {
      title: "detected as",
      isText: true,
      value: (row) => label(row[1]),
      cell: (row) => el("span", { dir: "auto", class: "clamp", title: label(row[1]) }, label(row[1])),
    },
    { title: "count", value: (row) => row[2], cell: (row) => integer(row[2]) },
    { title: "share of truths", value: (row) => row[3], cell: (row) => percent(row[3]) },
  ];
  return section(
    "confusion",
    "Confusion matrix",
    caption(
      `Rows are ground truths, columns are detections, ${operatingPoint(of)}. Colour is the share of the row.`,
      "The last column has ground truths that were not detected, the last row detections on background.",
      isPart ? `The matrix has the ${of.shown.length - 1} most confused classes, the table all classes.` : null,
    ),
    el(
      "div",
      { class: "lopsided" },
      chart(
        `Confusion matrix of ${of.shown.length - 1} classes and background`,
        80 + Math.max(20 * of.shown.length, 180),
        {
          data: { values },
          layer: [
            {
              mark: {
                type: "rect",
                fill: "var(--c1)",
                stroke: "var(--page)",
                strokeWidth: 1,
                aria: !isTight,
                tooltip: TIP,
              },
              encoding: { x, y, fillOpacity: depth },
            },
            ...(isTight
              ? []
              : [
                  {
                    mark: { type: "text", fontSize: 11, aria: false, tooltip: TIP },
                    encoding: {
                      x,
                      y,
                      text: { field: "num", type: "quantitative", format: "," },
                      color: { field: "ink", type: "nominal", scale: null },
                    },
                  },
                ]),
          ],
        },
      ),
      of.pairs.length
        ? table({ label: "Most frequent confusions", columns, rows: of.pairs, sortBy: 2 })
        : missing("No ground truth was detected as another class."),
    ),
  );
}

// Black or white, whichever has more contrast on `--c1` at this opacity: at least 4.58.
function inkOn(opacity) {
  const style = getComputedStyle(document.documentElement);
  const both = (variable) => style.getPropertyValue(variable).match(/#[0-9a-f]{6}/gi);
  const [pages, fills] = [both("--page"), both("--c1")];
  const inks = fills.map((fill, theme) => {
    const mixed = [1, 3, 5].map((at) => {
      const [below, above] = [pages[theme], fill].map((hex) => parseInt(hex.slice(at, at + 2), 16) / 255);
      const level = below + opacity * (above - below);
      return level <= 0.04045 ? level / 12.92 : ((level + 0.055) / 1.055) ** 2.4;
    });
    const luminance = 0.2126 * mixed[0] + 0.7152 * mixed[1] + 0.0722 * mixed[2];
    return 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 ? "#ffffff" : "#000000";
  });
  return `light-dark(${inks.join(", ")})`;
}

function worst(model) {
  const of = model.worst;
  const column = (title, i) => ({ title, value: (row) => row[i], cell: (row) => integer(row[i]) });
  const columns = [
    { title: "image", isText: true, isHead: true, isPath: true, value: (row) => row[0], cell: (row) => row[0] },
    { title: "errors", value: (row) => row[2] + row[3], cell: (row) => integer(row[2] + row[3]) },
    column("false positives", 2),
    column("false negatives", 3),
    column("true positives", 1),
  ];
  return section(
    "images",
    "Worst images",
    caption(`The images with the most false positives and false negatives, ${operatingPoint(of)}.`),
    report.pictures ? worstPictures(model) : null,
    of.rows.length
      ? table({ label: "Worst images", columns, rows: of.rows, sortBy: 1, search: (row) => row[0], noun: "images" })
      : missing("No image has an error."),
  );
}
