// Lanes of collectives. Only what lies in the window is drawn, and bars thinner than a pixel are
// drawn as one, so a lane never has more elements than it has pixels.

const LANE = 26, GAP = 12, TOP = 6, AXIS = 26;

function makeTimeline(data) {
  const { bars, lanes, end } = data;
  let from = 0, to = end, width = 900, left = 80;
  let picked = null;
  let dragged = null;
  const height = TOP + lanes.length * (LANE + GAP) + AXIS;
  const svg = drawn("svg", {
    tabindex: 0, role: "application", height,
    "aria-label": "Timeline of collectives. Arrow keys step from bar to bar.",
  });
  const facts = element("div", { class: "facts", role: "status", "aria-live": "polite" });
  const tools = element("div", { class: "tools" },
    legend(bars.map((bar) => bar.kind)),
    element("span", { class: "found" },
      button("Zoom in", () => zoom(0.5)), " ", button("Zoom out", () => zoom(2)), " ",
      button("Show all", () => look(0, end))));

  function button(text, onclick) {
    return element("button", { type: "button", onclick }, text);
  }

  function x(us) {
    return left + ((us - from) / (to - from)) * (width - left - 8);
  }

  function us(at) {
    return from + ((at - left) / (width - left - 8)) * (to - from);
  }

  function look(first, last) {
    const least = end / 1e5;
    const middle = (first + last) / 2;
    const span = Math.min(end, Math.max(last - first, least));
    from = Math.max(0, Math.min(middle - span / 2, end - span));
    to = from + span;
    draw();
  }

  function zoom(factor) {
    const middle = picked && picked.start >= from && picked.start <= to ? picked.start + picked.us / 2 : (from + to) / 2;
    const half = ((to - from) * factor) / 2;
    look(middle - half, middle + half);
  }

  // Bars of one lane as [first, last] of those that share a pixel.
  function merged(lane) {
    const found = [];
    for (const bar of lane.bars) {
      if (bar.start + bar.us < from) continue;
      if (bar.start > to) break;
      const last = found[found.length - 1];
      const start = Math.max(x(bar.start), left), stop = Math.min(x(bar.start + bar.us), width - 8);
      if (last && stop - last.start < 1.5) {
        last.stop = Math.max(stop, last.stop);
        last.bars.push(bar);
      } else {
        found.push({ start, stop, bars: [bar] });
      }
    }
    return found;
  }

  function draw() {
    const nodes = [];
    for (const tick of ticks(from, to, Math.max(3, Math.floor((width - left) / 130)))) {
      nodes.push(drawn("line", { class: "tick", x1: x(tick), x2: x(tick), y1: TOP, y2: height - AXIS + 4 }));
      nodes.push(drawn("text", { x: x(tick), y: height - 8, "text-anchor": x(tick) > width - 40 ? "end" : "middle" }, usText(tick)));
    }
    lanes.forEach((lane, index) => {
      const y = TOP + index * (LANE + GAP);
      nodes.push(drawn("text", { class: "name", x: 0, y: y + LANE / 2 + 4 }, lane.name));
      nodes.push(drawn("rect", { class: "track", x: left, y, width: Math.max(0, width - left - 8), height: LANE, rx: 3 }));
      for (const group of merged(lane)) {
        const rect = drawn("rect", {
          x: group.start, y, width: Math.max(group.stop - group.start - (group.stop - group.start > 4 ? 1 : 0), 1), height: LANE,
          class: picked && group.bars.includes(picked) ? "picked" : "",
        });
        rect.style.fill = kindColour(mainKind(group.bars));
        rect.addEventListener("mouseenter", () => tell(group.bars));
        rect.addEventListener("click", () => { picked = group.bars[0]; tell(group.bars); draw(); });
        nodes.push(rect);
      }
    });
    if (dragged) {
      nodes.push(drawn("rect", {
        class: "drag", x: Math.min(dragged.from, dragged.to), y: TOP,
        width: Math.abs(dragged.to - dragged.from), height: height - AXIS - TOP,
      }));
    }
    svg.replaceChildren(...nodes);
  }

  function tell(group) {
    if (group.length > 1) {
      const sum = (of) => group.reduce((total, bar) => total + of(bar), 0);
      const kinds = [...new Set(group.map((bar) => bar.kind))].join(", ");
      facts.replaceChildren(element("b", {}, `${countText(group.length)} collectives`),
        ` ${kinds}: ${usText(sum((b) => b.us))}, ${bytesText(sum((b) => b.bytes))}`,
        element("span", {}, `From ${group[0].event.op || "redistribute()"} to ${group[group.length - 1].event.op || "redistribute()"}. Zoom in to see each.`));
      return;
    }
    const [bar] = group;
    const { op, operand, module, where, text, explicit } = bar.event;
    facts.replaceChildren(element("b", {}, bar.kind),
      ` over ${bar.over}: ${usText(bar.us)}, ${bytesText(bar.bytes)} sent by a rank`,
      element("span", {}, [op || "redistribute()", operand && `operand ${operand}`, text, explicit ? "asked for" : "implicit"].filter(Boolean).join(" · ")),
      element("span", {}, [module, where].filter(Boolean).join(" · ")));
  }

  function step(by) {
    const at = picked ? bars.indexOf(picked) + by : by > 0 ? bars.findIndex((bar) => bar.start >= from) : bars.length - 1;
    if (at < 0 || at >= bars.length) return;
    picked = bars[at];
    if (picked.start < from || picked.start + picked.us > to) {
      const half = (to - from) / 2;
      look(picked.start + picked.us / 2 - half, picked.start + picked.us / 2 + half);
    } else draw();
    tell([picked]);
  }

  svg.addEventListener("keydown", (event) => {
    const act = {
      ArrowRight: () => step(1), ArrowLeft: () => step(-1), "+": () => zoom(0.5), "=": () => zoom(0.5),
      "-": () => zoom(2), "0": () => look(0, end), Escape: () => look(0, end),
      Home: () => { picked = null; look(0, to - from); step(1); }, End: () => { picked = null; step(-1); },
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  const place = (event) => Math.max(left, Math.min(width - 8, event.clientX - svg.getBoundingClientRect().left));
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button) return;
    dragged = { from: place(event), to: place(event) };
  });
  window.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    dragged.to = place(event);
    if (Math.abs(dragged.to - dragged.from) > 4) draw();
  });
  window.addEventListener("pointerup", () => {
    if (!dragged) return;
    const [a, b] = [us(Math.min(dragged.from, dragged.to)), us(Math.max(dragged.from, dragged.to))];
    const moved = Math.abs(dragged.to - dragged.from) > 4;
    dragged = null;
    if (moved) look(a, b);
  });
  function resize() {
    width = Math.max(280, svg.clientWidth || width);
    left = 14 + Math.min(width / 4, 7.5 * Math.max(...lanes.map((lane) => lane.name.length)));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    draw();
  }
  const longest = bars.reduce((best, bar) => (bar.us > best.us ? bar : best), bars[0]);
  tell([longest]);
  new ResizeObserver(resize).observe(svg);
  return [tools, element("div", { class: "lanes" }, svg), facts];
}

// The kind that most of the time goes to.
function mainKind(bars) {
  const times = new Map();
  for (const { kind, us } of bars) times.set(kind, (times.get(kind) || 0) + us);
  return [...times].reduce((best, each) => (each[1] > best[1] ? each : best))[0];
}

function ticks(from, to, about) {
  const rough = (to - from) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let at = Math.ceil(from / step); at * step <= to * (1 + 1e-9); at++) found.push(at * step);
  return found;
}

function legend(kinds) {
  const present = [...new Set(kinds)];
  return element("span", { class: "legend" }, ...present.map((kind) => {
    const swatch = element("i");
    swatch.style.background = kindColour(kind);
    return element("span", {}, swatch, kind);
  }));
}
