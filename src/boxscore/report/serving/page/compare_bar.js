// The bar that compares any two results.

// The id of a result, for a choice: an id, or "best" or "last" of a run, whichever that is by then.
function resolved(choice) {
  const [, which, name] = choice.match(/^(best|last):(.*)$/s) ?? [];
  if (!which) return choice;
  const run = data.runs.find((each) => each.name === name);
  const result = run ? (which === "best" ? bestOf(run) : lastOf(run)) : null;
  return result?.hasVerdicts ? result.id : null;
}

function pick(id, isPicked) {
  state.picked = state.picked.filter((other) => other !== id);
  if (isPicked) state.picked.push(id);
  state.picked = state.picked.slice(-2);
  document.querySelectorAll("input[data-pick]").forEach((box) => {
    box.checked = state.picked.includes(box.dataset.pick);
  });
  compareBar.choose(...state.picked);
}

const compareBar = (() => {
  const boxes = ["first", "second"].map((name) => el("select", { "aria-label": `The ${name} result`, onchange: check }));
  const button = el("button", { type: "button", class: "main", onclick: go }, "Compare");
  const why = el("span", { class: "live", role: "status" });
  const element = el(
    "div",
    { class: "compare", role: "region", "aria-label": "Compare two results" },
    el("div", {}, boxes[0], el("span", {}, "with"), boxes[1], button, why),
  );
  let drawn = "";

  function groups() {
    return data.runs
      .map((run) => ({ run, results: run.results.filter(({ hasVerdicts }) => hasVerdicts) }))
      .filter(({ results }) => results.length)
      .map(({ run, results }) => {
        const named = [
          ["best", bestOf(run)],
          ["last", lastOf(run)],
        ].filter(([, result]) => result?.hasVerdicts && results.length > 1);
        return {
          name: run.name,
          options: [
            ...named.map(([which, { label }]) => [`${which}:${run.name}`, `${brief(run.name, 40)}: ${which} (${label})`]),
            ...results.map(({ id, label }) => [id, `${brief(run.name, 40)}: ${label}`]),
          ],
        };
      });
  }

  function draw() {
    const all = groups();
    const text = JSON.stringify(all);
    // Open lists are left alone until the reader has chosen.
    if (text === drawn || boxes.includes(document.activeElement)) return check();
    drawn = text;
    const chosen = boxes.map((box) => box.value);
    boxes.forEach((box) =>
      box.replaceChildren(
        ...all.map(({ name, options }) =>
          el("optgroup", { label: brief(name, 60) }, options.map(([value, label]) => el("option", { value }, label))),
        ),
      ),
    );
    const values = all.map(({ options }) => options[0][0]);
    const fallback = values.length > 1 ? values.slice(0, 2) : [all[0]?.options[2]?.[0] ?? values[0], values[0]];
    boxes.forEach((box, i) => {
      box.value = chosen[i];
      if (box.selectedIndex < 0) box.value = fallback[i];
    });
    element.hidden = all.reduce((total, { options }) => total + options.length, 0) < 2;
    return check();
  }

  function choose(...ids) {
    ids.forEach((id, i) => {
      boxes[i].value = id;
    });
    check();
  }

  function check() {
    const [first, second] = boxes.map((box) => resolved(box.value));
    button.disabled = !first || !second || first === second;
    why.textContent = first && first === second ? "choose two different results" : "";
  }

  function go() {
    const [first, second] = boxes.map((box) => resolved(box.value));
    if (first && second) window.location.assign(`compare?${new URLSearchParams({ first, second })}`);
  }
  boxes.forEach((box) => box.addEventListener("blur", draw));
  return { element, draw, choose };
})();
