// The path from one number to another, one rule at a time.

function explanation() {
  const of = report.explanation;
  const moving = of.steps.filter((step) => step.has_effect);
  const still = of.steps.filter((step) => !step.has_effect);
  const changes = (step) =>
    step.fields.map((change) => `${change.label} ${change.before} → ${change.after}`.trim());
  const signedInk = (difference) => (difference > 0 ? "var(--c1)" : difference < 0 ? "var(--c2)" : "var(--soft)");
  const whole = (label, value) => ({
    label: tick(label),
    from: value,
    to: value,
    text: fraction(value),
    ink: "var(--ink)",
    at: value,
    tip: [[label, fraction(value)]],
  });
  const values = [
    whole(of.source, of.first),
    ...moving.map((step) => ({
      label: tick(step.name),
      from: step.before,
      to: step.after,
      text: signed(step.difference),
      ink: signedInk(step.difference),
      at: null,
      tip: [
        ["rule", step.name],
        ...changes(step).map((change) => ["change", change]),
        ["mAP", `${fraction(step.before)} → ${fraction(step.after)}`],
        ["changed verdicts", integer(step.num_changed)],
      ],
    })),
    whole(of.target, of.last),
  ];
  const ends = values.flatMap((row) => [row.from, row.to]);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const room = Math.max(0.25 * (high - low), 0.002);
  const y = {
    field: "label",
    type: "nominal",
    sort: null,
    title: null,
    axis: { ticks: false, domain: false, labelFontSize: 12, labelColor: "var(--ink)", labelLimit: isNarrow() ? 110 : 220 },
  };
  const x = {
    type: "quantitative",
    title: "mAP",
    scale: { domain: [Math.max(0, low - room), Math.min(1, high + room)], zero: false, nice: true },
    axis: { tickCount: 5, format: ".3~f", labelOverlap: true },
  };
  const ink = { field: "ink", type: "nominal", scale: null, legend: null };
  const drawing = chart(
    `mAP from ${of.source} to ${of.target}, one rule at a time`,
    50 + 30 * values.length,
    {
      data: { values },
      layer: [
        {
          mark: { type: "bar", height: { band: 0.6 }, tooltip: TIP },
          encoding: { y, x: { ...x, field: "from" }, x2: { field: "to" }, color: ink },
        },
        {
          mark: { type: "tick", thickness: 4, height: { band: 0.7 }, tooltip: TIP },
          encoding: { y, x: { ...x, field: "at" }, color: ink },
        },
        {
          transform: [{ calculate: "max(datum.from, datum.to)", as: "end" }],
          mark: { type: "text", align: "left", dx: 6, aria: false },
          encoding: { y, x: { ...x, field: "end" }, text: { field: "text" } },
        },
      ],
    },
  );
  const columns = [
    { title: "rule", isText: true, isHead: true, class: "measure", cell: (row) => row.name },
    { title: "mAP", cell: (row) => fraction(row.after) },
    {
      title: "difference",
      cell: (row) =>
        row.difference === undefined
          ? ""
          : el("span", { class: row.difference > 0 ? "better" : row.difference < 0 ? "worse" : "" }, signed(row.difference)),
    },
    { title: "changed verdicts", cell: (row) => (row.num_changed === undefined ? "" : integer(row.num_changed)) },
  ];
  const rows = [
    { name: of.source, after: of.first },
    ...moving,
    { name: of.target, after: of.last, difference: of.difference },
  ];
  const why = moving.flatMap((step) => [
    el("dt", {}, step.name, ...changes(step).map((change) => el("div", { class: "soft" }, change))),
    el("dd", {}, step.reason),
  ]);
  return section(
    "explanation",
    "Explanation",
    caption(
      "From the rules of ",
      named(of.source),
      ` (mAP ${fraction(of.first)}) to those of `,
      named(of.target),
      ` (mAP ${fraction(of.last)}), one rule at a time.`,
      of.counting,
    ),
    moving.length
      ? el("div", { class: "lopsided" }, table({ label: "Steps", columns, rows, isWhole: true }), drawing)
      : missing("No rule has an effect on this data."),
    moving.length ? el("dl", { class: "reasons" }, why) : null,
    still.length ? caption(`No effect on this data: ${still.map((step) => step.name).join(", ")}.`) : null,
    ...of.notes.map((note) => caption(`${note.name}: ${note.text}`)),
    of.steps.length ? caption(`The order of steps is fixed: ${of.order.join(", ")}.`) : null,
  );
}
