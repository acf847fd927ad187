// Runs assets/page.js with a document that has only what the script uses, and looks at what it does.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";

const script = readFileSync(process.argv[2], "utf8");

class Element {
  constructor(more = {}) {
    Object.assign(this, { listeners: {}, dataset: {}, textContent: "", innerHTML: "", found: {}, children: [] }, more);
  }
  addEventListener(name, call) { this.listeners[name] = call; }
  querySelector(selector) { return this.found[selector] ?? null; }
  querySelectorAll() { return Array.from(this.innerHTML.matchAll(/data-line="(\d+)"/g), (one) => ({ dataset: { line: one[1] } })); }
  replaceChildren(...children) { this.children = children; }
}

// Lets the script see these elements by their selectors.
function run(elements, more) {
  const document = { querySelector: (selector) => elements[selector] ?? null, createElement: () => new Element() };
  const timers = [];
  const setTimeout = (call) => timers.push(call);
  const clearTimeout = () => { timers.length = 0; };
  runInNewContext(script, { document, setTimeout, clearTimeout, encodeURIComponent, ...more });
  return timers;
}

// A run is followed until it is over.
{
  const opened = [];
  class EventSource extends Element {
    constructor(address) { super({ address, readyState: 1 }); opened.push(this); }
    close() { this.closed = true; }
  }
  EventSource.CLOSED = 2;
  const live = new Element({ dataset: { events: "/jobs/1/events" } });
  const lost = new Element();
  let reloads = 0;
  const location = { reload: () => { reloads += 1; } };
  const timers = run({ "[data-events]": live, ".lost": lost }, { EventSource, location });
  assert.equal(opened[0].address, "/jobs/1/events");
  opened[0].listeners.now({ data: "<h1>Level 1</h1>" });
  assert.equal(live.innerHTML, "<h1>Level 1</h1>");
  opened[0].listeners.error();
  assert.match(lost.textContent, /tries again/);
  assert.equal(timers.length, 0, "the browser connects again by itself");
  opened[0].listeners.now({ data: "again" });
  assert.equal(lost.textContent, "");
  opened[0].readyState = EventSource.CLOSED;
  opened[0].listeners.error();
  timers[0]();
  assert.equal(opened.length, 2, "after an answer that was no stream, the script does");
  opened[1].listeners.over();
  assert.ok(opened[1].closed);
  assert.equal(reloads, 1);
}

// A text is numbered and checked, and only the last answer counts.
{
  const text = new Element({ value: "name: a\nplatform: x", scrollTop: 7 });
  const numbers = new Element();
  const start = new Element({ hidden: false });
  const form = new Element({ found: { textarea: text, ".numbers": numbers, "input[name=name]": { value: "a b.yaml" } } });
  const checked = new Element({ innerHTML: '<pre data-line="2"></pre>' });
  const asked = [];
  const fetch = (address, options) => new Promise((resolve) => asked.push({ address, options, answer: (html, ok = true) => resolve({ ok, text: async () => html }) }));
  const timers = run({ "form.editor": form, ".checked": checked, "form.start": start }, { fetch });
  assert.deepEqual(numbers.children.map((one) => one.className), [undefined, "wrong"]);
  text.listeners.scroll();
  assert.equal(numbers.scrollTop, 7);
  text.value += "\n";
  text.listeners.input();
  assert.equal(start.hidden, true, "what is not saved cannot be started");
  assert.equal(numbers.children.length, 3);
  text.listeners.input();
  assert.equal(timers.length, 1, "each key begins the wait again");
  const first = timers[0]();
  const second = timers[0]();
  assert.equal(asked[0].address, "/check?name=a%20b.yaml");
  assert.equal(asked[0].options.method, "POST");
  assert.equal(asked[0].options.body, text.value);
  asked[1].answer('<pre data-line="1"></pre>');
  await second;
  asked[0].answer("late");
  await first;
  assert.equal(checked.innerHTML, '<pre data-line="1"></pre>');
  assert.deepEqual(numbers.children.map((one) => one.className), ["wrong", undefined, undefined]);
  const refused = timers[0]();
  asked[2].answer("an error page", false);
  await refused;
  assert.equal(checked.innerHTML, '<pre data-line="1"></pre>');
}

// A page without either has nothing to do.
run({}, {});
console.log("passed");
