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
function run(elements, more, activeElement = null) {
  const document = { querySelector: (selector) => elements[selector] ?? null, createElement: () => new Element(), activeElement };
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
  const chart = new Element();
  const lost = new Element();
  let reloads = 0;
  const location = { reload: () => { reloads += 1; } };
  const timers = run({ "[data-events]": live, ".live-chart": chart, ".lost": lost }, { EventSource, location });
  assert.equal(opened[0].address, "/jobs/1/events");
  opened[0].listeners.now({ data: "<h1>Level 1</h1>" });
  assert.equal(live.innerHTML, "<h1>Level 1</h1>");
  opened[0].listeners.chart({ data: "<svg></svg>" });
  assert.equal(chart.innerHTML, "<svg></svg>");
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

// A field changes the text, one change after the other, and the fields follow the text.
{
  const text = new Element({ value: "name: a\n" });
  const form = new Element({ found: { textarea: text, ".numbers": new Element(), "input[name=name]": { value: "a.yaml" } } });
  const section = new Element({ dataset: { section: "mqtt" }, open: true });
  let focused = 0;
  const after = [new Element({ dataset: { section: "mqtt" } }), new Element({ dataset: { section: "load" } })];
  const field = new Element({ name: "set.name", value: "b", dataset: { key: "name" }, focus: () => { focused += 1; } });
  const fields = new Element();
  fields.querySelectorAll = (selector) => (selector === "[data-key]" ? [field] : fields.innerHTML ? after : [section]);
  const problem = new Element();
  const button = new Element();
  const settings = new Element({ found: { ".fields": fields, ".not-set": problem, ".fill": button } });
  const asked = [];
  const fetch = (address, options) => new Promise((resolve) => asked.push({ address, options, answer: (said, ok = true) => resolve({ ok, text: async () => said }) }));
  const start = new Element({ hidden: false });
  const elements = { "form.editor": form, ".checked": new Element(), "form.settings": settings, "form.start": start };
  const timers = run(elements, { fetch, URLSearchParams, Promise }, { name: "set.name" });
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  assert.equal(button.hidden, true);
  let prevented = 0;
  settings.listeners.submit({ preventDefault: () => { prevented += 1; } });
  assert.equal(prevented, 1);
  fields.listeners.change({ target: field });
  fields.listeners.change({ target: new Element({ value: "x", dataset: { key: "platform", renew: "" } }) });
  fields.listeners.change({ target: new Element({ value: "no field" }) });
  await settled();
  assert.equal(asked.length, 1, "the second change waits for the first");
  assert.equal(asked[0].address, "/form/set");
  assert.equal(asked[0].options.body.toString(), "text=name%3A+a%0A&key=name&value=b");
  text.value = "name: a\nseed: 1\n";
  asked[0].answer("name: b\n");
  await settled();
  assert.equal(asked[1].options.body.get("text"), "name: a\nseed: 1\n", "what was typed meanwhile stays");
  asked[1].answer("name: b\nseed: 1\n");
  await settled();
  assert.equal(text.value, "name: b\nseed: 1\n");
  assert.equal(start.hidden, true, "what is not saved cannot be started");
  assert.match(asked[2].address, /^\/check/);
  assert.equal(asked[3].options.body.get("key"), "platform");
  asked[3].answer("`platform` cannot be set", false);
  await settled();
  assert.equal(problem.textContent, "Not set: `platform` cannot be set");
  assert.equal(text.value, "name: b\nseed: 1\n");
  // The text is changed: the fields follow, what was open stays open, and who was in a field stays there.
  text.listeners.input();
  timers[0]();
  assert.deepEqual(asked.slice(4).map((one) => one.address), ["/check?name=a.yaml", "/form"]);
  asked[5].answer("<p>fields</p>");
  await settled();
  assert.equal(fields.innerHTML, "<p>fields</p>");
  assert.deepEqual(after.map((one) => one.open), [true, false]);
  assert.equal(focused, 1);
  assert.equal(problem.textContent, "");
}

// A page without either has nothing to do.
run({}, {});
console.log("passed");
