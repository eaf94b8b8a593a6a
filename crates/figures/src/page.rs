//! Reports as self-contained HTML files.

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

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

/// Returns a page with `title` as title and heading, and `body` below it.
pub fn document(title: &str, body: Markup) -> Markup {
    styled(title, title, "", body)
}

/// Returns a page with separate title and heading, and with further CSS rules after the common ones.
pub fn styled(title: &str, heading: &str, rules: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) "\n" (PreEscaped(rules)) }
            }
            body { h1 { (heading) } (body) }
        }
        "\n"
    }
}

/// Returns a figure from SVG text.
pub fn figure(svg: &str) -> Markup {
    html! { figure { (PreEscaped(svg)) } }
}

/// Returns a table with a header.
pub fn table<H: Render>(header: impl AsRef<[H]>, rows: &[impl AsRef<[String]>]) -> Markup {
    html! {
        table {
            tr { @for name in header.as_ref() { th { (name) } } }
            @for row in rows {
                tr { @for cell in row.as_ref() { td { (cell) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_figures_are_not() {
        let body = html! { (table(["<b>"], &[["a & \"b\"".to_owned()]])) (figure("<svg></svg>")) };
        let page = document("<i>", body).into_string();
        for text in
            ["<h1>&lt;i&gt;</h1>", "<th>&lt;b&gt;</th>", "<td>a &amp; &quot;b&quot;</td>", "<svg></svg>"]
        {
            assert!(page.contains(text), "{page}");
        }
    }
}
