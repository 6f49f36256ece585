// What the marks and colours of the replay mean: a sample beside each switch, and scales with units.
const replayKeys = (() => {
  const WIDE = 22, HIGH = 18;

  const SAMPLES = {
    ues(c, theme) {
      for (const [x, fill] of [[6, theme.ue], [16, theme.halo]]) {
        c.beginPath();
        c.arc(x, 9, 3.6, 0, 2 * Math.PI);
        Object.assign(c, { fillStyle: fill, strokeStyle: theme.ue, lineWidth: 1.5 });
        c.fill();
        c.stroke();
      }
    },
    trails(c, theme) {
      c.strokeStyle = theme.ue;
      for (const [x, alpha] of [[2, 0.15], [7, 0.3], [12, 0.5], [17, 0.7]]) stroke(c, [[x, 9], [x + 4, 9]], 1.8, alpha);
    },
    serving(c, theme) { c.strokeStyle = theme.station; stroke(c, [[2, 13], [20, 5]], 1.2, 0.7); },
    links(c, theme, colour, sinr) {
      [[0, 4], [1, 9], [2, 14]].forEach(([k, y]) => {
        c.strokeStyle = sinr(k / 2);
        c.setLineDash(k === 0 ? [3, 3] : []);
        stroke(c, [[2, y], [20, y]], 2, 1);
      });
      c.setLineDash([]);
    },
    drive(c, theme) {
      [0.15, 0.5, 0.85].forEach((share, k) => {
        c.beginPath();
        c.arc(5 + 6 * k, 11 - 2 * k, 2.6, 0, 2 * Math.PI);
        c.fillStyle = `rgb(${replayGround.mixed(replayGround.VIRIDIS, share).join(" ")})`;
        c.fill();
      });
    },
    home(c, theme, colour) { marks(c, theme, colour, "home"); },
    work(c, theme, colour) { marks(c, theme, colour, "work"); },
    densest(c, theme, colour) { marks(c, theme, colour, "densest"); },
    named(c, theme, colour) {
      replayKnown.diamond(c, 6, 9, 5);
      c.fillStyle = colour;
      c.fill();
      replayKnown.diamond(c, 16, 9, 4.4);
      Object.assign(c, { strokeStyle: colour, lineWidth: 1.5 });
      c.stroke();
    },
    estimates(c, theme, colour) {
      c.strokeStyle = c.fillStyle = colour;
      stroke(c, [[5, 12], [17, 6]], 1, 1);
      c.beginPath();
      c.arc(17, 6, 3, 0, 2 * Math.PI);
      c.fill();
      c.beginPath();
      c.arc(5, 12, 3, 0, 2 * Math.PI);
      c.strokeStyle = theme.ue;
      c.stroke();
    },
    belief(c, theme, colour) {
      replayBelief.scale().colours.forEach((shade, k) => {
        c.fillStyle = shade;
        c.fillRect(1 + 4 * k, 4, 4, 11);
      });
      c.strokeStyle = colour;
      stroke(c, [[1, 16], [21, 16]], 1.5, 1);
    },
    stations(c, theme) {
      c.fillStyle = theme.station;
      c.globalAlpha = 0.35;
      c.beginPath();
      c.moveTo(9, 10);
      c.arc(9, 10, 11, -0.9, 0.25);
      c.fill();
      c.globalAlpha = 1;
      c.beginPath();
      for (const [x, y] of [[9, 4], [15, 15], [3, 15]]) c.lineTo(x, y);
      c.fill();
    },
    buildings(c, theme) {
      [theme.low, theme.high].forEach((fill, k) => {
        Object.assign(c, { fillStyle: fill, strokeStyle: theme.wall, lineWidth: 1 });
        c.fillRect(2 + 9 * k, 4, 9, 11);
        c.strokeRect(2.5 + 9 * k, 4.5, 8, 10);
      });
    },
    streets(c, theme) { c.strokeStyle = theme.street; stroke(c, [[1, 13], [9, 9], [21, 7]], 3, 1); },
    scenery(c, theme) {
      [theme.green, theme.water].forEach((fill, k) => {
        c.fillStyle = fill;
        c.fillRect(2 + 9 * k, 4, 9, 11);
      });
    },
  };

  function stroke(c, points, width, alpha) {
    c.globalAlpha = alpha;
    c.lineWidth = width;
    c.beginPath();
    for (const [x, y] of points) c.lineTo(x, y);
    c.stroke();
    c.globalAlpha = 1;
  }

  /** One that is named, and one that is not. */
  function marks(c, theme, colour, kind) {
    for (const [x, fill] of [[6, colour], [16, theme.found]]) {
      replayKnown.landmark(c, kind, x, 10, 4.8);
      Object.assign(c, { fillStyle: fill, strokeStyle: theme.ue, lineWidth: 1.2 });
      c.fill();
      c.stroke();
    }
  }

  /** Samples beside all switches, and the scales of SINR and of beliefs. */
  function draw(model, state, theme, colour, moving = null) {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const stops = netsim.isDark() ? [0.35, 0.65] : [0, 0.85];
    const sinr = (share) => `rgb(${replayGround.mixed(replayGround.PLASMA, stops[0] + stops[1] * share).join(" ")})`;
    for (const place of document.querySelectorAll("#replay [data-key]")) {
      const canvas = Object.assign(document.createElement("canvas"), { width: WIDE * ratio, height: HIGH * ratio });
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      SAMPLES[place.dataset.key](context, theme, colour, sinr);
      place.replaceChildren(canvas);
    }
    cells(model, state.attack);
    const scale = document.getElementById("replay-sinr");
    scale.hidden = !moving?.range && scale.hidden;
    if (moving?.range) {
      const [low, high] = moving.range;
      const shades = [0, 0.25, 0.5, 0.75, 1].map(sinr);
      bar(scale, "SINR of updates being sent", shades, `\u2264 ${low} dB`, `\u2265 ${high} dB`);
    }
  }

  /** The scale of the cells of a belief. */
  function cells(model, attack) {
    const place = document.getElementById("replay-cells");
    if (!place) return;
    place.hidden = !replayBelief.knows(model, attack);
    if (place.hidden) return;
    const { colours, least } = replayBelief.scale(), side = model.meta.belief.rasters[attack].wide_m;
    bar(place, `probability of a cell of ${Number(side.toPrecision(3))} m`, colours, least, "100 %");
  }

  function bar(place, title, colours, low, high) {
    const strip = Object.assign(document.createElement("span"), { className: "bar" });
    strip.style.background = `linear-gradient(to right, ${colours.join(", ")})`;
    const ends = Object.assign(document.createElement("span"), { className: "ends" });
    ends.append(...[low, high].map((end) => Object.assign(document.createElement("span"), { textContent: end })));
    place.replaceChildren(document.createTextNode(title), strip, ends);
    place.hidden = false;
  }

  /** The scale of a layer of coverage; none for "". */
  function coverage(model, layer) {
    const place = document.getElementById("replay-scale");
    place.hidden = layer === "";
    if (!layer) return;
    const scale = replayGround.scaleOf(model, layer);
    if (!scale.classes) {
      const colours = [0, 0.25, 0.5, 0.75, 1].map((s) => `rgb(${replayGround.mixed(scale.stops, s).join(" ")})`);
      bar(place, "colour of the ground", colours, `${scale.low} ${scale.unit}`, `${scale.high} ${scale.unit}`);
    } else if (scale.names.length) {
      place.replaceChildren(...scale.names.map((name, k) => {
        const line = document.createElement("div"), box = document.createElement("span");
        box.className = "class";
        box.style.background = scale.classes[k];
        line.append(box, name);
        return line;
      }));
    } else place.textContent = "Colours tell neighbouring cells apart; they repeat.";
  }

  return { draw, coverage };
})();
