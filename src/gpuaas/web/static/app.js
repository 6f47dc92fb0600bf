// The only script of the pages: keeps fragments current, adds ages to times, moves by keyboard, confirms in place.
// Every page works without it, as links and forms.

const body = document.body;
const TURN = 5_000;
const STALE = 25_000; // milliseconds without a sign of life (the server gives one every ten seconds)

// Times: <time datetime="…Z"> gets the local time as a title and its age as text.

const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

function age(seconds) {
  for (const [size, unit] of UNITS) {
    if (seconds >= size) return Math.floor(seconds / size) + unit;
  }
  return "now";
}

function tellTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    element.title = moment.toLocaleString();
    const words = age(Math.max(0, (Date.now() - moment) / 1000)) + (Date.now() - moment >= 1000 ? " ago" : "");
    if (element.textContent !== words) element.textContent = words;
  }
}

// The stream: only while the tab is seen, because a browser has six connections to a host for all its tabs.

let source = null;
let revision = body.dataset.revision;
let heard = Date.now();
let lost = null; // since when
let again = 1000;
let timer = 0;

function address() {
  const page = body.dataset.path + location.search;
  return `${body.dataset.stream}?${new URLSearchParams({ page, since: revision })}`;
}

function connect() {
  clearTimeout(timer);
  if (source || document.hidden) return;
  heard = Date.now();
  source = new EventSource(address());
  source.addEventListener("hello", alive);
  source.addEventListener("beat", alive);
  source.addEventListener("fragments", (event) => {
    alive();
    revision = event.lastEventId || revision;
    swap(JSON.parse(event.data));
  });
  source.addEventListener("crowded", () => { // another window needs the connection: in turns
    disconnect();
    timer = setTimeout(connect, TURN);
  });
  source.addEventListener("reload", () => location.reload());
  source.addEventListener("end", () => {
    disconnect();
    mark("signed out");
    location.reload(); // where nobody is signed in the server leads to the form
  });
  source.addEventListener("error", broken);
}

function disconnect() {
  clearTimeout(timer);
  if (source) source.close();
  source = null;
}

function alive() {
  heard = Date.now();
  again = 1000;
  if (lost) {
    lost = null;
    mark("");
  }
}

function broken() {
  disconnect();
  if (document.hidden) return;
  if (!lost) {
    lost = new Date();
    mark(`not current: connection lost since ${lost.toTimeString().slice(0, 8)}`);
  }
  timer = setTimeout(retry, again);
  again = Math.min(again * 2, 15_000);
}

async function retry() {
  try { // an event source does not say why it failed
    const answer = await fetch(address(), { method: "HEAD", cache: "no-store", redirect: "manual" });
    if (answer.status === 401) return location.reload();
  } catch {
    return broken();
  }
  connect();
}

function mark(words) {
  body.classList.toggle("stale", words !== "");
  const live = document.getElementById("live");
  if (live) {
    live.textContent = words;
    live.hidden = words === "";
  }
}

// Fragments: an element is replaced by the one of the same id; focus, selection and scrolling stay where they were.

function swap(fragments) {
  for (const [id, html] of Object.entries(fragments)) {
    const old = document.getElementById(id);
    if (!old) continue;
    const template = document.createElement("template");
    template.innerHTML = html;
    const fresh = template.content.firstElementChild;
    if (!fresh || fresh.id !== id) continue;
    const held = old.contains(document.activeElement) ? document.activeElement : null;
    const path = held && pathTo(held, old);
    const value = held && "value" in held && held.type !== "hidden" ? held.value : null;
    for (const open of old.querySelectorAll("details[open][id]")) {
      const same = template.content.getElementById(open.id);
      if (same) same.open = true;
    }
    const scrolled = [...old.querySelectorAll("[data-scrolls]")].map((each) => [each.scrollLeft, each.scrollTop]);
    tellTimes(fresh);
    old.replaceWith(fresh);
    fresh.querySelectorAll("[data-scrolls]").forEach((each, number) => {
      if (scrolled[number]) [each.scrollLeft, each.scrollTop] = scrolled[number];
    });
    if (!held) continue;
    const target = (held.id && document.getElementById(held.id)) || find(path, fresh) || focusable(fresh)[0];
    if (target) {
      if (value !== null && "value" in target) target.value = value;
      target.focus({ preventScroll: true });
    }
  }
  document.dispatchEvent(new CustomEvent("swapped"));
}

