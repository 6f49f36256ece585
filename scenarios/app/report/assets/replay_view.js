// The part of the world that the map shows: fitted, moved and zoomed.
const replayView = (() => {
  const CLOSEST = 60, MARGIN = 16;  // times the whole area; pixels

  function viewOf(model, stage, changed) {
    const [west, south, east, north] = model.meta.area_m;
    const view = { width: 1, height: 1, scale: 1, zoom: 1, cx: (west + east) / 2, cy: (south + north) / 2 };
    view.x = (x) => (x - view.cx) * view.scale + view.width / 2;
    view.y = (y) => view.height / 2 - (y - view.cy) * view.scale;
    view.atX = (px) => (px - view.width / 2) / view.scale + view.cx;
    view.atY = (px) => view.cy + (view.height / 2 - px) / view.scale;
    const wholeScale = () => Math.max(1e-9, Math.min(
      (view.width - 2 * MARGIN) / (east - west), (view.height - 2 * MARGIN) / (north - south)));

    function apply() {
      view.scale = wholeScale() * view.zoom;
      view.cx = Math.min(Math.max(view.cx, west), east);
      view.cy = Math.min(Math.max(view.cy, south), north);
      stage.classList.toggle("zoomed", view.zoom > 1);
      changed();
    }

    view.fit = () => {
      Object.assign(view, { zoom: 1, cx: (west + east) / 2, cy: (south + north) / 2 });
      apply();
    };
    /** Zoom about a pixel, which stays where it is. */
    view.zoomBy = (factor, px = view.width / 2, py = view.height / 2) => {
      const x = view.atX(px), y = view.atY(py);
      view.zoom = Math.min(Math.max(view.zoom * factor, 1), CLOSEST);
      view.scale = wholeScale() * view.zoom;
      view.cx = x - (px - view.width / 2) / view.scale;
      view.cy = y - (view.height / 2 - py) / view.scale;
      if (view.zoom === 1) view.fit(); else apply();
    };
    view.moveBy = (dx, dy) => {
      view.cx -= dx / view.scale;
      view.cy += dy / view.scale;
      apply();
    };
    view.resize = (width, height) => {
      Object.assign(view, { width, height });
      apply();
    };
    return view;
  }

  return { viewOf };
})();
