// What moves: UEs, where they have just been, their serving cells, updates on their way and handovers.
const replayMoving = (() => {
  const SHOWN_S = 0.7;  // of real time that a short event stays visible
  const TRAIL_S = 1.2, LONGEST_TRAIL_S = 3600;  // of real time that a trail covers; of simulated time at most
  const FADES = 4;  // pieces of a trail

  function painter(model) {
    const { n, meta, has } = model, at = { x: 0, y: 0, indoor: false, cell: 0 };
    const sinrs = model.sent.link_sinr.filter(Number.isFinite).map(Math.round).sort((a, b) => a - b);
    const range = sinrs.length ? [0.05, 0.95].map((q) => sinrs[Math.round(q * (sinrs.length - 1))]) : null;
    if (range && range[1] - range[0] < 1) range[1] = range[0] + 1;
    const longest_s = model.sent.link_airtime.reduce((a, b) => Math.max(a, b), 0);

    /** Colour of a SINR: dark is low on a light page, and the other way round on a dark one. */
    function sinrColour(sinr, dark) {
      if (sinr === null || !range) return dark ? "#c3cad2" : "#3c434b";
      const share = Math.min(Math.max((sinr - range[0]) / (range[1] - range[0]), 0), 1);
      return `rgb(${replayGround.mixed(replayGround.PLASMA, dark ? 0.35 + 0.65 * share : 0.85 * share).join(" ")})`;
    }

    function trails(context, view, now, theme) {
      const length_s = Math.min(TRAIL_S * now.speed, LONGEST_TRAIL_S), from_s = now.time_s - length_s;
      context.lineCap = context.lineJoin = "round";
      context.strokeStyle = theme.ue;
      context.lineWidth = n > 300 ? 1 : 1.6;
      for (let piece = 0; piece < FADES; piece += 1) {
        const a_s = from_s + piece / FADES * length_s, b_s = from_s + (piece + 1) / FADES * length_s;
        for (const single of now.ue >= 0 ? [false, true] : [false]) {
          context.globalAlpha = 0.5 * (piece + 1) / FADES * (now.ue >= 0 && !single ? 0.12 : 1);
          context.beginPath();
          for (let ue = 0; ue < n; ue += 1) {
            if ((now.ue === ue) !== single && now.ue >= 0) continue;
            let down = model.place(ue, a_s, at);
            if (down) context.moveTo(view.x(at.x), view.y(at.y));
            model.corners(ue, a_s, b_s, (x, y, absent) => {
              if (!absent && down) context.lineTo(view.x(x), view.y(y));
              else if (!absent) context.moveTo(view.x(x), view.y(y));
              down = !absent;
            });
            if (down && model.place(ue, b_s, at)) context.lineTo(view.x(at.x), view.y(at.y));
          }
          context.stroke();
        }
      }
    }

    /** Calls see(ue, sinr, station, decoded, on, over) for each update on its way (on), or, while the replay plays,
        lately so, and for each that has lately ended (over). */
    function sending(now, see) {
      if (!has("link_begin")) return;
      const least_s = now.playing ? SHOWN_S * now.speed : 0, since_s = now.time_s - longest_s - least_s;
      for (let ue = 0; ue < n; ue += 1) {
        model.links(ue, since_s, now.time_s, (begin_s, airtime_s, sinr, station, decoded) => {
          const end_s = begin_s + airtime_s, over = now.time_s >= end_s;
          const on = now.time_s <= begin_s + Math.max(airtime_s, least_s);
          if (on || (over && now.time_s <= end_s + least_s)) see(ue, sinr, station, decoded, on, over);
        });
      }
    }

    /** Lines to base stations, dashed for updates that are lost; where one has just been lost, a cross. */
    function links(context, view, now, theme, dark) {
      const crosses = [], alike = new Map();  // lines that look alike are drawn at once
      sending(now, (ue, sinr, station, decoded, on, over) => {
        if (!model.place(ue, now.time_s, at)) return;
        const line = [view.x(at.x), view.y(at.y), meta.stations[station]], alpha = now.seen(ue);
        if (over && !decoded) crosses.push([line[0], line[1], alpha]);
        if (!on) return;
        const look = `${sinr} ${decoded} ${alpha}`;
        if (!alike.has(look)) alike.set(look, { sinr, decoded, alpha, lines: [] });
        alike.get(look).lines.push(line);
      });
      context.lineWidth = 2;
      for (const { sinr, decoded, alpha, lines } of alike.values()) {
        context.globalAlpha = 0.9 * alpha;
        context.strokeStyle = sinrColour(sinr, dark);
        context.setLineDash(decoded ? [] : [4, 5]);
        context.beginPath();
        for (const [x, y, to] of lines) {
          context.moveTo(to ? x : x + 11, y);
          if (to) context.lineTo(view.x(to.x_m), view.y(to.y_m)); else context.arc(x, y, 11, 0, 2 * Math.PI);
        }
        context.stroke();
      }
      context.setLineDash([]);
      for (const [colour, width] of [[theme.halo, 6], [theme.lost, 3]]) {
        for (const [x, y, alpha] of crosses) {
          context.globalAlpha = alpha;
          cross(context, x, y, colour, width);
        }
      }
    }

    function cross(context, x, y, colour, width) {
      Object.assign(context, { strokeStyle: colour, lineWidth: width });
      context.beginPath();
      for (const side of [-7, 7]) {
        context.moveTo(x - 7, y - side);
        context.lineTo(x + 7, y + side);
      }
      context.stroke();
    }

    function serving(context, view, now, theme) {
      context.strokeStyle = theme.station;
      context.lineWidth = 1;
      for (let ue = 0; ue < n; ue += 1) {
        if (!model.place(ue, now.time_s, at) || !meta.stations[at.cell]) continue;
        const to = meta.stations[at.cell];
        context.globalAlpha = 0.35 * now.seen(ue);
        context.beginPath();
        context.moveTo(view.x(at.x), view.y(at.y));
        context.lineTo(view.x(to.x_m), view.y(to.y_m));
        context.stroke();
      }
    }

    function handovers(context, view, now, theme) {
      const times = model.handovers, shown_s = now.playing ? SHOWN_S * now.speed : 0;
      let i = model.last(times, 0, times.length, now.time_s);
      context.strokeStyle = theme.station;
      context.lineWidth = 2;
      for (; i >= 0 && now.time_s - times[i] < shown_s; i -= 1) {
        const ue = model.handover_ue[i], age = (now.time_s - times[i]) / shown_s;
        if (!model.place(ue, now.time_s, at)) continue;
        context.globalAlpha = (1 - age) * now.seen(ue);
        context.beginPath();
        context.arc(view.x(at.x), view.y(at.y), 6 + 12 * age, 0, 2 * Math.PI);
        context.stroke();
      }
    }

    let stamps = [], stamped = "";

    /** A filled and a hollow circle, each with and without emphasis. */
    function circles(r, theme) {
      const key = `${r} ${theme.ue} ${devicePixelRatio}`;
      if (key !== stamped) {
        stamps = [1, 1.5].map((k) => [true, false].map((full) => replayKnown.stamp(k * r, (own) => {
          own.beginPath();
          own.arc(0, 0, k * r, 0, 2 * Math.PI);
          own.strokeStyle = theme.halo;
          own.lineWidth = full ? 3.2 : 2.8;  // what lies below shows through a hollow one
          own.stroke();
          own.fillStyle = own.strokeStyle = theme.ue;
          if (full) own.fill();
          own.lineWidth = 1.6;
          own.stroke();
        })));
        stamped = key;
      }
      return stamps;
    }

    function ues(context, view, now, theme) {
      const drawn = circles(0.45 * replayKnown.sizeOf(n, view), theme);
      for (let ue = 0; ue < n; ue += 1) {
        if (!model.place(ue, now.time_s, at)) continue;
        context.globalAlpha = now.seen(ue);
        drawn[Number(ue === now.ue)][Number(at.indoor)](context, view.x(at.x), view.y(at.y));
      }
    }

    /** now: time_s, speed, ue (-1: all), layers, and seen(ue), the opacity of a UE. */
    function paint(context, view, theme, dark, now) {
      context.clearRect(0, 0, view.width, view.height);
      if (has("track_time")) {
        if (now.layers.trails) trails(context, view, now, theme);
        if (now.layers.serving) serving(context, view, now, theme);
        if (now.layers.links) links(context, view, now, theme, dark);
        if (now.layers.serving) handovers(context, view, now, theme);
        if (now.layers.ues) ues(context, view, now, theme);
      }
      context.globalAlpha = 1;
    }

    return { paint, sinrColour, range, sending };
  }

  return { painter };
})();
