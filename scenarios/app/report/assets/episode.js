// An episode of a training, round by round: UEs on two maps, the agent's and the rule's, with what each round cost.
(() => {
  const STOPS = [[44, 62, 133], [38, 130, 142], [53, 183, 121], [253, 231, 37]];  // weak to strong
  const [SILENT, LOST] = [1, 2];  // 0: away, 3: arrived
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

  /** The marks of one UE: a line to its base station, a circle, a cross if its update was lost. */
  function marks(model, policy, round, k, unit) {
    const { meta, arrays } = model, at = (policy * meta.rounds.length + round) * meta.ues.length + k;
    const fate = arrays.fate[at];
    if (fate === 0) return [];
    const [x, y] = [arrays.at[2 * at], arrays.at[2 * at + 1]], dbm = arrays.power[at];
    const part = share(dbm, meta.range_dbm), sent = fate !== SILENT, served = arrays.station[at];
    const r = unit * (sent ? 0.9 + 1.5 * part : 0.9), made = [];
    if (sent && served >= 0) {
      const [x2, y2] = meta.station_m[served];
      made.push(element("line", "link", { x1: x, y1: y, x2, y2 }));
    }
    const circle = element("circle", sent ? "ue" : "ue silent", { cx: x, cy: y, r });
    if (sent) circle.style.fill = colour(part);
    circle.append(element("title", "", {}));
    const to = served >= 0 ? ` to ${meta.station_names[served]}` : "";
    const own = `own part of the cost ${arrays.own[at].toPrecision(3)}`;
    circle.firstChild.textContent = sent
      ? `UE ${meta.ues[k]}${to}: ${dbm.toFixed(1)} dBm, ${fate === LOST ? "lost" : "arrived"}, ${own}`
      : `UE ${meta.ues[k]}: sent nothing`;
    made.push(circle);
    if (fate === LOST) {
      const d = 1.3 * r;
      made.push(element("path", "lost", { d: `M${x - d} ${y - d}l${2 * d} ${2 * d}M${x - d} ${y + d}l${2 * d} ${-2 * d}` }));
    }
    return made;
  }

  function draw(model, round) {
    const { meta } = model;
    meta.policies.forEach((name, policy) => {
      const group = byId(`ues-${policy}`), unit = Number(group.dataset.unit);
      group.replaceChildren(...meta.ues.flatMap((_, k) => marks(model, policy, round, k, unit)));
      const [arrived, sent] = meta.arrived[policy][round];
      byId(`terms-${policy}`).textContent =
        `cost ${meta.costs[policy][round]} = ${meta.terms[policy][round].join(" + ")}; ${arrived} of ${sent} arrived`;
    });
    const costs = meta.policies.map((name, policy) => `${name} ${meta.costs[policy][round]}`);
    byId("now").textContent = `Round ${meta.rounds[round]}: cost ${costs.join(", ")}`;
  }

  function control(model) {
    const slider = byId("round"), play = byId("play"), last = model.meta.rounds.length - 1;
    let timer = 0;
    const show = (round) => {
      slider.value = String(Math.min(Math.max(round, 0), last));
      slider.setAttribute("aria-valuetext", `round ${model.meta.rounds[Number(slider.value)]}`);
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

  netsim.unpacked("episode-data").then((model) => {
    byId("scale").style.background = `linear-gradient(90deg, ${STOPS.map((c) => `rgb(${c.join(" ")})`).join(", ")})`;
    byId("stage").hidden = false;
    control(model);
  });
})();
