// Errors by type, confusion, the worst images.

const used = (of) => `with detections of score ${short(of.score)} and above, at IoU ${iou(of.iou)}`;

function errors(model) {
  const of = model.errors;
  if (of.missing) return section("errors", "Errors", missing(of.missing));
  const values = of.rows
    .filter(({ is_type: isType }) => isType)
    .map((row) => ({
      ...row,
      tip: [
        ["error", row.type],
        ["count", whole(row.count)],
        ["gain in AP", signed(row.gain)],
      ],
    }));
  const columns = [
    { title: "error", isText: true, isHead: true, cell: (row) => row.type },
    { title: "count", cell: (row) => whole(row.count) },
    { title: "gain in AP", cell: (row) => signed(row.gain) },
    { title: "a box", isText: true, class: "soft wide", cell: (row) => row.meaning },
  ];
  const gains = values.map((row) => `${row.type} ${signed(row.gain)}`);
  return section(
    "errors",
    "Errors",
    reading(
      `What fixing all errors of one type would add to AP at IoU ${iou(of.iou)}, which is ${fraction(of.ap)}.`,
      "The types are TIDE's. Gains don't add up: a fix changes what the others would do.",
    ),
    !isNumber(of.ap)
      ? missing("AP is undefined: there are no truths.")
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
  if (of.missing) return section("confusion", "Confusion", missing(of.missing));
  const label = (k) => of.names[k];
  const isPart = of.shown.length <= of.num_classes;
  const isTight = of.shown.length > 12;
  const values = of.cells.map(([truth, found, num, share]) => ({
    truth: tick(label(truth)),
    found: tick(label(found)),
    num,
    share,
    ink: inkOn(Math.sqrt(share)),
    tip: [
      ["truth", label(truth)],
      ["detected as", label(found)],
      ["boxes", whole(num)],
      ["of the row", percent(share)],
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
    field: "found",
    type: "nominal",
    sort: null,
    scale: { domain: names },
    axis: axis("detected as", { orient: "top", labelAngle: isNarrow() ? -90 : -45 }),
  };
  const y = { field: "truth", type: "nominal", sort: null, scale: { domain: names }, axis: axis("truth") };
  const depth = {
    field: "share",
    type: "quantitative",
    legend: null,
    scale: { type: "sqrt", domain: [0, 1], range: [0, 1] },
  };
  const columns = [
    { title: "truth", isText: true, isHead: true, value: (row) => label(row[0]), cell: (row) => label(row[0]) },
    {
      title: "detected as",
      isText: true,
      value: (row) => label(row[1]),
      cell: (row) => el("span", { dir: "auto", class: "clamp", title: label(row[1]) }, label(row[1])),
    },
    { title: "boxes", value: (row) => row[2], cell: (row) => whole(row[2]) },
    { title: "of its truths", value: (row) => row[3], cell: (row) => percent(row[3]) },
  ];
  return section(
    "confusion",
    "Confusion",
    reading(
      `What truths (rows) were detected as (columns), ${used(of)}.`,
      "The stronger a cell's colour, the larger its share of the row.",
      "In the last column are truths that nothing was found on, in the last row detections on nothing.",
      isPart ? `Drawn are the ${of.shown.length - 1} classes that are confused most; the table is of all.` : null,
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
        : missing("No truth was detected as another class."),
    ),
  );
}

// Black or white, whichever is read better on `--c1` of some opacity: the better one has a contrast of 4.58 at least.
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
  const column = (title, i) => ({ title, value: (row) => row[i], cell: (row) => whole(row[i]) });
  const columns = [
    { title: "image", isText: true, isHead: true, isPath: true, value: (row) => row[0], cell: (row) => row[0] },
    { title: "errors", value: (row) => row[2] + row[3], cell: (row) => whole(row[2] + row[3]) },
    column("false positives", 2),
    column("truths not found", 3),
    column("true positives", 1),
  ];
  return section(
    "images",
    "Worst images",
    reading(`Those with the most errors, ${used(of)}.`),
    of.rows.length
      ? table({ label: "Worst images", columns, rows: of.rows, sortBy: 1, search: (row) => row[0], noun: "images" })
      : missing("No image has an error."),
  );
}
