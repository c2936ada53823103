#include "runtime/observability/run_page_assets.h"

namespace shoal {

const char kRunPageStyle[] = R"css(
:root { color-scheme: light dark; --back: #f4f6f9; --card: #ffffff; --ink: #17202b; --soft: #5a6675;
  --line: #d8dee6; --train: #1d5fd1; --test: #b8480a; --good: #14713d; --bad: #b3261e; --track: #e3e8ef; }
@media (prefers-color-scheme: dark) { :root { --back: #11161d; --card: #1a212b; --ink: #e6ebf2;
  --soft: #9aa7b8; --line: #323d4b; --train: #7cadff; --test: #ffa366; --good: #63d196; --bad: #ff8f85;
  --track: #2a3442; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1560px; margin: 0 auto; padding: 20px clamp(12px, 2vw, 28px) 32px; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 2px 14px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 30px 0 10px; }
h3 { font-size: 15px; margin: 0 0 6px; }
p { margin: 0; }
.about { flex-basis: 100%; color: var(--soft); overflow-wrap: anywhere; }
.badge { border: 1.5px solid currentColor; border-radius: 99px; padding: 1px 12px; font-weight: 600; font-size: 14px; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.soft { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; margin: 0; }
.notice { margin-top: 14px; border-left: 5px solid var(--bad); overflow-wrap: anywhere; }
#offline:not([hidden]) { display: block; max-width: 1500px; margin: 14px auto 0; }
.progress { margin-top: 16px; }
.progress p { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 18px; }
.progress strong { font-size: 17px; }
.bar { height: 10px; margin-top: 8px; border-radius: 5px; background: var(--track); overflow: hidden; }
.bar span { display: block; height: 100%; background: var(--train); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(132px, 1fr)); gap: 10px; margin: 10px 0 0; }
.figures div { padding: 8px 14px; }
.figures dt { color: var(--soft); font-size: 13px; }
.figures dd { margin: 0; font-size: 21px; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 12px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 0 24px; }
.pair > section { min-width: 0; }
.chart { display: block; width: 100%; height: auto; }
.chart text { fill: var(--soft); font-size: 13px; }
.chart .end { text-anchor: end; }
.chart .mid { text-anchor: middle; }
.chart .number { fill: var(--bad); font-weight: 700; }
.grid { stroke: var(--line); stroke-width: 1; }
.axis { stroke: var(--soft); stroke-width: 1; fill: none; }
.raw { fill: none; stroke: var(--train); stroke-width: 1; opacity: .28; }
.train { fill: none; stroke: var(--train); stroke-width: 2.2; stroke-linejoin: round; }
polyline.test, path.test { fill: none; stroke: var(--test); stroke-width: 2.2; stroke-dasharray: 6 4; }
circle.test { fill: var(--card); stroke: var(--test); stroke-width: 2.2; }
.mark { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 2 3; }
.cursor { stroke: var(--soft); stroke-width: 1; }
figcaption { display: flex; flex-wrap: wrap; gap: 2px 16px; color: var(--soft); font-size: 13px; }
.key { display: inline-flex; align-items: center; gap: 6px; }
.key svg { width: 30px; height: 12px; flex: none; }
.readout { flex-basis: 100%; min-height: 1.5em; color: var(--ink); font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; padding: 4px 16px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 6px 18px 6px 0; border-bottom: 1px solid var(--line); }
tr:last-child > * { border-bottom: 0; }
thead th { color: var(--soft); font-weight: 600; font-size: 13px; white-space: nowrap; }
tbody th { font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.short { white-space: nowrap; }
td.long { width: 100%; min-width: 160px; overflow-wrap: anywhere; }
td.half { width: 50%; }
td:last-child, th:last-child { padding-right: 0; }
.empty { color: var(--soft); padding: 8px 0; }
footer { margin-top: 28px; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
a { color: var(--train); }
@media (max-width: 520px) {
  .chart text { font-size: 17px; }
  h1 { font-size: 22px; }
  .figures dd { font-size: 19px; }
  .scroll { padding: 4px 12px; }
  td.long { min-width: 130px; }
  th, td { padding-right: 9px; }
}
@media print { body { background: none; } .card { break-inside: avoid; } }
)css";

// Replaces <main> by what the chief draws anew, and shows the values under the pointer. The text of
// the page is never made of strings here, so nothing that a user wrote can become markup.
const char kRunPageScript[] = R"js(
(function () {
  'use strict';
  var offline = document.getElementById('offline');
  var main = document.querySelector('main');
  var wait = 2000;
  var pointer = null;

  function scrolls(root) {
    return Array.prototype.slice.call(root.querySelectorAll('.scroll'));
  }
  function show(next) {
    var before = scrolls(main).map(function (box) { return box.scrollLeft; });
    var focus = scrolls(main).indexOf(document.activeElement);
    main.replaceWith(next);
    main = next;
    scrolls(main).forEach(function (box, i) { box.scrollLeft = before[i] || 0; });
    if (focus >= 0 && scrolls(main)[focus]) scrolls(main)[focus].focus({preventScroll: true});
  }
  function isInUse() {
    return document.hidden || !document.getSelection().isCollapsed;
  }
  function ask() {
    if (main.dataset.over) return;
    if (isInUse()) { setTimeout(ask, 1000); return; }
    var ended = new AbortController();
    var timer = setTimeout(function () { ended.abort(); }, 10000);
    fetch('/', {headers: {Accept: 'text/html'}, cache: 'no-store', signal: ended.signal})
        .then(function (answer) {
          if (!answer.ok) throw new Error(answer.status);
          return answer.text();
        })
        .then(function (text) {
          var page = new DOMParser().parseFromString(text, 'text/html');
          var next = page.querySelector('main');
          if (!next) throw new Error('no page');
          offline.hidden = true;
          document.title = page.title;
          show(document.adoptNode(next));
          point();
          wait = 2000;
        })
        .catch(function () {
          if (offline.hidden) {
            offline.querySelector('time').textContent = new Date().toISOString().slice(11, 19) + ' UTC';
            offline.hidden = false;
          }
          wait = Math.min(wait * 2, 30000);
        })
        .finally(function () {
          clearTimeout(timer);
          setTimeout(ask, wait);
        });
  }

  function nearest(line, x) {
    var points = line.getAttribute('points').split(' ');
    var best = null;
    points.forEach(function (text) {
      var at = text.split(',').map(Number);
      if (best === null || Math.abs(at[0] - x) < Math.abs(best[0] - x)) best = at;
    });
    return best;
  }
  function round(number) {
    return String(Number(number.toPrecision(4)));
  }
  function point() {
    var under = pointer ? document.elementFromPoint(pointer.clientX, pointer.clientY) : null;
    var svg = under ? under.closest('svg.chart') : null;
    document.querySelectorAll('.cursor').forEach(function (old) {
      if (old.ownerSVGElement !== svg) {
        old.ownerSVGElement.parentNode.querySelector('.readout').textContent = '';
        old.remove();
      }
    });
    if (!svg) return;
    var d = svg.dataset;
    var box = svg.getBoundingClientRect();
    var x = (pointer.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    var near = nearest(svg.querySelector('polyline.train'), x);
    if (!near) return;
    var step = Math.round((near[0] - d.left) / (d.right - d.left) * d.last);
    var words = ['step ' + step];
    svg.querySelectorAll('polyline[data-name]').forEach(function (line) {
      var at = nearest(line, x);
      var value = +d.low + (d.bottom - at[1]) / (d.bottom - d.top) * (d.high - d.low);
      words.push(line.dataset.name + ' ' + round(value));
    });
    svg.parentNode.querySelector('.readout').textContent = words.join(', ');
    var cursor = svg.querySelector('.cursor');
    if (!cursor) {
      cursor = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      cursor.setAttribute('class', 'cursor');
      svg.appendChild(cursor);
    }
    cursor.setAttribute('d', 'M' + near[0] + ' ' + d.top + 'V' + d.bottom);
  }
  document.addEventListener('pointermove', function (event) {
    pointer = event;
    point();
  });

  if (document.body.dataset.live) setTimeout(ask, wait);
})();
)js";

}  // namespace shoal
