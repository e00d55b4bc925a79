// AP by object size, histograms of scores, calibration.

function sizes(model) {
  const values = report.measures.flatMap((measure, m) => {
    const value = model.numbers[m];
    const [low, high] = intervalOf(model, m);
    return measure.is_size && isNumber(value)
      ? [
          {
            what: measure.meaning[0],
            area: tick(measure.meaning[2]),
            value,
            low,
            high,
            tip: [
              ["number", measure.name],
              ["value", fraction(value)],
              ...(isNumber(low) ? [[intervalName(model), range(low, high)]] : []),
            ],
          },
        ]
      : [];
  });
  const areas = report.areas.map((area) => tick(area.name));
  const encoding = {
    x: {
      field: "area",
      type: "nominal",
      sort: null,
      scale: { domain: areas },
      title: null,
      axis: { labelAngle: 0, ticks: false, labelFontSize: 12 },
    },
    xOffset: { field: "what", type: "nominal", sort: ["AP", "AR"] },
  };
  const ink = {
    field: "what",
    type: "nominal",
    legend: null,
    scale: { domain: ["AP", "AR"], range: ["var(--c1)", "var(--c5)"] },
  };
  return section(
    "sizes",
    "By object size",
    caption(
      `${report.areas.map(({ name: each, text }) => `${each}: ${text}`).join("; ")}.`,
      model.intervals ? "Thin lines are confidence intervals." : null,
    ),
    legend([
      { label: "AP", color: "var(--c1)" },
      { label: "AR", color: "var(--c5)" },
    ]),
    chart("AP and AR by object size", 250, {
      data: { values },
      layer: [
        {
          mark: { type: "bar", fillOpacity: 0.85, width: { band: 0.9 }, tooltip: TIP },
          encoding: { ...encoding, y: unit("value", null), color: ink },
        },
        ...(model.intervals
          ? [
              {
                mark: { type: "rule", color: "var(--ink)", strokeWidth: 1.25, aria: false },
                encoding: { ...encoding, y: unit("low", null), y2: { field: "high" } },
              },
            ]
          : []),
      ],
    }),
  );
}

