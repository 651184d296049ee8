// The sections of the page, each from its part of the document.

const report = JSON.parse(document.getElementById("data").textContent);
const section = (name) => document.getElementById(name);
const none = (text) => element("p", { class: "empty" }, text);

function withSoft(text, soft) {
  const parts = typeof text === "string" ? breakable(text) : [text];
  return soft ? [...parts, element("span", { class: "soft" }, ...breakable(soft))] : parts;
}

function showSummary() {
  section("about").textContent = report.about;
  document.querySelector("footer").textContent = report.footer;
  section("summary").append(...report.summary.map(([value, name, more]) =>
    element("div", { class: "figure" }, element("b", {}, value), element("span", {}, name), more ? element("small", {}, more) : null)));
}

function showDearest() {
  const rows = report.most_expensive;
  section("most-expensive").append(rows.length === 0 ? none("There was none.") : makeTable("Most expensive implicit collectives", [
    { title: "Op and operand", value: (row) => row.op, wrap: true, show: (row) => withSoft(row.op, row.operand && `operand ${row.operand}`) },
    { title: "Redistribution", value: (row) => row.text, show: (row) => withSoft(element("code", {}, row.text), row.kinds) },
    { title: "Where", value: (row) => row.where, wrap: true, show: (row) => withSoft(element("code", {}, ...breakable(row.where)), row.module) },
    { title: "Times", number: true, value: (row) => row.count, show: (row) => countText(row.count) },
    { title: "Sent by a rank", number: true, value: (row) => row.bytes, show: (row) => bytesText(row.bytes) },
    { title: "Modelled time", number: true, meter: true, value: (row) => row.us, show: (row) => usText(row.us) },
  ], rows).node);
}

function showTimeline() {
  const { kinds, events, lanes, bars, dropped } = report.timeline;
  if (bars.length === 0) return section("timeline").append(none("Nothing was communicated."));
  let at = 0;
  const made = bars.map(([event, kind, of, us, bytes]) => {
    const bar = { event: events[event], kind: kinds[kind], lanes: of, over: of.map((lane) => lanes[lane]).join(", "), start: at, us: us || 0, bytes };
    at += bar.us;
    return bar;
  });
  if (at === 0) return section("timeline").append(none("Every collective costs nothing under the cost model."));
  const of = lanes.map((name, index) => ({ name, bars: made.filter((bar) => bar.lanes.includes(index)) }));
  section("timeline").append(...makeTimeline({ bars: made, lanes: of, end: at }));
  if (dropped) section("timeline").append(none(`${countText(dropped)} later ones are left out.`));
}

// The plans stand on the page; those behind the first come in portions.
function showMoves() {
  const plans = [...document.querySelectorAll("#moves .plan")];
  const portion = 8;
  const more = element("button", { type: "button", class: "more", onclick: () => show(shown + portion) });
  let shown = 0;
  function show(count) {
    shown = Math.min(count, plans.length);
    plans.forEach((plan, index) => { plan.hidden = index >= shown; });
    const rest = plans.length - shown;
    more.textContent = `Show ${Math.min(portion, rest)} more of ${countText(rest)}`;
    more.hidden = rest === 0;
  }
  show(portion);
  section("moves").append(more);
}

function showDecisions() {
  const rows = report.decisions;
  if (rows.length === 0) return section("decisions").append(none("None was asked for."));
  const table = makeTable("Decisions by module and op", [
    { title: "Module", value: (row) => row.module, wrap: true, show: (row) => withSoft(row.module || "(outside any module)", row.backward ? "backward" : "") },
    { title: "Op", value: (row) => row.op, wrap: true, show: (row) => withSoft(element("code", {}, ...breakable(row.op)), row.where) },
    { title: "Decided by", value: (row) => row.decider, show: (row) => withSoft(row.decider, row.reason) },
    { title: "Decisions", number: true, value: (row) => row.count, show: (row) => (row.count ? countText(row.count) : "–") },
    { title: "Took", number: true, value: (row) => row.seconds, show: (row) => (row.count ? usText(row.seconds * 1e6) : "–") },
    { title: "Moved", number: true, value: (row) => row.moved, show: (row) => (row.moved ? countText(row.moved) : "–") },
    { title: "Sent by a rank", number: true, value: (row) => row.bytes, show: (row) => (row.moved ? bytesText(row.bytes) : "–") },
    { title: "Modelled time", number: true, meter: true, value: (row) => row.us, show: (row) => (row.moved ? usText(row.us) : "–") },
  ], rows, 7);
  const search = element("input", { type: "search", placeholder: "module, op, file or reason", "aria-label": "Search decisions" });
  const deciders = [...new Set(rows.map((row) => row.decider))].sort();
  const decider = element("select", { "aria-label": "Decided by" }, element("option", { value: "" }, "anyone"),
    ...deciders.map((name) => element("option", { value: name }, name)));
  const found = element("span", { class: "found", role: "status" });
  function keep() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((row) => {
      const text = [row.module, row.op, row.where, row.reason, row.backward ? "backward" : ""].join(" ").toLowerCase();
      return (!decider.value || row.decider === decider.value) && words.every((word) => text.includes(word));
    });
    found.textContent = `${plural(kept.length, "row")} of ${countText(rows.length)}`;
    table.keep(kept);
  }
  search.addEventListener("input", keep);
  decider.addEventListener("change", keep);
  keep();
  section("decisions").append(element("div", { class: "tools" }, element("label", {}, "Search ", search),
    element("label", {}, "Decided by ", decider), found), table.node);
}

function showFallbacks() {
  const rows = report.fallbacks;
  section("fallbacks").append(rows.length === 0 ? none("There was none: the core decided everything.") : makeTable("Fallbacks", [
    { title: "Op", value: (row) => row.op, wrap: true, show: (row) => [element("code", {}, ...breakable(row.op))] },
    { title: "Left to", value: (row) => row.decider },
    { title: "Why", value: (row) => row.reason, wrap: true },
    { title: "Decisions", number: true, value: (row) => row.count, show: (row) => countText(row.count) },
    { title: "Took", number: true, value: (row) => row.seconds, show: (row) => usText(row.seconds * 1e6) },
  ], rows, 3).node);
}

// There is a section only where there is something in it.
function showCorrections() {
  const rows = report.corrections;
  if (rows.length === 0) return;
  document.querySelector("nav").append(element("a", { href: "#corrections" }, "Put right"));
  document.querySelector("main").append(element("section", { id: "corrections" },
    element("h2", {}, "Put right"),
    element("p", { class: "lead" }, "Decisions and redistributions where torch alone may give wrong values; docs/corrections.md says why. Answers from torch’s cache are not decisions."),
    makeTable("Corrections", [
      { title: "Op and operands", value: (row) => row.op, wrap: true, show: (row) => withSoft(element("code", {}, ...breakable(row.op)), row.operands) },
      { title: "Fault of torch alone", value: (row) => row.correction, wrap: true },
      { title: "Where", value: (row) => row.where, wrap: true, show: (row) => withSoft(element("code", {}, ...breakable(row.where)), row.module) },
      { title: "Times", number: true, value: (row) => row.count, show: (row) => countText(row.count) },
    ], rows).node));
}

showSummary();
showDearest();
showTimeline();
showMoves();
showDecisions();
showFallbacks();
showCorrections();
