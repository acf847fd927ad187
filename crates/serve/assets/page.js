// What a page does without being loaded again: it follows a run, and checks a scenario while it is written. All of it works without this
// file, too: by loading the page again, and by the button.
"use strict";

// Milliseconds without a key until a text is checked.
const PAUSE = 300;

// Shows what the server says of a run, until it says that the run is over.
function follow(live, chart, lost) {
  const events = new EventSource(live.dataset.events);
  events.addEventListener("now", (event) => {
    // The server has escaped all that is not its own.
    live.innerHTML = event.data;
    lost.textContent = "";
  });
  events.addEventListener("chart", (event) => { chart.innerHTML = event.data; });
  events.addEventListener("over", () => {
    events.close();
    location.reload();
  });
  events.addEventListener("error", () => {
    lost.textContent = "No connection to the server. The run goes on; this page tries again.";
    // After an answer that is no stream, the browser does not try again by itself.
    if (events.readyState === EventSource.CLOSED) setTimeout(() => follow(live, chart, lost), 2000);
  });
}

// The numbers of a text's lines, those that are wrong marked.
function number(numbers, count, wrong) {
  const lines = [];
  for (let line = 1; line <= count; line += 1) {
    const shown = document.createElement("span");
    shown.textContent = line + "\n";
    if (wrong.has(line)) shown.className = "wrong";
    lines.push(shown);
  }
  numbers.replaceChildren(...lines);
}

// Keeps the fields of a scenario and its text in step: a field that is changed changes its key of the text, and no other. `changed` is
// called when that was done. What is given back shows the text in the fields.
function fill(settings, text, changed) {
  const fields = settings.querySelector(".fields");
  const problem = settings.querySelector(".not-set");
  let last = Promise.resolve();

  const renew = async () => {
    const sent = text.value;
    const headers = { "Content-Type": "text/plain; charset=utf-8" };
    try {
      const answer = await fetch("/form", { method: "POST", body: sent, headers });
      const shown = await answer.text();
      if (sent !== text.value || !answer.ok) return;
      const open = new Set(Array.from(fields.querySelectorAll("details"), (one) => one.open && one.dataset.section));
      const focused = document.activeElement ? document.activeElement.name : "";
      fields.innerHTML = shown;
      for (const one of fields.querySelectorAll("details")) one.open = open.has(one.dataset.section);
      for (const one of fields.querySelectorAll("[data-key]")) if (one.name === focused) one.focus();
      problem.textContent = "";
    } catch {
      // The server is away: the next key asks again.
    }
  };
  const set = async (field) => {
    const sent = text.value;
    const body = new URLSearchParams({ text: sent, key: field.dataset.key, value: field.value });
    try {
      const answer = await fetch("/form/set", { method: "POST", body });
      const said = await answer.text();
      // What was typed into the text meanwhile stays.
      if (sent !== text.value) return set(field);
      problem.textContent = answer.ok ? "" : "Not set: " + said;
      if (!answer.ok) return;
      text.value = said;
      changed();
      if (field.dataset.renew !== undefined) await renew();
    } catch {
      problem.textContent = "Not set: no connection to the server.";
    }
  };

  // The button is for browsers without this script.
  settings.querySelector(".fill").hidden = true;
  settings.addEventListener("submit", (event) => event.preventDefault());
  // One after the other: each begins with the text that the one before made.
  fields.addEventListener("change", (event) => {
    const field = event.target;
    if (field.dataset.key) last = last.then(() => set(field));
  });
  return renew;
}

// Keeps the numbers beside the text, and what a check says beside both.
function edit(form, checked, settings) {
  const text = form.querySelector("textarea");
  const numbers = form.querySelector(".numbers");
  const name = form.querySelector("input[name=name]");
  const start = document.querySelector("form.start");
  let waiting = null;
  let asked = 0;

  const wrong = () => new Set(Array.from(checked.querySelectorAll("[data-line]"), (one) => Number(one.dataset.line)));
  const renumber = () => number(numbers, text.value.split("\n").length, wrong());
  const check = async () => {
    asked += 1;
    const own = asked;
    const address = "/check?name=" + encodeURIComponent(name.value);
    const headers = { "Content-Type": "text/plain; charset=utf-8" };
    try {
      const answer = await fetch(address, { method: "POST", body: text.value, headers });
      const shown = await answer.text();
      // An answer to an earlier text says nothing of this one.
      if (own !== asked || !answer.ok) return;
      checked.innerHTML = shown;
      renumber();
    } catch {
      // The server is away: the next key asks again.
    }
  };
  // What is started is what was saved.
  const unsaved = () => {
    if (start) start.hidden = true;
    renumber();
  };
  const renew = settings ? fill(settings, text, () => { unsaved(); check(); }) : () => {};

  text.addEventListener("scroll", () => { numbers.scrollTop = text.scrollTop; });
  text.addEventListener("input", () => {
    unsaved();
    clearTimeout(waiting);
    waiting = setTimeout(() => Promise.all([check(), renew()]), PAUSE);
  });
  renumber();
}

const live = document.querySelector("[data-events]");
if (live) follow(live, document.querySelector(".live-chart"), document.querySelector(".lost"));
const editor = document.querySelector("form.editor");
if (editor) edit(editor, document.querySelector(".checked"), document.querySelector("form.settings"));
