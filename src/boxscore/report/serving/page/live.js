// The page follows the folder: it asks every second what is there, and draws what has changed.

const SECONDS = 1;
const chartOfRuns = runChart();
const title = el("h1", {}, data.folder);
const lead = el("p", { class: "lead" });
const notes = el("div");
const measureBox = el("select", {
  onchange: (event) => {
    state.measure = event.target.value;
    remember();
    redraw();
  },
});
const MOST_KEYS = 12;
const keys = el("div");
const chartNote = el("p", { class: "note", hidden: true }, "No result here has an epoch or step, so there is no chart.");
const tables = { runs: null, results: null, unreadable: null };
const containers = { runs: el("div"), results: el("div"), unreadable: el("div") };
const sections = {
  chart: section(
    "chart",
    "Over epochs",
    caption(
      "The ringed point is the best of its run.",
      hint("Hover to read numbers; click a point to open its report. With the keyboard: arrow keys and Enter."),
    ),
    el("div", { class: "controls" }, el("label", {}, el("span", {}, "Number"), measureBox), keys),
    chartNote,
    chartOfRuns.element,
  ),
  runs: section("runs", "Runs", caption("Last and best are of the number that the chart shows."), containers.runs),
  results: section(
    "results",
    "All results",
    caption(hint("Tick two to compare them. Click a column title to sort.")),
    containers.results,
  ),
  unreadable: section(
    "unreadable",
    "Files that can't be read",
    caption(`They may still be written or copied. None of their numbers is shown. ${data.limits}`),
    containers.unreadable,
  ),
};

function explainEmpty() {
  return el(
    "div",
    { class: "note" },
    el("p", {}, "There are no results in this folder yet. This page shows them as soon as they are written:"),
    el("pre", {}, 'metric.compute().save(f"runs/a/epoch_{epoch:03}.boxscore", step=epoch)'),
    el("pre", {}, "boxscore eval truths.json detections.json --save runs/b/epoch_3.boxscore"),
  );
}

function noteProtocols() {
  const shown = data.runs.filter(isShown).flatMap(({ results }) => results);
  const rules = [...new Set(shown.map(({ title: name, comparable }) => `${name} (${comparable})`))];
  if (rules.length < 2) return [];
  const words = rules.length > 4 ? [...rules.slice(0, 4), `${rules.length - 4} more`] : rules;
  return [missing(`These results have different rules, so their numbers can't be compared: ${words.join("; ")}.`)];
}

function noteWaiting() {
  const number = data.runs.reduce((total, { numWaiting }) => total + numWaiting, 0);
  return number ? [missing(`${count(number, "file")} not read yet: the page shows their results as they are read.`)] : [];
}

function legendNow() {
  const lines = linesNow();
  const items = lines.slice(0, MOST_KEYS).map(({ run, ...ink }) => ({ ...ink, label: named(run.name, brief(run.name, 32)) }));
  const list = legend(items);
  if (lines.length > MOST_KEYS) list.append(el("li", {}, `and ${count(lines.length - MOST_KEYS, "more run")}: see below`));
  return list;
}

function showTable(name, make, rows, key) {
  const before = tables[name];
  if (before?.key === key) return before.element.refresh(rows, before.measure !== measureNow());
  const element = make();
  tables[name] = { element, key };
  return containers[name].replaceChildren(element);
}

// All that depends on the data or the selection.
function redraw() {
  findOwners();
  const numResults = data.runs.reduce((total, { results }) => total + results.length, 0);
  const numUnreadable = unreadableRows().length;
  title.textContent = data.folder;
  lead.textContent = `${count(data.runs.length, "run")}, ${count(numResults, "result")}, boxscore ${data.version}`;
  notes.replaceChildren(
    ...(data.problem ? [missing(data.problem)] : data.runs.length ? [...noteWaiting(), ...noteProtocols()] : [explainEmpty()]),
  );
  const options = data.measures.map((name) => el("option", { value: name }, name));
  if ([...measureBox.options].map(({ value }) => value).join() !== data.measures.join())
    measureBox.replaceChildren(...options);
  measureBox.value = measureNow();
  sections.chart.hidden = sections.runs.hidden = sections.results.hidden = !numResults;
  sections.runs.hidden = !data.runs.length;
  sections.unreadable.hidden = !numUnreadable;
  containers.runs.classList.toggle("whole-runs", !numUnreadable);
  const isDrawn = chartOfRuns.draw();
  keys.replaceChildren(legendNow());
  chartNote.hidden = isDrawn || data.runs.every((run) => !isShown(run));
  showTable("runs", runTable, data.runs, "");
  showTable("results", resultTable, resultRows(), data.measures.join());
  showTable("unreadable", unreadableTable, unreadableRows(), "");
  Object.values(tables).forEach((each) => {
    each.measure = measureNow();
  });
  compareBar.draw();
  document
    .getElementById("sections")
    .replaceChildren(
      ...Object.values(sections)
        .filter((each) => !each.hidden)
        .map((each) => el("a", { href: `#${each.id}` }, each.querySelector("h2").textContent)),
    );
}

const live = document.getElementById("live");
const lost = missing("");
lost.hidden = true;
let tag = null;
let heard = Date.now() / 1000;

function showStatus(isLive) {
  live.className = isLive ? "live on" : "live off";
  const words = isLive ? "live" : "no connection";
  if (live.textContent !== words) live.textContent = words;
  lost.hidden = isLive;
  if (!isLive)
    lost.textContent = `The server has not answered since ${clock(heard)}. The numbers below are of that time. The page goes on asking.`;
}

// A click begins and ends on one element: nothing is drawn between.
let released = Promise.resolve();
function holdWhilePressed() {
  released = new Promise((done) => {
    for (const name of ["pointerup", "pointercancel"])
      window.addEventListener(name, () => window.setTimeout(done), { capture: true, once: true });
  });
}

async function ask() {
  try {
    const answer = await fetch("data", { cache: "no-cache", signal: AbortSignal.timeout(20_000) });
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = answer.headers.get("etag");
    if (fresh !== tag) {
      const next = await answer.json();
      await released;
      if (next.version !== data.version) return window.location.reload();
      data = reuseRows(next);
      tag = fresh;
      redraw();
    }
    heard = Date.now() / 1000;
    showStatus(true);
  } catch {
    showStatus(false);
  }
  return null;
}

// One request at a time; none while the page is hidden.
let timer = null;
async function follow() {
  window.clearTimeout(timer);
  timer = null;
  if (document.hidden) return;
  await ask();
  if (timer === null) timer = window.setTimeout(follow, 1000 * SECONDS);
}

content.replaceChildren(title, lead, lost, notes, ...Object.values(sections), compareBar.element);
theme();
redraw();
window.addEventListener("pointerdown", holdWhilePressed, { capture: true });
document.addEventListener("visibilitychange", follow);
window.addEventListener("pageshow", follow);
follow();