function scores(model) {
  const of = model.scores;
  const container = el("div");
  const chosen = { t: report.main, k: MEAN, isLog: of.is_log };
  const bestF1 = el("p", { class: "caption", role: "status" });

  function draw() {
    const [hits, misses] =
      chosen.k === MEAN
        ? [of.true[chosen.t], of.false[chosen.t]]
        : [of.true_of_class[chosen.k], of.false_of_class[chosen.k]];
    const rows = (counts, sign) =>
      counts.map((num, i) => ({
        from: of.edge[i],
        to: of.edge[i + 1],
        drawn: sign * num,
        tip: [
          ["score", `${short(of.edge[i])} to ${short(of.edge[i + 1])}`],
          [sign > 0 ? "true positives" : "false positives", integer(num)],
        ],
      }));
    const best =
      chosen.k === MEAN ? of.best[chosen.t] : { score: model.classes.score[chosen.k], f1: model.classes.f1[chosen.k] };
    const hasBest = isNumber(best.score);
    bestF1.textContent = hasBest
      ? `Best F1: ${short(best.f1)} at score threshold ${short(best.score)} (dashed line).`
      : "";
    const most = Math.max(1, ...hits, ...misses);
    const decades = Array.from({ length: 1 + Math.floor(Math.log10(most)) }, (_, i) => 10 ** i);
    const x = {
      field: "from",
      type: "quantitative",
      title: "score",
      bin: { binned: true },
      scale: { domain: [of.edge[0], of.edge.at(-1)], nice: false },
    };
    const y = {
      field: "drawn",
      type: "quantitative",
      title: "detections",
      stack: null,
      scale: { type: chosen.isLog ? "symlog" : "linear" },
      axis: {
        labelExpr: "format(abs(datum.value), '~s')",
        tickCount: 6,
        ...(chosen.isLog ? { values: [0, ...decades, ...decades.map((each) => -each)] } : {}),
      },
    };
    const bars = (values, ink, what) => ({
      data: { values },
      mark: { type: "bar", fill: ink, fillOpacity: 0.85, binSpacing: 1, description: what, tooltip: TIP },
      encoding: { x, x2: { field: "to" }, y },
    });
    container.replaceChildren(
      chart(
        `Histogram of scores: ${integer(sum(hits))} true positives upwards, ${integer(sum(misses))} false positives downwards`,
        260,
        {
          layer: [
            bars(rows(hits, 1), "var(--c1)", "true positives"),
            bars(rows(misses, -1), "var(--c2)", "false positives"),
            { data: { values: [{}] }, mark: { type: "rule", aria: false }, encoding: { y: { datum: 0 } } },
            ...(hasBest
              ? [
                  {
                    data: {
                      values: [
                        {
                          ...best,
                          tip: [
                            ["best F1", short(best.f1)],
                            ["score threshold", short(best.score)],
                          ],
                        },
                      ],
                    },
                    mark: { type: "rule", color: "var(--ink)", strokeDash: [4, 3], strokeWidth: 1.5, tooltip: TIP },
                    encoding: { x: { field: "score", type: "quantitative" } },
                  },
                ]
              : []),
          ],
        },
      ),
    );
  }

  const thresholds = select(
    report.similarity,
    report.thresholds.map((each, t) => [t, iou(each)]),
    (value) => {
      chosen.t = value;
      chosen.k = MEAN;
      if (who) who.querySelector("select").value = MEAN;
      draw();
    },
  );
  const who = of.true_of_class
    ? select("Class", [[MEAN, "all"], ...model.classes.name.map((_, k) => [k, unique(model, k)])], (value) => {
        chosen.k = value;
        if (value !== MEAN) {
          chosen.t = report.main;
          thresholds.querySelector("select").value = report.main;
        }
        draw();
      })
    : null;
  const log = el(
    "label",
    {},
    el("input", {
      type: "checkbox",
      checked: chosen.isLog,
      onchange: (event) => {
        chosen.isLog = event.target.checked;
        draw();
      },
    }),
    "log scale",
  );
  thresholds.querySelector("select").value = report.main;
  draw();
  return section(
    "scores",
    "Scores",
    caption(
      "Histogram of scores: true positives upwards, false positives downwards.",
      "Good scores separate them: true positives on the right, false positives on the left.",
    ),
    el("div", { class: "controls" }, report.thresholds.length > 1 ? thresholds : null, who, log),
    legend([
      { label: "true positives", color: "var(--c1)" },
      { label: "false positives", color: "var(--c2)" },
    ]),
    container,
    bestF1,
  );
}

function calibration(model) {
  const of = model.calibration;
  if (of.missing) return section("calibration", "Calibration", missing(of.missing));
  const values = of.bins.map((bin) => ({
    ...bin,
    tip: [
      ["score", `${bin.from.toFixed(2)} to ${bin.to.toFixed(2)}`],
      ["mean score", short(bin.score)],
      ["precision", short(bin.precision)],
      ["detections", integer(bin.num)],
    ],
  }));
  const y = unit("precision", "precision");
  return section(
    "calibration",
    "Calibration",
    caption(
      `Precision of detections by score, at ${report.similarity} ${iou(of.iou)}.`,
      "On the diagonal, a score is the probability of being correct; below it, scores are overconfident.",
      `Expected calibration error: ${fraction(of.error)}.`,
    ),
    chart(`Calibration: precision by score, expected calibration error ${fraction(of.error)}`, 260, {
      layer: [
        {
          data: { values },
          mark: { type: "bar", fill: "var(--c1)", fillOpacity: 0.22, binSpacing: 1, aria: false, tooltip: TIP },
          encoding: { x: unit("from", "score", { bin: { binned: true } }), x2: { field: "to" }, y },
        },
        {
          data: {
            values: [
              { x: 0, y: 0 },
              { x: 1, y: 1 },
            ],
          },
          mark: { type: "line", color: "var(--soft)", strokeDash: [4, 3], strokeWidth: 1.25, aria: false },
          encoding: { x: unit("x", "score"), y: unit("y", "precision") },
        },
        {
          data: { values },
          mark: {
            type: "line",
            color: "var(--c1)",
            strokeWidth: 1.75,
            point: { fill: "var(--c1)", stroke: null, size: 42 },
            tooltip: TIP,
          },
          encoding: { x: unit("score", "score"), y },
        },
      ],
    }),
  );
}
