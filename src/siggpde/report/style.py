"""The style of the page: light and dark, wide, narrow and on paper. It asks for no font and no file."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fbfbf9; --card: #ffffff; --ink: #1d2126; --soft: #5b636d; --line: #e2e3df; --accent: #0068a3;
  --tint: #eaf3f9; --warn: #a84900; --warn-tint: #fdf2e8; --shadow: 0 1px 2px rgb(0 0 0 / 5%);
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #15181b; --card: #1b1f23; --ink: #e4e6e8; --soft: #a1a8b0; --line: #30363c; --accent: #6bb8ea;
    --tint: #18303f; --warn: #f0a35e; --warn-tint: #33241a; --shadow: none;
  }
  img { filter: invert(0.9) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0 auto; padding: 0 1.25rem 4rem; max-width: 74rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
  overflow-wrap: anywhere;
}
header { padding: 2.5rem 0 1rem; }
h1 { margin: 0 0 0.4rem; font-size: clamp(1.6rem, 4vw, 2.3rem); line-height: 1.15; letter-spacing: -0.02em; }
h2 {
  margin: 3.2rem 0 0.8rem; padding-top: 0.9rem; border-top: 1px solid var(--line); font-size: 1.5rem;
  line-height: 1.25; letter-spacing: -0.01em;
}
section:first-of-type h2 { margin-top: 2rem; }
h3 { margin: 1.8rem 0 0.5rem; font-size: 1.08rem; }
p, ul, ol { margin: 0.6rem 0; max-width: 46rem; }
a { color: var(--accent); text-underline-offset: 0.15em; }
.kicker { margin: 0 0 0.5rem; color: var(--accent); font-size: 0.82rem; font-weight: 600; letter-spacing: 0.06em;
  text-transform: uppercase; }
.lead { max-width: 46rem; color: var(--soft); font-size: 1.1rem; }
nav { margin: 1.4rem 0 0; }
nav ol { display: flex; flex-wrap: wrap; gap: 0.4rem; max-width: none; margin: 0; padding: 0; list-style: none; }
nav a { display: block; padding: 0.25rem 0.75rem; border: 1px solid var(--line); border-radius: 99px;
  background: var(--card); font-size: 0.88rem; text-decoration: none; }
nav a:hover { border-color: var(--accent); }
.scores { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: 0.8rem;
  margin: 1.5rem 0 0; }
.score { padding: 0.9rem 1rem; border: 1px solid var(--line); border-radius: 10px; background: var(--card);
  box-shadow: var(--shadow); }
.score b { display: block; font-size: 1.75rem; font-weight: 650; line-height: 1.2; letter-spacing: -0.02em;
  font-variant-numeric: tabular-nums; }
.score span { display: block; color: var(--soft); font-size: 0.83rem; }
.figures { columns: 2 25rem; column-gap: 1rem; margin: 1rem 0; }
.figures figure { break-inside: avoid; margin-bottom: 1rem; }
figure { min-width: 0; margin: 0; padding: 1rem; border: 1px solid var(--line); border-radius: 10px;
  background: var(--card); box-shadow: var(--shadow); }
figure.strip { margin: 1rem 0; }
figure > img { display: block; width: auto; max-width: 100%; height: auto; margin: 0 auto; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 14rem), 1fr)); gap: 0.6rem; }
.tiles img { display: block; width: 100%; height: auto; }
figcaption { margin-top: 0.7rem; color: var(--soft); font-size: 0.88rem; line-height: 1.45; }
figcaption b { color: var(--ink); font-weight: 600; }
.table { max-width: 100%; margin: 0.9rem 0; overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
caption { padding-bottom: 0.3rem; color: var(--soft); font-size: 0.88rem; text-align: left; }
th, td { padding: 0.38rem 1.1rem 0.38rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
.n { text-align: right; white-space: nowrap; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
  gap: 0 2rem; margin: 1rem 0; }
dl > div { display: flex; gap: 1rem; justify-content: space-between; padding: 0.38rem 0;
  border-bottom: 1px solid var(--line); font-size: 0.92rem; }
dt { flex: none; max-width: 50%; color: var(--soft); }
dd { min-width: 0; margin: 0; text-align: right; }
.note { padding: 0.7rem 1rem; border-left: 3px solid var(--accent); border-radius: 0 8px 8px 0;
  background: var(--tint); font-size: 0.93rem; }
.warn { padding: 0.7rem 1rem; border-left: 3px solid var(--warn); border-radius: 0 8px 8px 0;
  background: var(--warn-tint); font-size: 0.93rem; }
.case { display: grid; grid-template-columns: minmax(0, 34rem) minmax(0, 1fr); gap: 1rem 1.6rem; align-items: start;
  margin: 1.2rem 0 2rem; }
.case h3 { margin: 0 0 0.4rem; }
.badge { display: inline-block; margin: 0 0.3rem 0.4rem 0; padding: 0.05rem 0.6rem; border-radius: 99px;
  background: var(--tint); color: var(--accent); font-size: 0.8rem; font-weight: 600; }
.card { padding: 0.4rem 1.2rem 1rem; border: 1px solid var(--line); border-radius: 10px; background: var(--card); }
.card h3 { font-size: 1.25rem; } .card h4 { margin: 1.3rem 0 0.3rem; font-size: 1rem; }
pre { max-width: 100%; padding: 0.8rem 1rem; border-radius: 8px; background: var(--tint); overflow-x: auto;
  font: 0.86rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: normal; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 0.92em; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--soft);
  font-size: 0.85rem; }
@media (max-width: 52rem) { .case { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 30rem) {
  body { padding: 0 0.9rem 3rem; font-size: 15px; }
  .table td:not(.n):last-child { min-width: 15rem; }
  figure { padding: 0.7rem; } header { padding-top: 1.5rem; } .scores { grid-template-columns: 1fr 1fr; gap: 0.5rem; }
  .score { padding: 0.6rem 0.7rem; } .score b { font-size: 1.35rem; }
}
@media print {
  @page { margin: 16mm 14mm; }
  body { max-width: none; padding: 0; background: #fff; font-size: 10.5pt; }
  nav { display: none; } a { color: inherit; }
  h2, h3 { break-after: avoid; } figure, .score, .case, tr, .warn, .note { break-inside: avoid; }
  .figures { columns: 2; } .tiles { grid-template-columns: repeat(4, 1fr); }
  .case { grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); }
  .table, pre { overflow: visible; } pre { white-space: pre-wrap; }
  figure, .score, .card { box-shadow: none; } h2 { margin-top: 1.6rem; }
}
"""
