// The bar's own style; every colour and size is a variable that an app around it may set. Cancel never moves when
// something appears: on a wide bar the controls stand at its far end and Force takes the room before them; on a narrow
// one it comes below them, or above (--standfast-below-order: -1) where the bar is fixed to the foot of a screen.
export const BAR_CSS = `
:host { display: block; color-scheme: inherit;
  --_bg: var(--standfast-bg, light-dark(#ffffff, #1b1d20));
  --_fg: var(--standfast-fg, light-dark(#1c1d1f, #eceae5));
  --_muted: var(--standfast-muted, light-dark(#5a5953, #aaa9a2));
  --_line: var(--standfast-line, light-dark(#dedbd2, #363a41));
  --_accent: var(--standfast-accent, light-dark(#1d5bb8, #85b4ff));
  --_danger: var(--standfast-danger, light-dark(#a81e3a, #ff96a3));
  --_radius: var(--standfast-radius, 10px);
  --_mono: var(--standfast-mono, ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, monospace);
  --_queued: var(--standfast-queued, light-dark(#5f5e58, #a9a8a1));
  --_running: var(--standfast-running, light-dark(#1d5bb8, #85b4ff));
  --_pausing: var(--standfast-pausing, light-dark(#a04a00, #ffb37a));
  --_paused: var(--standfast-paused, light-dark(#755c00, #e8d061));
  --_cancelling: var(--standfast-cancelling, light-dark(#a0206b, #ff97cb));
  --_cancelled: var(--standfast-cancelled, light-dark(#674752, #d0adb9));
  --_done: var(--standfast-done, light-dark(#1a6a3b, #86d8a2));
  --_failed: var(--standfast-failed, light-dark(#b0241c, #ff9a91));
  font: 15px/1.4 var(--standfast-font, system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif);
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
.bar { background: var(--_bg); color: var(--_fg); border: 1px solid var(--_line); border-radius: var(--_radius);
  padding: 10px 12px; display: grid; gap: 8px 16px; grid-template-columns: minmax(0, 1fr) auto; align-items: center; }
.where { display: grid; gap: 3px; min-width: 0; }
.state { display: flex; align-items: center; gap: 8px; min-width: 0; }
.state svg { width: 15px; height: 15px; fill: currentColor; flex: none; align-self: center; }
.word { font-weight: 650; font-size: 1.06em; letter-spacing: -.005em; }
.mark { display: inline-flex; gap: 7px; align-items: center; color: var(--_state); flex: none; }
.why { color: var(--_muted); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; min-width: 0; font-size: .93em; }
.facts { display: flex; flex-wrap: wrap; align-items: center; gap: 2px 14px; color: var(--_muted);
  font: 12px/1.5 var(--_mono); font-variant-numeric: tabular-nums; }
.facts > span:empty { display: none; }
.budget { display: inline-flex; align-items: center; gap: 6px; }
.track { width: 64px; height: 6px; border-radius: 3px; background: var(--_line); overflow: hidden; display: inline-block; }
.fill { display: block; height: 100%; background: var(--_muted); transform-origin: left; }
.budget[data-near] .fill { background: var(--_pausing); }
.budget[data-full] .fill { background: var(--_failed); }
.bar[data-lost] .mark { opacity: .6; } .bar[data-lost] .mark svg { animation: none !important; } .bar[data-lost] .why { color: var(--_pausing); }
.controls { display: flex; gap: 8px; align-items: stretch; align-self: start; }
button { font: inherit; color: inherit; cursor: pointer; -webkit-tap-highlight-color: transparent; border-radius: calc(var(--_radius) - 3px); }
button:focus-visible, textarea:focus-visible { outline: 3px solid var(--_accent); outline-offset: 2px; }
.control { text-align: left; width: 200px; min-height: 56px; padding: 6px 11px; background: transparent; border: 1px solid var(--_line);
  display: grid; align-content: start; gap: 1px; transition: background-color .12s, transform .06s; }
.control b { font-weight: 620; display: flex; gap: 7px; align-items: center; }
.control b svg { width: 12px; height: 12px; fill: currentColor; flex: none; }
.control span { font-size: 12px; line-height: 1.3; color: var(--_muted); display: -webkit-box; -webkit-line-clamp: 3; -webkit-box-orient: vertical; overflow: hidden; overflow-wrap: anywhere; }
.control:hover { background: color-mix(in srgb, var(--_fg) 6%, transparent); }
.control:active, .control[data-pending], .control[data-pressed] { background: color-mix(in srgb, var(--_fg) 12%, transparent); transform: translateY(1px); }
.control[data-pending] b::after, .control[data-pressed] b::after { content: "…"; margin-left: -5px; }
.control[aria-disabled="true"] { cursor: default; border-style: dashed; }
.control[aria-disabled="true"] b { color: var(--_muted); }
.control[aria-disabled="true"]:hover { background: transparent; }
#cancel { border-color: color-mix(in srgb, var(--_danger) 45%, var(--_line)); }
#cancel b, #force b { color: var(--_danger); }
#cancel[data-armed] { background: color-mix(in srgb, var(--_danger) 14%, transparent); }
#force { border-color: var(--_danger); background: color-mix(in srgb, var(--_danger) 9%, transparent); }
.below { grid-column: 1 / -1; display: grid; gap: 6px; order: var(--standfast-below-order, 0); }
.below:not(:has(> :not([hidden]))) { display: none; }
.note { margin: 0; font-size: 13px; color: var(--_muted); display: flex; flex-wrap: wrap; gap: 4px 8px; align-items: baseline; }
.note[data-tone="no"], .note.unread, .note.unread b { color: var(--_danger); }
.note b { color: var(--_fg); font-weight: 600; }
.note del { color: var(--_muted); } .note ins { color: var(--_fg); text-decoration: none; font-weight: 600; }
.small { padding: 3px 10px; min-height: 28px; background: transparent; border: 1px solid var(--_line); }
.small:hover { background: color-mix(in srgb, var(--_fg) 6%, transparent); }
.primary { background: var(--_accent); border-color: var(--_accent); color: var(--_bg); font-weight: 600; }
.primary:hover { background: color-mix(in srgb, var(--_accent) 88%, var(--_fg)); }
form { display: grid; gap: 6px; border-top: 1px solid var(--_line); padding-top: 9px; }
label { font-size: 13px; color: var(--_muted); } label b { color: var(--_fg); }
textarea { width: 100%; font: inherit; color: inherit; background: color-mix(in srgb, var(--_fg) 3%, var(--_bg)); border: 1px solid var(--_line);
  border-radius: calc(var(--_radius) - 3px); padding: 8px 10px; resize: vertical; min-height: 44px; }
.row { display: flex; gap: 8px; flex-wrap: wrap; align-items: center; } .row .hint { font-size: 12px; color: var(--_muted); }
.status { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@keyframes breathe { 50% { opacity: .45; } }
.bar[data-status="running"] .mark svg, .bar[data-status="pausing"] .mark svg, .bar[data-status="cancelling"] .mark svg { animation: breathe 2.2s ease-in-out infinite; }
@media (prefers-reduced-motion: reduce) { * { animation: none !important; transition: none !important; } }
@container (max-width: 1000px) { .bar { grid-template-columns: minmax(0, 1fr); } .controls { align-self: auto; display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); } .control { width: auto; } #force { grid-column: 1 / -1; order: var(--standfast-below-order, 1); } }
@container (max-width: 460px) { .bar { padding: 8px; gap: 6px; } .control { padding: 6px 8px; min-height: 64px; } .control span { font-size: 11.5px; -webkit-line-clamp: 5; } .controls { gap: 6px; } .why { white-space: normal; display: -webkit-box; -webkit-line-clamp: 2; -webkit-box-orient: vertical; } #force { min-height: 44px; } }
.frame { container-type: inline-size; }
`;
