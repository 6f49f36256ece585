// What stands still on the map: areas, coverage, streets, buildings, base stations, frame and scale.
const replayGround = (() => {
  const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
  const PLASMA = ["#2a0593", "#6300a7", "#9511a1", "#c03a83", "#df6263", "#f68d45", "#fdb52e"];
  const DIVERGING = ["#2d5fa8", "#7fa8d4", "#c9d9ea", "#f5f2ee", "#f3cfa6", "#dd8f4c", "#a6500f"];
  const CELLS = [
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999933", "#882255", "#44AA99", "#DDCC77",
    "#332288", "#AA4499",
  ];
  const SIGHT = ["#882255", "#DDCC77"];
  const SHADES = 5;
  const STREETS = [[0, 2, 2.4], [3, 4, 1.3], [5, 255, 0.7]];  // first and last class, width in pixels
  const WEDGE = 65;  // degrees

  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

  /** A colour of a scale at a share of its range, as [r, g, b]. */
  function mixed(stops, share) {
    const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
    const a = rgb(stops[i]), b = rgb(stops[i + 1]);
    return a.map((v, k) => Math.round(v + (at - i) * (b[k] - v)));
  }

  /** Variables of the style sheet as they are now. */
  function colours() {
    const style = getComputedStyle(document.documentElement);
    const names = [
      "ground", "outside", "frame", "green", "water", "rail", "street", "wall", "ue", "halo", "low", "high", "found",
      "text", "station", "lost",
    ];
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--map-${name}`).trim()]));
  }

  /** Shapes as one path in metres, which also knows itself as text (`d`); `wanted` says which. */
  function pathOf(model, what, wanted, closed) {
    const { shape, kind, x_m: x, y_m: y } = model.tables[what], pieces = [];
    for (let i = 0; i < shape.length; i += 1) {
      if (!wanted(kind[i])) continue;
      pieces.push(shape[i] === shape[i - 1] ? "L" : "M", `${x[i].toFixed(1)} ${y[i].toFixed(1)}`);
      if (closed && shape[i] !== shape[i + 1]) pieces.push("Z");
    }
    const d = pieces.join("");
    return Object.assign(new Path2D(d), { d });
  }

  function shapesOf(model) {
    const height = model.tables.footprint.kind, low = height.reduce((a, b) => Math.min(a, b), Infinity);
    const span = height.reduce((a, b) => Math.max(a, b), -Infinity) - low;
    const shadeOf = (value) => (span > 0 ? Math.min(Math.floor(SHADES * (value - low) / span), SHADES - 1) : 0);
    return {
      scenery: [0, 1, 2].map((kind) => pathOf(model, "scenery", (of) => of === kind, true)),
      streets: STREETS.map(([first, until]) => pathOf(model, "street", (of) => of >= first && of <= until, false)),
      buildings: [...Array(SHADES).keys()].map((level) => pathOf(model, "footprint", (of) => shadeOf(of) === level, true)),
    };
  }

  /** Smallest and largest value of a layer without its outermost hundredths; of a difference symmetrical. */
  function rangeOf(model, layer) {
    const grid = model.meta.coverage, values = [];
    for (let k = 0; k < grid.columns * grid.rows; k += 1) {
      const value = model.level(layer, k);
      if (value !== null) values.push(value);
    }
    values.sort((a, b) => a - b);
    const at = (q) => values[Math.round(q * (values.length - 1))];
    if (layer === "error_db") {
      const most = Math.max(Math.abs(at(0.05)), Math.abs(at(0.95)), 1);
      return [-Math.ceil(most), Math.ceil(most)];
    }
    if (layer === "sinr_db") return [Math.max(Math.floor(at(0)), -10), Math.min(Math.ceil(at(1)), 30)];
    const own = layer === "learnt_dbm" && model.has("coverage_rsrp_dbm") ? rangeOf(model, "rsrp_dbm") : null;
    return own ?? [Math.floor(at(0.01)), Math.ceil(at(0.99))];
  }

  /** How a layer is coloured: its range, its colours, and whether they are classes. */
  function scaleOf(model, layer) {
    if (layer === "cell") return { classes: CELLS, names: [] };
    if (layer === "los") return { classes: SIGHT, names: ["no line of sight", "line of sight"] };
    const [low, high] = rangeOf(model, layer);
    const unit = layer.endsWith("_dbm") ? "dBm" : "dB";
    return { low, high: Math.max(high, low + 1), stops: layer === "error_db" ? DIVERGING : VIRIDIS, unit };
  }

  /** A layer of coverage as an image, a pixel for each square, from north to south. */
  function imageOf(model, layer) {
    const { columns, rows } = model.meta.coverage, scale = scaleOf(model, layer);
    const canvas = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    for (let j = 0; j < rows; j += 1) {
      for (let i = 0; i < columns; i += 1) {
        const value = model.level(layer, j * columns + i);
        if (value === null) continue;
        const colour = scale.classes
          ? rgb(scale.classes[value % scale.classes.length])
          : mixed(scale.stops, (value - scale.low) / (scale.high - scale.low));
        image.data.set([...colour, 255], 4 * ((rows - 1 - j) * columns + i));
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  /** A length that a scale bar of at most so many metres shows well. */
  function roundLength(most_m) {
    const power = 10 ** Math.floor(Math.log10(most_m));
    return [5, 2, 1].map((k) => k * power).find((length) => length <= most_m);
  }

  function painter(model) {
    const shapes = shapesOf(model), images = new Map();
    const [west, south, east, north] = model.meta.area_m;
    const sites = new Map();
    for (const station of model.meta.stations) {
      const key = `${station.x_m} ${station.y_m}`;
      if (!sites.has(key)) sites.set(key, []);
      sites.get(key).push(station);
    }

    function coverage(context, view, layer) {
      if (!images.has(layer)) images.set(layer, imageOf(model, layer));
      const { west_m: x, south_m: y, side_m: side, columns, rows } = model.meta.coverage;
      context.save();
      context.beginPath();
      context.rect(view.x(west), view.y(north), (east - west) * view.scale, (north - south) * view.scale);
      context.clip();
      context.imageSmoothingEnabled = false;
      context.globalAlpha = layer === "cell" || layer === "los" ? 0.5 : 0.82;
      context.drawImage(images.get(layer), view.x(x), view.y(y + rows * side), columns * side * view.scale,
        rows * side * view.scale);
      context.restore();
    }

    /** Measurements of a drive in the colours of the learned map. */
    function drive(context, view, colour) {
      const scale = scaleOf(model, "learnt_dbm");
      const size = Math.min(Math.max(2.2 * Math.sqrt(view.zoom), 2.2), 5);
      for (const grow of [0.8, 0]) {
        for (const [x, y, level_dbm] of model.drive) {
          const share = (level_dbm - scale.low) / (scale.high - scale.low);
          context.fillStyle = grow ? colour.halo : `rgb(${mixed(scale.stops, share).join(" ")})`;
          context.beginPath();
          context.arc(view.x(x), view.y(y), size + grow, 0, 2 * Math.PI);
          context.fill();
        }
      }
    }

    function stations(context, view, colour) {
      const reach = Math.min(Math.max(0.024 * Math.max(east - west, north - south) * view.scale, 14), 44);
      for (const site of sites.values()) {
        const x = view.x(site[0].x_m), y = view.y(site[0].y_m);
        context.globalAlpha = 0.28;
        context.fillStyle = colour.station;
        for (const { azimuth_deg: turn } of site) {
          if (turn === null) continue;
          const middle = (turn - 90) * Math.PI / 180, half = WEDGE / 2 * Math.PI / 180;
          context.beginPath();
          context.moveTo(x, y);
          context.arc(x, y, reach, middle - half, middle + half);
          context.fill();
        }
        context.globalAlpha = 1;
        context.beginPath();
        context.moveTo(x, y - 7);
        context.lineTo(x + 6, y + 4.5);
        context.lineTo(x - 6, y + 4.5);
        context.closePath();
        context.strokeStyle = colour.halo;
        context.lineWidth = 3;
        context.stroke();
        context.fill();
      }
    }

    /** A length, and where north is; above everything else. */
    function ruler(context, view, colour) {
      const length = roundLength(Math.min(160, view.width / 3) / view.scale);
      const x = 12, y = view.height - 14, wide = length * view.scale;
      const text = length >= 1000 ? `${length / 1000} km` : `${length} m`;
      context.font = "600 12px system-ui, sans-serif";
      context.fillStyle = colour.halo;
      context.globalAlpha = 0.8;
      context.fillRect(x - 6, y - 20, Math.max(wide, 30) + 34, 28);
      context.globalAlpha = 1;
      context.strokeStyle = context.fillStyle = colour.text;
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(x, y - 5);
      context.lineTo(x, y);
      context.lineTo(x + wide, y);
      context.lineTo(x + wide, y - 5);
      context.stroke();
      context.textAlign = "left";
      context.fillText(text, x + 4, y - 5);
      const n = x + Math.max(wide, 30) + 14;  // north is up
      context.fillText("N", n, y + 2);
      context.beginPath();
      context.moveTo(n + 4.5, y - 17);
      context.lineTo(n + 8, y - 9);
      context.lineTo(n + 1, y - 9);
      context.fill();
    }

    /** Everything that only changes with the view, the theme and the layers. */
    function paint(context, view, colour, layers, layer) {
      context.fillStyle = colour.outside;
      context.fillRect(0, 0, view.width, view.height);
      context.fillStyle = colour.ground;
      context.fillRect(view.x(west), view.y(north), (east - west) * view.scale, (north - south) * view.scale);
      const inMetres = (drawIt) => {
        context.save();
        context.transform(view.scale, 0, 0, -view.scale, view.x(0), view.y(0));
        drawIt();
        context.restore();
      };
      if (layers.scenery) {
        inMetres(() => shapes.scenery.forEach((path, kind) => {
          context.fillStyle = [colour.green, colour.water, colour.rail][kind];
          context.fill(path, "evenodd");
        }));
      }
      if (layer) coverage(context, view, layer);
      if (layers.streets) {
        inMetres(() => shapes.streets.forEach((path, k) => {
          context.strokeStyle = colour.street;
          context.lineWidth = STREETS[k][2] * Math.min(Math.max(Math.sqrt(view.zoom), 1), 4) / view.scale;
          context.lineJoin = context.lineCap = "round";
          context.stroke(path);
        }));
      }
      if (layers.buildings) {
        inMetres(() => shapes.buildings.forEach((path, level) => {
          context.fillStyle = `rgb(${mixed([colour.low, colour.high], level / (SHADES - 1)).join(" ")})`;
          context.fill(path, "evenodd");
          context.strokeStyle = colour.wall;
          context.lineWidth = 0.6 / view.scale;
          context.stroke(path);
        }));
      }
      if (layers.drive && model.has("coverage_learnt_dbm")) drive(context, view, colour);
      context.strokeStyle = colour.frame;
      context.lineWidth = 1;
      context.strokeRect(view.x(west), view.y(north), (east - west) * view.scale, (north - south) * view.scale);
      if (layers.stations) stations(context, view, colour);
    }

    return { paint, sites, ruler };
  }

  return { painter, colours, scaleOf, mixed, PLASMA, VIRIDIS };
})();
