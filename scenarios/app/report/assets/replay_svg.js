// The map as a vector picture: what is painted on a canvas, written down as SVG instead.
const replaySvg = (() => {
  const SIGNS = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  const escaped = (text) => text.replace(/[&<>"]/g, (sign) => SIGNS[sign]);
  const short = (number) => String(Math.round(number * 100) / 100);
  const STATE = [
    "fillStyle", "strokeStyle", "lineWidth", "globalAlpha", "lineCap", "lineJoin", "dash", "font", "matrix", "clipId",
  ];

  /** Takes the calls of a canvas that the replay makes, and keeps them as elements. */
  class Recorder {
    constructor() {
      this.isVector = true;
      this.elements = [];
      this.clips = [];
      this.kept = [];
      this.d = [];
      Object.assign(this, {
        fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, lineCap: "butt", lineJoin: "miter",
        dash: [], font: "12px sans-serif", matrix: null, clipId: null,
      });
    }

    save() { this.kept.push(Object.fromEntries(STATE.map((name) => [name, this[name]]))); }
    restore() { Object.assign(this, this.kept.pop()); }
    transform(...matrix) { this.matrix = matrix; }  // from pixels: nothing else is in force when the replay calls it
    translate(x, y) { this.matrix = [1, 0, 0, 1, x, y]; }
    setLineDash(dash) { this.dash = dash; }
    clearRect() { }

    beginPath() { this.d = []; }
    moveTo(x, y) { this.d.push(`M${short(x)} ${short(y)}`); }
    lineTo(x, y) { this.d.push(`${this.d.length ? "L" : "M"}${short(x)} ${short(y)}`); }
    closePath() { this.d.push("Z"); }
    rect(x, y, width, height) {
      this.d.push(`M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}Z`);
    }
    arc(x, y, r, from, to) {
      const point = (turn) => `${short(x + r * Math.cos(turn))} ${short(y + r * Math.sin(turn))}`;
      const half = (end) => `A${short(r)} ${short(r)} 0 0 1 ${point(end)}`;  // one arc cannot be a circle
      this.d.push(`${this.d.length ? "L" : "M"}${point(from)}`, half((from + to) / 2), half(to));
    }

    add(tag, attributes, content = "") {
      const all = { ...attributes };
      if (this.globalAlpha !== 1) all.opacity = short(this.globalAlpha);
      if (this.matrix) all.transform = `matrix(${this.matrix.join(" ")})`;
      const element = `<${tag} ${Object.entries(all).map(([k, v]) => `${k}="${escaped(String(v))}"`).join(" ")}`;
      const whole = content ? `${element}>${escaped(content)}</${tag}>` : `${element}/>`;
      this.elements.push(this.clipId ? `<g clip-path="url(#${this.clipId})">${whole}</g>` : whole);
    }
    strokes() {
      return {
        fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-linecap": this.lineCap,
        "stroke-linejoin": this.lineJoin, ...(this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {}),
      };
    }

    fill(path, rule) {
      const d = path?.d ?? this.d.join("");
      if (d) this.add("path", { d, fill: this.fillStyle, ...(rule ? { "fill-rule": rule } : {}) });
    }
    stroke(path) {
      const d = path?.d ?? this.d.join("");
      if (d) this.add("path", { d, ...this.strokes() });
    }
    fillRect(x, y, width, height) { this.add("rect", { x, y, width, height, fill: this.fillStyle }); }
    strokeRect(x, y, width, height) { this.add("rect", { x, y, width, height, ...this.strokes() }); }
    fillText(words, x, y) { this.add("text", { x, y, style: `font: ${this.font}`, fill: this.fillStyle }, words); }
    clip() {
      this.clipId = `clip${this.clips.length}`;
      this.clips.push(`<clipPath id="${this.clipId}"><path d="${this.d.join("")}"/></clipPath>`);
    }
    drawImage(canvas, x, y, width, height) {
      const style = "image-rendering: pixelated", href = canvas.toDataURL();
      this.add("image", { x, y, width, height, href, preserveAspectRatio: "none", style });
    }

    text(width, height) {
      const box = `0 0 ${width} ${height}`;
      return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="${box}">`
        + `<clipPath id="frame"><rect width="${width}" height="${height}"/></clipPath>${this.clips.join("")}`
        + `<g clip-path="url(#frame)">${this.elements.join("\n")}</g></svg>\n`;
    }
  }

  return { Recorder };
})();
