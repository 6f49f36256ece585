// What an attack believes of where UEs were in a round, cell by cell, beside its answer and the truth.
const replayBelief = (() => {
  const KINDS = ["filter", "smoother"];
  const LEAST = 0.002;  // probability of a cell that has the first colour; 1 has the last

  /** Colour of a probability, by its logarithm: dark is likely on a light page, and bright on a dark one. */
  function colourOf(probability, dark) {
    const share = Math.min(Math.max(Math.log(probability / LEAST) / -Math.log(LEAST), 0), 1);
    return [replayGround.mixed(replayGround.PLASMA, dark ? 0.15 + 0.85 * share : 0.95 * (1 - share)), share];
  }

  /** Whether an attack has any beliefs. */
  const knows = (model, attack) => Boolean(model.meta.belief.rasters?.[attack]);

  /** The latest frame of a UE up to a round: its cells and the places beside them, or null. */
  function frame(model, { attack, round, hindsight }, ue) {
    const { meta, n, beliefs } = model;
    if (attack < 0 || round < 0 || !knows(model, attack)) return null;
    const owner = 2 * (attack * n + ue) + hindsight, from = beliefs.belief_ptr[owner];
    const i = model.last(beliefs.belief_round, from, beliefs.belief_ptr[owner + 1], round);
    if (i < from) return null;
    const raster = meta.belief.rasters[attack];
    const cells = [];
    for (let k = beliefs.belief_cell_ptr[i]; k < beliefs.belief_cell_ptr[i + 1]; k += 1) {
      cells.push({ x: beliefs.belief_x[k], y: beliefs.belief_y[k], probability: beliefs.belief_probability[k] });
    }
    return { cells, ...raster, ...beliefs.beside[i], round: beliefs.belief_round[i] };
  }

  /** Calls see(ue, frame) for the UE that is singled out, or for all. */
  function each(model, now, see) {
    for (let ue = 0; ue < model.n; ue += 1) {
      const found = now.ue < 0 || now.ue === ue ? frame(model, now, ue) : null;
      if (found) see(ue, found);
    }
  }

  const away = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);

  function heat(context, view, { cells, wide_m: wide, high_m: high }, dark) {
    for (const { x, y, probability } of cells) {
      const [colour, share] = colourOf(probability, dark);
      context.globalAlpha = 0.35 + 0.5 * share;
      context.fillStyle = `rgb(${colour.join(" ")})`;
      const west = Math.round(view.x(x - wide / 2)), north = Math.round(view.y(y + high / 2));  // without seams
      context.fillRect(west, north, Math.max(Math.round(view.x(x + wide / 2)) - west, 1),
        Math.max(Math.round(view.y(y - high / 2)) - north, 1));
    }
  }

  function circle(context, view, at, r, fill, stroke, width) {
    context.beginPath();
    context.arc(view.x(at.x), view.y(at.y), r, 0, 2 * Math.PI);
    Object.assign(context, { fillStyle: fill, strokeStyle: stroke, lineWidth: width });
    if (fill) context.fill();
    context.stroke();
  }

  function square(context, x, y, r, theme) {
    context.beginPath();
    context.rect(x - r, y - r, 2 * r, 2 * r);
    Object.assign(context, { fillStyle: theme.lost, strokeStyle: theme.halo, lineWidth: 1.5 });
    context.fill();
    context.stroke();
  }

  function marks(context, view, { answer, disc, truth, plain }, colour, theme, hit_radius_m) {
    const r = Math.min(5 * Math.sqrt(view.zoom), 8);
    context.globalAlpha = 1;
    if (disc) {
      context.setLineDash([6, 4]);
      circle(context, view, disc, Math.max(hit_radius_m * view.scale, 3), "", theme.halo, 4);
      circle(context, view, disc, Math.max(hit_radius_m * view.scale, 3), "", colour, 2);
      context.setLineDash([]);
    }
    for (const from of [plain, answer]) {
      if (!from || !truth) continue;
      context.beginPath();
      context.moveTo(view.x(from.x), view.y(from.y));
      context.lineTo(view.x(truth.x), view.y(truth.y));
      Object.assign(context, { strokeStyle: theme.ue, lineWidth: 1 });
      context.stroke();
    }
    if (plain) square(context, view.x(plain.x), view.y(plain.y), 0.8 * r, theme);
    if (answer) circle(context, view, answer, r, colour, theme.halo, 1.5);
    if (truth) {
      circle(context, view, truth, r + 1, "", theme.halo, 4);
      circle(context, view, truth, r + 1, "", theme.ue, 2);
    }
  }

  /** now: attack, round, ue (-1: all), hindsight. */
  function paint(model, context, view, theme, colour, now) {
    const frames = [];
    each(model, now, (ue, found) => frames.push(found));
    for (const one of frames) heat(context, view, one, netsim.isDark());
    for (const one of frames) marks(context, view, one, colour, theme, model.meta.hit_radius_m);
    context.globalAlpha = 1;
  }

  /** What is believed, in words; nothing where no belief is recorded. */
  function words(model, now) {
    if (!model.has("belief_round") || now.round < 0) return [];
    const found = [], hit_radius_m = model.meta.hit_radius_m;
    each(model, now, (ue, one) => found.push(one));
    const name = `belief (${KINDS[now.hindsight]})`, whole = (value) => Math.round(value).toLocaleString("en");
    if (!found.length) return now.ue < 0 ? [] : [`no belief recorded of ${model.meta.ues[now.ue]}`];
    if (now.ue < 0) {
      const right = found.filter(({ disc, truth }) => disc && truth && away(disc, truth) <= hit_radius_m).length;
      return [`${name}: ${whole(right)} of ${whole(found.length)} UEs within ${hit_radius_m} m of the likeliest place`];
    }
    const [{ answer, truth, probability, area90_m2: area, round }] = found, parts = [];
    if (Number.isFinite(probability)) parts.push(`${whole(100 * probability)} % within ${hit_radius_m} m`);
    if (Number.isFinite(area)) parts.push(`90 % in ${Number((area / 1e6).toPrecision(2))} km\u00b2`);
    if (answer && truth) parts.push(`truth ${whole(away(answer, truth))} m from the answer`);
    if (round !== now.round) parts.push(`as of round ${whole(model.number[round])}`);
    return [`${name}: ${parts.join(", ")}`];
  }

  /** Samples of the colours, and what the lowest of them stands for. */
  const scale = () => ({
    colours: [0, 0.25, 0.5, 0.75, 1].map((share) =>
      `rgb(${colourOf(LEAST ** (1 - share), netsim.isDark())[0].join(" ")})`),
    least: `\u2264 ${100 * LEAST} %`,
  });

  return { KINDS, paint, words, scale, frame, knows };
})();
