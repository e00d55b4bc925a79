// The runs, as the server last sent them, and the reader's selection.

const content = document.getElementById("content");
const STATE_KEY = "boxscore runs";
let data = JSON.parse(document.getElementById("data").textContent);

const state = { measure: "map", hidden: [], picked: [], ...stored() };

function stored() {
  try {
    return JSON.parse(window.sessionStorage.getItem(STATE_KEY)) ?? {};
  } catch {
    return {};
  }
}
function remember() {
  const { measure, hidden } = state;
  window.sessionStorage.setItem(STATE_KEY, JSON.stringify({ measure, hidden }));
}

const measureNow = () => (data.measures.includes(state.measure) ? state.measure : (data.measures[0] ?? "map"));
const valueOf = (result) => result.numbers[measureNow()] ?? null;
const isShown = (run) => !state.hidden.includes(run.name);
const reportOf = (result) => `report?${new URLSearchParams({ result: result.id })}`;

// Whether one number is better than another: higher, or, of an error, lower.
const isBetter = (one, other) => (data.errors.includes(measureNow()) ? one < other : one > other);

function bestOf(run) {
  let best = null;
  for (const result of run.results) {
    const value = valueOf(result);
    if (isNumber(value) && (best === null || isBetter(value, valueOf(best)))) best = result;
  }
  return best;
}
// The last step; of results without steps the newest.
function lastOf(run) {
  const stepped = run.results.filter(({ step }) => step !== null);
  return (stepped.length ? stepped : run.results).reduce(
    (last, each) => (last === null || (stepped.length ? each.step >= last.step : each.time >= last.time) ? each : last),
    null,
  );
}
const newestOf = (run) => Math.max(0, ...run.results.map(({ time }) => time));

// A run keeps its colour while others come and go.
const inks = new Map();
function inkOf(run) {
  if (!inks.has(run.name)) inks.set(run.name, inks.size);
  const index = inks.get(run.name);
  return { color: color(index), dash: DASHES[Math.floor(index / NUM_COLORS) % DASHES.length] };
}

const clock = (seconds) => {
  const at = new Date(1000 * seconds);
  const isToday = at.toDateString() === new Date().toDateString();
  const time = at.toLocaleTimeString("en-GB");
  return isToday ? time : `${at.toLocaleDateString("en-CA")} ${time.slice(0, 5)}`;
};
const count = (number, noun) => `${integer(number)} ${noun}${number === 1 ? "" : "s"}`;

// The new data, with the same objects for rows that have not changed, so that tables keep their elements.
function reuseRows(fresh) {
  const before = new Map(data.runs.map((run) => [run.name, run]));
  const runs = fresh.runs.map((run) => {
    const old = before.get(run.name);
    if (!old) return run;
    const results = new Map(old.results.map((result) => [result.id, result]));
    run.results = run.results.map((result) => {
      const known = results.get(result.id);
      return known && JSON.stringify(known) === JSON.stringify(result) ? known : result;
    });
    const isSame =
      run.results.length === old.results.length &&
      run.results.every((result, i) => result === old.results[i]) &&
      run.numWaiting === old.numWaiting &&
      JSON.stringify(run.unreadable) === JSON.stringify(old.unreadable);
    return isSame ? old : run;
  });
  return { ...fresh, runs };
}
