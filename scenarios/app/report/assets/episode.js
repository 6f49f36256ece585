// An episode of a training, round by round: UEs on two maps, the agent's and the rule's, with what each round cost.
(() => {
  const STOPS = [[44, 62, 133], [38, 130, 142], [53, 183, 121], [253, 231, 37]];  // weak to strong
  const EVERY_MS = 700;
  const byId = (id) => document.getElementById(`episode-${id}`);
  const SVG = "http://www.w3.org/2000/svg";

  const share = (dbm, [low, high]) => (high > low ? Math.min(Math.max((dbm - low) / (high - low), 0), 1) : 1);

  function colour(part) {
    const at = part * (STOPS.length - 1), i = Math.min(Math.floor(at), STOPS.length - 2);
    return `rgb(${STOPS[i].map((v, k) => Math.round(v + (at - i) * (STOPS[i + 1][k] - v))).join(" ")})`;
  }

  function element(tag, name, attributes) {
    const made = document.createElementNS(SVG, tag);
    made.setAttribute("class", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  const dbm = (power_w) => 10 * Math.log10(Math.max(power_w, 1e-30)) + 30;
  const level = (power_w) => `${Math.round(dbm(power_w))} dBm`.replace("-", "\u2212");
  const figure = (value) => (Number.isNaN(value) ? "\u2013" : String(Number(value.toPrecision(3))));

  /** Buildings, base stations and the eavesdropper. Coordinates are metres east and south. */
  function world(model, policy) {
    const { scene, policies } = model.meta, [west, south, east, north] = scene.area_m;
    const unit = Math.max(east - west, north - south) / 100, margin = 3 * unit, map = byId(`map-${policy}`);
    const titled = (mark, words) => {
      mark.append(element("title", "", {}));
      mark.firstChild.textContent = words;
      return mark;
    };
    const walls = scene.buildings_m.filter((ring) => ring.length)
      .map((ring) => `M${ring.map(([x, y]) => `${x.toFixed(1)} ${(-y).toFixed(1)}`).join("L")}Z`).join("");
    const stations = scene.stations.map(({ name, at_m: [x, y] }) => titled(element("path", "station", {
      d: `M${x} ${-y - 2 * unit}l${1.8 * unit} ${3.2 * unit}h${-3.6 * unit}Z` }), `base station ${name.slice(0, 100)}`));
    const listener = scene.eavesdropper_m ? [titled(element("path", "listener", {
      d: `M${scene.eavesdropper_m[0]} ${-scene.eavesdropper_m[1] - 2 * unit}l${2 * unit} ${2 * unit} ${-2 * unit} ${2 * unit}`
        + `${-2 * unit} ${-2 * unit}Z` }), "eavesdropper")] : [];
    map.setAttribute("viewBox", [west - margin, -north - margin, east - west + 2 * margin, north - south + 2 * margin].join(" "));
    map.setAttribute("aria-label", `Map of the UEs, ${policies[policy]}`);
    map.append(element("rect", "area", { x: west, y: -north, width: east - west, height: north - south }),
      element("path", "walls", { "fill-rule": "evenodd", d: walls }), ...stations, ...listener,
      Object.assign(element("g", "", {}), { id: `episode-ues-${policy}` }));
    byId(`name-${policy}`).textContent = policies[policy];
    return unit;
  }

  /** The marks of a row: a line to its base station, a circle, a cross if its update was lost. */
  function marks({ scene }, row, unit) {
    const [x, y] = [row.x_m, -row.y_m], power = row.power_w;
    if (Number.isNaN(x + y)) return [];  // a row has no NaN: what is not known is missing
    const [low, high] = scene.limits_w.map(dbm), sent = power !== undefined, lost = sent && row.arrived !== 1;
    const part = sent ? share(dbm(power), [low, high]) : 0;
    const station = scene.stations.find(({ name }) => name === row.base_station);
    const r = unit * (0.9 + 1.5 * part), made = [];
    if (sent && station) made.push(element("line", "link", { x1: x, y1: y, x2: station.at_m[0], y2: -station.at_m[1] }));
    const circle = element("circle", sent ? "ue" : "ue silent", { cx: x, cy: y, r });
    if (sent) circle.style.fill = colour(part);
    circle.append(element("title", "", {}));
    const to = station ? ` to ${station.name.slice(0, 100)}` : "", own = `own part of the cost ${figure(row.cost ?? 0)}`;
    circle.firstChild.textContent = sent
      ? `UE ${row.ue}${to}: ${dbm(power).toFixed(1)} dBm, ${lost ? "lost" : "arrived"}, ${own}`
      : `UE ${row.ue}: sent nothing`;
    made.push(circle);
    if (lost) {
      const d = 1.3 * r;
      made.push(element("path", "lost", { d: `M${x - d} ${y - d}l${2 * d} ${2 * d}M${x - d} ${y + d}l${2 * d} ${-2 * d}` }));
    }
    return made;
  }

  function draw(model, round) {
    const { meta } = model, costs = [], weights = Object.entries(meta.scene.weights).filter(([, w]) => w);
    meta.policies.forEach((name, policy) => {
      const of = meta.rounds[policy][round], cost = figure(of.cost);
      const ues = meta.ues[policy][round].flatMap((row) => marks(meta, row, model.units[policy]));
      byId(`ues-${policy}`).replaceChildren(...ues);
      const terms = weights.map(([key, weight]) => `${meta.terms[key]} ${figure(weight * of[key])}`);
      byId(`terms-${policy}`).textContent =
        `cost ${cost} = ${terms.join(" + ")}; ${of.arrived} of ${of.sent} arrived`;
      costs.push(`${name} ${cost}`);
    });
    byId("now").textContent = `Round ${meta.numbers[round]}: cost ${costs.join(", ")}`;
  }

  function control(model) {
    const slider = byId("round"), play = byId("play"), last = model.meta.numbers.length - 1;
    let timer = 0;
    const show = (round) => {
      slider.value = String(Math.min(Math.max(round, 0), last));
      slider.setAttribute("aria-valuetext", `round ${model.meta.numbers[Number(slider.value)]}`);
      draw(model, Number(slider.value));
    };
    const playing = (on) => {
      clearInterval(timer);
      play.setAttribute("aria-pressed", String(on));
      play.setAttribute("aria-label", on ? "pause" : "play");
      if (!on) return;
      if (Number(slider.value) === last) show(0);
      timer = setInterval(() => {
        if (Number(slider.value) === last) playing(false);
        else show(Number(slider.value) + 1);
      }, EVERY_MS);
    };
    const toggle = () => playing(play.getAttribute("aria-pressed") !== "true");
    const by = (step) => () => { playing(false); show(Number(slider.value) + step); };
    const KEYS = {
      ArrowLeft: by(-1), ArrowDown: by(-1), ArrowRight: by(1), ArrowUp: by(1), Home: by(-last), End: by(last),
      " ": toggle,
    };
    byId("back").addEventListener("click", by(-1));
    byId("on").addEventListener("click", by(1));
    play.addEventListener("click", toggle);
    slider.addEventListener("input", () => { playing(false); show(Number(slider.value)); });
    byId("stage").addEventListener("keydown", (event) => {
      const act = KEYS[event.key];
      if (!act || event.target.tagName === "BUTTON" || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    show(0);
  }

  netsim.unpacked("episode-data").then(({ meta }) => {
    const model = { meta };
    byId("scale").style.background = `linear-gradient(90deg, ${STOPS.map((c) => `rgb(${c.join(" ")})`).join(", ")})`;
    byId("stage").hidden = false;
    byId("round").max = model.meta.numbers.length - 1;
    [byId("low").textContent, byId("high").textContent] = model.meta.scene.limits_w.map(level);
    model.units = model.meta.policies.map((_, policy) => world(model, policy));
    control(model);
  });
})();
