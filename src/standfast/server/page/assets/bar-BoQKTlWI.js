import{E as e,S as t,_ as n,b as r,c as i,f as a,g as o,h as s,i as c,l,n as u,p as d,s as f,u as p,v as m,x as h}from"./client-DUkD9xys.js";var g=`
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
.controls { display: flex; gap: 8px; align-items: stretch; }
button { font: inherit; color: inherit; cursor: pointer; -webkit-tap-highlight-color: transparent; border-radius: calc(var(--_radius) - 3px); }
button:focus-visible, textarea:focus-visible { outline: 3px solid var(--_accent); outline-offset: 2px; }
.control { text-align: left; width: 178px; min-height: 52px; padding: 6px 11px; background: transparent; border: 1px solid var(--_line);
  display: grid; align-content: start; gap: 1px; transition: background-color .12s, transform .06s; }
.control b { font-weight: 620; display: flex; gap: 7px; align-items: center; }
.control b svg { width: 12px; height: 12px; fill: currentColor; flex: none; }
.control span { font-size: 12px; line-height: 1.3; color: var(--_muted); display: -webkit-box; -webkit-line-clamp: 2; -webkit-box-orient: vertical; overflow: hidden; }
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
.below { grid-column: 1 / -1; display: grid; gap: 6px; }
.below:not(:has(> :not([hidden]))) { display: none; }
.note { margin: 0; font-size: 13px; color: var(--_muted); display: flex; flex-wrap: wrap; gap: 4px 8px; align-items: baseline; }
.note[data-tone="no"] { color: var(--_danger); }
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
@container (max-width: 860px) { .bar { grid-template-columns: minmax(0, 1fr); } .controls { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); } .control { width: auto; } #force { grid-column: 1 / -1; } }
@container (max-width: 460px) { .bar { padding: 8px; gap: 6px; } .control { padding: 6px 8px; min-height: 64px; } .control span { font-size: 11.5px; -webkit-line-clamp: 3; } .controls { gap: 6px; } .why { white-space: normal; display: -webkit-box; -webkit-line-clamp: 2; -webkit-box-orient: vertical; } #force { min-height: 44px; } }
.frame { container-type: inline-size; }
`,_=5,v=600,y={pause:f.paused,resume:f.running,redirect:`M1.5 9.5c0-3 2-5 5-5h4V1.2L15 5.7l-4.5 4.5V7h-4c-1.6 0-2.6 1-2.6 2.6v4.2H1.5Z`,cancel:f.cancelled,force:f.failed},b=`
<div class="frame"><section class="bar" aria-label="Run controls" part="bar">
  <div class="where">
    <div class="state"><span class="mark"><svg viewBox="0 0 16 16" aria-hidden="true"><path fill-rule="evenodd"/></svg><span class="word"></span></span><span class="why"></span></div>
    <div class="facts"><span class="elapsed"></span><span class="held"></span><span class="plan"></span><span class="steps"></span><span class="budget"><span class="track"><span class="fill"></span></span><span class="cap"></span></span></div>
  </div>
  <div class="controls" role="group" aria-label="Pause, redirect, cancel">
    <button type="button" class="control" id="pause"><b></b><span></span></button>
    <button type="button" class="control" id="redirect" aria-expanded="false" aria-controls="composer"><b></b><span></span></button>
    <button type="button" class="control" id="cancel"><b></b><span></span></button>
    <button type="button" class="control" id="force" hidden><b></b><span></span></button>
  </div>
  <div class="below">
    <p class="note" id="pending" hidden></p>
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
</section></div>`,x,S=class extends HTMLElement{static observedAttributes=[`run`];given;watched;stopWatching;timer;from=null;slotMeans=`pause`;slotChanged=0;announced=``;kills=``;get run(){return this.getAttribute(`run`)??``}set run(e){this.setAttribute(`run`,e)}set client(e){this.given=e,this.isConnected&&this.attach()}connectedCallback(){this.shadowRoot||this.build(),this.attach(),this.timer=setInterval(()=>this.tick(),500)}disconnectedCallback(){clearInterval(this.timer),this.detach()}attributeChangedCallback(){this.isConnected&&this.attach()}press(e){e===`pause`?this.pauseOrResume():e===`redirect`?this.compose():this.ask(e,e)}arm(e){this.part_(`cancel`).toggleAttribute(`data-armed`,e),e&&this.say(`Press again to cancel.`,``)}compose(e=null){if(!this.watched||h.includes(this.watched.view.status)||this.watched.view.status===`cancelling`)return;let t=this.part_(`composer`),n=this.part_(`text`);if(!t.hidden&&this.from===e){n.focus();return}this.from=e;let r=e??w(this.watched.view.plan);t.querySelector(`label`).replaceChildren(...e?[`From here, instead of `,T(e.title),`: what came after it is undone first`]:r?[`Instead of `,T(r.title)]:[`What should it do instead?`]),n.value=r?.title??``,this.part_(`now`).textContent=e?`Redirect from here`:`Redirect now`,this.part_(`next`).hidden=e!==null,t.querySelector(`.hint`).textContent=e?`Enter: from here · Esc: close`:`Enter: now · Shift+Enter: new line · Esc: close`,t.hidden=!1,this.part_(`redirect`).setAttribute(`aria-expanded`,`true`),n.focus(),n.select()}build(){let e=this.attachShadow({mode:`open`});x??=new CSSStyleSheet,x.replaceSync(g),e.adoptedStyleSheets=[x],e.innerHTML=b;for(let e of[`redirect`,`cancel`,`force`])this.label(e,e===`force`?`Force stop`:e===`redirect`?`Redirect`:`Cancel`,e);this.label(`pause`,`Pause`,`pause`),this.part_(`pause`).onclick=()=>this.pauseOrResume(),this.part_(`redirect`).onclick=()=>this.part_(`composer`).hidden?this.compose():this.closeComposer(),this.part_(`cancel`).onclick=()=>void this.ask(`cancel`,`cancel`),this.part_(`force`).onclick=()=>void this.ask(`force`,`force`),this.part_(`next`).onclick=()=>void this.redirect(`next`),this.part_(`close`).onclick=()=>this.closeComposer();let t=this.part_(`composer`);t.onsubmit=e=>{e.preventDefault(),this.redirect(`now`)},t.onkeydown=e=>{e.key===`Escape`?(e.stopPropagation(),this.closeComposer()):e.key===`Enter`&&!e.shiftKey&&!e.isComposing&&e.target===this.part_(`text`)&&(e.preventDefault(),this.redirect(`now`))}}attach(){this.detach();let e=this.getAttribute(`run`);if(!e)return;let t=this.given??c();this.given=t;let n=t.watch(e);this.watched=n;let r=n.subscribe(()=>this.draw());this.stopWatching=()=>{r(),t.unwatch(e)},this.draw()}detach(){this.stopWatching?.(),this.stopWatching=void 0,this.watched=void 0}pauseOrResume(){this.watched&&this.part_(`pause`).getAttribute(`aria-disabled`)!==`true`&&(this.slotMeans===`resume`&&Date.now()-this.slotChanged<v||this.ask(`pause`,this.slotMeans))}async redirect(e){let t=this.part_(`text`).value.trim();if(!t)return;let n=this.from?{text:t,from_step:this.from.step??this.from.id}:{text:t,when:e};(await this.ask(`redirect`,`redirect`,n))?.answer===`accepted`&&this.closeComposer()}closeComposer(){let e=this.shadowRoot.activeElement?.closest(`form`);this.part_(`composer`).hidden=!0,this.from=null,this.part_(`redirect`).setAttribute(`aria-expanded`,`false`),e&&this.part_(`redirect`).focus()}async ask(e,t,n={}){if(!this.watched||!this.given)return null;let r=e===null?null:this.part_(e);if(r?.getAttribute(`aria-disabled`)===`true`)return null;r?.setAttribute(`data-pending`,``),this.arm(!1);try{let e=await this.given.verb(this.watched.id,t,n);return this.show(t,e),e}catch(e){let t=e instanceof u?e.problem:null;return this.say([e instanceof Error?e.message:String(e),t?.hint].filter(Boolean).join(` · `),`no`),null}finally{r?.removeAttribute(`data-pending`)}}show(e,t){if(this.dispatchEvent(new CustomEvent(`standfast-answer`,{detail:{verb:e,answer:t},bubbles:!0,composed:!0})),t.answer===`accepted`){let n=t.in_flight?.length?`still in flight: ${s(t.in_flight)}`:``;this.say([t.note,e===`redirect`?``:n].filter(Boolean).join(` · `),``)}else t.answer===`too_late`?this.say(`Too late to ${e.replace(`_`,` `)}: already ${t.status}.`,`no`):this.say(`Refused: ${t.why}`,`no`,t.choices)}say(e,t,n=[]){let r=this.part_(`said`);r.dataset.tone=t,r.replaceChildren(e);for(let e of n){let t=document.createElement(`button`);t.type=`button`,t.className=`small`,t.textContent=e.label||e.verb,t.onclick=()=>void this.ask(null,e.verb,e.args),r.append(t)}r.hidden=!e&&!n.length}draw(){if(!this.watched||!this.shadowRoot)return;let e=this.watched.view,t=this.shadowRoot.querySelector(`.bar`);t.dataset.status===e.status&&t.dataset.drawn||(t.dataset.status=e.status,t.dataset.drawn=`yes`,t.style.setProperty(`--_state`,`var(--_${e.status})`),this.find(`.mark path`).setAttribute(`d`,f[e.status]),this.say(``,``));let r=!h.includes(e.status);this.text(`.word`,this.watched.known?i[e.status]:`…`),this.text(`.why`,C(this.watched)),this.find(`.controls`).hidden=!r||!this.watched.known,r||this.closeComposer();let a=e.status===`paused`?`resume`:`pause`;a!==this.slotMeans&&(this.slotMeans=a,this.slotChanged=Date.now(),this.label(`pause`,a===`resume`?`Resume`:`Pause`,a)),this.text(`#pause span`,o(e)),this.text(`#redirect span`,m(e)),this.text(`#cancel span`,l(e));let s=e.status===`cancelling`;this.disable(`pause`,s),this.disable(`redirect`,s||this.takesNoRedirects()),this.part_(`pause`).toggleAttribute(`data-pressed`,e.status===`pausing`),this.part_(`cancel`).toggleAttribute(`data-pressed`,s),this.text(`.plan`,n(e)&&`plan ${n(e)}`),this.text(`.steps`,`step ${e.step}`),this.mail(),this.announce(),this.tick()}tick(){if(!this.watched?.known||!this.given||!this.shadowRoot)return;let n=this.watched.view,r=this.given.now(),{elapsed:i,paused:o}=e(n,r);this.text(`.elapsed`,p(i)),this.text(`.held`,o>=1?`paused ${p(o)}`:``);let s=d(n,r),c=this.find(`.budget`);c.hidden=!s,s&&(c.toggleAttribute(`data-near`,s.fraction>=.75&&s.fraction<1),c.toggleAttribute(`data-full`,s.fraction>=1),this.find(`.fill`).style.transform=`scaleX(${s.fraction.toFixed(3)})`,this.text(`.cap`,`${s.used} ${s.label}`));let l=this.watched.history.spans.findLast(e=>e.kind===n.status&&e.to===null)?.from,u=t.includes(n.status)&&l!==void 0&&r-l>=_,f=this.given.verbs===null||this.given.verbs.includes(`force`);this.part_(`force`).hidden=!u||!f,u&&!this.kills&&this.nameKilled(),u||(this.kills=``),this.text(`#force span`,this.kills||a(n))}async nameKilled(){this.kills=a(this.watched.view);let e=await this.given.get(`api/runs/${encodeURIComponent(this.watched.id)}/force`);e&&(this.kills=`kills ${(await e.json()).kills}`)}mail(){let e=this.watched.view,t=e.mail.filter(e=>e.kind===`redirect`).filter(t=>t.status===`pending`&&!e.plan.some(e=>e.was&&e.title===t.text&&e.status===`running`)),n=this.part_(`pending`);n.hidden=!t.length,n.replaceChildren(...t.flatMap(e=>[T(`Redirect pending`),`“${e.text}” · ${e.disposition||`at the next reading`}`]));let r=this.part_(`diff`),i=e.plan.findLast(t=>t.was&&t.was!==t.title&&(t.step===null||t.step>=e.step-1));r.hidden=!!h.includes(e.status)||!i&&!e.changed,i?r.replaceChildren(T(`Redirected`),E(`del`,i.was),`→`,E(`ins`,i.title)):r.replaceChildren(T(`Changed`),e.changed)}announce(){if(this.hasAttribute(`quiet`)||!this.watched.known)return;let e=this.watched.view,t=`${i[e.status]}${e.status===`paused`?`: ${r(e.holds)}`:``}, step ${e.step}`;t!==this.announced&&(this.announced=t,this.text(`.status`,t))}takesNoRedirects(){return this.given?.agents.find(e=>e.name===this.watched?.view.agent)?.redirects===!1}disable(e,t){this.part_(e).setAttribute(`aria-disabled`,String(t))}label(e,t,n){let r=document.createElementNS(`http://www.w3.org/2000/svg`,`svg`);r.setAttribute(`viewBox`,`0 0 16 16`),r.setAttribute(`aria-hidden`,`true`);let i=document.createElementNS(`http://www.w3.org/2000/svg`,`path`);i.setAttribute(`d`,y[n]),i.setAttribute(`fill-rule`,`evenodd`),r.append(i),this.part_(e).querySelector(`b`).replaceChildren(r,t)}text(e,t){let n=this.find(e);n.textContent!==t&&(n.textContent=t)}find(e){return this.shadowRoot.querySelector(e)}part_(e){return this.shadowRoot.getElementById(e)}};function C(e){let n=e.view;return e.gone?e.gone:n.status===`paused`?n.holds.length?r(n.holds):n.waiting_for:n.status===`failed`?n.error:h.includes(n.status)?``:t.includes(n.status)||n.status===`queued`?n.waiting_for?`waits for ${n.waiting_for}`:``:[w(n.plan)?.title,n.in_flight.length?s(n.in_flight):``].filter(Boolean).join(` · `)}function w(e){return e.find(e=>e.status===`running`)??e.find(e=>e.status===`queued`)}function T(e){return E(`b`,e)}function E(e,t){let n=document.createElement(e);return n.textContent=t,n}customElements.get(`standfast-bar`)||customElements.define(`standfast-bar`,S);export{S as t};