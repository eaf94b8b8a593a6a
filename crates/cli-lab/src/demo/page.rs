//! The HTML report of the demo.

use headway_figures::page;
use maud::{Markup, html};

use super::rows::{COLUMNS, row};
use headway_runs::testbed::Scored;

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
    let body = html! {
        p {
            "Real packets through an emulated path on one machine: 100\u{a0}Mb/s, RTT 20\u{a0}ms, MTU 1500, drop-tail \
             buffer of 100\u{a0}ms. The emulator logs what the cross traffic left free in every 10\u{a0}ms; that is the truth \
             beside each estimate, averaged over the time the measurement took. Rates count every byte on the wire, \
             errors are shares of the capacity."
        }
        (section(
            "The default method while the cross traffic changes",
            "Every point is one measurement from scratch, with no knowledge of the one before. A measurement that began \
             before a change and ended after it sees a mixture of both.",
            &figures.tracking,
            followed,
        ))
        (section(
            "Every method on the same path",
            "Cross traffic of 40\u{a0}Mb/s, Poisson. The null estimator answers the rate that it happened to send at: a \
             method that is no better knows nothing.",
            &figures.methods,
            compared,
        ))
        (section(
            "Why gaps must be denoised",
            "The path is now 500\u{a0}Mb/s with 200\u{a0}Mb/s of cross traffic, and the receiver's interrupts are held \
             back for 120\u{a0}us, as NICs do. Above, the gaps of one stream as they arrived: nothing of the rising \
             send rate is left, and a search on them answers the highest rate probed. Below, what BASS recovers.",
            &figures.coalescing,
            contrasted,
        ))
    };
    page::document("Headway: what is free on this path", body).into_string()
}

fn section(title: &str, words: &str, figure: &str, scored: &[Scored]) -> Markup {
    html! {
        h2 { (title) }
        p { (words) }
        (page::figure(figure))
        table {
            tr { @for column in COLUMNS { th { (column) } } }
            @for s in scored {
                tr class=[(s.line.method == "null").then_some("null")] { @for text in row(s) { td { (text) } } }
            }
        }
        p.note { "Rates in Mb/s." }
    }
}
