// The tables: runs, all results, and files that can't be read.

const link = (result, text) => el("a", { href: reportOf(result), title: `Report of ${result.label}` }, text);

function numberAt(result) {
  if (result === null) return "–";
  return [`${fraction(valueOf(result))} `, el("span", { class: "soft" }, link(result, result.label))];
}

function showBox(run) {
  const box = el("input", {
    type: "checkbox",
    "aria-label": `Show ${run.name} in the chart`,
    onchange: (event) => {
      state.hidden = state.hidden.filter((name) => name !== run.name);
      if (!event.target.checked) state.hidden.push(run.name);
      remember();
      redraw();
    },
  });
  box.checked = isShown(run);
  return el("span", { class: "key" }, box, swatch({ width: 3, ...inkOf(run) }));
}

// The history of a run as a small chart, from its least to its largest number.
function history(run) {
  const values = run.results
    .filter(({ step }) => step !== null)
    .map(valueOf)
    .filter(isNumber);
  if (values.length < 2) return null;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const scaled = (value) => (high > low ? 0.1 + (0.9 * (value - low)) / (high - low) : 0.5);
  return spark(values.map((value, i) => ({ recall: i / (values.length - 1), precision: scaled(value) })));
}

const runTable = () =>
  table({
    label: "Runs",
    rows: data.runs,
    sortBy: 3,
    isWhole: true,
    columns: [
      { title: "chart", isText: true, class: "choice", cell: showBox },
      { title: "run", isText: true, isHead: true, isPath: true, value: (run) => run.name, cell: (run) => run.name },
      {
        title: "last",
        value: (run) => (lastOf(run) ? valueOf(lastOf(run)) : null),
        cell: (run) => numberAt(lastOf(run)),
      },
      {
        title: "best",
        class: "strong",
        value: (run) => (bestOf(run) ? valueOf(bestOf(run)) : null),
        cell: (run) => numberAt(bestOf(run)),
      },
      { title: "history", isText: true, class: "drawn", cell: history },
      { title: "results", value: (run) => run.results.length, cell: (run) => integer(run.results.length) },
      {
        title: "unreadable",
        help: "Files that can't be read; the last table has the reasons",
        class: "optional unreadable",
        value: (run) => run.unreadable.length,
        cell: (run) => (run.unreadable.length ? el("span", { class: "worse" }, integer(run.unreadable.length)) : ""),
      },
      { title: "updated", value: newestOf, cell: (run) => (run.results.length ? clock(newestOf(run)) : "–") },
      {
        title: "protocol",
        isText: true,
        class: "soft optional",
        cell: (run) => [...new Set(run.results.map(({ title }) => title))].join(", "),
      },
    ],
  });

const resultRows = () => data.runs.flatMap((run) => run.results);
let owners = new Map(); // the names of the runs of results
const ownerOf = (result) => owners.get(result) ?? "";
const findOwners = () => {
  owners = new Map(data.runs.flatMap((run) => run.results.map((result) => [result, run.name])));
};

function pickBox(result) {
  if (!result.hasVerdicts) return el("span", { class: "soft", title: "This file has numbers only" }, "–");
  const box = el("input", {
    type: "checkbox",
    "data-pick": result.id,
    "aria-label": `Compare ${ownerOf(result)}, ${result.label}`,
    onchange: (event) => pick(result.id, event.target.checked),
  });
  box.checked = state.picked.includes(result.id);
  return box;
}

const resultTable = () =>
  table({
    label: "Results",
    rows: resultRows(),
    sortBy: 3 + data.measures.length,
    search: (result) => `${ownerOf(result)} ${result.label}`,
    noun: "results",
    columns: [
      { title: "compare", help: "Choose two to compare", isText: true, class: "choice", cell: pickBox },
      {
        title: "run",
        isText: true,
        isHead: true,
        isPath: true,
        value: ownerOf,
        cell: ownerOf,
      },
      {
        title: "report",
        isText: true,
        value: (result) => result.step,
        cell: (result) => link(result, result.label),
      },
      ...data.measures.map((name) => ({
        title: name,
        value: (result) => result.numbers[name] ?? null,
        cell: (result) => fraction(result.numbers[name]),
      })),
      { title: "saved", value: ({ time }) => time, cell: ({ time }) => clock(time) },
    ],
  });

const unreadableRows = () => data.runs.flatMap((run) => run.unreadable);
const unreadableTable = () =>
  table({
    label: "Files that can't be read",
    rows: unreadableRows(),
    isWhole: true,
    columns: [
      { title: "file", isText: true, isHead: true, isPath: true, value: (row) => row.id, cell: (row) => row.id },
      { title: "reason", isText: true, class: "wide", cell: (row) => row.why },
    ],
  });
