// The data of the replay: record tables as columns; where all UEs are at a time, what is known then, and the date.
const replayData = (() => {
  const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const PLAIN = 2;  // quantity of the estimates of an attack that a tracker wraps
  const BEYOND = 1.5;  // of the longer side: estimates farther from the middle are not drawn
  const MOST_SQUARES = 400;  // of coverage along the longer side
  const SUPPORT_M = 100;  // from a measurement of a drive: farther away its learned map is not drawn
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

  /** Tables of columns of numbers; NaN for what is missing. */
  function tablesOf({ arrays }) {
    const tables = {};
    for (const [name, values] of Object.entries(arrays)) {
      const [table, column] = name.split(".");
      (tables[table] ??= {})[column] = values;
    }
    return tables;
  }

  const indices = (n, wanted) => [...Array(n).keys()].filter(wanted);
  const taken = (values, rows) => Float64Array.from(rows, (i) => values[i]);

  /** Where the rows of each of n owners begin (n + 1), for rows in order of owner. */
  function pointers(owners, n) {
    const first = new Uint32Array(n + 1);
    for (const owner of owners) first[owner + 1] += 1;
    for (let k = 0; k < n; k += 1) first[k + 1] += first[k];
    return first;
  }

  /** When each round was asked for and known: all attacks up to then had run. */
  function roundsOf(tables) {
    const { round, requested_s: asked } = tables.rounds, number = [], told_s = [], at = new Map();
    round.forEach((k, i) => {
      if (at.has(k) || !(asked[i] >= 0)) return;
      at.set(k, number.length);
      number.push(k);
      told_s.push(asked[i]);
    });
    for (const { round: of, time_s: time } of [tables.rounds, tables.leakage, tables.estimates]) {
      of.forEach((k, i) => { if (at.has(k)) told_s[at.get(k)] = Math.max(told_s[at.get(k)], time[i]); });
    }
    told_s.forEach((time, k) => { told_s[k] = Math.max(time, told_s[k - 1] ?? 0); });
    return { number, told_s, index: (k) => at.get(k) ?? -1 };
  }

  /** Updates on their way: from when to when, at which SINR, to which station, by UE and time. */
  function linksOf({ links, transmissions: sent }, end_s) {
    const rows = [], zero = (v) => (Number.isFinite(v) ? v : 0);
    if (sent.ue.length) {  // they took their time; what their links were like stands in `links`
      const known = new Map();
      links.ue.forEach((ue, i) => {
        for (const key of [`${links.round[i]} ${ue}`, `${links.round[i]} ${ue} ${links.time_s[i]}`]) known.set(key, i);
      });
      sent.ue.forEach((ue, i) => {
        const key = `${sent.round[i]} ${ue}`, k = known.get(`${key} ${sent.requested_s[i]}`) ?? known.get(key);
        const ended = Number.isFinite(sent.ended_s[i]), begin = Number.isFinite(sent.granted_s[i]) ? sent.granted_s[i] : sent.ended_s[i];
        const airtime = Math.max((ended ? sent.ended_s[i] : end_s) - begin, 0);
        if (Number.isFinite(begin)) rows.push([ue, begin, airtime, links.sinr_db[k], links.base_station[k], sent.fate[i] === 0]);
      });
    } else {
      links.ue.forEach((ue, i) => {
        const airtime = zero(links.airtime_s[i]), begin = links.time_s[i] + Math.max(zero(links.latency_s[i]) - airtime, 0);
        rows.push([ue, begin, airtime, links.sinr_db[i], links.base_station[i], links.decoded[i] === 1]);
      });
    }
    rows.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const names = ["link_ue", "link_begin", "link_airtime", "link_sinr", "link_cell", "link_decoded"];
    return Object.fromEntries(names.map((name, k) => [name, rows.map((row) => row[k])]));
  }

  /** The distance of neighbours among the middles of cells whose sides are about side_m; cells need not be square. */
  function spacing(middles, side_m) {
    const sorted = [...new Set(middles)].sort((a, b) => a - b);
    const gaps = sorted.slice(1).map((v, i) => v - sorted[i]).filter((gap) => gap > side_m / 2 && gap < 1.5 * side_m);
    return gaps.length ? gaps.reduce((a, b) => a + b) / gaps.length : side_m;
  }

  /** Frames of beliefs by attack, UE and filter or smoother, and the places beside the cells of each. */
  function beliefsOf({ beliefs, tracking, estimates }, n, attacks, rounds) {
    const kept = indices(beliefs.ue.length, (i) => beliefs.probability[i] > 0 && beliefs.cell_m[i] > 0
      && Number.isFinite(beliefs.x_m[i] + beliefs.y_m[i]) && rounds.index(beliefs.round[i]) >= 0);
    const ownerOf = (table, i, hindsight) => 2 * (table.attack[i] * n + table.ue[i]) + hindsight;
    const frames = { owner: [], round: [], first: [] }, at = new Map();
    kept.forEach((i, k) => {
      const owner = ownerOf(beliefs, i, beliefs.hindsight[i]), round = rounds.index(beliefs.round[i]);
      if (at.has(`${owner} ${round}`)) return;
      at.set(`${owner} ${round}`, frames.owner.length);
      frames.owner.push(owner);
      frames.round.push(round);
      frames.first.push(k);
    });
    const rasters = attacks.map((_, k) => {
      const own = kept.filter((i) => beliefs.attack[i] === k);
      if (!own.length) return null;
      const side = own.reduce((most, i) => Math.max(most, beliefs.cell_m[i]), 0);
      return { wide_m: spacing(own.map((i) => beliefs.x_m[i]), side), high_m: spacing(own.map((i) => beliefs.y_m[i]), side) };
    });
    const beside = frames.owner.map(() => ({}));
    tracking.ue.forEach((_, i) => {
      const frame = beside[at.get(`${ownerOf(tracking, i, tracking.hindsight[i])} ${rounds.index(tracking.round[i])}`)];
      if (!frame) return;
      const spot = (name) => placed(tracking[`${name}x_m`][i], tracking[`${name}y_m`][i]);
      Object.assign(frame, { answer: spot(""), disc: spot("disc_"), truth: spot("truth_"),
        probability: tracking.disc_probability[i], area90_m2: tracking.area90_m2[i] });
    });
    estimates.ue.forEach((_, i) => {
      if (estimates.quantity[i] !== PLAIN) return;
      for (const hindsight of [0, 1]) {
        const frame = beside[at.get(`${ownerOf(estimates, i, hindsight)} ${rounds.index(estimates.round[i])}`)];
        if (frame) frame.plain = placed(estimates.x_m[i], estimates.y_m[i]);
      }
    });
    return {
      rasters, beside, belief_round: frames.round, belief_ptr: pointers(frames.owner, 2 * attacks.length * n),
      belief_cell_ptr: [...frames.first, kept.length], belief_x: taken(beliefs.x_m, kept),
      belief_y: taken(beliefs.y_m, kept), belief_probability: taken(beliefs.probability, kept),
    };
  }

  const placed = (x, y) => (Number.isFinite(x + y) ? { x, y } : null);

  /** East, north and RSRP of some measurements of a drive. */
  const driveOf = ({ drive: { rows } }) =>
    Array.from({ length: Math.floor(rows.length / 3) }, (_, k) => [...rows.slice(3 * k, 3 * k + 3)]);

  /** Which squares of a grid lie near a measurement of a drive; null without one. */
  function supportOf(drive, west, south, side, nx, ny) {
    if (!drive.length) return null;
    const near = new Uint8Array(nx * ny), seen = new Set(), reach = Math.ceil(SUPPORT_M / side);
    drive.forEach(([x, y]) => {
      const i = Math.floor((x - west) / side), j = Math.floor((y - south) / side);
      if (seen.has(j * nx + i)) return;
      seen.add(j * nx + i);
      for (let row = Math.max(j - reach, 0); row <= Math.min(j + reach, ny - 1); row += 1) {
        for (let column = Math.max(i - reach, 0); column <= Math.min(i + reach, nx - 1); column += 1) {
          if (side * Math.hypot(row - j, column - i) <= SUPPORT_M) near[row * nx + column] = 1;
        }
      }
    });
    return near;
  }

  /** Coverage on a grid from south to north; a square without a value takes that of a neighbour, if there is one. */
  function coverageOf({ coverage, tracks }, drive, [west, south, east, north], stations) {
    const rows = indices(coverage.x_m.length, (i) => Number.isFinite(coverage.x_m[i] + coverage.y_m[i]));
    if (rows.length < 2) return null;
    const least = (values) => {
      const sorted = [...new Set(rows.map((i) => values[i]))].sort((a, b) => a - b);
      return sorted.slice(1).reduce((gap, v, i) => Math.min(gap, v - sorted[i]), Infinity);
    };
    const side = Math.max(Math.min(least(coverage.x_m), least(coverage.y_m)), Math.max(east - west, north - south) / MOST_SQUARES);
    const [nx, ny] = [east - west, north - south].map((long) => Math.max(1, Math.ceil(long / side - 1e-6)));
    const at = new Int32Array(nx * ny).fill(-1);
    const within = (v, most) => Math.min(Math.max(Math.floor(v), 0), most - 1);
    for (const i of rows) {
      at[within((coverage.y_m[i] - south) / side, ny) * nx + within((coverage.x_m[i] - west) / side, nx)] = i;
    }
    const whole = at.slice();
    for (let k = 0; k < whole.length; k += 1) {
      for (const step of whole[k] < 0 ? [-1, 1, -nx, nx, -nx - 1, -nx + 1, nx - 1, nx + 1] : []) {
        const away = Math.abs((k + step + nx) % nx - k % nx);
        if (at[k] < 0 && away <= 1) at[k] = whole[k + step] ?? -1;
      }
    }
    const has = (name) => rows.some((i) => Number.isFinite(coverage[name][i]));
    const support = supportOf(drive, west, south, side, nx, ny);
    const sight = rows.reduce((sum, i) => sum + coverage.los[i], 0), indoors = tracks.indoor.some((v) => v === 1);
    return {
      west_m: west, south_m: south, side_m: side, columns: nx, rows: ny, indoors,
      has: {
        coverage: true, coverage_rsrp_dbm: has("rsrp_dbm"), coverage_sinr_db: has("sinr_db"),
        coverage_learnt_dbm: has("learnt_dbm"), coverage_cell: has("rsrp_dbm") && stations.length > 0,
        coverage_los: has("rsrp_dbm") && sight > 0 && sight < rows.length,
        coverage_error_db: has("learnt_dbm") && has("rsrp_dbm") && !indoors,
        indoor_map: has("learnt_dbm") && has("rsrp_dbm") && indoors,
      },
      value: (layer, k) => (at[k] < 0 || (layer === "learnt_dbm" && support?.[k] === 0) ? NaN : coverage[layer][at[k]]),
    };
  }

  /** Everything of a run. */
  function modelOf({ meta, arrays }) {
    const tables = tablesOf({ arrays }), n = meta.ues.length, rounds = roundsOf(tables);
    const { tracks, ues, leakage, handovers } = tables, [west, south, east, north] = meta.area_m;
    const end_s = Math.max(meta.duration_s, rounds.told_s.at(-1) ?? 0), drive = driveOf(tables);
    const grid = coverageOf(tables, drive, meta.area_m, meta.stations);
    const links = linksOf(tables, meta.duration_s), link_ptr = pointers(links.link_ue, n);
    const beliefs = beliefsOf(tables, n, meta.attacks, rounds);
    const track_ptr = pointers(tracks.ue, n);
    const owners = (table, rows) => rows.map((i) => table.attack[i] * n + table.ue[i]);
    const names = indices(leakage.ue.length, (i) => rounds.index(leakage.round[i]) >= 0);
    const named_ptr = pointers(owners(leakage, names), meta.attacks.length * n);
    const named_round = names.map((i) => rounds.index(leakage.round[i]));

    const { estimates: guesses, updates } = tables, longer = Math.max(east - west, north - south, 1);
    const near = (x, y) => Math.max(Math.abs(x - (west + east) / 2), Math.abs(y - (south + north) / 2)) <= BEYOND * longer;
    const guessed = indices(guesses.ue.length, (i) => guesses.quantity[i] !== PLAIN
      && near(guesses.x_m[i], guesses.y_m[i]) && rounds.index(guesses.round[i]) >= 0);
    const estimate_ptr = pointers(owners(guesses, guessed), meta.attacks.length * n);
    const estimate_round = guessed.map((i) => rounds.index(guesses.round[i]));
    const keyOf = (table, i) => `${table.ue[i]} ${table.round[i]} ${table.model[i]}`;
    const truths = new Map(Array.from(updates.ue, (_, i) => [keyOf(updates, i), placed(updates.x_m[i], updates.y_m[i])]));
    const handed = indices(handovers.ue.length, () => true).sort((a, b) => handovers.time_s[a] - handovers.time_s[b]);
    const anywhere = (table, column) => table[column].some(Number.isFinite);

    const there = {
      attacks: meta.attacks.length > 0, stations: meta.stations.length > 0, track_time: tracks.ue.length > 0,
      track_cell: tracks.cell.some((cell) => cell >= 0), link_begin: links.link_begin.length > 0,
      home_x: anywhere(ues, "home_x_m"), work_x: anywhere(ues, "work_x_m"), densest_x: anywhere(ues, "densest_x_m"),
      belief_round: beliefs.belief_round.length > 0, drive: drive.length > 0,
      named_round: anywhere(leakage, "named_x_m") || anywhere(leakage, "second_x_m"), estimate_round: guessed.length > 0,
      ...Object.fromEntries(["footprint", "street", "scenery"].map((name) => [name, tables[name].shape.length > 0])),
      ...grid?.has,
    };
    const has = (name) => there[name] ?? false;

    /** Where a UE is: writes x, y, indoor and cell into `out`; false while it is absent. */
    function place(ue, time_s, out) {
      const end = track_ptr[ue + 1], i = last(tracks.time_s, track_ptr[ue], end, time_s);
      if (i < track_ptr[ue] || Number.isNaN(tracks.x_m[i] + tracks.y_m[i])) return false;
      const moves = i + 1 < end && !Number.isNaN(tracks.x_m[i + 1] + tracks.y_m[i + 1]);
      const share = moves ? (time_s - tracks.time_s[i]) / (tracks.time_s[i + 1] - tracks.time_s[i]) : 0;
      out.x = tracks.x_m[i] + (moves ? share * (tracks.x_m[i + 1] - tracks.x_m[i]) : 0);
      out.y = tracks.y_m[i] + (moves ? share * (tracks.y_m[i + 1] - tracks.y_m[i]) : 0);
      out.indoor = tracks.indoor[i] === 1;
      out.cell = tracks.cell[i];
      return true;
    }

    /** Calls see(x, y, absent) for the corners of a UE's track strictly between two times. */
    function corners(ue, from_s, to_s, see) {
      const end = track_ptr[ue + 1];
      let i = last(tracks.time_s, track_ptr[ue], end, from_s) + 1;
      for (; i < end && tracks.time_s[i] < to_s; i += 1) {
        see(tracks.x_m[i], tracks.y_m[i], Number.isNaN(tracks.x_m[i] + tracks.y_m[i]));
      }
    }

    /** Home, workplace or place of most time of a UE, or null. */
    const landmark = (kind, ue) => placed(ues[`${kind}_x_m`][ue], ues[`${kind}_y_m`][ue]);

    /** What an attack names of a UE after a round: places, best first, and whether each kind of true place is among them. */
    function named(attack, ue, round) {
      if (!has("named_round") || attack < 0) return null;
      const at = attack * n + ue, from = named_ptr[at], k = last(named_round, from, named_ptr[at + 1], round);
      if (k < from) return null;
      const i = names[k];
      const places = ["named", "second"].map((which) => placed(leakage[`${which}_x_m`][i], leakage[`${which}_y_m`][i]));
      return { places: places.filter(Boolean), ...Object.fromEntries(replayKnown.KINDS.map((kind) => [kind, leakage[kind][i] === 1])) };
    }

    /** Estimates of an attack about a UE in the rounds first..until, each with the true place where it is recorded. */
    function estimates(attack, ue, first, until, see) {
      if (attack < 0) return;
      const at = attack * n + ue, end = estimate_ptr[at + 1];
      for (let k = last(estimate_round, estimate_ptr[at], end, first - 1) + 1; k < end && estimate_round[k] <= until; k += 1) {
        const i = guessed[k];
        see({ x: guesses.x_m[i], y: guesses.y_m[i] }, truths.get(keyOf(guesses, i)) ?? null, estimate_round[k]);
      }
    }

    /** Transmissions of a UE that begin from..to: begin, duration, SINR (null: unknown), station, decoded. */
    function sent(ue, from_s, to_s, see) {
      const { link_begin: begin, link_airtime: airtime, link_sinr: sinr, link_cell: cell, link_decoded: decoded } = links;
      let i = Math.max(last(begin, link_ptr[ue], link_ptr[ue + 1], from_s), link_ptr[ue]);
      for (; i < link_ptr[ue + 1] && begin[i] <= to_s; i += 1) {
        see(begin[i], airtime[i], Number.isFinite(sinr[i]) ? Math.round(sinr[i]) : null, cell[i], decoded[i]);
      }
    }

    /** Index of the last round that is over; -1 for none. */
    const roundAt = (time_s) => last(rounds.told_s, 0, rounds.told_s.length, time_s);

    /** The square of the coverage grid at a place, -1 for none. */
    function square(x, y) {
      if (!grid) return -1;
      const i = Math.floor((x - grid.west_m) / grid.side_m), j = Math.floor((y - grid.south_m) / grid.side_m);
      return i >= 0 && j >= 0 && i < grid.columns && j < grid.rows ? j * grid.columns + i : -1;
    }

    /** The value of a layer of coverage in a square; null for none. */
    function level(layer, k) {
      if (k < 0 || !grid) return null;
      const value = layer === "error_db" ? grid.value("learnt_dbm", k) - grid.value("rsrp_dbm", k) : grid.value(layer, k);
      return Number.isNaN(value) || (layer === "cell" && value < 0) ? null : value;
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
      const at = dateOf(time_s), seconds = end_s < 7200 ? `:${two(at.getUTCSeconds())}` : "";
      const clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${seconds}`;
      return `${DAYS[at.getUTCDay()]} ${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}, ${clock}`;
    }

    /** A short label of a moment on an axis whose ticks are step_s apart. */
    function tick(time_s, step_s) {
      const at = dateOf(time_s), clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
      if (step_s >= 86400) return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
      return step_s >= 60 ? clock : `${clock}:${two(at.getUTCSeconds())}`;
    }

    const curves = replayCurves.of(tables, meta, rounds, landmark);
    /** The first curve of a kind, of an attack or of none; null where there is none. */
    const curveOf = (key, attack = null) =>
      curves.find((c) => c.key === key && (c.attack === null || c.attack === attack)) ?? null;

    /** The attack that names most homes, or other true places, at the end; else the first that believes; -1 for none. */
    function bestAttack() {
      let best = meta.attacks.length ? Math.max(beliefs.rasters.findIndex(Boolean), 0) : -1, most = 0;
      for (const place of replayKnown.KINDS) {
        for (const { key, attack, values } of curves) {
          if (key === place && values.at(-1) > most) { best = attack; most = values.at(-1); }
        }
        if (most > 0) break;
      }
      return best;
    }
    return {
      meta: { ...meta, end_s, coverage: grid, belief: { rasters: beliefs.rasters } }, tables, drive, has, n, rounds: rounds.number.length,
      number: rounds.number, told_s: rounds.told_s, last, place, corners, landmark, named, estimates, links: sent,
      sent: links, beliefs, roundAt, square, level, stamp, date, tick, curves, curveOf, bestAttack,
      handovers: taken(handovers.time_s, handed), handover_ue: taken(handovers.ue, handed),
    };
  }

  return { load: async (id) => modelOf(await netsim.unpacked(id)) };
})();
