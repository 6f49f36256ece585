// The replay: its controls, the clock that plays, and what stands in words beside the map.
(() => {
  const byId = (id) => document.getElementById(`replay-${id}`);
  if (!document.getElementById("replay")) return;
  const SPEEDS = [  // simulated seconds in a second
    0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 4 * 3600, 8 * 3600, 16 * 3600, 86400,
    2 * 86400, 4 * 86400, 8 * 86400, 16 * 86400, 32 * 86400,
  ];
  const WHOLE_S = 40;  // of real time that a whole run takes at first
  const FADED = 0.13;  // opacity of the UEs that are not singled out
  const SPOKEN_MS = 250, HEARD_MS = 120;

  const text = (tag, words, more = {}) => Object.assign(document.createElement(tag), { textContent: words, ...more });

  /** Takes away what is about data that this run does not have. */
  function prune(has) {
    for (const part of document.querySelectorAll("#map [data-needs]")) {
      const unless = (part.dataset.unless ?? "").split(" ");
      if (!has(part.dataset.needs) || unless.some(has)) part.remove();
      else part.removeAttribute("data-needs");
    }
    const estimates = document.querySelector("[data-layer=estimates]");
    if (estimates) estimates.checked = !has("named_round");
  }

  netsim.replay = replayData.load("replay-data").then((model) => {
    const { meta, n } = model;
    prune(model.has);
    const stage = byId("stage"), slider = byId("time");
    const canvases = ["ground", "known", "moving"].map((name) => byId(name));
    const contexts = canvases.map((canvas) => canvas.getContext("2d"));
    const boxes = [...document.querySelectorAll("#replay [data-layer]")];
    const state = {
      time_s: meta.end_s, round: model.roundAt(meta.end_s), playing: false, speed: 1, ue: -1,
      attack: model.bestAttack(), layers: {}, coverage: "", hindsight: 0,
    };
    state.seen = (ue) => (state.ue < 0 || state.ue === ue ? 1 : FADED);
    for (const box of boxes) state.layers[box.dataset.layer] = box.checked;
    const [ground, known, moving] = [replayGround, replayKnown, replayMoving].map((layer) => layer.painter(model));
    let theme = replayGround.colours(), stale = { ground: true, known: true, moving: true }, asked = false;
    const curve = replayCurve.drawer(model, byId("line"), seek), kinds = curve.kinds();
    const view = replayView.viewOf(model, stage, () => refresh("ground", "known", "moving"));

    const colourOf = (attack) => (attack < 0 ? theme.ue : netsim.themedColour(meta.attacks[attack].color));

    // --- painting -----------------------------------------------------------------------------------------------

    function refresh(...what) {
      for (const name of what) stale[name] = true;
      if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; paint(); }); }
    }

    function paint() {
      if (stale.ground) paintOn.ground(contexts[0]);
      if (stale.known) paintOn.known(contexts[1]);
      if (stale.moving) paintOn.moving(contexts[2]);
      stale = { ground: false, known: false, moving: false };
    }

    const paintOn = {
      ground: (context) => ground.paint(context, view, theme, state.layers, state.coverage),
      known: (context) => known.paint(context, view, theme, colourOf(state.attack), state),
      moving: (context) => {
        moving.paint(context, view, theme, netsim.isDark(), state);
        ground.ruler(context, view, theme);
      },
    };

    function saveSvg() {
      const recorder = new replaySvg.Recorder();
      for (const name of ["ground", "known", "moving"]) paintOn[name](recorder);
      netsim.save("map.svg", recorder.text(view.width, view.height), "image/svg+xml");
    }

    function resize() {
      const ratio = Math.min(devicePixelRatio || 1, 2), { clientWidth: width, clientHeight: height } = stage;
      canvases.forEach((canvas, k) => {
        Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
        contexts[k].setTransform(ratio, 0, 0, ratio, 0, 0);
      });
      view.resize(width, height);
      drawCurve();
    }

    function drawCurve() {
      curve.draw(kinds.get(byId("curve").value), state.attack, colourOf);
      curve.move(state.time_s);
    }

    // --- time ---------------------------------------------------------------------------------------------------

    let spoken = 0, heard = 0, later = 0;

    function seek(time_s) {
      state.time_s = Math.min(Math.max(time_s, 0), meta.end_s);
      const round = model.roundAt(state.time_s);
      refresh("moving", ...(round === state.round ? [] : ["known"]));
      state.round = round;
      slider.value = 1000 * state.time_s / meta.end_s;
      slider.setAttribute("aria-valuetext", model.date(state.time_s));
      curve.move(state.time_s);
      tell();
    }

    /** What time it is and what is known, in words, here and for all figures over time; not at every frame. */
    function tell() {
      const now = performance.now();
      clearTimeout(later);
      if (now - spoken >= SPOKEN_MS) speak(); else later = setTimeout(speak, SPOKEN_MS);
      if (now - heard < HEARD_MS && state.playing) return;
      heard = now;
      const detail = { time_s: state.time_s, date: model.stamp(state.time_s) };
      document.dispatchEvent(new CustomEvent("netsim:time", { detail }));
    }

    function speak() {
      const [date, ...parts] = replayWords.now(model, state);
      spoken = performance.now();
      byId("now").replaceChildren(text("b", date), parts.map((part) => ` \u00b7 ${part}`).join(""));
      canvases[0].setAttribute("aria-label", replayWords.picture(model, state, moving));
    }

    let frame = 0, before = 0;

    function tickOn(now) {
      const passed_s = Math.min(Math.max(now - before, 0), 100) / 1000;
      before = now;
      seek(state.time_s + passed_s * state.speed);
      if (state.time_s >= meta.end_s) pause(); else if (state.playing) frame = requestAnimationFrame(tickOn);
    }

    function play() {
      if (state.playing) return;
      if (state.time_s >= meta.end_s) seek(0);
      state.playing = true;
      showPlaying();
      before = performance.now();
      frame = requestAnimationFrame(tickOn);
    }

    function pause() {
      state.playing = false;
      cancelAnimationFrame(frame);
      showPlaying();
      seek(state.time_s);
    }

    function showPlaying() {
      byId("play").classList.toggle("playing", state.playing);
      byId("play").setAttribute("aria-label", state.playing ? "pause" : "play");
      byId("now").setAttribute("aria-live", state.playing ? "off" : "polite");
    }

    /** To the round before or after; of a run without rounds by a hundredth. */
    function step(by) {
      if (!model.rounds) { seek(state.time_s + by * meta.end_s / 100); return; }
      const round = model.roundAt(by < 0 ? state.time_s - 1e-9 * meta.end_s : state.time_s) + Math.max(by, 0);
      const to = by < 0 && model.told_s[round] >= state.time_s ? round - 1 : round;
      seek(to < 0 ? 0 : to >= model.rounds ? meta.end_s : model.told_s[to]);
    }

    // --- choices ------------------------------------------------------------------------------------------------

    function setSpeed(index) {
      const select = byId("speed");
      select.selectedIndex = Math.min(Math.max(index, 0), select.options.length - 1);
      state.speed = Number(select.value);
      refresh("moving");
    }

    function selectUe(ue) {
      state.ue = ue;
      byId("ue").value = String(ue);
      refresh("known", "moving");
      speak();
    }

    function setAttack(attack) {
      state.attack = attack;
      if (byId("attack")) byId("attack").value = String(attack);
      replayKeys.draw(model, state, theme, colourOf(attack));
      drawCurve();
      refresh("known");
      speak();
    }

    /** What an attack believed then, or in hindsight; of one without beliefs, of the first that has some. */
    function setHindsight(hindsight) {
      state.hindsight = hindsight;
      replayBelief.KINDS.forEach((name, k) => byId(name).setAttribute("aria-pressed", String(k === hindsight)));
      const believes = meta.attacks.findIndex((a, k) => replayBelief.knows(model, k));
      if (replayBelief.knows(model, state.attack)) { refresh("known"); speak(); } else setAttack(believes);
    }

    function setCoverage(layer) {
      state.coverage = layer;
      replayKeys.coverage(model, layer);
      refresh("ground");
    }

    function startChoices() {
      const speeds = SPEEDS.filter((s) => meta.end_s / s >= 2 && meta.end_s / s <= 86400);
      byId("speed").append(...speeds.map((s) => text("option", `${replayCurve.spanText(s)} per s`, { value: s })));
      byId("speed").addEventListener("change", (e) => setSpeed(e.target.selectedIndex));
      const usual = speeds.findIndex((s) => meta.end_s / s <= 1.3 * WHOLE_S);
      setSpeed(usual < 0 ? speeds.length - 1 : usual);
      byId("ue").append(text("option", n === 1 ? "the only one" : `all ${n.toLocaleString("en")}`, { value: -1 }),
        ...meta.ues.map((name, ue) => text("option", name, { value: ue })));
      byId("ue").addEventListener("change", (e) => selectUe(Number(e.target.value)));
      byId("attack")?.append(...meta.attacks.map(({ name }, k) => text("option", name, { value: k })));
      byId("attack")?.addEventListener("change", (e) => setAttack(Number(e.target.value)));
      replayBelief.KINDS.forEach((name, k) => byId(name)?.addEventListener("click", () => setHindsight(k)));
      byId("coverage")?.addEventListener("change", (e) => setCoverage(e.target.value));
      byId("curve").append(...[...kinds.values()].map(({ key, label, unit }) =>
        text("option", unit ? `${label}, ${unit}` : label, { value: key })));
      byId("curve").addEventListener("change", drawCurve);
      if (!kinds.size) byId("line").closest(".curve").hidden = true;
      for (const box of boxes) {
        box.addEventListener("change", () => {
          state.layers[box.dataset.layer] = box.checked;
          refresh("ground", "known", "moving");
        });
      }
      slider.addEventListener("input", () => seek(slider.value / 1000 * meta.end_s));
      byId("play").addEventListener("click", () => (state.playing ? pause() : play()));
      byId("back").addEventListener("click", () => step(-1));
      byId("next").addEventListener("click", () => step(1));
      if (!model.rounds) {
        byId("back").setAttribute("aria-label", "a hundredth back");
        byId("next").setAttribute("aria-label", "a hundredth on");
      }
      byId("in").addEventListener("click", () => view.zoomBy(1.6));
      byId("out").addEventListener("click", () => view.zoomBy(1 / 1.6));
      byId("fit").addEventListener("click", view.fit);
      byId("svg").addEventListener("click", saveSvg);
      byId("png").addEventListener("click", () => replaySaved.png(canvases));
      byId("csv").addEventListener("click", () => replaySaved.csv(model, state));
    }

    // --- keys and the pointer -----------------------------------------------------------------------------------

    const keys = {
      " ": () => (state.playing ? pause() : play()),
      ArrowLeft: (e) => (e.shiftKey ? seek(state.time_s - meta.end_s / 100) : step(-1)),
      ArrowRight: (e) => (e.shiftKey ? seek(state.time_s + meta.end_s / 100) : step(1)),
      Home: () => seek(0), End: () => seek(meta.end_s), 0: () => view.fit(),
      "+": () => view.zoomBy(1.6), "=": () => view.zoomBy(1.6), "-": () => view.zoomBy(1 / 1.6),
      "[": () => setSpeed(byId("speed").selectedIndex - 1), "]": () => setSpeed(byId("speed").selectedIndex + 1),
      Escape: () => selectUe(-1), b: () => { if (model.has("belief_round")) setHindsight(1 - state.hindsight); },
    };
    const under = (px, py) => replayWords.under(model, state, view, ground.sites, px, py);

    function hover(px, py) {
      const found = px === null ? null : under(px, py);
      byId("here").textContent = px === null ? "" : replayWords.here(model, state, view.atX(px), view.atY(py));
      replayPointer.tell(stage, byId("tip"), found, px, py);
    }

    function click(px, py) {
      const found = under(px, py);
      hover(px, py);
      selectUe(found && found.ue >= 0 && found.ue !== state.ue ? found.ue : -1);
    }

    /** Paints at once, since no frame comes before the paper, and as pixels, since browsers print few of many strokes. */
    function onPaper() {
      paint();
      const { width, height } = canvases[0], copy = Object.assign(document.createElement("canvas"), { width, height });
      const own = copy.getContext("2d", { willReadFrequently: true });
      canvases.forEach((canvas, k) => {
        own.clearRect(0, 0, width, height);
        own.drawImage(canvas, 0, 0);
        contexts[k].putImageData(own.getImageData(0, 0, width, height), 0, 0);
      });
    }

    /** Milliseconds that a frame takes, over so many frames from the first to the last moment, all drawn to the end. */
    function benchmark(frames) {
      const probe = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
      const reader = probe.getContext("2d", { willReadFrequently: true });
      const kept = state.time_s, start = performance.now();
      for (let k = 0; k < frames; k += 1) {
        seek(k / Math.max(frames - 1, 1) * meta.end_s);
        paint();
        for (const canvas of canvases) reader.drawImage(canvas, 0, 0);
        reader.getImageData(0, 0, 1, 1);
      }
      const each_ms = (performance.now() - start) / frames;
      seek(kept);
      return each_ms;
    }

    /** What is shown now, for tests and for whoever drives the page by a script. */
    function shown() {
      const at = {}, positions = [];
      for (let ue = 0; ue < n; ue += 1) {
        const there = model.has("track_time") && model.place(ue, state.time_s, at);
        positions.push(there ? [at.x, at.y, at.indoor] : null);
      }
      const { seen, layers, ...rest } = state;
      return {
        ...rest, layers: { ...layers }, end_s: meta.end_s, rounds: model.rounds, positions,
        view: { zoom: view.zoom, cx: view.cx, cy: view.cy, scale: view.scale },
        named: replayWords.count(model, state), curve: byId("curve").value, words: byId("now").textContent,
      };
    }

    startChoices();
    if (!model.rounds && model.has("coverage_rsrp_dbm")) setCoverage(byId("coverage").value = "rsrp_dbm"); // a radio study
    if (model.has("drive") && model.has("coverage_learnt_dbm")) setCoverage(byId("coverage").value = "learnt_dbm");
    setAttack(state.attack);
    replayPointer.listen(stage, view, click, hover);
    replayPointer.listenKeys(stage, keys);
    document.addEventListener("netsim:theme", () => {
      theme = replayGround.colours();
      replayKeys.draw(model, state, theme, colourOf(state.attack), moving);
      drawCurve();
      refresh("ground", "known", "moving");
    });
    addEventListener("beforeprint", onPaper);
    replayKeys.draw(model, state, theme, colourOf(state.attack), moving);
    new ResizeObserver(resize).observe(stage);
    new ResizeObserver(drawCurve).observe(byId("line"));
    resize();
    paint();
    seek(meta.end_s);
    return { state: shown, seek, play, pause, select: selectUe, attack: setAttack, benchmark, model };
  });
})();
