// The page of label errors: pictures of the first cases, then a table of all of them.

const report = JSON.parse(document.getElementById("data").textContent);
const content = document.getElementById("content");
const suggestion = (row) => [row.label, row.suggested_label].map((name) => name ?? "–").join(" → ");

// The pictures of the cases of a kind, or of all.
function pictures(kind) {
  const { items, kinds, marks, notes } = report.pictures;
  const shown = items.filter(({ row }) => !kind || report.rows[row].kind === kind);
  return [
    ...notes.map((note) => missing(`${note}.`)),
    shown.length
      ? gallery({
          label: "Pictures of label errors",
          items: shown.map(({ row, ...item }) => {
            const of = report.rows[row];
            return { ...item, counts: `${report.kinds[of.kind].name} ${short(of.suspicion)}: ${suggestion(of)}` };
          }),
          kinds,
          plurals: { false: "detections", missed: "truths in question", matched: "other truths" },
          marks,
        })
      : null,
  ].filter((each) => each !== null);
}

function cases() {
  const names = Object.entries(report.kinds);
  const drawn = el("div");
  const show = (kind) => {
    if (report.pictures) drawn.replaceChildren(...pictures(kind));
  };
  const columns = [
    { title: "suspicion", value: (row) => row.suspicion, cell: (row) => short(row.suspicion) },
    { title: "kind", isText: true, value: (row) => row.kind, cell: (row) => report.kinds[row.kind].name },
    { title: "image", isText: true, isHead: true, isPath: true, value: (row) => row.name, cell: (row) => row.name },
    { title: "row of truth", value: (row) => row.truth, cell: (row) => integer(row.truth) },
    { title: "label", isText: true, value: (row) => row.label, cell: (row) => row.label ?? "–" },
    {
      title: "suggested",
      isText: true,
      value: (row) => row.suggested_label,
      cell: (row) => row.suggested_label ?? "–",
    },
    { title: "models", value: (row) => row.num_models, cell: (row) => `${row.num_models} of ${report.num_models}` },
  ];
  const chooser = select("Kind", [[0, "all"], ...names.map(([, { name }], i) => [i + 1, name])], (value) =>
    show(value ? names[value - 1][0] : null),
  );
  show(null);
  return section(
    "cases",
    "Cases",
    caption(
      "Truths that are likely wrong, because confident detections contradict them, the most suspicious first.",
      report.left_out ? `The table has the first ${integer(report.rows.length)} cases.` : null,
    ),
    el(
      "dl",
      { class: "counts" },
      names.flatMap(([, { name, meaning, num }]) => [el("dt", {}, name), el("dd", {}, `${integer(num)}: ${meaning}`)]),
    ),
    report.pictures ? el("div", { class: "controls" }, chooser) : null,
    drawn,
    report.rows.length
      ? table({
          label: "Label errors",
          columns,
          rows: report.rows,
          sortBy: 0,
          search: (row) => [row.name, row.kind, row.label, row.suggested_label].join(" "),
          noun: "cases",
        })
      : missing("No truth is contradicted."),
  );
}

function settings() {
  const row = ([what, value]) => [el("dt", {}, what), el("dd", {}, value)];
  return section("settings", "Settings", el("dl", { class: "counts" }, report.made.flatMap(row)));
}

content.querySelectorAll("noscript").forEach((each) => each.remove());
content.append(el("p", { class: "lead" }, report.subtitle), cases(), settings());
document
  .getElementById("sections")
  .replaceChildren(el("a", { href: "#cases" }, "Cases"), el("a", { href: "#settings" }, "Settings"));
theme();
