// The replay in words: what is known now, what is under the pointer, and what the picture shows.
const replayWords = (() => {
  const REACH = 14;  // pixels within which something is under the pointer
  const whole = (value) => Math.round(value).toLocaleString("en");
  const decimals = (value) => Number(value.toPrecision(3)).toLocaleString("en");
  const metres = (value) => (value < 1e-3 ? "0.000" : decimals(value));  // its digits are rounding errors
  const of = (k, all, what) => `${whole(k)} of ${whole(all)} ${what}`;

  /** How many homes, workplaces and places of most time of those drawn are named now. */
  function count(model, { attack, round }) {
    const found = Object.fromEntries(replayKnown.KINDS.map((kind) => [kind, 0]));
    for (let ue = 0; ue < model.n; ue += 1) {
      const knows = model.named(attack, ue, round);
      for (const kind of replayKnown.KINDS) found[kind] += knows?.[kind] && model.landmark(kind, ue) ? 1 : 0;
    }
    return found;
  }

  /** The date, then a part for each figure that is known. */
  function now(model, state) {
    const { time_s, round, attack, ue } = state;
    const line = [model.date(time_s)], at = {};
    const value = (key) => {
      const found = round < 0 ? null : model.curveOf(key, attack);
      return found && Number.isFinite(found.values[round]) ? [found.values[round], found] : null;
    };
    if (model.rounds) {
      const number = (k) => whole(model.number.at(k));
      line.push(round < 0 ? "before the first round is over" : `round ${number(round)} of ${number(-1)}`);
    }
    const named = [[value("home"), "homes"], [value("work"), "workplaces"], [value("densest"), "places of most time"]].filter(([found]) => found);
    if (named.length) {
      const by = model.meta.attacks.length > 1 ? ` by ${model.meta.attacks[attack].name}` : "";
      line.push(`${named.map(([[k, curve], word]) => of(k, curve.of, word)).join(" and ")} named${by}`);
    } else if (value("error")) line.push(`centroid error ${metres(value("error")[0])} m`);
    if (value("map")) line.push(`map ${decimals(value("map")[0])} dB`);
    if (value("accuracy")) line.push(`accuracy ${decimals(value("accuracy")[0])} %`);
    if (value("epsilon")) line.push(`epsilon ${decimals(value("epsilon")[0])}`);
    if (value("updates") && value("decoded")) {
      const [sent] = value("updates");
      line.push(of(value("decoded")[0] * sent / 100, sent, "updates decoded"));
    }
    if (!model.rounds && model.has("track_time")) {
      let there = 0;
      for (let k = 0; k < model.n; k += 1) there += model.place(k, time_s, at) ? 1 : 0;
      line.push(of(there, model.n, "UEs present"));
    }
    if (model.handovers.length) {
      const times = model.handovers, done = model.last(times, 0, times.length, time_s) + 1;
      line.push(`${whole(done)} handovers so far`);
    }
    line.push(...replayBelief.words(model, state));
    if (ue >= 0) line.push(`singled out: ${model.meta.ues[ue]}`);
    return line;
  }

  /** The picture for those who cannot see it. */
  function picture(model, state) {
    const { meta } = model, [west, south, east, north] = meta.area_m;
    const parts = [`Map of ${whole(east - west)} m by ${whole(north - south)} m with ${whole(model.n)} UEs`];
    if (meta.stations.length) parts.push(`${whole(meta.stations.length)} cells`);
    return `${parts.join(" and ")}. ${now(model, state).join("; ")}.`;
  }

  /** A place in metres, and what is received there; what was learnt of it while that is looked at. */
  function here(model, { coverage }, x, y) {
    const k = model.square(x, y), parts = [`${whole(x)} m east, ${whole(y)} m north`];
    const level = (layer) => model.level(layer, k);
    if (level("rsrp_dbm") !== null) parts.push(`RSRP ${level("rsrp_dbm").toFixed(1)} dBm`);
    if (level("sinr_db") !== null) parts.push(`SINR ${level("sinr_db").toFixed(1)} dB`);
    if (["learnt_dbm", "error_db"].includes(coverage) && level("learnt_dbm") !== null) {
      parts.push(`learnt at the end ${level("learnt_dbm").toFixed(1)} dBm`);
    }
    if (level("cell") !== null) parts.push(`cell ${model.meta.stations[level("cell")].name}`);
    return parts.join(" \u00b7 ");
  }

  /** What is nearest to a pixel, within reach: its UE (-1: of none) and words; null for nothing. */
  function under(model, state, view, sites, px, py) {
    const at = {};
    let best = null, least = REACH;
    const offer = (x, y, ue, words) => {
      const away = Math.hypot(view.x(x) - px, view.y(y) - py);
      if (away < least) { least = away; best = { ue, x, y, words }; }
    };
    const name = (ue) => model.meta.ues[ue];
    for (let ue = 0; ue < model.n; ue += 1) {
      if (model.has("track_time") && state.layers.ues && model.place(ue, state.time_s, at)) {
        offer(at.x, at.y, ue, `${name(ue)}${at.indoor ? ", indoors" : ""}`);
      }
      const knows = model.named(state.attack, ue, state.round);
      for (const [kind, word] of [["home", "home"], ["work", "workplace"], ["densest", "place of most time"]]) {
        const truth = model.landmark(kind, ue);
        const said = `${word} of ${name(ue)}: ${knows?.[kind] ? "" : "not "}named`;
        if (truth && state.layers[kind]) offer(truth.x, truth.y, ue, said);
      }
      if (state.layers.named) {
        knows?.places.forEach((p, k) => offer(p.x, p.y, ue, `named ${["first", "second"][k]} of ${name(ue)}`));
      }
    }
    if (state.layers.stations) {
      for (const site of sites.values()) {
        offer(site[0].x_m, site[0].y_m, -1, `base station ${site.map((s) => s.name).join(", ")}`);
      }
    }
    return best && { ue: best.ue, text: `${best.words}\n${here(model, state, best.x, best.y)}` };
  }

  return { now, picture, here, under, count };
})();
