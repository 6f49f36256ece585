// The part of the world that the map shows: fitted, moved by drags and zoomed by wheel, pinch and buttons.
const replayView = (() => {
  const CLOSEST = 60, MARGIN = 16, CLICK = 5;  // times the whole area; pixels

  function viewOf(model, stage, changed) {
    const [west, south, east, north] = model.meta.area_m;
    const view = { width: 1, height: 1, scale: 1, zoom: 1, cx: (west + east) / 2, cy: (south + north) / 2 };
    view.x = (x) => (x - view.cx) * view.scale + view.width / 2;
    view.y = (y) => view.height / 2 - (y - view.cy) * view.scale;
    view.atX = (px) => (px - view.width / 2) / view.scale + view.cx;
    view.atY = (px) => view.cy + (view.height / 2 - px) / view.scale;
    const wholeScale = () => Math.max(Math.min((view.width - 2 * MARGIN) / (east - west), (view.height - 2 * MARGIN) / (north - south)), 1e-9);

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

  /** Drags, pinches and the wheel; `clicked` and `hovered` get pixels, hovered(null) when the pointer leaves. */
  function listen(stage, view, clicked, hovered) {
    const down = new Map();
    let moved = 0;
    const inside = (event) => {
      const box = stage.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const isControl = (event) => event.target.closest("button") !== null;

    stage.addEventListener("pointerdown", (event) => {
      if (isControl(event)) return;
      stage.setPointerCapture(event.pointerId);
      down.set(event.pointerId, inside(event));
      moved = down.size > 1 ? Infinity : 0;
    });
    stage.addEventListener("pointermove", (event) => {
      const at = inside(event), before = down.get(event.pointerId);
      if (!before) { if (!isControl(event)) hovered(...at); return; }
      moved += Math.hypot(at[0] - before[0], at[1] - before[1]);
      if (down.size === 1 && moved > CLICK) {
        stage.classList.add("dragging");
        view.moveBy(at[0] - before[0], at[1] - before[1]);
      } else if (down.size === 2) {
        const other = [...down].find(([id]) => id !== event.pointerId)[1];
        const length = (p) => Math.max(Math.hypot(p[0] - other[0], p[1] - other[1]), 1);
        view.zoomBy(length(at) / length(before), (at[0] + other[0]) / 2, (at[1] + other[1]) / 2);
      }
      if (moved > CLICK || down.size > 1) down.set(event.pointerId, at);
    });
    const up = (event) => {
      const known = down.delete(event.pointerId);
      if (down.size === 0) stage.classList.remove("dragging");
      if (known && event.type === "pointerup" && moved <= CLICK) clicked(...inside(event));
    };
    stage.addEventListener("pointerup", up);
    stage.addEventListener("pointercancel", up);
    stage.addEventListener("pointerleave", () => hovered(null));
    stage.addEventListener("dblclick", (event) => { if (!isControl(event)) view.zoomBy(2, ...inside(event)); });
    stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== stage) return;  // else the page scrolls
      event.preventDefault();
      view.zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...inside(event));
    }, { passive: false });
  }

  return { viewOf, listen };
})();
