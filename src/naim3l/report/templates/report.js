// Makes the table of labels sortable and searchable, shortens long tables until a button is pressed,
// and says where a table continues beside the page; without this script all tables are plain.
"use strict";
(() => {
  const MANY = 30;
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
    if (wanted) showAll.get(table)?.click();
    count.textContent = `${shown} of ${rows.length} rows`;
  };

  // The buttons that show all rows, by table.
  const showAll = new Map();
  for (const long of document.querySelectorAll("table.long")) {
    const n = long.tBodies[0].rows.length;
    if (n <= MANY) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "all";
    button.textContent = `Show all ${n} rows`;
    button.addEventListener("click", () => {
      long.classList.remove("short");
      button.remove();
    });
    long.classList.add("short");
    long.parentElement.after(button);
    showAll.set(long, button);
  }

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

  for (const scroller of document.querySelectorAll(".scroll")) {
    const hint = document.createElement("p");
    hint.className = "hint";
    hint.textContent = "Scroll sideways for more. →";
    scroller.before(hint);
    const update = () => {
      hint.hidden = scroller.scrollWidth <= scroller.clientWidth + 1;
    };
    // Not within the callback: a hint changes the layout that is being observed.
    const observer = new ResizeObserver(() => requestAnimationFrame(update));
    observer.observe(scroller);
    observer.observe(scroller.firstElementChild);
    update();
  }
})();
