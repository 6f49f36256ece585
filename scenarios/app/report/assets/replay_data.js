// The data of the replay: where everybody is at a time, what is known then, and what the clock on the wall shows.
const replayData = (() => {
  const NOWHERE = 65535, NO_UPDATE = 4294967295, NO_SINR = -128, NO_LEVEL = -32768;
  const ABSENT = 1, INDOOR = 2;
  const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const two = (n) => String(n).padStart(2, "0");

  /** Index of the last of the sorted values[a..b) that is at most v; a - 1 for none. */
  function last(values, a, b, v) {
    let low = a, high = b;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] <= v) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  const none = new Uint32Array(0);

  /** Everything of a run; differences are added up, in the arithmetic of their type. */
  function modelOf({ meta, arrays }) {
    for (const name of meta.steps) {
      const values = arrays[name];
      for (let i = 1; i < values.length; i += 1) values[i] += values[i - 1];
    }
    const has = (name) => (arrays[name]?.length ?? 0) > 0;
    const n = meta.ues.length, rounds = arrays.told_s.length;
    const { west_m: west, south_m: south, step_m: step } = meta.moving;
    const xOf = (cell) => west + step * cell, yOf = (cell) => south + step * cell;

    /** Where a UE is: writes x, y, indoor and cell into `out`; false while it is absent. */
    function place(ue, time_s, out) {
      const t = time_s / meta.unit_s, times = arrays.track_time, end = arrays.track_ptr[ue + 1];
      const i = last(times, arrays.track_ptr[ue], end, t);
      if (i < arrays.track_ptr[ue] || arrays.track_state[i] & ABSENT) return false;
      const moves = i + 1 < end && !(arrays.track_state[i + 1] & ABSENT);
      const share = moves ? (t - times[i]) / (times[i + 1] - times[i]) : 0;
      const x = arrays.track_x[i], y = arrays.track_y[i];
      out.x = xOf(x + (moves ? share * (arrays.track_x[i + 1] - x) : 0));
      out.y = yOf(y + (moves ? share * (arrays.track_y[i + 1] - y) : 0));
      out.indoor = (arrays.track_state[i] & INDOOR) > 0;
      out.cell = arrays.track_cell?.[i] ?? NOWHERE;
      return true;
    }

    /** Calls see(x, y, absent) for the corners of a UE's track strictly between two times. */
    function corners(ue, from_s, to_s, see) {
      const times = arrays.track_time, end = arrays.track_ptr[ue + 1];
      let i = last(times, arrays.track_ptr[ue], end, from_s / meta.unit_s) + 1;
      for (const until = to_s / meta.unit_s; i < end && times[i] < until; i += 1) {
        see(xOf(arrays.track_x[i]), yOf(arrays.track_y[i]), (arrays.track_state[i] & ABSENT) > 0);
      }
    }

    /** The place of a column and a row, or null. */
    const spot = (column, row) => (column === NOWHERE ? null : { x: xOf(column), y: yOf(row) });

    /** Home or workplace of a UE, or null. */
    const landmark = (kind, ue) => spot(arrays[`${kind}_x`]?.[ue] ?? NOWHERE, arrays[`${kind}_y`]?.[ue]);

    /** What an attack names of a UE after a round: places, best first, and whether home and work are among them. */
    function named(attack, ue, round) {
      if (!has("named_round") || attack < 0) return null;
      const at = attack * n + ue, from = arrays.named_ptr[at];
      const i = last(arrays.named_round, from, arrays.named_ptr[at + 1], round);
      if (i < from) return null;
      const places = [];
      for (const which of ["named", "second"]) {
        const x = arrays[`${which}_x`][i];
        if (x !== NOWHERE) places.push({ x: xOf(x), y: yOf(arrays[`${which}_y`][i]) });
      }
      return { places, home: (arrays.named_hit[i] & 1) > 0, work: (arrays.named_hit[i] & 2) > 0 };
    }

    /** Estimates of an attack about a UE in the rounds first..last, each with the true place where it is recorded. */
    function estimates(attack, ue, first, until, see) {
      if (!has("estimate_round") || attack < 0) return;
      const at = attack * n + ue, end = arrays.estimate_ptr[at + 1];
      let i = last(arrays.estimate_round, arrays.estimate_ptr[at], end, first - 1) + 1;
      for (; i < end && arrays.estimate_round[i] <= until; i += 1) {
        const of = arrays.estimate_of[i], x = of === NO_UPDATE ? NOWHERE : arrays.update_x[of];
        const truth = x === NOWHERE ? null : { x: xOf(x), y: yOf(arrays.update_y[of]) };
        see({ x: xOf(arrays.estimate_x[i]), y: yOf(arrays.estimate_y[i]) }, truth, arrays.estimate_round[i]);
      }
    }

    /** Transmissions of a UE that begin from..to: begin, duration, SINR (null: unknown), station, decoded. */
    function links(ue, from_s, to_s, see) {
      const end = arrays.link_ptr[ue + 1], unit_s = meta.link_begin_s;
      let i = Math.max(last(arrays.link_begin, arrays.link_ptr[ue], end, from_s / unit_s), arrays.link_ptr[ue]);
      for (; i < end && arrays.link_begin[i] * unit_s <= to_s; i += 1) {
        const sinr = arrays.link_sinr[i] === NO_SINR ? null : arrays.link_sinr[i];
        see(arrays.link_begin[i] * unit_s, arrays.link_airtime[i] * meta.link_airtime_s, sinr, arrays.link_cell[i],
          arrays.link_decoded[i] > 0);
      }
    }

    /** Index of the last round that is over; -1 for none. */
    const roundAt = (time_s) => last(arrays.told_s, 0, rounds, time_s);

    /** The square of the coverage grid at a place, -1 for none. */
    function square(x, y) {
      const grid = meta.coverage;
      if (!grid) return -1;
      const i = Math.floor((x - grid.west_m) / grid.side_m), j = Math.floor((y - grid.south_m) / grid.side_m);
      return i >= 0 && j >= 0 && i < grid.columns && j < grid.rows ? j * grid.columns + i : -1;
    }

    /** The value of a layer of coverage in a square; null for none. */
    function level(layer, k) {
      if (k < 0) return null;
      if (layer === "error_db") {
        const learnt = level("learnt_dbm", k), truth = level("rsrp_dbm", k);
        return learnt === null || truth === null ? null : learnt - truth;
      }
      const value = arrays[`coverage_${layer}`]?.[k];
      if (value === undefined) return null;
      if (layer === "cell") return value === NOWHERE ? null : value;
      if (layer === "los") return value === 2 ? null : value;
      return value === NO_LEVEL ? null : value / 10;
    }

    /** What the wall clock shows, in seconds from the first midnight. */
    function wall_s(time_s) {
      let shift_s = 0;
      for (const [at_s, by_s] of meta.clock_changes) if (time_s >= at_s) shift_s = by_s;
      return time_s + shift_s;
    }
    const midnight_ms = Date.parse(`${meta.first_day}T00:00:00Z`);
    const dateOf = (time_s) => new Date(midnight_ms + 1000 * wall_s(time_s));

    /** `2026-01-05 07:30:00`, as figures over time read it. */
    const stamp = (time_s) => dateOf(Math.floor(time_s)).toISOString().slice(0, 19).replace("T", " ");

    /** `Mon 5 Jan 2026, 07:30`, with seconds where the run is short. */
    function date(time_s) {
      const at = dateOf(time_s), seconds = meta.end_s < 7200 ? `:${two(at.getUTCSeconds())}` : "";
      const clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${seconds}`;
      return `${DAYS[at.getUTCDay()]} ${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}, ${clock}`;
    }

    /** A short label of a moment on an axis whose ticks are step_s apart. */
    function tick(time_s, step_s) {
      const at = dateOf(time_s), clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
      if (step_s >= 86400) return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
      return step_s >= 60 ? clock : `${clock}:${two(at.getUTCSeconds())}`;
    }

    /** Values of a curve after each round. */
    const curve = (k) => arrays.curve.subarray(k * rounds, (k + 1) * rounds);
    /** The first curve of a kind, of an attack or of none: [its description, its values], or null. */
    function curveOf(key, attack = null) {
      const k = meta.curves.findIndex((c) => c.key === key && (c.attack === null || c.attack === attack));
      return k < 0 ? null : [meta.curves[k], curve(k)];
    }

    /** The attack that names most homes, or workplaces, at the end; else the first that believes; -1 for none. */
    function bestAttack() {
      let best = meta.attacks.length ? Math.max(meta.attacks.findIndex((a, k) => meta.belief.rasters?.[k]), 0) : -1;
      let most = 0;
      for (const place of ["home", "work"]) {
        meta.curves.forEach((c, k) => {
          const value = curve(k).at(-1);
          if (c.key === place && value > most) { best = c.attack; most = value; }
        });
        if (most > 0) break;
      }
      return best;
    }
    return {
      meta, arrays, has, n, rounds, number: arrays.number, last, place, corners, spot, landmark, named, estimates, links,
      roundAt, square, level, stamp, date, tick, curve, curveOf, bestAttack,
      handovers: arrays.handover_time ?? none,
    };
  }

  return { load: async (id) => modelOf(await netsim.unpacked(id)), NOWHERE };
})();
