// What pages do besides links and forms: follow the queue, keys, local times, copying. Everything works without it.
import { Idiomorph } from "./idiomorph.js";

const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// --- Times in the browser's zone.
const local = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
function showTimes() {
  if (document.documentElement.dataset.time !== "local") return;
  for (const time of all("time[datetime]")) {
    const text = local.format(new Date(time.dateTime));
    if (time.hasAttribute("data-at")) time.textContent = text;
    else time.title = text;
  }
}

// --- Counting down to times ahead, by the clock of the database.
let ahead = 0;
const two = (number) => String(number).padStart(2, "0");
function countDown() {
  for (const time of all("time[data-countdown]")) {
    if (time.read !== time.dataset.countdown) {
      time.read = time.dataset.countdown;
      ahead = Date.parse(time.read) - Date.now();
    }
    const left = Math.floor((Date.parse(time.dateTime) - Date.now() - ahead) / 1000);
    const seconds = Math.max(0, left);
    const clock = [Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60].map(two).join(":");
    const days = Math.floor(seconds / 86400);
    time.textContent = days ? `${days}d ${clock}` : clock;
    if (left === -1) readAgain();
  }
}
setInterval(countDown, 1000);

// --- Copying what stands in a block.
function addCopyButtons() {
  if (!navigator.clipboard) return;
  for (const block of all("pre[data-copy]:not([data-ready])")) {
    block.dataset.ready = "";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText($("code", block).textContent);
      button.textContent = "Copied";
    });
    block.append(button);
  }
}

function prepare() {
  showTimes();
  addCopyButtons();
}

// --- Reading the page again.
const isBusy = () =>
  document.hidden || $("dialog[open]") || $("tbody input:checked") || $("main form :focus") || $("[data-hold][open]");

let reading = false;
async function readAgain(force = false) {
  if (reading) return;
  if (!force && isBusy()) return show("paused");
  reading = true;
  try {
    const options = { headers: { accept: "text/html" }, credentials: "same-origin", signal: AbortSignal.timeout(15000) };
    const answer = await fetch(location.href, options);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    // In an outage of the database there is a page that says so.
    if (!$("#main", page) || (!answer.ok && answer.status !== 503)) throw new Error(answer.statusText);
    if (!force && isBusy()) return;
    Idiomorph.morph($("#main"), $("#main", page), {
      ignoreActiveValue: true,
      callbacks: {
        beforeNodeMorphed: (old) => !(old.hasAttribute?.("data-keep")),
        beforeAttributeUpdated: (name, node) =>
          name !== "data-ready" && !(name === "open" && node.matches("details")) && !(name === "class" && node.matches(".points i")),
        beforeNodeRemoved: (node) => !node.matches?.(".copy"),
      },
    });
    prepare();
    restoreRow();
    showAge();
  } catch (error) {
    console.error(error);
    show("no connection");
  } finally {
    reading = false;
  }
}

// --- Whether what stands here is new.
const classes = { live: "on tick", paused: "", "old data": "off", "no connection": "off" };
function show(word) {
  const live = $("#live");
  if (!live) return;
  live.className = `live ${classes[word]}`;
  live.textContent = word;
  setTimeout(() => live.classList.remove("tick"), 300);
}
const showAge = () => show($("#main [data-old]") ? "old data" : "live");

// --- Following the queue: the page is read again every two seconds, about once a sample. A stream of events would take one of
// the six connections that a browser opens to a server, for each window.
const isLive = document.body.hasAttribute("data-live");
async function follow() {
  // The page of a job that has ended follows no more.
  if (!document.hidden && $("#live, [data-old]")) await readAgain();
  setTimeout(follow, 2000);
}
document.addEventListener("visibilitychange", () => {
  if (isLive && !document.hidden) readAgain();
});

// --- Proposals of names, while a field with a list is typed into.
document.addEventListener("input", async (event) => {
  const list = event.target.getAttribute?.("list");
  const base = $("[data-suggest]")?.dataset.suggest;
  if (!list || !base || event.inputType === undefined) return;
  const of = list === "names" ? "" : `&of=${list}`;
  const answer = await fetch(`${base}?q=${encodeURIComponent(event.target.value)}${of}`).catch(() => null);
  if (!answer?.ok) return;
  const names = await answer.json();
  document.getElementById(list).replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
});

// --- Keys.
let isGoing = false;
let row = -1;
const rows = () => all("#main tbody tr");
function restoreRow() {
  rows()[row]?.classList.add("at");
}
function mark(at) {
  const list = rows();
  if (!list.length) return;
  row = Math.max(0, Math.min(at, list.length - 1));
  list.forEach((one, index) => one.classList.toggle("at", index === row));
  list[row].scrollIntoView({ block: "nearest" });
}
const actions = {
  "?": () => $("#keys").showModal(),
  "/": () => $("[data-search]")?.focus(),
  j: () => mark(row + 1),
  k: () => mark(row - 1),
  r: () => readAgain(true),
  x: () => rows()[row]?.querySelector("input[type=checkbox]")?.click(),
  Enter: () => rows()[row]?.querySelector("a[href]")?.click(),
};
// --- The arrow keys move the read-out of a chart.
document.addEventListener("keydown", (event) => {
  const chart = event.target.closest?.(".time-chart");
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!chart || !by) return;
  const points = all(".points i", chart);
  const on = points.findIndex((point) => point.classList.contains("on"));
  const next = Math.min(points.length - 1, Math.max(0, (on < 0 ? points.length - 1 : on) + by));
  points.forEach((point, at) => point.classList.toggle("on", at === next));
  event.preventDefault();
});
document.addEventListener("focusout", (event) => {
  for (const point of all(".points i.on", event.target)) point.classList.remove("on");
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  if (isGoing) {
    isGoing = false;
    const link = all("nav a").find((one) => one.dataset.go === event.key);
    if (link) {
      event.preventDefault();
      link.click();
    }
    return;
  }
  if (event.key === "g") {
    isGoing = true;
    setTimeout(() => (isGoing = false), 1500);
    return;
  }
  const action = actions[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});
for (const button of all("[data-keys]")) {
  button.hidden = false;
  button.addEventListener("click", () => $("#keys").showModal());
}

// --- Ticking all rows.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-tick-all]")) {
    for (const box of all("tbody input[type=checkbox]")) box.checked = event.target.checked;
  }
  const ticked = all("tbody input[type=checkbox]:checked").length;
  for (const place of all("[data-ticked]")) place.textContent = String(ticked);
});

prepare();
showAge();
// On a narrow window the navigation scrolls sideways.
$("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
if (isLive) setTimeout(follow, 2000);
