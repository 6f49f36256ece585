// The curve below the map: what is known after each round, with a cursor at the time that the map shows.
const replayCurve = (() => {
  const STEPS_S = [
    1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400,
    28 * 86400, 91 * 86400, 365 * 86400,
  ];
  const LEFT = 44, RIGHT = 12, BOTTOM = 24, BARE = 10, NAMED = 28;  // pixels; above the axes without and with names
  const BARS = 120;  // of handovers

  const make = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  /** Round values from 0 to at least `most`, or from low to high. */
  function ticksOf(low, high) {
    const rough = (high - low) / 3 || 1, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((s) => s >= rough * 0.999);
    const ticks = [];
    const last = Math.ceil(high / step - 1e-9);
    for (let k = Math.floor(low / step); k <= last; k += 1) ticks.push(Number((k * step).toPrecision(12)));
    return ticks;
  }

  function drawer(model, svg, seek) {
    const { meta } = model;
    let cursor = null, width = 0, height = 0, xOf = () => 0;

    /** The kinds of curve that there are: key, words, and their curves. */
    function kinds() {
      const found = new Map();
      for (const curve of model.curves) {
        if (!found.has(curve.key)) found.set(curve.key, { ...curve, members: [] });
        found.get(curve.key).members.push(curve);
      }
      for (const hidden of ["constant", "updates"]) found.delete(hidden);
      if (model.handovers.length) {
        const each_s = meta.end_s / BARS, count = new Float64Array(BARS);
        for (const time of model.handovers) count[Math.min(Math.floor(time / each_s), BARS - 1)] += 1;
        const label = `handovers in ${spanText(each_s)}`;
        found.set("handovers", { key: "handovers", label, unit: "", bars: count, members: [] });
      }
      return found;
    }

    /** Steps of values after each round, as the points of a line. */
    function pointsOf(values, yOf) {
      const points = [];
      let before = null;
      values.forEach((value, r) => {
        if (!Number.isFinite(value)) return;
        const x = xOf(model.told_s[r]);
        if (before !== null) points.push(`${x.toFixed(1)},${before}`);
        before = yOf(value).toFixed(1);
        points.push(`${x.toFixed(1)},${before}`);
      });
      if (before !== null) points.push(`${xOf(meta.end_s).toFixed(1)},${before}`);
      return points.join(" ");
    }

    /** Which attack each colour is, in one line. */
    function names(members, attack, colourOf) {
      let x = LEFT;
      for (const { attack: own } of members) {
        const thick = own === attack ? 3 : 1.5;
        svg.append(make("line", { x1: x, x2: x + 16, y1: 10, y2: 10, stroke: colourOf(own), "stroke-width": thick }));
        const label = make("text", { x: x + 20, y: 14 }, meta.attacks[own].name);
        svg.append(label);
        x += 36 + label.getComputedTextLength();
        if (x > width) label.remove();
      }
    }

    function draw(kind, attack, colourOf) {
      svg.replaceChildren();
      const several = (kind?.members ?? []).filter((m) => m.attack !== null);
      const TOP = several.length > 1 ? NAMED : BARE;
      width = svg.clientWidth;
      height = svg.clientHeight;
      if (several.length > 1) names(several, attack, colourOf);
      xOf = (time_s) => LEFT + time_s / meta.end_s * (width - LEFT - RIGHT);
      const soft = "var(--soft)", grid = "var(--line)";
      const constant = kind?.key === "map" ? model.curveOf("constant")?.values : null;
      const every = [...(kind?.members ?? []).map((m) => m.values), constant ?? [], kind?.bars ?? []];
      const finite = every.flatMap((values) => [...values]).filter(Number.isFinite);
      const most = kind?.members[0]?.of ?? (kind?.unit === "%" ? 100 : Math.max(...finite, 0));
      const ticks = ticksOf(0, most || 1), top = kind?.members[0]?.of ?? ticks[ticks.length - 1];
      const yOf = (value) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
      for (const value of ticks.filter((v) => v <= top)) {
        svg.append(make("line", { x1: LEFT, x2: width - RIGHT, y1: yOf(value), y2: yOf(value), stroke: grid }));
        svg.append(make("text", { x: LEFT - 6, y: yOf(value) + 4, "text-anchor": "end" }, value.toLocaleString("en")));
      }
      const step_s = STEPS_S.find((s) => meta.end_s / s * (s < 60 ? 100 : 70) < width) ?? STEPS_S.at(-1);
      for (let t = 0; t <= meta.end_s * 1.0001; t += step_s) {
        const x = xOf(t), foot = height - BOTTOM;
        svg.append(make("line", { x1: x, x2: x, y1: foot, y2: foot + 4, stroke: soft }));
        const anchor = t === 0 ? "start" : xOf(t) > width - 30 ? "end" : "middle";
        svg.append(make("text", { x: xOf(t), y: height - 6, "text-anchor": anchor }, model.tick(t, step_s)));
      }
      kind?.bars?.forEach((value, k) => {
        const wide = (width - LEFT - RIGHT) / kind.bars.length;
        svg.append(make("rect", { x: LEFT + k * wide, y: yOf(value), width: Math.max(wide - 1, 0.5),
          height: height - BOTTOM - yOf(value), fill: "var(--accent)" }));
      });
      const line = (values, more) =>
        svg.append(make("polyline", { points: pointsOf(values, yOf), fill: "none", ...more }));
      if (constant) line(constant, { stroke: soft, "stroke-width": 1.5, "stroke-dasharray": "2 4" });
      const ordered = [...(kind?.members ?? [])].sort((a, b) => (a.attack === attack) - (b.attack === attack));
      for (const { attack: own, values } of ordered) {
        const main = own === null || own === attack;
        line(values, { stroke: own === null ? "var(--ink)" : colourOf(own), "stroke-width": main ? 2.5 : 1.2,
          opacity: main ? 1 : 0.6 });
      }
      cursor = make("line", { y1: TOP - 6, y2: height - BOTTOM, stroke: "var(--warn)", "stroke-width": 2 });
      svg.append(cursor);
      svg.setAttribute("aria-label", kind ? `${kind.label} over simulated time; click to go there` : "simulated time");
    }

    function move(time_s) {
      cursor?.setAttribute("x1", xOf(time_s));
      cursor?.setAttribute("x2", xOf(time_s));
    }

    const timeAt = (event) => {
      const box = svg.getBoundingClientRect(), share = (event.clientX - box.left - LEFT) / (width - LEFT - RIGHT);
      return Math.min(Math.max(share, 0), 1) * meta.end_s;
    };
    svg.addEventListener("pointerdown", (event) => {
      svg.setPointerCapture(event.pointerId);
      seek(timeAt(event));
    });
    svg.addEventListener("pointermove", (event) => {
      if (svg.hasPointerCapture(event.pointerId)) seek(timeAt(event));
    });

    return { kinds, draw, move };
  }

  /** A length of time in the largest unit that suits. */
  function spanText(seconds) {
    const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([s]) => seconds >= s) ?? [1, "s"];
    return `${Number((seconds / size).toPrecision(2))} ${unit}`;
  }

  return { drawer, spanText };
})();
