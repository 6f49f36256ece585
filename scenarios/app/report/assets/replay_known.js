// What is true and what the attacker knows: homes, workplaces, places of most time, named places and estimates; it changes with each round.
const replayKnown = (() => {
  const KINDS = ["home", "work", "densest"];  // also the names of their layers; the last of a UE without a home
  const PAST = 5;  // rounds for which an estimate fades

  /** A house, a case that is carried to work, or the pin of a place of most time, about (x, y). */
  function landmark(context, kind, x, y, r) {
    context.beginPath();
    if (kind === "home") {
      context.moveTo(x, y - 1.15 * r);
      context.lineTo(x + 1.1 * r, y - 0.1 * r);
      context.lineTo(x + 0.78 * r, y - 0.1 * r);
      context.lineTo(x + 0.78 * r, y + 0.9 * r);
      context.lineTo(x - 0.78 * r, y + 0.9 * r);
      context.lineTo(x - 0.78 * r, y - 0.1 * r);
      context.lineTo(x - 1.1 * r, y - 0.1 * r);
      context.closePath();
    } else if (kind === "densest") {
      context.arc(x, y - 0.2 * r, 0.85 * r, 0.8 * Math.PI, 0.2 * Math.PI);
      context.lineTo(x, y + 1.25 * r);
      context.closePath();
    } else {
      context.rect(x - r, y - 0.45 * r, 2 * r, 1.3 * r);
      context.moveTo(x - 0.42 * r, y - 0.45 * r);
      context.lineTo(x - 0.42 * r, y - 0.9 * r);
      context.lineTo(x + 0.42 * r, y - 0.9 * r);
      context.lineTo(x + 0.42 * r, y - 0.45 * r);
    }
  }

  function diamond(context, x, y, r) {
    context.beginPath();
    context.moveTo(x, y - r);
    context.lineTo(x + r, y);
    context.lineTo(x, y + r);
    context.lineTo(x - r, y);
    context.closePath();
  }

  /** A mark drawn once, to be put at many places: put(context, x, y). */
  function stamp(r, drawIt) {
    const ratio = Math.min(devicePixelRatio || 1, 2), half = Math.ceil(1.3 * r + 3);
    const width = 2 * half * ratio, canvas = Object.assign(document.createElement("canvas"), { width, height: width });
    const own = canvas.getContext("2d");
    own.scale(ratio, ratio);
    own.translate(half, half);
    drawIt(own);
    return (context, x, y) => {
      if (!context.isVector) { context.drawImage(canvas, x - half, y - half, 2 * half, 2 * half); return; }
      context.save();
      context.translate(x, y);
      drawIt(context);
      context.restore();
    };
  }

  const nearest = (places, to) => places.reduce((best, one) =>
    Math.hypot(one.x - to.x, one.y - to.y) < Math.hypot(best.x - to.x, best.y - to.y) ? one : best);

  /** Pixels of a mark: smaller for many UEs and on a small map, larger when zoomed in. */
  const sizeOf = (n, { zoom, width }) =>
    (n > 400 ? 3.6 : n > 120 ? 5 : 7.5) * (width < 480 ? 0.75 : 1) * Math.min(Math.sqrt(zoom), 1.6);

  function painter(model) {
    const { n, has } = model, kinds = KINDS.filter((kind) => has(`${kind}_x`));

    /** Calls see(ue, kind, landmark, found, knowledge) for each home, workplace and place of most time. */
    function truths(attack, round, see) {
      for (let ue = 0; ue < n; ue += 1) {
        const knows = model.named(attack, ue, round);
        for (const kind of kinds) {
          const at = model.landmark(kind, ue);
          if (at) see(ue, kind, at, knows?.[kind] ?? false, knows);
        }
      }
    }

    function line(context, view, from, to) {
      context.beginPath();
      context.moveTo(view.x(from.x), view.y(from.y));
      context.lineTo(view.x(to.x), view.y(to.y));
      context.stroke();
    }

    function lines(context, view, now, colour) {
      context.strokeStyle = colour;
      truths(now.attack, now.round, (ue, kind, at, found, knows) => {
        if (!now.layers[kind] || !knows || !knows.places.length) return;
        context.globalAlpha = now.seen(ue) * (found ? 0.95 : 0.55);
        context.lineWidth = found ? 3 : 1;
        context.setLineDash(found ? [] : [2, 4]);
        line(context, view, at, nearest(knows.places, at));
      });
      context.setLineDash([]);
    }

    function named(context, view, now, colour, theme, r) {
      const stamps = [true, false].map((first) => stamp(r, (own) => {
        diamond(own, 0, 0, (first ? 0.8 : 0.68) * r);
        own.fillStyle = first ? colour : theme.found;
        own.strokeStyle = first ? theme.halo : colour;
        own.lineWidth = first ? 1 : 1.6;
        own.fill();
        own.stroke();
      }));
      for (let ue = 0; ue < n; ue += 1) {
        const knows = model.named(now.attack, ue, now.round);
        if (!knows) continue;
        context.globalAlpha = now.seen(ue);
        for (let k = knows.places.length - 1; k >= 0; k -= 1) {
          stamps[k](context, view.x(knows.places[k].x), view.y(knows.places[k].y));
        }
      }
    }

    function landmarks(context, view, now, colour, theme, r) {
      const stamped = (kind, found) => stamp(r, (own) => {
        landmark(own, kind, 0, 0, r);
        own.lineJoin = "round";
        own.strokeStyle = theme.halo;
        own.lineWidth = 3.5;
        own.stroke();
        own.fillStyle = found ? colour : theme.found;
        own.fill();
        own.strokeStyle = theme.ue;
        own.lineWidth = 1.4;
        own.stroke();
      });
      const stamps = new Map(kinds.flatMap((kind) =>
        [true, false].map((found) => [`${kind} ${found}`, stamped(kind, found)])));
      truths(now.attack, now.round, (ue, kind, at, found) => {
        if (!now.layers[kind]) return;
        context.globalAlpha = now.seen(ue);
        stamps.get(`${kind} ${Boolean(found && now.layers.named)}`)(context, view.x(at.x), view.y(at.y));
      });
    }

    function estimates(context, view, now, colour, theme, r) {
      for (let ue = 0; ue < n; ue += 1) {
        model.estimates(now.attack, ue, now.round - PAST, now.round, (at, truth, round) => {
          const age = now.round - round, x = view.x(at.x), y = view.y(at.y);
          context.globalAlpha = now.seen(ue) * 0.8 * (1 - age / (PAST + 1)) ** 1.6;
          context.strokeStyle = context.fillStyle = colour;
          if (age === 0 && truth) {
            context.lineWidth = 1;
            line(context, view, at, truth);
            context.beginPath();
            context.arc(view.x(truth.x), view.y(truth.y), 0.45 * r, 0, 2 * Math.PI);
            context.strokeStyle = theme.ue;
            context.lineWidth = 1.2;
            context.stroke();
          }
          context.beginPath();
          context.arc(x, y, 0.42 * r, 0, 2 * Math.PI);
          context.fill();
        });
      }
    }

    /** now: attack, round, layers, and seen(ue), the opacity of a UE. */
    function paint(context, view, theme, colour, now) {
      context.clearRect(0, 0, view.width, view.height);
      const r = sizeOf(n, view);
      if (now.layers.belief) replayBelief.paint(model, context, view, theme, colour, now);
      if (now.round >= 0 && now.layers.estimates) estimates(context, view, now, colour, theme, r);
      if (now.round >= 0 && now.layers.named) lines(context, view, now, colour);
      landmarks(context, view, now, colour, theme, r);
      if (now.round >= 0 && now.layers.named) named(context, view, now, colour, theme, r);
      context.globalAlpha = 1;
    }

    return { paint, truths };
  }

  return { KINDS, painter, landmark, diamond, stamp, sizeOf };
})();
