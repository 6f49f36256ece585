// The frame of every page: theme, figures drawn when they come into sight, files saved from them, tables that sort.
"use strict";
const netsim = (() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // --- data in the page -----------------------------------------------------------------------------------------

  /** Bytes of an element that holds base64 of gzip. */
  async function inflated(id) {
    const raw = Uint8Array.from(atob(byId(id).textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
  }

  const TYPES = {
    u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array,
    f4: Float32Array, f8: Float64Array,
  };

  /** {meta, arrays} of an element written by `packed`: a header of JSON, then arrays, each at a multiple of 8 bytes. */
  async function unpacked(id) {
    const buffer = await inflated(id);
    const length = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    const arrays = {};
    for (const { name, type, size, at } of head.arrays) arrays[name] = new TYPES[type](buffer, 4 + length + at, size);
    return { meta: head.meta, arrays };
  }

  // --- theme ----------------------------------------------------------------------------------------------------

  const DARK = new Map(Object.entries({  // colours of figures on white, and what stands for them on a dark ground
    "#ffffff": "#181c21", "#222222": "#e7eaee", "#808080": "#9aa3ad", "#e8e8e8": "#2b313a", "#b0b0b0": "#59626d",
    "#0072b2": "#3d9fe0", "#d55e00": "#f28a3c", "#009e73": "#2fc79b", "#cc79a7": "#e39bc2", "#56b4e9": "#a3d8f7",
    "#e69f00": "#f0bd4a", "#882255": "#d9709f", "#9a9a9a": "#8b949e", "#a8a8a8": "#59626d",
    "rgba(255,255,255,0.93)": "rgba(24,28,33,0.95)",
  }));
  const isDark = () => root.dataset.theme === "dark";

  function recoloured(value) {
    if (typeof value === "string") return DARK.get(value.toLowerCase()) ?? value;
    if (Array.isArray(value)) return value.map(recoloured);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, k === "x" || k === "y" ? v : recoloured(v)]));
    }
    return value;
  }

  const themed = (figure) => (isDark() ? recoloured(figure) : structuredClone(figure));

  function setTheme(name) {
    root.dataset.theme = name;
    byId("theme")?.setAttribute("aria-pressed", String(name === "dark"));
    document.dispatchEvent(new CustomEvent("netsim:theme", { detail: name }));
  }

  function startTheme() {
    const prefers = matchMedia("(prefers-color-scheme: dark)");
    let chosen = null;
    try { chosen = localStorage.getItem("netsim-theme"); } catch { /* a page without storage keeps no choice */ }
    setTheme(chosen === "dark" || chosen === "light" ? chosen : prefers.matches ? "dark" : "light");
    prefers.addEventListener("change", (e) => { if (!chosen) setTheme(e.matches ? "dark" : "light"); });
    byId("theme")?.addEventListener("click", () => {
      chosen = isDark() ? "light" : "dark";
      try { localStorage.setItem("netsim-theme", chosen); } catch { /* see above */ }
      setTheme(chosen);
    });
  }

  // --- figures --------------------------------------------------------------------------------------------------

  const figures = byId("drawn") ? JSON.parse(byId("drawn").textContent) : {};
  let library = null;

  /** The plotting library, unpacked once. */
  function plotly() {
    library ??= inflated("plotly").then((code) => {
      const script = document.createElement("script");
      script.textContent = new TextDecoder().decode(code);
      document.head.append(script);
      return window.Plotly;
    });
    return library;
  }

  const CONFIG = { responsive: true, displayModeBar: false, showSendToCloud: false, plotlyServerURL: "" };
  const drawnNow = new Set();

  /** A figure at the width of its place: legends below the axes where there is little room. */
  function fitted(figure, width) {
    const layout = figure.layout;
    layout.autosize = true;
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    for (const [key, axis] of Object.entries(layout)) {
      if (/^[xy]axis\d*$/.test(key) && axis.title?.text) axis.title.font = { size: 13, ...axis.title.font };
    }
    oneMoment(figure);
    if (width < 640) narrow(figure, width);
    return figure;
  }

  /** Where all dates are one: an hour on either side and a tick there, not plotly's thousandths of a second. */
  function oneMoment({ data, layout }) {
    for (const [key, axis] of Object.entries(layout)) {
      if (!key.startsWith("xaxis") || axis.type !== "date") continue;
      const own = data.filter((trace) => (trace.xaxis ?? "x") === key.replace("axis", ""));
      const seen = [...new Set(own.flatMap((trace) => trace.x).filter((x) => x !== null))];
      if (seen.length !== 1) continue;
      const at = Date.parse(`${seen[0].replace(" ", "T")}Z`), hour = 3.6e6;
      axis.range = [at - hour, at + hour].map((ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " "));
      Object.assign(axis, { tickvals: seen, tickformat: "%Y-%m-%d %H:%M:%S" });
    }
  }

  /** What stands above a pair of axes, by the end of their names; undefined for nothing. */
  const headingOf = (layout, tail) => (layout.annotations ?? []).find((a) => a.xref === `x${tail} domain`);

  /** Axes that stand side by side on a laptop, one above another. */
  function narrow(figure, width) {
    const layout = figure.layout, before = layout.margin?.t ?? 0;
    const top = Math.max(before, 50 + 20 * legendRows([...figure.data, ...layout.shapes ?? []], width - 64));
    if (layout.height) layout.height += top - before;
    layout.margin = { ...layout.margin, l: 52, r: 12, t: top };
    layout.font = { ...layout.font, size: 11 };
    for (const heading of layout.annotations ?? []) heading.text = broken(heading.text, Math.floor((width - 64) / 6.3));
    if (!(layout.grid?.columns > 1)) return;
    const n = Object.keys(layout).filter((k) => /^xaxis\d*$/.test(k)).length;
    layout.grid = { ...layout.grid, rows: n, columns: 1, ygap: 0.28 };
    layout.height = top + 70 + 300 * n;
  }

  /** A text in lines of at most so many characters, as far as its words allow. */
  function broken(text, most) {
    let line = "";
    return text.split(" ").map((word, i) => {
      const fits = i === 0 || line.length + 1 + word.length <= most;
      line = fits ? `${line} ${word}` : word;
      return i === 0 ? word : `${fits ? " " : "<br>"}${word}`;
    }).join("");
  }

  /** Lines that a legend takes at a width: names beside one another as far as they fit. */
  function legendRows(data, width) {
    let rows = 1, used = 0;
    for (const trace of data) {
      if (trace.showlegend === false || !trace.name) continue;
      const own = 52 + 6.2 * trace.name.length;
      if (used > 0 && used + own > width) { rows += 1; used = 0; }
      used += own;
    }
    return rows;
  }

  /** The figure of a place, which gets its height: plotly forgets that of a layout with shapes when it is resized. */
  function figureOf(place) {
    const figure = fitted(themed(figures[place.dataset.figure]), place.clientWidth);
    place.style.height = figure.layout.height ? `${figure.layout.height}px` : "";
    return figure;
  }

  async function draw(place) {
    const id = place.dataset.figure;
    if (drawnNow.has(id)) return;
    drawnNow.add(id);
    const Plotly = await plotly();
    const figure = figureOf(place);
    await Plotly.newPlot(place, figure.data, figure.layout, CONFIG);
    place.dispatchEvent(new CustomEvent("netsim:drawn", { bubbles: true }));
    moveCursor(place);
  }

  async function redraw() {
    if (!drawnNow.size) return;
    const Plotly = await plotly();
    for (const place of document.querySelectorAll(".plot")) {
      if (!drawnNow.has(place.dataset.figure)) continue;
      const figure = figureOf(place);
      await Plotly.react(place, figure.data, figure.layout, CONFIG);
      moveCursor(place);
    }
  }

  const drawAll = () => Promise.all([...document.querySelectorAll(".plot")].map(draw));

  /** On paper all figures are drawn, and everything is light. A browser waits for no promise before it prints: the
   * library is unpacked as soon as there is time, so that only microtasks are left. */
  function startPrinting() {
    (window.requestIdleCallback ?? setTimeout)(() => { if (Object.keys(figures).length) plotly(); });
    let before = null;
    addEventListener("beforeprint", () => {
      before = root.dataset.theme;
      if (before === "dark") setTheme("light");
      drawAll();
    });
    addEventListener("afterprint", () => { if (before === "dark") setTheme(before); });
  }

  function startFigures() {
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
    }, { rootMargin: "400px" });
    for (const place of document.querySelectorAll(".plot")) {
      const height = figures[place.dataset.figure].layout.height;
      if (height) place.style.minHeight = `${height}px`;
      place.addEventListener("netsim:drawn", () => { place.style.minHeight = ""; });
      seen.observe(place);
    }
    document.addEventListener("netsim:theme", redraw);
    startPrinting();
    let width = innerWidth;
    addEventListener("resize", () => {
      if ((width < 640) !== (innerWidth < 640)) redraw();
      width = innerWidth;
    });
  }

  // --- a cursor in all figures over time ------------------------------------------------------------------------

  let cursorDate = null;

  function moveCursor(place) {
    place.querySelectorAll(".cursor").forEach((line) => line.remove());
    const full = place._fullLayout;
    if (cursorDate === null || !full) return;
    for (const key of Object.keys(full).filter((k) => /^xaxis\d*$/.test(k))) {
      const x = full[key], y = full[key.replace("x", "y")];
      if (x.type !== "date" || !y) continue;
      const at = x.d2p(cursorDate);
      if (!(at >= 0 && at <= x._length)) continue;
      const line = document.createElement("div");
      line.className = "cursor";
      line.style.cssText = `left:${x._offset + at}px;top:${y._offset}px;height:${y._length}px`;
      place.append(line);
    }
  }

  document.addEventListener("netsim:time", (event) => {
    cursorDate = event.detail.date;
    for (const place of document.querySelectorAll(".plot")) if (drawnNow.has(place.dataset.figure)) moveCursor(place);
  });

  // --- files ----------------------------------------------------------------------------------------------------

  function save(name, content, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  /** One cell of a CSV file; a leading sign by which a spreadsheet would take text for a formula is disarmed. */
  function cell(value) {
    if (value === null || value === undefined) return "";
    let text = String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && !/^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  /** A text of a figure as it was before it was written for plotly: without tags, its own signs as they are. */
  function plain(value) {
    if (typeof value !== "string") return value;
    const text = value.replace(/<[^>]*>/g, "");
    return text.replaceAll("&#95;", "_").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
  }

  /** All curves of a figure as rows: what the axes show, curve, x, y, and z of a map; a band goes once around. */
  function csvOf({ data, layout }) {
    const rows = [["axes", "curve", "x", "y", "z"]];
    for (const trace of data) {
      const tail = (trace.xaxis ?? "x").slice(1);
      const axes = headingOf(layout, tail)?.text ?? layout[`yaxis${tail}`]?.title?.text;
      const name = `${trace.name ?? ""}${trace.fill ? " (band)" : ""}`;
      if (trace.z) {
        trace.z.forEach((row, j) => row.forEach((z, i) => rows.push([axes, name, trace.x?.[i] ?? i, trace.y?.[j] ?? j, z])));
      } else {
        const n = Math.max(trace.x?.length ?? 0, trace.y?.length ?? 0);
        for (let i = 0; i < n; i += 1) {
          const x = trace.x?.[i] ?? null, y = trace.y?.[i] ?? null;
          if (x !== null || y !== null) rows.push([axes, name, x, y, ""]);
        }
      }
    }
    return csv(rows.map((row) => row.map(plain)));
  }

  const csv = (rows) => rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";

  async function saveFigure(id, format) {
    if (format === "csv") { save(`${id}.csv`, csvOf(figures[id]), "text/csv"); return; }
    const Plotly = await plotly();
    const figure = structuredClone(figures[id]);  // on white, whatever the page looks like
    const width = 960, height = figure.layout.height ?? 480;
    const url = await Plotly.toImage(figure, { format, width, height, scale: format === "png" ? 2 : 1 });
    const comma = url.indexOf(",");
    const text = decodeURIComponent(url.slice(comma + 1));
    if (format === "svg") save(`${id}.svg`, text, "image/svg+xml");
    else save(`${id}.png`, new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], { type: "image/png" }));
  }

  function startSaving() {
    document.addEventListener("click", async (event) => {
      const button = event.target.closest("button[data-save]");
      if (!button) return;
      const id = button.dataset.of;
      if (button.dataset.save === "reset") {
        const Plotly = await plotly();
        const place = byId(`plot-${id}`), figure = figureOf(place);
        await Plotly.react(place, figure.data, figure.layout, CONFIG);
      } else await saveFigure(id, button.dataset.save);
    });
  }

  // --- tables ---------------------------------------------------------------------------------------------------

  const valueOf = (row, column) => {
    const of = row.cells[column];
    if (!of) return "";
    const text = of.dataset.value ?? of.textContent.trim();
    const number = Number(text);
    return text !== "" && !Number.isNaN(number) ? number : text;
  };

  /** Rows in order of a column; what has no value comes last, either way. */
  function sortBy(table, column, down) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, i) => ({ row, i, value: valueOf(row, column) }));
    const missing = (v) => v === "" || v === "\u2013";
    rows.sort((a, b) => {
      if (missing(a.value) || missing(b.value)) return missing(a.value) - missing(b.value) || a.i - b.i;
      const both = typeof a.value === "number" && typeof b.value === "number";
      const order = both ? a.value - b.value : String(a.value).localeCompare(String(b.value), "en");
      return (down ? -order : order) || a.i - b.i;
    });
    body.append(...rows.map((r) => r.row));
  }

  function startTables() {
    for (const table of document.querySelectorAll("table.sortable")) {
      [...table.tHead.rows[0].cells].forEach((head, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "sort";
        if (head.querySelector("a")) button.setAttribute("aria-label", `sort by ${head.textContent}`);
        else button.append(...head.childNodes);
        head.append(button);
        button.addEventListener("click", () => {
          const down = head.getAttribute("aria-sort") === "ascending";
          for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          sortBy(table, column, down);
        });
      });
    }
    for (const input of document.querySelectorAll("input[data-filter]")) {
      const table = byId(input.dataset.filter);
      const told = byId(`${input.dataset.filter}-rows`);
      input.addEventListener("input", () => {
        const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
        let shown = 0;
        for (const row of table.tBodies[0].rows) {
          const text = row.textContent.toLowerCase();
          row.hidden = !words.every((word) => text.includes(word));
          shown += !row.hidden;
        }
        if (told) told.textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
      });
    }
  }

  // --- words --------------------------------------------------------------------------------------------------------

  /** The meaning of a word beside it, while it has the focus or the pointer; a tap shows it, Escape hides it. */
  function startWords() {
    const tip = Object.assign(document.createElement("div"), { className: "tip-term", hidden: true });
    tip.setAttribute("aria-hidden", "true");  // links are described by the meanings themselves
    document.body.append(tip);
    const hide = () => { tip.hidden = true; };
    const show = (event) => {
      const word = event.target.closest?.("a.term");
      if (!word) { hide(); return; }
      tip.textContent = byId(word.hash.slice(1)).textContent;
      tip.hidden = false;
      const of = word.getBoundingClientRect(), own = tip.getBoundingClientRect(), room = root.clientWidth - own.width - 8;
      const below = of.bottom + 6 + own.height < innerHeight || of.top < own.height + 6;
      tip.style.left = `${Math.max(8, Math.min(of.left, room))}px`;
      tip.style.top = `${below ? of.bottom + 6 : of.top - own.height - 6}px`;
      if (event.type === "click") event.preventDefault();
    };
    for (const type of ["mouseover", "focusin", "click"]) document.addEventListener(type, show);
    document.addEventListener("focusout", hide);
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
    addEventListener("scroll", hide, { passive: true });
  }

  // --- contents -------------------------------------------------------------------------------------------------

  function startContents() {
    const nav = document.querySelector(".bar nav");
    const links = new Map([...nav.querySelectorAll("a")].map((a) => [a.hash.slice(1), a]));
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links.values()) link.removeAttribute("aria-current");
        const link = links.get(entry.target.id);
        link.setAttribute("aria-current", "true");
        const { left, right } = link.getBoundingClientRect(), room = nav.getBoundingClientRect();
        if (left < room.left || right > room.right) nav.scrollLeft += left - room.left;
      }
    }, { rootMargin: "-60px 0px -70% 0px" });
    for (const id of links.keys()) if (byId(id)) seen.observe(byId(id));
  }

  startTheme();
  startFigures();
  startSaving();
  startTables();
  startWords();
  startContents();
  const themedColour = (colour) => (isDark() ? recoloured(colour) : colour);
  return { unpacked, save, csv, isDark, themedColour, drawAll, ready: drawnNow };
})();
