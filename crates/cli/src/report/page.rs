//! Reports as one HTML file that needs nothing else; the demo's.

use std::fmt::Write as _;

use crate::demo::{COLUMNS, row};
use crate::stage::Scored;

/// The figures of the report, as SVG text.
pub(crate) struct Figures {
    pub(crate) tracking: String,
    pub(crate) methods: String,
    pub(crate) coalescing: String,
}

const STYLE: &str = "\
body { font: 16px/1.5 system-ui, sans-serif; color: #333; max-width: 1000px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
svg { max-width: 100%; height: auto; } figure { margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
tr.null td { color: #a04000; } div.wide { overflow-x: auto; font-size: .75rem; }
div.wide td { white-space: nowrap; } div.wide th, div.wide td { padding: .2rem .3rem; }
p.note { color: #666; font-size: .9rem; }";

/// A page with this title and heading, and `body` below it.
pub(crate) fn document(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

/// Text without characters that HTML takes for its own.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A table with a header.
pub(crate) fn table<H: AsRef<str>>(header: impl AsRef<[H]>, rows: &[impl AsRef<[String]>]) -> String {
    let body: String = rows.iter().map(|row| line(row.as_ref(), "td")).collect();
    format!("<table>\n{}{body}</table>\n", line(header.as_ref(), "th"))
}

fn line(cells: &[impl AsRef<str>], tag: &str) -> String {
    let cell = |text: &_| format!("<{tag}>{}</{tag}>", escaped(AsRef::<str>::as_ref(text)));
    format!("<tr>{}</tr>\n", cells.iter().map(cell).collect::<String>())
}

pub(crate) fn html(
    figures: &Figures,
    compared: &[Scored],
    followed: &[Scored],
    contrasted: &[Scored],
) -> String {
    let mut page = String::new();
    page.push_str(
        "<p>Real packets through an emulated path on one machine: 100&nbsp;Mb/s, RTT 20&nbsp;ms, MTU 1500, drop-tail \
         buffer of 100&nbsp;ms. The emulator logs what the cross traffic left free in every 10&nbsp;ms; that is the truth \
         beside each estimate, averaged over the time the measurement took. Rates count every byte on the wire, \
         errors are shares of the capacity.</p>\n",
    );
    section(
        &mut page,
        "The default method while the cross traffic changes",
        "Every point is one measurement from scratch, with no knowledge of the one before. A measurement that began \
         before a change and ended after it sees a mixture of both.",
        &figures.tracking,
        followed,
    );
    section(
        &mut page,
        "Every method on the same path",
        "Cross traffic of 40&nbsp;Mb/s, Poisson. The null estimator answers the rate that it happened to send at: a \
         method that is no better knows nothing.",
        &figures.methods,
        compared,
    );
    section(
        &mut page,
        "Why gaps must be denoised",
        "The path is now 500&nbsp;Mb/s with 200&nbsp;Mb/s of cross traffic, and the receiver's interrupts are held \
         back for 120&nbsp;us, as network cards do. Above, the gaps of one stream as they arrived: nothing of the rising \
         send rate is left, and a search on them answers the highest rate probed. Below, what BASS recovers.",
        &figures.coalescing,
        contrasted,
    );
    document("Headway: what is free on this path", &page)
}

fn section(page: &mut String, title: &str, words: &str, figure: &str, scored: &[Scored]) {
    let _ = writeln!(page, "<h2>{title}</h2>\n<p>{words}</p>\n<figure>{figure}</figure>\n<table>\n<tr>");
    for column in COLUMNS {
        let _ = write!(page, "<th>{column}</th>");
    }
    page.push_str("</tr>\n");
    for s in scored {
        let class = if s.line.method == "null" { " class=\"null\"" } else { "" };
        let _ = write!(page, "<tr{class}>");
        for text in row(s) {
            let _ = write!(page, "<td>{text}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n<p class=\"note\">Rates in Mb/s.</p>\n");
}