function focusable(root) {
  return [...root.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")];
}

// Where an element is: the nearest row or part with an id, and its number among what can be focused there.
function pathTo(element, root) {
  const near = element.closest("[id]");
  const within = near && near !== element && root.contains(near) ? near : root;
  return { id: within === root ? "" : within.id, number: focusable(within).indexOf(element), href: element.getAttribute("href") };
}

function find(path, root) {
  const within = path.id ? document.getElementById(path.id) : root;
  if (!within) return null;
  const same = path.href && focusable(within).find((each) => each.getAttribute("href") === path.href);
  return same || focusable(within)[path.number] || null;
}

// Keyboard: / searches, j and k go through rows, Enter opens one, ? shows the keys.

function rows() {
  return [...document.querySelectorAll("main tbody tr, main [data-row]")].filter((row) => row.querySelector("a[href]"));
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[Math.min(all.length - 1, Math.max(0, now < 0 ? (step > 0 ? 0 : all.length - 1) : now + step))];
  const link = next.querySelector("a[href]");
  link.focus();
  next.scrollIntoView({ block: "nearest" });
}

function showKeys() {
  let dialog = document.getElementById("keys");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "keys";
    dialog.setAttribute("aria-label", "Keys");
    const list = document.createElement("dl");
    const keys = { "/": "search", "j, k": "next and previous row", Enter: "open the row", "?": "these keys", Esc: "close" };
    for (const [key, words] of Object.entries(keys)) {
      const term = document.createElement("dt");
      const kbd = document.createElement("kbd");
      kbd.textContent = key;
      term.append(kbd);
      const meaning = document.createElement("dd");
      meaning.textContent = words;
      list.append(term, meaning);
    }
    dialog.append(list);
    body.append(dialog);
  }
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest("input, textarea, select, [contenteditable], dialog")) return;
  const search = document.querySelector("[data-search]");
  if (event.key === "/" && search) search.focus();
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "?") showKeys();
  else return;
  event.preventDefault();
});

// Actions: the effect is shown in a dialog over the page, from the very page that the link leads to.

async function confirmInPlace(link) {
  const answer = await fetch(link.href, { headers: { accept: "text/html" } });
  const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("action");
  if (!found) return location.assign(link.href);
  let dialog = document.getElementById("confirm");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "confirm";
    dialog.setAttribute("aria-label", "Confirm");
    body.append(dialog);
    dialog.addEventListener("click", (event) => {
      if (!event.target.closest("a.back")) return;
      event.preventDefault();
      dialog.close();
    });
    dialog.addEventListener("submit", (event) => {
      const form = event.target;
      if (form.method !== "get") return; // what confirms goes to the server as any form
      event.preventDefault();
      show(dialog, `${form.action}?${new URLSearchParams(new FormData(form))}`);
    });
    dialog.addEventListener("change", (event) => {
      if (event.target.type === "radio") event.target.form.requestSubmit();
    });
    dialog.addEventListener("close", () => dialog.origin && dialog.origin.focus());
  }
  dialog.origin = link;
  dialog.replaceChildren(document.adoptNode(found));
  if (!dialog.open) dialog.showModal();
}

async function show(dialog, address) {
  const answer = await fetch(address);
  const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("action");
  if (!found) return location.assign(address);
  const held = document.activeElement && document.activeElement.value;
  dialog.replaceChildren(document.adoptNode(found));
  const same = held && [...dialog.querySelectorAll("input")].find((each) => each.value === held && each.type !== "hidden");
  if (same) same.focus();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-act]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || !window.HTMLDialogElement) return;
  event.preventDefault();
  confirmInPlace(link).catch(() => location.assign(link.href));
});

// Commands: the button to copy one is there where copying works.

function offerCopies(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1_500);
});
document.addEventListener("swapped", () => offerCopies(document));

// The form to choose a theme is answered at once; the server keeps it for the next page.

for (const form of document.querySelectorAll("form.theme")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    const themes = ["auto", "light", "dark"];
    const theme = button.value;
    const data = new URLSearchParams(new FormData(form));
    data.set("theme", theme);
    fetch(form.action, { method: "POST", body: data, redirect: "manual", keepalive: true });
    document.documentElement.dataset.theme = theme;
    button.value = themes[(themes.indexOf(theme) + 1) % themes.length];
    button.textContent = `Theme: ${theme}`;
  });
}

// Begin.

document.querySelector(".nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
offerCopies(document);
tellTimes(document);
setInterval(() => tellTimes(document), 5_000);

if (body.dataset.stream) {
  connect();
  document.querySelector("form.sign-out").addEventListener("submit", disconnect); // its answer leads on, not the stream's end
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", connect); // also of a page that the browser kept as it was
  setInterval(() => {
    if (source && Date.now() - heard > STALE) broken();
  }, 2_000);
}
