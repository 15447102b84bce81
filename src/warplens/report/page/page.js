"use strict";
// One tooltip for all: titles become ours, so that they can be reached with the keyboard and styled.
const tip = document.getElementById("tip");
for (const element of document.querySelectorAll("[title]")) {
  element.dataset.why = element.title;
  element.removeAttribute("title");
}
for (const title of document.querySelectorAll("svg title")) {
  title.parentElement.dataset.why = title.textContent;
  title.remove();
}
let told = null;
function show(element, x, y) {
  if (told && told !== element) told.removeAttribute("aria-describedby");
  told = element;
  tip.textContent = element.dataset.why;
  tip.hidden = false;
  element.setAttribute("aria-describedby", "tip");
  const box = element.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const wide = document.documentElement.clientWidth, high = window.innerHeight;
  const left = x === undefined ? box.left : x + 12;
  const below = (y === undefined ? box.bottom : y) + 10;
  const above = (y === undefined ? box.top : y) - size.height - 10;
  tip.style.left = Math.max(8, Math.min(left, wide - size.width - 8)) + "px";
  tip.style.top = (below + size.height < high || above < 8 ? below : above) + "px";
}
function hide() {
  tip.hidden = true;
  if (told) told.removeAttribute("aria-describedby");
  told = null;
}
const whyOf = (event) => event.target.closest && event.target.closest("[data-why]");
document.addEventListener("mousemove", (event) => {
  const element = whyOf(event);
  if (element) show(element, event.clientX, event.clientY);
  else if (told && told !== document.activeElement) hide();
});
document.addEventListener("focusin", (event) => {
  const element = whyOf(event);
  if (element && event.target.matches(":focus-visible")) show(element);
  else hide();
});
document.addEventListener("focusout", hide);
document.addEventListener("scroll", () => { if (told !== document.activeElement) hide(); }, true);

// Rows of a listing: the arrow keys go through them; a line and its instructions light up together.
function light(row) {
  for (const other of document.querySelectorAll("tr.lit")) other.classList.remove("lit");
  if (!row || !row.dataset.line) return null;
  const same = document.querySelectorAll(`.listing tr[data-line="${CSS.escape(row.dataset.line)}"]`);
  for (const other of same) other.classList.add("lit");
  return [...same].find((other) => other.closest("table") !== row.closest("table")) || null;
}
function into(row) {
  const pane = row.closest(".pane");
  const at = row.offsetTop - pane.clientHeight / 3;
  if (row.offsetTop < pane.scrollTop + 30 || row.offsetTop > pane.scrollTop + pane.clientHeight - 40) pane.scrollTop = at;
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hide();
  const row = event.target.closest && event.target.closest(".listing tbody tr");
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 }[event.key];
  if (!row || !step) return;
  event.preventDefault();
  const rows = [...row.parentElement.querySelectorAll("tr[tabindex]")];
  const next = rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(row) + step))];
  row.tabIndex = -1;
  next.tabIndex = 0;
  next.focus({ preventScroll: true });
  into(next);
});
for (const kind of ["focusin", "click"]) {
  document.addEventListener(kind, (event) => {
    const row = event.target.closest && event.target.closest(".listing tbody tr");
    const other = row && !event.target.closest("a") ? light(row) : null;
    if (other) into(other);
  });
}
function arrive() {
  const row = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (row && row.matches(".listing tr")) {
    row.closest(".code").scrollIntoView({ block: "start" });
    into(row);
    const other = light(row);
    if (other) into(other);
  }
}
for (const pane of document.querySelectorAll(".pane")) {  // begin where the time goes
  const heat = (row) => parseFloat(row.style.getPropertyValue("--h")) || 0;
  const rows = [...pane.querySelectorAll("tbody tr")];
  if (rows.length) into(rows.reduce((most, row) => (heat(row) > heat(most) ? row : most)));
}
window.addEventListener("hashchange", arrive);
arrive();

// The theme: as the system has it, then the other one, then back.
const theme = document.getElementById("theme"), dark = window.matchMedia("(prefers-color-scheme: dark)");
theme.addEventListener("click", () => {
  const root = document.documentElement;
  root.style.colorScheme = root.style.colorScheme ? "" : dark.matches ? "light" : "dark";
});
const save = document.getElementById("save"), data = document.getElementById("data");
if (data) save.addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([data.textContent], { type: "application/json" }));
  link.download = "warplens.json";
  link.click();
});
// What is folded is printed too, but for the longest tables.
let unfolded = [];
window.addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details:not([open]):not(.unprinted)")];
  for (const folded of unfolded) folded.open = true;
});
window.addEventListener("afterprint", () => {
  for (const folded of unfolded) folded.open = false;
});
