"use strict";
(() => {
  const table = document.querySelector(".board table"), body = table.tBodies[0];
  const rows = [...body.rows], marks = [...document.querySelectorAll("svg [data-row]")];
  const choices = ["data", "model", "method"].map(name => document.getElementById(name));
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    return cell.classList.contains("number") ? null : cell.textContent || null;
  };
  const compare = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b);
  const sort = (head, column) => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const known = rows.map(row => [key(row, column), row]);
    // What was not measured stands last, whichever way.
    known.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : (up ? 1 : -1) * compare(a, b));
    body.append(...known.map(([, row]) => row));
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(head, column));
    head.replaceChildren(button);
  });
  const filter = () => {
    const shown = new Set();
    for (const row of rows) {
      row.hidden = choices.some(choice => choice.value && row.dataset[choice.id] !== choice.value);
      if (!row.hidden) shown.add(row.dataset.row);
    }
    for (const mark of marks) mark.toggleAttribute("hidden", !shown.has(mark.dataset.row));
    document.getElementById("count").textContent = `${shown.size} of ${rows.length} rows`;
  };
  const form = document.getElementById("filter");
  form.hidden = false;
  form.addEventListener("input", event => {
    // Models differ between datasets: another dataset is first shown whole.
    if (event.target === choices[0]) choices[1].value = "";
    filter();
  });
  form.addEventListener("submit", event => event.preventDefault());
  filter();
})();
