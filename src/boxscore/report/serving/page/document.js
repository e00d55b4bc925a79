// A file with numbers only: its numbers and its classes. Or the reason why a page can't be shown.

const content = document.getElementById("content");
const page = JSON.parse(document.getElementById("data").textContent);

const ofAll = (numbers) =>
  section(
    "numbers",
    "Numbers",
    table({
      label: "All numbers",
      rows: numbers,
      isWhole: true,
      columns: [
        { title: "number", isText: true, isHead: true, class: "measure", cell: ([name]) => name },
        { title: "value", cell: ([, value]) => fraction(value) },
        { title: "", isText: true, class: "stretch", cell: () => null },
      ],
    }),
  );

const ofClasses = (classes) =>
  section(
    "classes",
    "Classes",
    table({
      label: "Classes",
      rows: classes,
      sortBy: 1,
      search: ([name]) => name,
      noun: "classes",
      columns: [
        { title: "class", isText: true, isHead: true, value: ([name]) => name, cell: ([name]) => name },
        ...["AP", "AP50", "AR"].map((head, i) => ({
          title: head,
          value: (row) => row[1 + i],
          cell: (row) => fraction(row[1 + i]),
        })),
        ...["truths", "detections"].map((head, i) => ({
          title: head,
          value: (row) => row[4 + i],
          cell: (row) => integer(row[4 + i]),
        })),
      ],
    }),
  );

document
  .querySelector(".mark")
  .after(...page.links.map(([text, href]) => el("a", { class: "step", href }, brief(text, 32))));
content.replaceChildren(
  el("h1", {}, page.title),
  ...(page.problem
    ? [missing(page.problem)]
    : [
        el("p", { class: "lead" }, page.subtitle),
        el("p", { class: "lead" }, page.comparable),
        missing("This file has numbers only. Curves, errors and comparisons need a file of Result.save."),
        ofAll(page.numbers),
        ofClasses(page.classes),
      ]),
);
theme();
