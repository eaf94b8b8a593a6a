//! The HTML report of the demo.

use std::fmt::Write as _;

use headway_figures::page;

use super::rows::{COLUMNS, row};
use headway_program::testbed::Scored;

/// The figures of the report, as SVG text.
pub(super) struct Figures {
    pub(super) tracking: String,
    pub(super) methods: String,
    pub(super) coalescing: String,
}

pub(super) fn html(
    figures: &Figures,
    compared: &[Scored],
    followed: &[Scored],
    contrasted: &[Scored],
) -> String {
    let mut body = String::new();
    body.push_str(
        "<p>Real packets through an emulated path on one machine: 100&nbsp;Mb/s, RTT 20&nbsp;ms, MTU 1500, drop-tail \
         buffer of 100&nbsp;ms. The emulator logs what the cross traffic left free in every 10&nbsp;ms; that is the truth \
         beside each estimate, averaged over the time the measurement took. Rates count every byte on the wire, \
         errors are shares of the capacity.</p>\n",
    );
    section(
        &mut body,
        "The default method while the cross traffic changes",
        "Every point is one measurement from scratch, with no knowledge of the one before. A measurement that began \
         before a change and ended after it sees a mixture of both.",
        &figures.tracking,
        followed,
    );
    section(
        &mut body,
        "Every method on the same path",
        "Cross traffic of 40&nbsp;Mb/s, Poisson. The null estimator answers the rate that it happened to send at: a \
         method that is no better knows nothing.",
        &figures.methods,
        compared,
    );
    section(
        &mut body,
        "Why gaps must be denoised",
        "The path is now 500&nbsp;Mb/s with 200&nbsp;Mb/s of cross traffic, and the receiver's interrupts are held \
         back for 120&nbsp;us, as NICs do. Above, the gaps of one stream as they arrived: nothing of the rising \
         send rate is left, and a search on them answers the highest rate probed. Below, what BASS recovers.",
        &figures.coalescing,
        contrasted,
    );
    page::document("Headway: what is free on this path", &body)
}

fn section(body: &mut String, title: &str, words: &str, figure: &str, scored: &[Scored]) {
    let _ = writeln!(body, "<h2>{title}</h2>\n<p>{words}</p>\n<figure>{figure}</figure>\n<table>\n<tr>");
    for column in COLUMNS {
        let _ = write!(body, "<th>{column}</th>");
    }
    body.push_str("</tr>\n");
    for s in scored {
        let class = if s.line.method == "null" { " class=\"null\"" } else { "" };
        let _ = write!(body, "<tr{class}>");
        for text in row(s) {
            let _ = write!(body, "<td>{text}</td>");
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table>\n<p class=\"note\">Rates in Mb/s.</p>\n");
}
