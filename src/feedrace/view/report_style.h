// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace feedrace::view {

// Colours stand once, as variables, in a light and in a dark set.
inline constexpr const char* kReportStyle = R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#16202b;--soft:#5a6675;--edge:#dde2e8;
--grid:#e6eaef;--s1:#0f766e;--s2:#b45309;--s3:#6d4fc4;--s4:#b83280;--idle:#d5dbe2;
--good:#15703a;--advice:#8a5a00;--problem:#b42318}
@media (prefers-color-scheme:dark){:root{--page:#10151b;--card:#19212a;--ink:#e6ebf0;--soft:#9ba8b6;
--edge:#2c3743;--grid:#27313c;--s1:#2dc4b4;--s2:#f0a045;--s3:#a78bfa;--s4:#f472b6;--idle:#3a4653;
--good:#4ec27f;--advice:#e3b341;--problem:#ff7b72}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:22px;margin:0 0 2px;overflow-wrap:anywhere}
h2{font-size:16px;margin:0 0 10px}
p{margin:0 0 8px}
.soft,figcaption,.tick{color:var(--soft)}
.card{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:16px 18px;
margin-top:16px;min-width:0}
.verdict{border-left:5px solid var(--s1);overflow-wrap:anywhere}
.headline{font-size:20px;font-weight:600;margin:0}
.headline::first-letter{text-transform:uppercase}
ul,ol{margin:6px 0 0;padding-left:22px}
li{margin:3px 0;overflow-wrap:anywhere}
code{font:13px ui-monospace,monospace;background:var(--page);border-radius:4px;padding:1px 5px}
.mark{background:var(--s1);color:var(--card);border-radius:4px;padding:1px 6px;font-size:12px}
.limits th,.limits td{background:var(--page)}
.limits th{color:var(--ink)}
.stages td{font-variant-numeric:tabular-nums}
.stages+p{margin:10px 0 0}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:12px;margin-top:16px}
.fact{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:12px 14px}
.fact b{display:block;font-size:22px;font-variant-numeric:tabular-nums}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:0 16px}
svg{width:100%;height:auto;display:block}
.grid{stroke:var(--grid)}
.tick{fill:var(--soft);font-size:11px}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.line.s1,.area.s1{stroke:var(--s1)}.line.s2{stroke:var(--s2)}
.line.s3{stroke:var(--s3)}.line.s4{stroke:var(--s4)}
.area{fill:var(--s1);opacity:.14;stroke:none!important}
.bar.s1{fill:var(--s1)}
.key{display:flex;flex-wrap:wrap;gap:4px 16px;color:var(--soft);font-size:13px}
.key i{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px;
vertical-align:-1px}
i.s1,div.s1{background:var(--s1)}i.s2,div.s2{background:var(--s2)}i.s3,div.s3{background:var(--s3)}
i.s4,div.s4{background:var(--s4)}
.stage{display:grid;grid-template-columns:82px 1fr 152px;gap:10px;align-items:center;margin:6px 0}
.stage span:last-child{text-align:right;font-variant-numeric:tabular-nums;color:var(--soft)}
.track{height:14px;border-radius:7px;background:var(--idle);overflow:hidden}
.track div{height:100%}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:5px 10px 5px 0;border-top:1px solid var(--edge);vertical-align:top;
overflow-wrap:anywhere}
th{font-weight:600;color:var(--soft);white-space:nowrap}
thead th{border-top:0}
.word{white-space:nowrap}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
pre{margin:0;overflow-x:auto;font:13px/1.5 ui-monospace,monospace;white-space:pre-wrap;
overflow-wrap:anywhere}
.sheet{display:grid;grid-template-columns:repeat(auto-fill,minmax(96px,1fr));gap:10px}
figure{margin:0;min-width:0}
figure img{width:100%;border-radius:6px;display:block}
figcaption{font-size:12px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.grade{font-weight:600}
.good{color:var(--good)}.advice{color:var(--advice)}.problem{color:var(--problem)}
.unknown{color:var(--soft)}
details{border-top:1px solid var(--edge);padding:7px 0}
summary{cursor:pointer;overflow-wrap:anywhere}
details p,details pre{margin:6px 0 6px 18px}
@media (max-width:520px){main{padding:16px 12px 40px}.card{padding:14px 12px}
.stage{grid-template-columns:76px 1fr 148px}
.tick{font-size:20px}.tick.more{display:none}
.stages thead{display:none}.stages tr{display:block;border-top:1px solid var(--edge);padding:6px 0}
.stages th,.stages td{display:block;border:0;padding:1px 8px}
.stages td:empty{display:none}
.stages td::before{content:attr(data-head) ": ";color:var(--soft)}}
)css";

}  // namespace feedrace::view
