// What is known after each round, in one figure each: the curve below the map, and the words beside it.
const replayCurves = (() => {
  /** Median of numbers, NaN left out and infinities taken in; NaN of none. */
  function median(values) {
    const sorted = values.filter((v) => !Number.isNaN(v)).sort((a, b) => a - b), at = (sorted.length - 1) / 2;
    if (!sorted.length) return NaN;
    const [low, high] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
    return low === high ? low : (low + high) / 2;
  }
  const mean = (values) => (values.length ? values.reduce((a, b) => a + b) / values.length : NaN);

  /** Curves {key, label, unit, attack, of, values after each round}, the most telling first; of: how many UEs it counts. */
  function of(tables, meta, rounds, landmark) {
    const { leakage, tracking, updates, metrics } = tables, n = rounds.number.length, found = [];
    const curve = (key, label, unit, values, attack = null, all = null) => {
      if (Array.from(values).some(Number.isFinite)) found.push({ key, label, unit, attack, of: all, values: Float64Array.from(values) });
    };
    /** Values of the rows of each round. */
    const byRound = (table, value, wanted = () => true) => {
      const lists = rounds.number.map(() => []);
      table.round.forEach((number, i) => {
        const k = rounds.index(number);
        if (k >= 0 && wanted(i)) lists[k].push(value(i));
      });
      return lists;
    };
    const each = (draw) => meta.attacks.forEach((_, k) => draw(k));

    for (const [place, label] of [
      ["home", "homes named"], ["work", "workplaces named"], ["densest", "places of most time named"],
    ]) {
      each((attack) => {
        const changes = byRound(leakage, (i) => [leakage.ue[i], leakage[place][i] === 1],
          (i) => leakage.attack[i] === attack && landmark(place, leakage.ue[i]));
        const hit = new Map();
        let seen = false;
        const values = changes.map((rows) => {
          for (const [ue, is] of rows) hit.set(ue, is);
          seen ||= rows.length > 0;
          return seen ? [...hit.values()].filter(Boolean).length : NaN;
        });
        curve(place, label, "", values, attack, hit.size);
      });
    }
    each((attack) => curve("error", "median centroid error", "m", byRound(leakage,
      (i) => (leakage.heard[i] === 1 && leakage.diverged[i] === 1 ? Infinity : leakage.error_m[i]),
      (i) => leakage.attack[i] === attack).map(median), attack));
    ["filter", "smoother"].forEach((kind, hindsight) => each((attack) => {
      const near = byRound(tracking, (i) => 100 * (tracking.near[i] === 1),
        (i) => tracking.attack[i] === attack && tracking.hindsight[i] === hindsight);
      curve(kind, `UEs known within ${meta.hit_radius_m} m (${kind})`, "%", near.map(mean), attack);
    }));
    const ofRounds = (column) => byRound(tables.rounds, (i) => tables.rounds[column][i]).map((values) => values.at(-1) ?? NaN);
    for (const [key, label, column] of [
      ["map", "map error (RMSE)", "rmse_db"], ["constant", "error of a constant map (RMSE)", "constant_rmse_db"],
    ]) {
      const values = ofRounds(column);
      if (Number.isFinite(values.at(-1))) values[n - 1] = meta.final[column] ?? values[n - 1];  // on all held-out samples
      curve(key, label, "dB", values);
    }
    curve("accuracy", "accuracy", "%", byRound(metrics, (i) => metrics.value[i]).map((values) => values.at(-1) ?? NaN));
    let spent = NaN;
    curve("epsilon", "epsilon spent (most of any UE)", "", ofRounds("epsilon_max").map((v) => (spent = Number.isFinite(v) ? v : spent)));
    const decoded = byRound(updates, (i) => 100 * (updates.decoded[i] === 1));
    curve("decoded", "updates decoded", "%", decoded.map(mean));
    curve("updates", "updates sent", "", decoded.map((values) => values.length));
    return found;
  }

  return { of };
})();
