// Makes the table of labels sortable and searchable; without this script it is a plain table.
"use strict";
(() => {
  const table = document.getElementById("label-table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const tools = document.getElementById("label-tools");
  const search = document.getElementById("label-search");
  const count = document.getElementById("label-count");
  const heads = [...table.tHead.rows[0].cells];

  const compare = (a, b) => {
    if (a === "" || b === "") return 0;
    return isNaN(a) || isNaN(b) ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
  };
  const value = (row, i) => row.cells[i].dataset.value ?? row.cells[i].textContent.trim();

  const sort = (i) => {
    const up = heads[i].getAttribute("aria-sort") !== "ascending";
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[i].setAttribute("aria-sort", up ? "ascending" : "descending");
    // Rows without a value come last in either order.
    rows.sort((a, b) => {
      const [x, y] = [value(a, i), value(b, i)];
      return (x === "") - (y === "") || (up ? 1 : -1) * compare(x, y);
    });
    body.append(...rows);
  };

  const filter = () => {
    const wanted = search.value.trim().toLocaleLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = !row.dataset.search.toLocaleLowerCase().includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  };

  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(i));
    head.append(button);
  });
  search.addEventListener("input", filter);
  tools.hidden = false;
  filter();
})();
