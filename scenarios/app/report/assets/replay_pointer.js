// Hands on the map: drags, pinches, the wheel, clicks, keys, and what is said of the thing under the pointer.
const replayPointer = (() => {
  const CLICK = 5;  // pixels that a pointer may move in a click

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

  /** Keys act while the map has the focus, or is in sight and nothing else has it. */
  function listenKeys(stage, keys) {
    document.addEventListener("keydown", (event) => {
      const focus = document.activeElement, nothing = !focus || focus === document.body;
      const { top, bottom } = stage.getBoundingClientRect();
      const visible = top < 0.6 * innerHeight && bottom > 0.4 * innerHeight;
      if (event.ctrlKey || event.metaKey || event.altKey || !(focus === stage || (nothing && visible))) return;
      const act = keys[event.key];
      if (!act) return;
      event.preventDefault();
      act(event);
    });
  }

  /** Words beside the pointer; found: null for nothing. */
  function tell(stage, tip, found, px, py) {
    stage.classList.toggle("over", found !== null && found.ue >= 0);
    tip.hidden = found === null;
    if (found === null) return;
    tip.textContent = found.text;
    const wide = tip.offsetWidth, left = px + 14 + wide > stage.clientWidth ? px - 14 - wide : px + 14;
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${Math.min(py + 14, stage.clientHeight - tip.offsetHeight - 4)}px`;
  }

  return { listen, listenKeys, tell };
})();
