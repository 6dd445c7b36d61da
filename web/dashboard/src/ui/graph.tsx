/** A picture on a canvas that can be moved and enlarged; a table beside it says the same. */

import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "../core/format";
import type { Mark, MarkKind, Scene } from "../core/scenes";
import { colour, theme } from "../core/theme";

const HUES: Record<MarkKind, string> = {
  origin: "accent",
  node: "accent",
  silent: "bad",
  hub: "in",
  channel: "out",
  session: "muted",
  more: "muted",
};
const NEAR_PX = 12;
const LABEL_PX = 13;
/** Between a picture with its labels and the rim. */
const RIM_PX = 8;
/** A picture is never smaller than this part of its room; where that is too large for the labels, they are shortened. */
const LEAST_PART = 0.5;
const MOST_LETTERS = 28;

interface View {
  scale: number;
  x: number;
  y: number;
}

export function Graph({ scene, label, ripples = false }: { scene: Scene; label: string; ripples?: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<View>({ scale: 0, x: 0, y: 0 });
  const [hint, setHint] = useState("");
  const [zoomed, setZoomed] = useState(0);
  const hues = theme.value;
  const redraw = (): void => {
    if (canvas.current) draw(canvas.current, scene, view.current, ripples);
  };

  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => {
      element.width = element.clientWidth * devicePixelRatio;
      element.height = element.clientHeight * devicePixelRatio;
      redraw();
    });
    watch.observe(element);
    return () => watch.disconnect();
  }, [scene, ripples]);
  useEffect(redraw, [scene, hues, zoomed]);

  const zoom = (factor: number, x = 0, y = 0): void => {
    const now = fitted(canvas.current, scene, view.current);
    const scale = Math.min(Math.max(now.scale * factor, 0.05), 20);
    const by = scale / now.scale;
    view.current = { scale, x: x - (x - now.x) * by, y: y - (y - now.y) * by };
    setZoomed((n) => n + 1);
  };
  const whole = (): void => {
    view.current = { scale: 0, x: 0, y: 0 };
    setZoomed((n) => n + 1);
  };

  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    let held: { x: number; y: number } | null = null;
    const at = (event: MouseEvent): [number, number] => {
      const box = element.getBoundingClientRect();
      return [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
    };
    const wheel = (event: WheelEvent): void => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== element) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300), ...at(event));
    };
    const down = (event: PointerEvent): void => {
      held = { x: event.clientX, y: event.clientY };
      element.setPointerCapture(event.pointerId);
    };
    const move = (event: PointerEvent): void => {
      if (held) {
        const now = fitted(element, scene, view.current);
        view.current = {
          scale: now.scale,
          x: now.x + event.clientX - held.x,
          y: now.y + event.clientY - held.y,
        };
        held = { x: event.clientX, y: event.clientY };
        draw(element, scene, view.current, ripples);
        return;
      }
      setHint(nearest(scene, fitted(element, scene, view.current), ...at(event))?.detail ?? "");
    };
    const up = (): void => {
      held = null;
    };
    const keys = (event: KeyboardEvent): void => {
      const steps: Record<string, () => void> = {
        "+": () => zoom(1.4),
        "-": () => zoom(1 / 1.4),
        "0": whole,
        ArrowLeft: () => pan(40, 0),
        ArrowRight: () => pan(-40, 0),
        ArrowUp: () => pan(0, 40),
        ArrowDown: () => pan(0, -40),
      };
      const step = steps[event.key];
      if (!step) return;
      event.preventDefault();
      step();
    };
    const pan = (x: number, y: number): void => {
      const now = fitted(element, scene, view.current);
      view.current = { ...now, x: now.x + x, y: now.y + y };
      redraw();
    };
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", up);
    element.addEventListener("keydown", keys);
    return () => {
      element.removeEventListener("wheel", wheel);
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", up);
      element.removeEventListener("keydown", keys);
    };
  }, [scene]);

  return (
    <div class="graph">
      <canvas ref={canvas} role="img" tabIndex={0} aria-label={`${label}. The table below says the same.`} />
      <div class="zoom">
        <button type="button" aria-label="Larger" onClick={() => zoom(1.4)}>
          +
        </button>
        <button type="button" aria-label="Smaller" onClick={() => zoom(1 / 1.4)}>
          −
        </button>
        <button type="button" aria-label="All of it" onClick={whole}>
          ⤢
        </button>
      </div>
      <p class="hint">{hint || (scene.hidden > 0 ? `+ ${count(scene.hidden)} that are not drawn` : "")}</p>
    </div>
  );
}

