import{D as e,E as t,M as n,O as r,T as i,b as a,c as o,d as s,f as c,g as l,i as u,l as d,m as f,n as p,p as m,v as h,x as g}from"./client-8JYr_Lwd.js";var _=`
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
`,v=class{kept=new Map;of(e){return this.kept.get(e)}keep(e,t){t===void 0||t===``?this.kept.delete(e):this.kept.set(e,t)}},y={pause:`p`,redirect:`r`,cancel:`x`,help:`?`},b={pause:`Pause or resume`,redirect:`Redirect`,cancel:`Cancel (press twice)`,help:`Show the keys`},x=1500;function S(e,t,n){if(n||e.ctrlKey||e.altKey||e.metaKey||e.isComposing||e.repeat)return null;let r=e.key.length===1?e.key.toLowerCase():e.key;return Object.keys(t).find(e=>t[e]!==``&&t[e].toLowerCase()===r)??null}function C(e){let t=e[0],n=t?.tagName??``;return n===`INPUT`||n===`TEXTAREA`||n===`SELECT`||t?.isContentEditable===!0}function w(e,t){return[...(t??e).trim()].at(-1)??``}function T(e,t,n){let r={...e,[t]:n};for(let i of Object.keys(e))i!==t&&n!==``&&e[i].toLowerCase()===n.toLowerCase()&&(r[i]=e[t]);return r}var E=class{first=0;disarm(){this.first=0}press(e){let t=this.first>0&&e-this.first<=1500;return this.first=t?0:e,t}},D=[`pause`,`redirect`,`cancel`,`rewind`,`take_over`];function O(e,t,n){return D.includes(t)?{...n,trigger:e}:n}var k=5,A=600,j={pause:o.paused,resume:o.running,redirect:`M1.5 9.5c0-3 2-5 5-5h4V1.2L15 5.7l-4.5 4.5V7h-4c-1.6 0-2.6 1-2.6 2.6v4.2H1.5Z`,cancel:o.cancelled,force:o.failed};function M(e,t=``){return`<button type="button" class="control" id="${e}" ${t}><b></b><span id="${e}-words"></span></button>`}var N=`
<div class="frame"><section class="bar" aria-label="Run controls" part="bar">
  <div class="where">
    <div class="state"><span class="mark"><svg viewBox="0 0 16 16" aria-hidden="true"><path fill-rule="evenodd"/></svg><span class="word"></span></span><span class="why"></span></div>
    <div class="facts"><span class="elapsed"></span><span class="held"></span><span class="plan"></span><span class="steps"></span><span class="budget"><span class="track"><span class="fill"></span></span><span class="cap"></span></span></div>
  </div>
  <div class="controls" role="group" aria-label="Pause, redirect, cancel">
    ${M(`force`,`hidden`)}
    ${M(`pause`)}
    ${M(`redirect`,`aria-expanded="false" aria-controls="composer"`)}
    ${M(`cancel`)}
  </div>
  <div class="below">
    <p class="note" id="pending" hidden></p>
    <p class="note unread" id="unread" role="alert" hidden></p>
    <p class="note" id="diff" hidden></p>
    <p class="note" id="said" hidden></p>
    <form id="composer" hidden>
      <label for="text"></label>
      <textarea id="text" rows="2"></textarea>
      <div class="row">
        <button class="small primary" id="now">Redirect now</button>
        <button type="button" class="small" id="next">After this step</button>
        <button type="button" class="small" id="close">Close</button>
        <span class="hint"></span>
      </div>
    </form>
  </div>
  <div class="status" role="status" aria-live="polite"></div>
</section></div>`,P,F=new v,I=class extends HTMLElement{static observedAttributes=[`run`];given;watched;stopWatching;timer;from=null;slotMeans=`pause`;slotChanged=0;announced=``;kills=``;asking=null;reopen=!1;twice=new E;disarm;get run(){return this.getAttribute(`run`)??``}set run(e){this.setAttribute(`run`,e)}set client(e){this.given=e,this.isConnected&&this.attach()}connectedCallback(){this.shadowRoot||this.build(),this.attach(),this.timer=setInterval(()=>this.tick(),500)}disconnectedCallback(){clearInterval(this.timer),this.detach()}attributeChangedCallback(){this.isConnected&&this.attach()}press(e){e===`pause`?this.pauseOrResume(`key`):e===`redirect`?this.compose():this.ask(e,e,{},`key`)}cancelTwice(){return this.twice.press(Date.now())?(this.press(`cancel`),`asked`):(this.arm(!0),clearTimeout(this.disarm),this.disarm=setTimeout(()=>this.arm(!1),x),`armed`)}arm(e){e||this.twice.disarm(),this.part_(`cancel`).toggleAttribute(`data-armed`,e),e&&this.say(`Press again to cancel.`,``)}compose(e=null){this.openComposer(e,!0)}openComposer(t,n){if(!this.watched||e.includes(this.watched.view.status)||this.watched.view.status===`cancelling`||!this.may(`redirect`)||!t&&this.takesNoRedirects())return;let r=this.part_(`composer`),i=this.part_(`text`);if(!r.hidden&&this.from===t){i.focus();return}this.from=t;let a=t??R(this.watched.view.plan);r.querySelector(`label`).replaceChildren(...t?[`From here, instead of `,z(t.title),`: what came after it is undone first`]:a?[`Instead of `,z(a.title)]:[`What should it do instead?`]);let o=F.of(this.watched.id);i.value=o&&o.from?.id===t?.id?o.text:a?.title??``,this.part_(`now`).textContent=t?`Redirect from here`:`Redirect now`,this.part_(`next`).hidden=t!==null,r.querySelector(`.hint`).textContent=t?`Enter: from here · Esc: close`:`Enter: now · Shift+Enter: new line · Esc: close`,r.hidden=!1,this.part_(`redirect`).setAttribute(`aria-expanded`,`true`),n&&(i.focus(),i.select())}build(){let e=this.attachShadow({mode:`open`});P??=new CSSStyleSheet,P.replaceSync(_),e.adoptedStyleSheets=[P],e.innerHTML=N;for(let e of[`redirect`,`cancel`,`force`])this.label(e,e===`force`?`Force stop`:e===`redirect`?`Redirect`:`Cancel`,e);this.label(`pause`,`Pause`,`pause`),this.part_(`pause`).onclick=()=>this.pauseOrResume(),this.part_(`redirect`).onclick=()=>this.part_(`composer`).hidden?this.compose():this.closeComposer(),this.part_(`cancel`).onclick=()=>void this.ask(`cancel`,`cancel`),this.part_(`force`).onclick=()=>void this.ask(`force`,`force`),this.part_(`next`).onclick=()=>void this.redirect(`next`),this.part_(`close`).onclick=()=>this.closeComposer();let t=this.part_(`composer`);t.onsubmit=e=>{e.preventDefault(),this.redirect(`now`)},t.oninput=()=>{this.watched&&F.keep(this.watched.id,{text:this.part_(`text`).value,from:this.from})},t.onkeydown=e=>{e.key===`Escape`?(e.stopPropagation(),this.closeComposer()):e.key===`Enter`&&!e.shiftKey&&!e.isComposing&&e.target===this.part_(`text`)&&(e.preventDefault(),this.redirect(`now`,`key`))}}attach(){this.detach(),this.reset();let e=this.getAttribute(`run`);if(!e)return;let t=this.given??u();this.given=t;let n=t.watch(e);this.watched=n;let r=[n.subscribe(()=>this.draw()),t.subscribe(()=>this.draw())];this.stopWatching=()=>{for(let e of r)e();t.unwatch(e)},this.reopen=F.of(e)!==void 0,this.draw()}reset(){if(this.shadowRoot){this.hideComposer(),this.arm(!1),this.say(``,``);for(let e of[`pause`,`redirect`,`cancel`,`force`])this.part_(e).removeAttribute(`data-pending`);this.part_(`force`).hidden=!0,this.part_(`pending`).hidden=this.part_(`unread`).hidden=this.part_(`diff`).hidden=!0,this.kills=``,this.asking=null,this.announced=``,this.text(`.status`,``),delete this.find(`.bar`).dataset.drawn}}detach(){this.stopWatching?.(),this.stopWatching=void 0,this.watched=void 0}pauseOrResume(e=`button`){this.watched&&this.part_(`pause`).getAttribute(`aria-disabled`)!==`true`&&(this.slotMeans===`resume`&&Date.now()-this.slotChanged<A||this.ask(`pause`,this.slotMeans,{},e))}async redirect(e,t=`button`){let n=this.part_(`text`).value.trim();if(!n)return;let r=this.from?{text:n,from_step:this.from.step??this.from.id}:{text:n,when:e};(await this.ask(`redirect`,`redirect`,r,t))?.answer===`accepted`&&this.closeComposer()}closeComposer(){this.watched&&F.keep(this.watched.id,void 0),this.hideComposer()}hideComposer(){let e=this.shadowRoot.activeElement?.closest(`form`);this.part_(`composer`).hidden=!0,this.from=null,this.part_(`redirect`).setAttribute(`aria-expanded`,`false`),e&&this.part_(`redirect`).focus()}async ask(e,t,n={},r=`button`){if(!this.watched||!this.given)return null;let i=this.watched,a=e===null?null:this.part_(e);if(a?.getAttribute(`aria-disabled`)===`true`)return null;a?.setAttribute(`data-pending`,``),this.arm(!1),this.asking=t,this.sayUnsent();try{let e=await this.given.verb(i.id,t,O(r,t,n));return this.watched===i?(this.show(t,e),e):null}catch(e){if(this.watched!==i)return null;let t=e instanceof p?e.problem:null;return this.say([e instanceof Error?e.message:String(e),t?.hint].filter(Boolean).join(` · `),`no`),null}finally{this.watched===i&&(this.asking=null,a?.removeAttribute(`data-pending`))}}sayUnsent(){this.asking&&this.lost&&this.say(i(this.asking),``)}get lost(){return this.given!==void 0&&this.given.lostAt!==null}show(t,n){if(this.dispatchEvent(new CustomEvent(`standfast-answer`,{detail:{verb:t,answer:n},bubbles:!0,composed:!0})),n.answer===`accepted`){let r=e.includes(this.watched.view.status)||this.watched.view.status===`paused`,i=n.in_flight?.length&&!r?`still in flight: ${h(n.in_flight)}`:``;this.say(t===`redirect`?``:[n.note,i].filter(Boolean).join(` · `),``)}else n.answer===`too_late`?this.say(`Too late to ${t.replace(`_`,` `)}: already ${n.status}.`,`no`):this.say(`Refused: ${n.why}`,`no`,n.choices)}say(e,t,n=[]){let r=this.part_(`said`);r.dataset.tone=t,r.replaceChildren(e);for(let e of n){let t=document.createElement(`button`);t.type=`button`,t.className=`small`,t.textContent=e.label||e.verb,t.onclick=()=>void this.ask(null,e.verb,e.args),r.append(t)}r.hidden=!e&&!n.length}draw(){if(!this.watched||!this.shadowRoot)return;let t=this.watched.view,n=this.shadowRoot.querySelector(`.bar`);n.dataset.status===t.status&&n.dataset.drawn||(n.dataset.status=t.status,n.dataset.drawn=`yes`,n.style.setProperty(`--_state`,`var(--_${t.status})`),this.find(`.mark path`).setAttribute(`d`,o[t.status]),this.say(``,``));let r=!e.includes(t.status);this.text(`.word`,this.watched.known?d[t.status]:`…`),this.text(`.why`,L(this.watched)),n.toggleAttribute(`data-lost`,this.lost&&r),this.sayUnsent(),this.find(`.controls`).hidden=!r||!this.watched.known,r||this.closeComposer();let i=t.status===`paused`?`resume`:`pause`;i!==this.slotMeans&&(this.slotMeans=i,this.slotChanged=Date.now(),this.label(`pause`,i===`resume`?`Resume`:`Pause`,i));for(let e of[`pause`,`redirect`,`cancel`])this.words(e,t.consequences[e]);let s=t.status===`cancelling`,c={pause:this.may(`pause`),redirect:this.may(`redirect`),cancel:this.may(`cancel`)};c.pause||this.words(`pause`,`you have no right to ${i}`),c.redirect||this.words(`redirect`,`you have no right to redirect`),c.cancel||this.words(`cancel`,`you have no right to cancel`),this.disable(`pause`,s||!c.pause),this.disable(`redirect`,s||this.takesNoRedirects()||!c.redirect),this.disable(`cancel`,!c.cancel),this.part_(`pause`).toggleAttribute(`data-pressed`,t.status===`pausing`),this.part_(`cancel`).toggleAttribute(`data-pressed`,s),this.text(`.plan`,a(t)&&`plan ${a(t)}`),this.text(`.steps`,`step ${t.step}`),this.mail(),this.announce(),this.tick(),this.reopen&&this.watched.known&&(this.reopen=!1,this.openComposer(F.of(this.watched.id)?.from??null,!1))}tick(){if(!this.watched?.known||!this.given||!this.shadowRoot)return;let t=this.watched.view,i=this.given.lostAt??this.given.now();this.lost&&!e.includes(t.status)&&this.text(`.why`,`when last heard, ${m(Math.max(0,this.given.now()-i))} ago: connection lost`);let{elapsed:a,paused:o}=n(t,i);this.text(`.elapsed`,s(a)),this.text(`.held`,o>=1?`paused ${s(o)}`:``);let c=l(t,i),u=this.find(`.budget`);u.hidden=!c,c&&(u.toggleAttribute(`data-near`,c.fraction>=.75&&c.fraction<1),u.toggleAttribute(`data-full`,c.fraction>=1),this.find(`.fill`).style.transform=`scaleX(${c.fraction.toFixed(3)})`,this.text(`.cap`,`${c.used} ${c.label}`));let d=this.watched.history.spans.findLast(e=>e.kind===t.status&&e.to===null)?.from,p=r.includes(t.status)&&d!==void 0&&i-d>=k,h=this.given.verbs===null||this.given.verbs.includes(`force`);this.part_(`force`).hidden=!p||!h||!this.may(`cancel`),p&&!this.kills&&this.nameKilled(),p||(this.kills=``),this.words(`force`,this.kills||f(t))}async nameKilled(){let e=this.watched;this.kills=f(e.view);let t=await this.given.get(`api/runs/${encodeURIComponent(e.id)}/force`),{kills:n}=t?await t.json():{kills:``};n&&this.watched===e&&(this.kills=`kills ${n}`)}mail(){let t=this.watched.view,n=t.mail.filter(e=>e.kind===`redirect`),r=n.filter(e=>e.status===`pending`&&e.fate!==`not_read`&&!t.plan.some(t=>t.was&&t.title===e.text&&t.status===`running`)),i=this.part_(`pending`);i.hidden=!r.length,i.replaceChildren(...r.flatMap(e=>[z(e.fate===`read`?`Redirect read`:`Redirect pending`),`“${e.text}” · ${g(e)}`]));let a=n.filter(e=>e.fate===`not_read`),o=this.part_(`unread`);o.hidden=!a.length,o.replaceChildren(...a.flatMap(n=>[z(`Redirect not read`),`“${n.text}” · ${n.disposition.replace(/^not read: /,``)}${e.includes(t.status)?`: fork the run to have it done`:``}`]));let s=this.part_(`diff`),c=t.plan.findLast(e=>e.was&&e.was!==e.title&&(e.step===null||e.step>=t.step-1)),l=n.findLast(e=>e.status===`consumed`&&e.step!==null&&e.step>=t.step-1);s.hidden=!!e.includes(t.status)||!c&&!l&&!t.changed,c?s.replaceChildren(z(`Redirected`),B(`del`,c.was),`→`,B(`ins`,c.title)):l?s.replaceChildren(z(`Redirected`),`step ${l.step} →`,B(`ins`,l.text)):s.replaceChildren(z(`Changed`),t.changed)}announce(){if(this.hasAttribute(`quiet`)||!this.watched.known)return;let e=this.watched.view,n=`${d[e.status]}${e.status===`paused`?`: ${t(e.holds)}`:``}, step ${e.step}`;n!==this.announced&&(this.announced=n,this.text(`.status`,n))}takesNoRedirects(){return!!this.watched?.view.consequences.no_redirect||this.given?.agents.find(e=>e.name===this.watched?.view.agent)?.redirects===!1}may(e){return this.given?.may(e)??!0}words(e,t){this.text(`#${e}-words`,t),this.part_(e).title=t}disable(e,t){this.part_(e).setAttribute(`aria-disabled`,String(t))}label(e,t,n){let r=document.createElementNS(`http://www.w3.org/2000/svg`,`svg`);r.setAttribute(`viewBox`,`0 0 16 16`),r.setAttribute(`aria-hidden`,`true`);let i=document.createElementNS(`http://www.w3.org/2000/svg`,`path`);i.setAttribute(`d`,j[n]),i.setAttribute(`fill-rule`,`evenodd`),r.append(i),this.part_(e).querySelector(`b`).replaceChildren(r,t)}text(e,t){let n=this.find(e);n.textContent!==t&&(n.textContent=t)}find(e){return this.shadowRoot.querySelector(e)}part_(e){return this.shadowRoot.getElementById(e)}};function L(n){let i=n.view;return n.gone?n.gone:i.status===`paused`?i.holds.length?t(i.holds):i.waiting_for:i.status===`failed`?i.error:e.includes(i.status)?``:r.includes(i.status)||i.status===`queued`?i.waiting_for?`waits for ${i.waiting_for}`:``:c(i)}function R(e){return e.find(e=>e.status===`running`)??e.find(e=>e.status===`queued`)}function z(e){return B(`b`,e)}function B(e,t){let n=document.createElement(e);return n.textContent=t,n}customElements.get(`standfast-bar`)||customElements.define(`standfast-bar`,I);export{S as a,T as c,y as i,v as l,O as n,C as o,b as r,w as s,I as t};