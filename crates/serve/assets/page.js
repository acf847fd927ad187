// What a page does without being loaded again: it follows a run, and checks a scenario while it is written. All of it works without this
// file, too: by loading the page again, and by the button.
"use strict";

// Milliseconds without a key until a text is checked.
const PAUSE = 300;

// Shows what the server says of a run, until it says that the run is over.
function follow(live, lost) {
  const events = new EventSource(live.dataset.events);
  events.addEventListener("now", (event) => {
    // The server has escaped all that is not its own.
    live.innerHTML = event.data;
    lost.textContent = "";
  });
  events.addEventListener("over", () => {
    events.close();
    location.reload();
  });
  events.addEventListener("error", () => {
    lost.textContent = "No connection to the server. The run goes on; this page tries again.";
    // After an answer that is no stream, the browser does not try again by itself.
    if (events.readyState === EventSource.CLOSED) setTimeout(() => follow(live, lost), 2000);
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

// Keeps the numbers beside the text, and what a check says beside both.
function edit(form, checked) {
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

  text.addEventListener("scroll", () => { numbers.scrollTop = text.scrollTop; });
  text.addEventListener("input", () => {
    // What is started is what was saved.
    if (start) start.hidden = true;
    renumber();
    clearTimeout(waiting);
    waiting = setTimeout(check, PAUSE);
  });
  renumber();
}

const live = document.querySelector("[data-events]");
if (live) follow(live, document.querySelector(".lost"));
const editor = document.querySelector("form.editor");
if (editor) edit(editor, document.querySelector(".checked"));