/** Where the picture is: as it was moved, else so that all of it can be seen. */
function fitted(canvas: HTMLCanvasElement | null, scene: Scene, view: View): View {
  if (view.scale > 0 || !canvas) return view;
  const context = canvas.getContext("2d");
  const [width, height] = [canvas.clientWidth / 2 - RIM_PX, canvas.clientHeight / 2 - RIM_PX];
  let scale = 1.6;
  for (const mark of context ? scene.marks : []) {
    const { dx, dy } = labelOf(context as CanvasRenderingContext2D, scene, mark, 1);
    if (Math.abs(mark.x) > 1) scale = Math.min(scale, (width - dx) / Math.abs(mark.x));
    if (Math.abs(mark.y) > 1) scale = Math.min(scale, (height - dy) / Math.abs(mark.y));
  }
  return { scale: Math.max(scale, (LEAST_PART * Math.min(width, height)) / scene.radius), x: 0, y: 0 };
}

/** Members are labelled beside their marks, hubs and nodes of a tree below theirs, the rest along its radius. */
type Manner = "beside" | "below" | "along";

interface Label {
  text: string;
  manner: Manner;
  strong: boolean;
  width: number;
  /** From the middle of the mark to the label. */
  away: number;
  /** How far the label reaches from the middle of the mark, to its outer side. */
  dx: number;
  dy: number;
}

function labelOf(context: CanvasRenderingContext2D, scene: Scene, mark: Mark, scale: number): Label {
  const text = mark.label.length > MOST_LETTERS ? `${mark.label.slice(0, MOST_LETTERS - 1)}…` : mark.label;
  const strong = mark.kind !== "channel" && mark.kind !== "session" && mark.kind !== "more";
  context.font = `${strong ? "600 " : ""}${strong ? LABEL_PX : LABEL_PX - 1}px system-ui, sans-serif`;
  const width = text === "" ? 0 : context.measureText(text).width;
  const away = mark.r * Math.min(1, Math.max(0.35, scale)) + 5;
  const ring = scene.ties.every((tie) => tie.kind !== "tie") || scene.marks.length === 1;
  const sideways = scene.marks.length > 1 && Math.abs(Math.cos(mark.angle)) >= 0.3;
  const manner: Manner = ring && sideways ? "beside" : ring || strong ? "below" : "along";
  const length = away + width;
  const reach = {
    beside: { dx: length + 4, dy: LABEL_PX },
    below: { dx: width / 2, dy: away + 10 + LABEL_PX },
    along: mark.leaf
      ? { dx: Math.abs(Math.cos(mark.angle)) * length + 6, dy: Math.abs(Math.sin(mark.angle)) * length + 6 }
      : { dx: 0, dy: 0 },
  }[manner];
  return { text, manner, strong, width, away, ...reach };
}

/** As much of a label as there is room for between its mark and the rim. */
function shortened(context: CanvasRenderingContext2D, label: Label, room: number): string {
  if (label.width <= room) return label.text;
  let { text } = label;
  while (text.length > 1 && context.measureText(`${text}…`).width > room) text = text.slice(0, -1);
  return `${text}…`;
}

function nearest(scene: Scene, view: View, x: number, y: number): Mark | undefined {
  let found: Mark | undefined;
  let least = NEAR_PX;
  for (const mark of scene.marks) {
    const away = Math.hypot(mark.x * view.scale + view.x - x, mark.y * view.scale + view.y - y) - mark.r;
    if (away < least) {
      least = away;
      found = mark;
    }
  }
  return found;
}

function draw(canvas: HTMLCanvasElement, scene: Scene, moved: View, ripples: boolean): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const { scale, x, y } = fitted(canvas, scene, moved);
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  context.translate(canvas.clientWidth / 2 + x, canvas.clientHeight / 2 + y);
  const paint = Object.fromEntries(
    ["accent", "in", "out", "bad", "muted", "ink", "hair", "sheet"].map((name) => [name, colour(name)]),
  );
  if (ripples) {
    context.strokeStyle = paint.hair as string;
    for (const part of [0.33, 0.66, 1]) {
      context.beginPath();
      context.arc(0, 0, Math.max(200 * part * scale, 1), 0, 2 * Math.PI);
      context.stroke();
    }
  }
  for (const kind of ["tie", "link", "broken"] as const) {
    context.beginPath();
    context.strokeStyle = paint[{ tie: "hair", link: "accent", broken: "bad" }[kind]] as string;
    context.lineWidth = kind === "tie" ? 1 : 1.5;
    context.setLineDash(kind === "broken" ? [4, 4] : []);
    for (const tie of scene.ties) {
      if (tie.kind !== kind) continue;
      const from = scene.marks[tie.from] as Mark;
      const to = scene.marks[tie.to] as Mark;
      context.moveTo(from.x * scale, from.y * scale);
      context.lineTo(to.x * scale, to.y * scale);
    }
    context.stroke();
  }
  context.setLineDash([]);
  for (const mark of scene.marks) drawMark(context, mark, scale, paint);
  const whole = moved.scale === 0 ? canvas : null;
  drawLabels(context, scene, scale, paint, whole);
}

