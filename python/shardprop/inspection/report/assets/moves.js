// Plans as ranks see them: per layout a grid of ranks, in each the tensor with the part it holds.

const WIDE = 46, APART = 7, LETTER = 5.8, LINE = 12, THIN = 1.5;

function planCard(plan) {
  const card = element("article", { class: "plan" },
    element("h3", { class: "mono" }, plan.text,
      element("span", {}, `${plan.shape} on ${plan.mesh}`)),
    element("p", {}, [
      `${usText(plan.us)} each, ${plural(plan.count, "time")}, ${bytesText(plan.bytes)} sent by a rank`,
      ...plan.notes,
    ].join(" · ")),
    element("p", {}, plan.users.join(" · ")));
  const flow = element("div", { class: "flow" });
  card.append(flow);
  plan.frames.forEach((frame, index) => {
    // A step and what it leads to stay in one line.
    flow.append(element("div", { class: "hop" },
      index ? stepNode(plan.steps[index - 1]) : null,
      element("figure", { class: "layout" },
        element("figcaption", { class: "mono" }, frame.text), rankGrid(plan, frame))));
  });
  return card;
}

function stepNode(step) {
  const arrow = element("i");
  arrow.style.background = arrow.style.borderColor = kindColour(step.kind);
  return element("div", { class: "step" }, element("b", {}, step.kind), element("span", {}, `over ${step.over}`),
    arrow, element("span", {}, usText(step.us)), element("span", {}, bytesText(step.bytes)));
}

function rankGrid(plan, frame) {
  const { rows, columns, ranks } = plan.grid;
  const tall = Math.round(Math.min(60, Math.max(16, WIDE * plan.ratio)));
  const label = 6 + LETTER * Math.max(...rows.map((row) => row.length));
  const head = 4 + LINE * columns[0].length;
  const width = label + columns.length * (WIDE + APART), height = head + rows.length * (tall + APART);
  const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${frame.text}: what each rank holds` });
  columns.forEach((names, column) => names.forEach((name, line) => svg.append(drawn("text",
    { x: label + column * (WIDE + APART) + WIDE / 2, y: LINE * (line + 1) - 2, "text-anchor": "middle" }, name))));
  rows.forEach((name, row) => svg.append(drawn("text",
    { x: label - 5, y: head + row * (tall + APART) + tall / 2 + 3, "text-anchor": "end" }, name)));
  ranks.forEach((rank, index) => {
    const x = label + (index % columns.length) * (WIDE + APART);
    const y = head + Math.floor(index / columns.length) * (tall + APART);
    svg.append(tensor(plan, frame, frame.of[index], rank, x, y, tall));
  });
  return svg;
}

function tensor(plan, frame, cell, rank, x, y, tall) {
  const [sizeDown, sizeAcross] = plan.sizes;
  const across = WIDE / sizeAcross, down = tall / sizeDown;
  const group = drawn("g", {}, drawn("rect", { class: "tensor", x, y, width: WIDE, height: tall }));
  const held = cell === null ? [] : frame.cells[cell];
  const box = ([top, bottom, first, last], attributes) => drawn("rect", {
    x: x + first * across, y: y + top * down,
    width: Math.max((last - first) * across, THIN), height: Math.max((bottom - top) * down, THIN), ...attributes,
  });
  for (const [colour, ...part] of plan.paint) {
    for (const piece of held) {
      const both = [Math.max(part[0], piece[0]), Math.min(part[1], piece[1]), Math.max(part[2], piece[2]), Math.min(part[3], piece[3])];
      if (both[0] < both[1] && both[2] < both[3]) group.append(box(both, { fill: colour }));
    }
  }
  for (const piece of held) {
    if (frame.pending) group.append(box(piece, { fill: "url(#pending)" }));
    // Around what is hardly wider than the line there is none.
    const least = Math.min((piece[1] - piece[0]) * down, (piece[3] - piece[2]) * across);
    if (least > 2 * THIN) group.append(box(piece, { class: "edge" }));
  }
  group.append(drawn("title", {}, `rank ${rank}`));
  return group;
}

// The stripes of what is still to be reduced; one definition for the page.
function pendingPattern() {
  const pattern = drawn("pattern", { id: "pending", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    drawn("rect", { width: 1.6, height: 5, fill: "#1b1f24", "fill-opacity": 0.55 }));
  const svg = drawn("svg", { width: 0, height: 0, "aria-hidden": "true" }, drawn("defs", {}, pattern));
  svg.style.position = "absolute";
  return svg;
}
