"use strict";
// Charts are complete without this script. It reads the data that stand in each figure: it shows the nearest point under the
// pointer, hides and shows series by their entries in the legend, and writes the data as comma-separated values. Texts are set as
// text, never as markup.
(() => {
  const REACH = 40;
  const SVG = "http://www.w3.org/2000/svg";

  const shown = value => {
    if (value === null || value === undefined) return "\u2013";
    if (typeof value !== "number") return value;
    const digits = Math.abs(value) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 };
    return value.toLocaleString("en", digits);
  };

  const make = (name, className, text) => {
    const element = document.createElement(name);
    element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // A cell that no spreadsheet takes for a formula.
  const cell = value => {
    let text = value === null || value === undefined ? "" : String(value);
    if (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = "'" + text;
    return /[",;\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };

  // Rows of a part, each as values by column name.
  const rows = part => {
    if (part.v) {
      const [from, to, above, upTo, counted] = part.c;
      return part.v.flatMap((counts, column) => counts.map((count, row) => ({
        [from]: part.x[column][0], [to]: part.x[column][1],
        [above]: part.y[row], [upTo]: part.y[row + 1], [counted]: count,
      })));
    }
    return (part.d[0] || []).map((_, row) => {
      const entries = part.c.map((name, column) => [name, part.d[column][row]]);
      return Object.fromEntries([["series", part.n], ...entries]);
    });
  };

  const csv = parts => {
    const all = parts.flatMap(rows);
    const columns = [...new Set(all.flatMap(Object.keys))];
    const lines = all.map(row => columns.map(column => cell(row[column])).join(","));
    return [columns.map(cell).join(","), ...lines].join("\r\n") + "\r\n";
  };

  const save = (name, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  // What lies nearest to a place of the drawing: its own place, what it is called, and its values.
  const nearest = (parts, hidden, x, y) => {
    let best = null;
    let least = REACH;
    for (const part of parts) {
      if (part.v) {
        const column = part.px.findIndex(([left, right]) => left <= x && x <= right);
        const row = part.py.findIndex((bottom, row) => row + 1 < part.py.length && y <= bottom && y >= part.py[row + 1]);
        const count = column >= 0 && row >= 0 ? part.v[column][row] : undefined;
        if (count === undefined) continue;
        const range = (from, to) => shown(from) + " to " + shown(to);
        const values = [
          [part.c[0].replace(/, from$/, ""), range(...part.x[column])],
          [part.c[2].replace(/, above$/, ""), range(part.y[row], part.y[row + 1])],
          [part.c[4], shown(count)],
        ];
        return { x, y, name: "", values, isCell: true };
      }
      if (hidden.has(part.k)) continue;
      for (let row = 0; row * 2 < part.p.length; row++) {
        const distance = Math.hypot(part.p[2 * row] - x, part.p[2 * row + 1] - y);
        if (distance < least) {
          least = distance;
          best = { part, row };
        }
      }
    }
    if (!best) return null;
    const { part, row } = best;
    const values = part.c.map((name, column) => [name, shown(part.d[column][row])]);
    return { x: part.p[2 * row], y: part.p[2 * row + 1], name: part.n, values };
  };

  const readOut = (figure, parts, hidden) => {
    const canvas = figure.querySelector(".canvas");
    const svg = canvas.querySelector("svg");
    const box = svg.viewBox.baseVal;
    const note = make("div", "readout");
    note.hidden = true;
    canvas.append(note);
    const ring = document.createElementNS(SVG, "circle");
    ring.setAttribute("class", "ring");
    ring.setAttribute("r", "7");
    const away = () => {
      note.hidden = true;
      ring.remove();
    };
    svg.addEventListener("pointermove", event => {
      const place = svg.getBoundingClientRect();
      const scale = place.width / box.width;
      const found = nearest(parts, hidden, (event.clientX - place.left) / scale, (event.clientY - place.top) / scale);
      if (!found) return away();
      ring.setAttribute("cx", found.x);
      ring.setAttribute("cy", found.y);
      if (found.isCell) ring.remove();
      else svg.append(ring);
      const lines = found.values.map(([name, value]) => {
        const line = make("div", "pair");
        line.append(make("span", "of", name), make("b", "", value));
        return line;
      });
      note.replaceChildren(...(found.name ? [make("strong", "", found.name)] : []), ...lines);
      note.hidden = false;
      const isRight = found.x > box.width / 2;
      note.style.top = found.y * scale + "px";
      note.style.left = isRight ? "" : found.x * scale + 14 + "px";
      note.style.right = isRight ? place.width - found.x * scale + 14 + "px" : "";
    });
    svg.addEventListener("pointerleave", away);
  };

  const toggles = (figure, hidden) => {
    for (const entry of figure.querySelectorAll(".legend [data-k]")) {
      const key = Number(entry.dataset.k);
      entry.tabIndex = 0;
      entry.setAttribute("role", "button");
      entry.setAttribute("aria-pressed", "true");
      const toggle = () => {
        const hides = !hidden.has(key);
        if (hides) hidden.add(key);
        else hidden.delete(key);
        entry.setAttribute("aria-pressed", String(!hides));
        for (const series of figure.querySelectorAll(`.series[data-k="${key}"]`)) {
          series.style.display = hides ? "none" : "";
        }
      };
      entry.addEventListener("click", toggle);
      entry.addEventListener("keydown", event => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        toggle();
      });
    }
  };

  const begin = () => {
    for (const figure of document.querySelectorAll("figure.chart")) {
      const parts = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
      const hidden = new Set();
      readOut(figure, parts, hidden);
      toggles(figure, hidden);
      const button = make("button", "save", "Download data (CSV)");
      button.type = "button";
      button.addEventListener("click", () => save(figure.id.replace(/^chart-/, "plimsoll-") + ".csv", csv(parts)));
      figure.querySelector("figcaption").append(" ", button);
    }
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
