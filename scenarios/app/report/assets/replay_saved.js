// Files from the replay: the map as it stands, and where everybody is.
const replaySaved = (() => {
  function png(canvases) {
    const { width, height } = canvases[0];
    const whole = Object.assign(document.createElement("canvas"), { width, height });
    const context = whole.getContext("2d");
    for (const canvas of canvases) context.drawImage(canvas, 0, 0);
    whole.toBlob((blob) => netsim.save("map.png", blob));
  }

  /** A row for each UE: where it is, its home, workplace and place of most time, and the places that the attack names of it. */
  function csv(model, state) {
    const rows = [["ue", "time_s", "x_m", "y_m", "indoor", "home_x_m", "home_y_m", "work_x_m", "work_y_m",
      "densest_x_m", "densest_y_m", "attack", "named_x_m", "named_y_m", "second_x_m", "second_y_m"]];
    const pair = (p) => (p ? [p.x.toFixed(1), p.y.toFixed(1)].map(Number) : ["", ""]);
    for (let ue = 0; ue < model.n; ue += 1) {
      const at = {}, there = model.has("track_time") && model.place(ue, state.time_s, at);
      const knows = model.named(state.attack, ue, state.round);
      rows.push([
        model.meta.ues[ue], state.time_s, ...pair(there ? at : null), there ? Number(at.indoor) : "",
        ...replayKnown.KINDS.flatMap((kind) => pair(model.landmark(kind, ue))),
        knows ? model.meta.attacks[state.attack].name : "", ...pair(knows?.places[0]), ...pair(knows?.places[1]),
      ]);
    }
    netsim.save("map.csv", netsim.csv(rows), "text/csv");
  }

  return { png, csv };
})();
