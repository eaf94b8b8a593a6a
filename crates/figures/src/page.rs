//! Reports as self-contained HTML files.

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
pub fn document(title: &str, body: &str) -> String {
    styled(title, title, "", body)
}

/// Returns a page with separate title and heading, and with further CSS rules after the common ones.
pub fn styled(title: &str, heading: &str, rules: &str, body: &str) -> String {
    let (title, heading) = (escaped(title), escaped(heading));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}\n{rules}</style>\n</head>\n<body>\n<h1>{heading}</h1>\n{body}</body>\n</html>\n"
    )
}

/// Escapes the characters that are special in HTML text.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns a table with a header.
pub fn table<H: AsRef<str>>(header: impl AsRef<[H]>, rows: &[impl AsRef<[String]>]) -> String {
    let body: String = rows.iter().map(|row| line(row.as_ref(), "td")).collect();
    format!("<table>\n{}{body}</table>\n", line(header.as_ref(), "th"))
}

fn line(cells: &[impl AsRef<str>], tag: &str) -> String {
    let cell = |text: &_| format!("<{tag}>{}</{tag}>", escaped(AsRef::<str>::as_ref(text)));
    format!("<tr>{}</tr>\n", cells.iter().map(cell).collect::<String>())
}
