"use strict";
// Elements, and numbers as words. All text goes in as text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") made.setAttribute("class", value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined) made.append(child);
  }
  return made;
}

function element(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A name that may go on in the next line behind a dot, a slash or an underscore.
function breakable(text) {
  return text.split(/(?<=[./_])/).flatMap((part, index) => (index ? [element("wbr"), part] : [part]));
}

function three(value) {
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

function usText(us) {
  if (us === null) return "impossible";
  if (us < 1000) return three(us) + " us";
  return us < 1e6 ? three(us / 1e3) + " ms" : three(us / 1e6) + " s";
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; unit++) bytes /= 1024;
  return three(bytes) + " " + units[unit];
}

function countText(count) {
  return count.toLocaleString("en");
}

function plural(count, word) {
  return countText(count) + " " + word + (count === 1 ? "" : "s");
}

const KINDS = ["all_gather", "all_reduce", "reduce_scatter", "all_to_all", "permute"];

function kindColour(kind) {
  return KINDS.includes(kind) ? `var(--${kind})` : "var(--local)";
}