function drawMark(
  context: CanvasRenderingContext2D,
  mark: Mark,
  scale: number,
  paint: Record<string, string>,
): void {
  const size = mark.r * Math.min(1, Math.max(0.35, scale));
  const hue = paint[HUES[mark.kind]] as string;
  context.beginPath();
  if (mark.kind === "session") context.rect(mark.x * scale - size, mark.y * scale - size, 2 * size, 2 * size);
  else context.arc(mark.x * scale, mark.y * scale, size, 0, 2 * Math.PI);
  const hollow = mark.kind === "channel" || mark.kind === "silent" || mark.kind === "more";
  context.fillStyle = hollow ? (paint.sheet as string) : hue;
  context.fill();
  context.strokeStyle = hue;
  context.lineWidth = 1.5;
  context.stroke();
}

/** Only labels that do not cover each other, the most important ones first. */
function drawLabels(
  context: CanvasRenderingContext2D,
  scene: Scene,
  scale: number,
  paint: Record<string, string>,
  whole: HTMLCanvasElement | null,
): void {
  const taken = new Set<string>();
  const order: Record<MarkKind, number> = {
    origin: 0,
    node: 1,
    silent: 1,
    hub: 2,
    channel: 3,
    more: 4,
    session: 5,
  };
  const marks = [...scene.marks].sort((a, b) => order[a.kind] - order[b.kind] || b.r - a.r);
  for (const mark of marks) {
    if (mark.label === "") continue;
    const label = labelOf(context, scene, mark, scale);
    const px = mark.x * scale;
    const py = mark.y * scale;
    const along = mark.leaf ? mark.angle : mark.angle + Math.PI;
    const squares = label.width / LABEL_PX;
    const below = py + label.away + 8;
    const cells =
      label.manner === "below"
        ? [
            ...cellsOf(px - LABEL_PX, py, 0, 1),
            ...cellsOf(px - label.width / 2 - LABEL_PX, below, 0, squares),
          ]
        : cellsOf(px, py, along, label.manner === "along" ? squares : 1);
    if (!label.strong && cells.some((cell) => taken.has(cell))) continue;
    for (const cell of cells) taken.add(cell);
    const left = Math.cos(mark.angle) < 0;
    context.save();
    context.translate(px, py);
    context.fillStyle = paint[mark.kind === "silent" ? "bad" : label.strong ? "ink" : "muted"] as string;
    context.textBaseline = "middle";
    if (label.manner === "beside") {
      const side = left ? -1 : 1;
      context.textAlign = left ? "right" : "left";
      const room = whole ? whole.clientWidth / 2 - RIM_PX - Math.abs(px) - label.away - 4 : Infinity;
      context.fillText(shortened(context, label, room), side * (label.away + 4), 0);
    } else if (label.manner === "below") {
      const above = scene.ties.every((tie) => tie.kind !== "tie") && scene.marks.length > 1 && mark.y < 0;
      context.textAlign = "center";
      context.strokeStyle = paint.sheet as string;
      context.lineWidth = 4;
      const at = above ? -label.away - 10 : label.away + 8;
      context.strokeText(label.text, 0, at);
      context.fillText(label.text, 0, at);
    } else {
      context.rotate(left ? mark.angle + Math.PI : mark.angle);
      const outwards = left === mark.leaf ? -1 : 1;
      context.textAlign = outwards < 0 ? "right" : "left";
      const room = whole && mark.leaf ? roomAlong(whole, px, py, mark.angle) - label.away : Infinity;
      context.fillText(shortened(context, label, room), outwards * label.away, 0);
    }
    context.restore();
  }
}

/** From a place to the rim of the picture, in a direction. */
function roomAlong(
  { clientWidth, clientHeight }: HTMLCanvasElement,
  x: number,
  y: number,
  angle: number,
): number {
  const sides: [number, number, number][] = [
    [clientWidth / 2 - RIM_PX, x, Math.cos(angle)],
    [clientHeight / 2 - RIM_PX, y, Math.sin(angle)],
  ];
  return Math.min(
    ...sides.map(([half, at, part]) => (half - at * Math.sign(part)) / Math.max(Math.abs(part), 1e-3)),
  );
}

/** Squares of a label's height along its line, for finding out whether two labels meet. */
function cellsOf(x: number, y: number, angle: number, squares: number): string[] {
  return Array.from({ length: Math.ceil(squares) + 1 }, (_, at) => {
    const along = (at + 0.8) * LABEL_PX;
    return `${Math.round((x + Math.cos(angle) * along) / LABEL_PX)} ${Math.round((y + Math.sin(angle) * along) / LABEL_PX)}`;
  });
}
