// Decides how the page looks and in which order its sections come. Colours are chosen twice, for light and for dark,
// and never say anything that a word or a sign does not say too.
#include "report/html/page.hpp"

#include "report/escape.hpp"
#include "report/html/sections.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

// Nothing may be loaded, whatever stands in a host name.
constexpr const char* page_head =
    R"(<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
)";

constexpr const char* style = R"(<style>
:root{--page:#f6f6f3;--card:#fff;--ink:#16181c;--soft:#565b63;--line:#d9dad4;--blue:#1f5fbf;--bad:#b3261e;--good:#1d7044;
--doubt:#8a5a00;--w1:#fbe9d3;--w2:#f6cf9f;--w3:#eea65c;--w4:#e0702f;--b1:#dfeaf8;--b2:#bcd5f2;--n1:#ececf4;--n2:#d6d5ea;
--n3:#b9b6dc;--s1:#7fa8dd;--s2:#b8cdea;--s3:#eea65c;--s4:#9c8fc7;--s5:#d9dad4}
@media(prefers-color-scheme:dark){:root{--page:#14161a;--card:#1d2025;--ink:#eceef0;--soft:#a6acb5;--line:#373c44;
--blue:#82b1f5;--bad:#ff8f85;--good:#6fcf97;--doubt:#f0b95a;--w1:#3a2f22;--w2:#5a4020;--w3:#7d4d17;--w4:#a34a15;
--b1:#1f2d40;--b2:#274468;--n1:#282834;--n2:#37364d;--n3:#4c4a70;--s1:#34649f;--s2:#274468;--s3:#9a5b16;--s4:#5a4f86;
--s5:#373c44}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.45 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1240px;margin:0 auto;padding:16px 20px 60px}
section,header{margin:0 0 16px;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 18px}
header{border-left:8px solid var(--doubt)}header.good{border-left-color:var(--good)}header.bad{border-left-color:var(--bad)}
h1{font-size:26px;line-height:1.2;margin:2px 0 4px}h2{font-size:18px;margin:0 0 4px}h3{font-size:15px;margin:14px 0 4px}
p,ul{margin:4px 0 8px}ul{padding-left:20px}.soft,figcaption{color:var(--soft)}.state{font-weight:700;letter-spacing:.04em;margin:0}
.good .state,.is-pass{color:var(--good)}.bad .state,.is-fail{color:var(--bad)}.doubt .state,.is-doubt{color:var(--doubt)}
.lead{font-size:17px}dl.facts{display:flex;flex-wrap:wrap;gap:4px 26px;margin:8px 0 0}dl.facts div{min-width:0}
dt{color:var(--soft);font-size:12.5px}dd{margin:0;overflow-wrap:anywhere}
.two{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1.2fr);gap:16px}.two>section{margin-bottom:16px}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;vertical-align:top;padding:4px 10px 4px 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
thead th{color:var(--soft);font-weight:600;font-size:12.5px}tbody th{font-weight:500}
.tight td,.tight th{padding:2px 10px 2px 0}td small{display:block;white-space:normal;color:var(--soft);font-size:12px}
code,pre{font:13px/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
pre{white-space:pre-wrap;background:var(--page);border:1px solid var(--line);border-radius:6px;padding:7px 9px;margin:6px 0}
.heat{width:auto;font-size:13px}.heat td,.heat thead th{text-align:right;padding:3px 4px;border:1px solid var(--card);overflow-wrap:normal;
white-space:nowrap}.heat thead th{vertical-align:bottom;white-space:normal;max-width:84px;font-size:12px}.heat thead td{text-align:left;
vertical-align:bottom;color:var(--soft)}
.heat tbody th{white-space:nowrap;padding:3px 10px 3px 0;border:0;font-weight:400;font-size:13px}
.heat td.out{font-weight:700;outline:2px solid var(--ink);outline-offset:-2px}
.w1{background:var(--w1)}.w2{background:var(--w2)}.w3{background:var(--w3)}.w4{background:var(--w4)}.b1{background:var(--b1)}
.b2{background:var(--b2)}.n1{background:var(--n1)}.n2{background:var(--n2)}.n3{background:var(--n3)}
svg{display:block;width:100%;height:auto;max-width:760px}svg text{fill:var(--soft);font-size:12px}svg .ink{fill:var(--ink)}
svg .grid{stroke:var(--line)}svg .main{stroke:var(--blue);fill:none;stroke-width:2}svg .dot{fill:var(--blue)}
svg .floor{stroke:var(--bad);fill:none;stroke-width:1.5;stroke-dasharray:5 3}svg .floor-dot{fill:var(--bad)}
svg .mark{stroke:var(--bad);stroke-width:2}svg .roof{stroke:var(--soft);fill:none;stroke-width:1.5;stroke-dasharray:1.5 3}
svg.bar{min-width:120px;max-width:none;height:18px}svg.bar .bar{fill:var(--s1)}svg.bar .bar.low{fill:var(--w4)}
svg .f1{fill:var(--s1)}svg .f2{fill:var(--s2)}svg .f3{fill:var(--s3)}svg .f4{fill:var(--s4)}svg .f5{fill:var(--s5)}
svg .bin{fill:var(--s1)}svg .bin.bad{fill:var(--w4)}
.many{display:flex;flex-wrap:wrap;gap:10px 28px;align-items:flex-start}.many>figure{margin:6px 0;min-width:0;max-width:100%}
figure{margin:6px 0}figcaption{font-size:13px;margin:0 0 4px}
.families td,.families th{border:0;padding:1px 10px 1px 0;overflow-wrap:normal}.families th{font-weight:600}
details{margin:8px 0}summary{cursor:pointer;color:var(--blue)}
.filter{display:flex;flex-wrap:wrap;gap:8px 16px;align-items:center;margin:6px 0 8px}[hidden]{display:none!important}
input[type=search]{font:inherit;padding:4px 8px;border:1px solid var(--soft);border-radius:6px;background:var(--card);
color:var(--ink);width:min(340px,100%)}
#findings td:first-child,#findings th:first-child{white-space:nowrap}
#findings thead th,#findings td:nth-child(3){overflow-wrap:normal}
.culprit{border-top:1px solid var(--line);padding-top:8px;margin-top:8px}.culprit:first-of-type{border:0;padding:0;margin:0}
nav{font-size:14px;margin:0 0 14px}nav a{margin-right:14px}a{color:var(--blue)}
@media(min-width:1000px){.much{white-space:nowrap}}
@media(max-width:760px){main{padding:8px 8px 40px}.two{grid-template-columns:minmax(0,1fr);gap:0}h1{font-size:21px}
section,header{padding:10px 12px}.families .soft{display:none}.stack thead{position:absolute;clip-path:inset(50%)}
.stack tr{display:block;border-bottom:1px solid var(--line);padding:5px 0}
.stack td,.stack tbody th{display:block;border:0;padding:0 0 1px;text-align:left}
.stack td[data-of]{display:inline-block;margin-right:14px}
.wide>svg{min-width:600px}.stack td[data-of]:not(:empty)::before{content:attr(data-of) ": ";color:var(--soft);font-size:12.5px}}
@media print{:root{--page:#fff;--card:#fff;--ink:#000;--soft:#444}body{font-size:11px}nav,.filter{display:none}
body:not(.print-all) section:not(#do,#judged,#fault,#worse,#inconclusive){display:none}
section,header{border-color:#999;padding:6px 0;border-width:0 0 1px}header{border-left-width:8px;padding-left:10px}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}tr,figure,.culprit{break-inside:avoid}}
</style>
)";

// The filter is shown only where this runs; without it every finding is on the page, the good ones folded.
constexpr const char* script = R"(<script>
(function(){
var box=document.getElementById('filter'),find=document.getElementById('find'),bad=document.getElementById('only-bad'),
count=document.getElementById('shown'),rows=[].slice.call(document.querySelectorAll('#findings tbody tr')),
folds=[].slice.call(document.querySelectorAll('#findings details'));
if(!box)return;
box.hidden=false;
function apply(){
var words=find.value.toLowerCase().split(/\s+/).filter(Boolean),n=0;
rows.forEach(function(row){
var text=row.textContent.toLowerCase(),
show=(!bad.checked||row.dataset.good==='no')&&words.every(function(w){return text.indexOf(w)>=0});
row.hidden=!show;if(show)n++;
});
if(words.length)folds.forEach(function(fold){fold.open=true});
count.textContent=n+' of '+rows.length+' findings';
}
find.addEventListener('input',apply);bad.addEventListener('change',apply);apply();
var opened=[],all=document.getElementById('print-all');
all.closest('p').hidden=false;
all.addEventListener('change',function(){document.body.classList.toggle('print-all',all.checked)});
addEventListener('beforeprint',function(){if(!all.checked)return;
opened=[].slice.call(document.querySelectorAll('details:not([open])'));
opened.forEach(function(d){d.open=true})});
addEventListener('afterprint',function(){opened.forEach(function(d){d.open=false});opened=[]});
})();
</script>
)";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\"><head>\n" + std::string(page_head) + "<title>" + html_escaped(title) +
         "</title>\n" + style + "</head>\n<body><main>\n" + body + "</main>\n" + script + "</body></html>\n";
}

std::string html_text(const Judged& judged) {
  const Page page(judged);
  return html_page(text(headline_of(judged.verdict)), first_screen(page) + culprits_section(page) + figures(page) +
                                                          rounds_section(page) + fleet_section(page) +
                                                          scaling_section(page) + findings_section(page) +
                                                          facts_section(page) + reproduce_section(page));
}

}  // namespace shakedown
